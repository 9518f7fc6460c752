//! Keys and values that are kept for later tokens, and attention of one token over them.

use super::DecoderContext;
use super::attention::product;
use super::kernels::Core;
use crate::model::architecture::Mla;
use crate::model::builder::Builder;
use crate::model::element::Element;
use crate::model::tape::{Flow, Spec, TensorId, Unit};
use crate::model::walk::AttentionChoice;

impl DecoderContext<'_> {
    /// Whether one token is made from a cache, rather than a prompt read.
    pub(super) fn is_decoding(&self) -> bool {
        self.run.cache.is_some_and(|cache| cache.past > 0)
    }

    /// Tokens a sample in the cache of one rank: a windowed layer needs no more than its window.
    fn cached_tokens(&self, windowed: bool) -> u64 {
        let tokens = self.run.context_tokens();
        let seen = self.d.sliding_window.filter(|_| windowed).map_or(tokens, |window| window.min(tokens));
        seen.div_ceil(self.run.cut.context)
    }

    fn cache_element(&self) -> Option<Element> {
        self.run.cache.map(|cache| cache.element.unwrap_or_else(|| self.run.compute()))
    }

    /// The attention core, with keys and values kept where there is a cache.
    pub(super) fn remembering(&self, b: &mut Builder<'_>, qkv: [TensorId; 3], core: &Core, windowed: bool) -> TensorId {
        let [q, k, v] = qkv;
        let Some(element) = self.cache_element() else { return self.attend(b, q, k, v, core) };
        let tokens = self.cached_tokens(windowed);
        let each = |dim: u64| product(&[core.batch, tokens, core.kv_heads, dim]);
        let caches = [b.remembered(each(core.dim), element), b.remembered(each(core.value_dim), element)];
        if self.is_decoding() {
            // A window's cache turns over: its oldest token makes room.
            let core = Core { keys: tokens, ..*core };
            let caches = self.grown(b, caches, &core);
            return self.cached_core(b, q, &caches, &core, core.output());
        }
        let [k, v] = [(k, caches[0]), (v, caches[1])].map(|(made, cache)| {
            b.op(&Spec {
                name: "attention.cache",
                inputs: &[(made, Flow::Stop)],
                outputs: &[cache],
                elementwise: true,
                ..Spec::default()
            });
            // Attention reads the cache itself where it holds the same (cache_utils.py, DynamicLayer.update).
            let same = b.numel(made) == b.numel(cache) && b.element(made) == element;
            if same { cache } else { made }
        });
        self.attend(b, q, k, v, core)
    }

    /// The caches with the new token: transformers joins both into a new tensor (cache_utils.py, DynamicLayer.update:
    /// `torch.cat`), and repeats it for every head where attention is not fused (`repeat_kv`). Servers, which may keep it in
    /// another type than the computation's, write the token in its place.
    fn grown(&self, b: &mut Builder<'_>, caches: [TensorId; 2], core: &Core) -> [TensorId; 2] {
        let own = self.cache_element() == Some(self.run.compute());
        let joins = self.run.modules.grows_cache.is && own;
        let repeats = self.run.attention == AttentionChoice::Eager && core.kv_heads < core.heads;
        caches.map(|cache| {
            let joined = if joins { b.copy("attention.cache", cache) } else { cache };
            if !(joins && repeats) {
                return joined;
            }
            let numel = (b.numel(joined) / core.kv_heads.max(1)).saturating_mul(core.heads);
            b.copy_of("attention.repeat_kv", joined, numel)
        })
    }

    /// Keeps the compressed keys and values with the rotated key (arXiv 2405.04434, section 2.1.2), where the plan says so:
    /// one for all heads, so on every tensor-parallel rank.
    pub(super) fn remember_latent(
        &self,
        b: &mut Builder<'_>,
        low: TensorId,
        rope_key: TensorId,
        mla: &Mla,
    ) -> Option<TensorId> {
        self.run.cache.filter(|cache| cache.latents)?;
        let element = self.cache_element()?;
        let width = mla.kv_lora_rank.saturating_add(mla.qk_rope_head_dim);
        let latent = b.remembered(product(&[self.run.batch, self.cached_tokens(false), width]), element);
        if !self.is_decoding() {
            b.op(&Spec {
                name: "attention.cache",
                inputs: &[(low, Flow::Stop), (rope_key, Flow::Stop)],
                outputs: &[latent],
                elementwise: true,
                ..Spec::default()
            });
        }
        Some(latent)
    }

    /// Attention over latents: the up projections of keys and values are applied to queries and outputs instead
    /// (arXiv 2405.04434, section 2.1.2), which costs one token what `kv_b_proj` does.
    pub(super) fn latent_core(
        &self,
        b: &mut Builder<'_>,
        q: TensorId,
        latent: TensorId,
        core: &Core,
        mla: &Mla,
    ) -> TensorId {
        let in_latents = Core {
            keys: self.cached_tokens(false),
            dim: mla.kv_lora_rank.saturating_add(mla.qk_rope_head_dim),
            value_dim: mla.kv_lora_rank,
            ..*core
        };
        self.cached_core(b, q, &[latent], &in_latents, core.output())
    }

    /// One token's attention: reads the whole cache once.
    fn cached_core(&self, b: &mut Builder<'_>, q: TensorId, caches: &[TensorId], core: &Core, numel: u64) -> TensorId {
        let element = b.element(q);
        let out = b.make(numel, element, false);
        let inputs: Vec<(TensorId, Flow)> = [&[q], caches].concat().into_iter().map(|id| (id, Flow::Stop)).collect();
        b.op(&Spec {
            name: "attention.core",
            unit: Unit::Attention(element),
            work: core.work(),
            inputs: &inputs,
            outputs: &[out],
            flops: (core.flops(), 0.0),
            ..Spec::default()
        });
        out
    }
}
