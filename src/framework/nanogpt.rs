//! nanoGPT.

use super::torchvision::plain;
use super::{
    DataParallel, Defaults, Experts, Layout, LossRules, Modules, PointwiseAct, Profile, RmsNorm, SplitHeads, Support,
    rule, transformers,
};
use crate::plan::keywords::{Framework, Loss, ModelType, Sharding};

const MODEL: &str = "karpathy/nanoGPT, model.py";
const TRAIN: &str = "karpathy/nanoGPT, train.py";

pub(super) const PROFILE: Profile = Profile {
    framework: Framework::Nanogpt,
    modules: Modules {
        block: rule(Layout::Nanogpt, "karpathy/nanoGPT, model.py, Block"),
        act: rule(PointwiseAct::Fused, "karpathy/nanoGPT, model.py, MLP (nn.GELU)"),
        heads: rule(SplitHeads::Views, "karpathy/nanoGPT, model.py, CausalSelfAttention"),
        experts: rule(Experts::Loop, MODEL),
        rms_norm: rule(RmsNorm::Fused, MODEL),
        position_tables: rule(false, "karpathy/nanoGPT, model.py, GPT.forward (torch.arange)"),
        masks: rule(false, "karpathy/nanoGPT, model.py, CausalSelfAttention (is_causal)"),
        python_names: rule(false, MODEL),
        family_classes: rule(false, MODEL),
        ..transformers::MODULES
    },
    data_parallel: DataParallel {
        proposed: rule(&[Sharding::None], TRAIN),
        ..plain("karpathy/nanoGPT, train.py, DDP")
    },
    loss: LossRules {
        full: rule(Loss::Plain, "karpathy/nanoGPT, model.py, GPT.forward (F.cross_entropy)"),
        ..transformers::PROFILE.loss
    },
    support: Support {
        kinds: rule(&[ModelType::TransformerDecoder], "karpathy/nanoGPT, model.py, GPT"),
        only_gpt2: rule(true, "karpathy/nanoGPT, model.py, Block and GPT (wpe)"),
        learned_positions: rule(false, "karpathy/nanoGPT, model.py, Block and GPT (wpe)"),
        splits: rule(&[], "karpathy/nanoGPT, train.py, DDP alone"),
        serves_in: rule(&[], "karpathy/nanoGPT, sample.py (one process)"),
        shards: rule(&[Sharding::None], "karpathy/nanoGPT, train.py, DDP alone"),
        user_loop: rule(false, TRAIN),
        ..transformers::SUPPORT
    },
    defaults: Defaults {
        loss: rule(Loss::Plain, "karpathy/nanoGPT, model.py, GPT.forward (F.cross_entropy)"),
        ..transformers::PROFILE.defaults
    },
    ..transformers::PROFILE
};
