//! Which layers each pipeline stage holds.

use super::{Degrees, Notes};
use crate::framework::Profile;
use crate::plan::keys;
use crate::plan::{Fault, Plan, even_chunks, layout_counts};

/// The layers of one stage: one run of consecutive layers for each of its chunks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StageLayers {
    /// First layer and number of layers of each chunk.
    pub chunks: Vec<(u64, u64)>,
}

impl StageLayers {
    /// Layers in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.chunks.iter().map(|(_, layers)| layers).sum()
    }

    /// Their numbers, chunk by chunk in the order of the model.
    #[must_use]
    pub fn layers(&self) -> Vec<u64> {
        self.chunks.iter().flat_map(|(from, count)| *from..from.saturating_add(*count)).collect()
    }
}

/// Splits the layers.
pub(super) fn resolve(
    plan: &Plan,
    (profile, degrees): (&Profile, &Degrees),
    layers: u64,
    notes: &mut Notes,
) -> Option<Vec<StageLayers>> {
    let stages = degrees.pipeline;
    let chunks = stages.saturating_mul(degrees.virtual_pipeline);
    // Embedding and loss may stand in for a layer each.
    if chunks > layers.saturating_add(2) && plan.distribution.pipeline_layout.is_none() {
        notes.fault(
            keys::distribution::pipeline_parallel,
            format!("{stages} stages x {} chunks are more than the {layers} layers", degrees.virtual_pipeline),
        );
        return None;
    }
    match counts(plan, degrees, layers, chunks) {
        Ok(counts) => {
            if stages > 1 {
                let shown: Vec<String> = counts.iter().take(64).map(ToString::to_string).collect();
                let is_said = plan.distribution.says_layers_of_stages();
                let only = profile.pipeline.even.is && !is_said && !layers.is_multiple_of(chunks);
                let how = if only {
                    "; runs only with a layout (distribution.pipeline_layout), as an export has it"
                } else {
                    ""
                };
                notes.assume(
                    keys::distribution::pipeline_parallel,
                    format!("layers by stage and chunk: {}{how}", shown.join(", ")),
                );
            }
            Some(dealt(&counts, stages))
        }
        Err(fault) => {
            notes.faults.push(fault);
            None
        }
    }
}

/// Layers of each chunk, in the order of the model.
fn counts(plan: &Plan, degrees: &Degrees, layers: u64, chunks: u64) -> Result<Vec<u64>, Fault> {
    let part = &plan.distribution;
    if let Some(layout) = &part.pipeline_layout {
        let counts = layout_counts(layout).ok_or_else(|| {
            Fault::of(keys::distribution::pipeline_layout, format!("{layout}: not a layout such as Et*4|t*4|t*4|t*4L"))
        })?;
        let held: u64 = counts.iter().sum();
        if counts.len() as u64 != chunks || held != layers {
            return Err(Fault::of(
                keys::distribution::pipeline_layout,
                format!("holds {held} layers in {} parts; must be {layers} layers in {chunks}", counts.len()),
            ));
        }
        return Ok(counts);
    }
    if part.first_stage_layers.is_some() || part.last_stage_layers.is_some() {
        return uneven(part.first_stage_layers, part.last_stage_layers, degrees, layers);
    }
    if part.pipeline_counts_embedding_and_loss == Some(true) && chunks > 1 {
        let mut counts = even_chunks(layers.saturating_add(2), chunks);
        let last = counts.len() - 1;
        counts[0] = counts[0].saturating_sub(1);
        counts[last] = counts[last].saturating_sub(1);
        return Ok(counts);
    }
    Ok(even_chunks(layers, chunks))
}

fn uneven(first: Option<u64>, last: Option<u64>, degrees: &Degrees, layers: u64) -> Result<Vec<u64>, Fault> {
    let key = match first {
        Some(_) => "distribution.first_stage_layers",
        None => "distribution.last_stage_layers",
    };
    let given = first.unwrap_or(0).saturating_add(last.unwrap_or(0));
    let others = degrees.pipeline.saturating_sub(u64::from(first.is_some()) + u64::from(last.is_some()));
    if degrees.pipeline == 1 {
        let words = format!(
            "{given}: there is one stage, with all {layers} layers; distribution.pipeline_parallel must be above 1, or leave it out"
        );
        return if given == layers { Ok(vec![layers]) } else { Err(Fault::of(key, words)) };
    }
    if given > layers || (others == 0 && given != layers) {
        return Err(Fault::of(
            key,
            format!("first and last stage would hold {given} layers, and the model has {layers}"),
        ));
    }
    let each = degrees.virtual_pipeline.max(1);
    let mut stages: Vec<u64> = Vec::new();
    stages.extend(first);
    stages.extend(even_chunks(layers - given, others).into_iter().take(usize::try_from(others).unwrap_or(0)));
    stages.extend(last);
    // A stage's chunks are dealt out over the rounds: chunk c of the model is on stage c mod stages.
    let mut counts = Vec::new();
    for round in 0..each {
        counts.extend(stages.iter().map(|layers| layers / each + u64::from(round < layers % each)));
    }
    Ok(counts)
}

/// Chunks dealt to stages in turn.
fn dealt(counts: &[u64], stages: u64) -> Vec<StageLayers> {
    let stages = usize::try_from(stages).unwrap_or(1).max(1);
    let mut dealt = vec![StageLayers::default(); stages];
    let mut first = 0;
    for (chunk, layers) in counts.iter().enumerate() {
        dealt[chunk % stages].chunks.push((first, *layers));
        first += layers;
    }
    dealt
}
