//! An architecture as operators: its shape, read from a Hugging Face configuration,
//! from explicit fields or from a size, and its walk, a tape of operators for each
//! kind of layer as a framework's modules execute them.

mod architecture;
mod attended;
mod builder;
mod convolution;
mod decoder;
mod diffusion;
mod element;
mod encoder;
mod encoder_decoder;
mod explicit;
mod families;
mod frozen;
mod hf;
mod in_place;
mod layers;
mod modules;
mod residual_net;
mod rules;
mod sight;
mod spec;
mod stack;
mod state_space;
mod tape;
mod traced;
mod walk;
mod weight;
mod work;

pub use architecture::{
    Act, Architecture, Decoder, DecoderOutput, Encoder, Ends, Family, ImageHead, Mla, ModelShape, Moe, QkNorm, TextHead,
};
pub use attended::AttendedKeys;
pub use builder::{Adapters, EMBEDDING, HEAD, JOINT, Operands, Types, is_covered};
pub use element::{Element, GROUPS, Group};
pub use explicit::{of_fields, of_size};
pub use families::{DiT, EncoderDecoder, Input, ResidualNet, Start, Unet};
pub use frozen::{FROZEN_PARTS, FrozenParts, SIGHT_PARTS};
pub use hf::{ClassCount, class_count, from_hf, with_head};
pub use layers::{LayerList, ListedLayer, Saved};
pub use modules::{default_targets, is_meant, linear_layers, vocabulary_layers};
pub use rules::{ClassNorm, ClassRules, LayerBuffer, modules_of};
pub use sight::{SeenImages, Sight};
pub use state_space::{HybridLayer, Scan, ScanNorms, StateSpace};
pub use tape::{Flow, GRANULE, Home, InnerCheckpoint, Op, PoolRange, RepeatedOps, Tape, Tensor, TensorId, Unit};
pub use traced::{
    MEANT_BY_ALL, is_traced_target, of_trace, traced_linear_layers, traced_other_layers, untraced_backward,
};
pub use walk::{
    AttentionChoice, Cache, Count, Cut, FusedKernels, Kernel, LossRule, MicroBatch, Passing, Pending, Walk,
};
pub use weight::{CONTEXT_PAIR, Collective, CollectiveKind, Part, RankGroup, TiedGrad, Weight};
pub use work::{Convolution, MatMul, Scores, Work};

use crate::framework::Profile;

impl Architecture {
    /// The tapes of one micro-batch.
    #[must_use]
    pub fn walk(&self, run: &MicroBatch<'_>) -> Walk {
        match &self.shape {
            ModelShape::Decoder(decoder) => decoder::walk(decoder, self.family, run),
            ModelShape::Encoder(encoder) => encoder::walk(encoder, self.family, run),
            ModelShape::EncoderDecoder(model) => encoder_decoder::walk(model, self.family, run),
            ModelShape::ResidualNet(net) => residual_net::walk(net, run),
            ModelShape::Layers(list) => layers::walk(list, run),
            ModelShape::Unet(net) => diffusion::walk_unet(net, run),
            ModelShape::DiT(net) => diffusion::walk_dit(net, self.family, run),
            ModelShape::Traced(model) => traced::walk(model, run),
        }
    }

    /// Exact parameter counts of the whole model, as the modules of `profile` hold it.
    #[must_use]
    pub fn count(&self, profile: &Profile, vocab_multiple: u64) -> Count {
        self.count_with(FrozenParts::NOTHING, profile, vocab_multiple)
    }

    /// The same where those parts are frozen.
    #[must_use]
    pub fn count_with(&self, frozen: FrozenParts, profile: &Profile, vocab_multiple: u64) -> Count {
        self.count_adapted((frozen, None), profile, vocab_multiple)
    }

    /// The same with adapters beside them.
    #[must_use]
    pub fn count_adapted(
        &self,
        (frozen, adapters): (FrozenParts, Option<&Adapters>),
        profile: &Profile,
        vocab_multiple: u64,
    ) -> Count {
        self.of_one_token(profile, vocab_multiple, adapters, |run| match &self.shape {
            ModelShape::Traced(model) => traced::count(model, &MicroBatch { frozen, ..run.clone() }),
            _ => self.walk(&MicroBatch { frozen, ..run.clone() }).count(),
        })
    }

    /// Those of `operators` that the model has as linear layers an adapter can stand on.
    #[must_use]
    pub fn linears(&self, profile: &Profile, operators: Vec<&'static str>) -> Vec<&'static str> {
        let adapters = Adapters {
            rank: 1,
            targets: operators,
            tower: Vec::new(),
            saved: Vec::new(),
            dropout: 0.0,
            element: Element::F32,
            base_bits: None,
            restores_input_type: false,
            kernels: Vec::new(),
        };
        let walk = self.of_one_token(profile, 1, Some(&adapters), |run| self.walk(run));
        let layers = walk.kinds.iter().map(|(_, tape)| tape);
        layers.chain([&walk.first, &walk.last]).flat_map(|tape| tape.adapted.iter().copied()).collect()
    }

    /// What a run of the whole model over a single token gives.
    fn of_one_token<T>(
        &self,
        profile: &Profile,
        vocab_multiple: u64,
        adapters: Option<&Adapters>,
        give: impl FnOnce(&MicroBatch<'_>) -> T,
    ) -> T {
        let modules = modules_of(profile, self.family);
        let types = Types {
            weight: Element::F32,
            autocast: None,
            weight_cache: false,
            fp8: None,
            gathers_fp8: false,
            casts_inputs: false,
        };
        let run = MicroBatch {
            modules: &modules,
            types: &types,
            adapters,
            batch: 1,
            sequence: 1,
            target: 1,
            image: self.image().unwrap_or(0),
            seen: self
                .sight()
                .map_or_else(SeenImages::default, |sight| SeenImages { images: 1, side: sight.usual_side() }),
            cut: Cut::WHOLE,
            attention: AttentionChoice::Flash,
            fused: FusedKernels::Flash,
            flash_attn: false,
            checkpointed: false,
            graded_inputs: false,
            padded: false,
            head_only: false,
            loss: LossRule::Plain,
            dropout: Some(0.0),
            frozen: FrozenParts::default(),
            vocab_multiple,
            cache: None,
        };
        give(&run)
    }
}
