//! torchvision's modules.

use super::{DataParallel, Defaults, Modules, Profile, Support, rule, transformers};
use crate::plan::keywords::{Engine, Framework, ModelType, Sharding};

/// The reference script is DistributedDataParallel around a classifier.
const REFERENCE: &str = "torchvision 0.24, references/classification/train.py";

pub(super) const PROFILE: Profile = Profile {
    framework: Framework::Torchvision,
    modules: Modules {
        inplace_relu: rule(true, "torchvision 0.24, models/resnet.py, nn.ReLU(inplace=True)"),
        ..transformers::MODULES
    },
    data_parallel: DataParallel {
        replicated: rule(Engine::Ddp, REFERENCE),
        proposed: rule(&[Sharding::None], REFERENCE),
        ..plain("torchvision 0.24, references/classification/train.py, DistributedDataParallel")
    },
    defaults: Defaults {
        gradient_clipping: rule(false, "torchvision 0.24, references/classification/train.py, --clip-grad-norm None"),
        ..transformers::PROFILE.defaults
    },
    support: Support {
        kinds: rule(
            &[ModelType::Cnn, ModelType::VisionTransformer, ModelType::Mlp],
            "torchvision 0.24, models/resnet.py, models/vision_transformer.py and ops/misc.py, MLP",
        ),
        splits: rule(&[], REFERENCE),
        serves_in: rule(&[], REFERENCE),
        shards: rule(&[Sharding::None], REFERENCE),
        compile: rule(false, REFERENCE),
        user_loop: rule(false, REFERENCE),
        ..transformers::SUPPORT
    },
    ..transformers::PROFILE
};

/// Scripts of one's own under PyTorch's engines.
pub(super) const fn plain(source: &'static str) -> DataParallel {
    DataParallel {
        replicated: rule(Engine::Ddp, source),
        zero1: rule(Engine::Ddp, "PyTorch 2.9, torch/distributed/optim/zero_redundancy_optimizer.py"),
        sharded: rule(Engine::Fsdp2, "PyTorch 2.9, torch/distributed/fsdp/_fully_shard/_fully_shard.py, fully_shard"),
        accumulates_whole: rule(
            false,
            "PyTorch 2.9, torch/distributed/fsdp/fully_sharded_data_parallel.py, no_sync: for a script to ask for",
        ),
        ..transformers::PROFILE.data_parallel
    }
}
