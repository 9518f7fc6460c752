//! What is said of keys and values that are kept for later tokens.

use super::{Notes, Storage, Training};
use crate::framework::Modules;
use crate::model::{Architecture, ModelShape};
use crate::plan::keys;
use crate::plan::keywords::Mode;

/// transformers joins each token's keys and values with all before them into new tensors (cache_utils.py,
/// `DynamicLayer.update`); servers write them in place, and keep them in another type if told to.
pub(super) fn note(
    modules: &Modules,
    (training, storage): (&Training, &Storage),
    architecture: &Architecture,
    notes: &mut Notes,
) {
    // An encoder writes no tokens.
    let writes = matches!(architecture.shape, ModelShape::Decoder(_));
    let cached = training.mode == Mode::Inference && training.use_cache && writes;
    if !cached || !modules.grows_cache.is {
        return;
    }
    let own = storage.kv_cache.is_none_or(|kept| kept == storage.compute);
    notes.assume(
        keys::training::kv_cache_dtype,
        match own {
            true => "joined into new tensors for each token, as transformers does; servers write a token in its place",
            false => "a token is written in its place, as servers do: transformers keeps no such type",
        },
    );
}

/// What latent attention caches is a choice of whoever serves it: transformers keeps what each head attends to
/// (models/deepseek_v2, `past_key_values.update`), Megatron too unless `--cache-mla-latents` is given.
pub(super) fn note_latents(training: &Training, architecture: &Architecture, notes: &mut Notes) {
    let cached = training.mode == Mode::Inference && training.use_cache && !training.cache_latents;
    let Some(decoder) = architecture.block().filter(|_| cached) else { return };
    if let Some(mla) = &decoder.mla {
        let latent = mla.kv_lora_rank.saturating_add(mla.qk_rope_head_dim);
        let heads = decoder.heads.saturating_mul(decoder.head_dim.saturating_add(mla.v_head_dim));
        notes.assume(
            keys::training::cache_latents,
            format!(
                "false: keys and values of each head are cached, {heads} values a token and layer; servers that cache the \
                 compressed latent keep {latent}"
            ),
        );
    }
}
