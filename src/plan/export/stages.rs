//! How Megatron's arguments say which layers a pipeline's stages hold.

use super::megatron::MegatronArguments;
use crate::plan::keys::{ArchitecturePart, DistributionPart};
use crate::plan::uneven_layout;

/// Chunks, and the layers of each.
pub fn arguments(
    list: &mut MegatronArguments,
    part: &DistributionPart,
    (stages, architecture): (u64, Option<&ArchitecturePart>),
) {
    let chunks = stages.saturating_mul(part.virtual_pipeline.unwrap_or(1));
    // It refuses layers that do not come out even (core/transformer/transformer_block.py, get_num_layers_to_build).
    let uneven = || {
        let model = architecture.filter(|_| !part.says_layers_of_stages())?;
        uneven_layout(model.num_layers?, model.mtp_layers.unwrap_or(0), chunks)
    };
    let layout = part.pipeline_layout.clone().or_else(uneven);
    // A layout tells the chunks by itself, and no more than one may (megatron/training/arguments.py, validate_args).
    let pieces = part.virtual_pipeline.filter(|pieces| *pieces > 1 && layout.is_none());
    list.value("num-virtual-stages-per-pipeline-rank", pieces);
    list.value("pipeline-model-parallel-layout", layout.map(|layout| format!("'{layout}'")));
    list.value("decoder-first-pipeline-num-layers", part.first_stage_layers);
    list.value("decoder-last-pipeline-num-layers", part.last_stage_layers);
    for name in ["account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split"] {
        list.flag(name, part.pipeline_counts_embedding_and_loss == Some(true));
    }
}
