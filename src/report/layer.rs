//! What one layer holds in its backward pass, tensor by tensor, and which GPUs of the catalogue have room for it.

use serde_json::{Value, json};

use super::page::paragraph;
use super::table::{Align, Table};
use crate::predict::{BackwardTensor, Phase, StageMemory};
use crate::units::{self, Bytes};

/// A GPU, and what the layer needs on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedGpu {
    /// Its name.
    pub name: String,
    /// Its memory.
    pub memory: Bytes,
    /// What the layer needs there, with the context and the libraries.
    pub needed: Bytes,
}

impl TriedGpu {
    fn fits(&self) -> bool {
        self.needed <= self.memory
    }
}

/// What `memwall predict --layer` says beside a prediction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LayerReport {
    /// The tensors of a single layer's backward pass; empty for several layers.
    pub tensors: Vec<BackwardTensor>,
    /// GPUs of the catalogue, the smallest first.
    pub gpus: Vec<TriedGpu>,
}

impl LayerReport {
    /// Both as text, beside the stage that was predicted.
    #[must_use]
    pub fn text(&self, stage: &StageMemory, width: usize) -> String {
        let mut text = String::new();
        if !self.tensors.is_empty() {
            text.push_str("\nwhat its backward pass holds\n");
            let heads = [("", Align::Left), ("elements", Align::Right), ("GiB", Align::Right)];
            let mut table = Table::new(heads);
            for tensor in &self.tensors {
                table.row([tensor.what.to_owned(), units::grouped(tensor.elements), tensor.bytes.in_gib()]);
            }
            let sum = self.tensors.iter().fold(Bytes::ZERO, |sum, tensor| sum + tensor.bytes);
            if stage.peak_phase == Phase::Backward && stage.peak_allocated > sum {
                let rest = Bytes(stage.peak_allocated.0 - sum.0);
                table.row(["workspaces, rounding and what else runs".to_owned(), String::new(), rest.in_gib()]);
                table.row(["allocated at the peak".to_owned(), String::new(), stage.peak_allocated.in_gib()]);
            } else {
                table.row(["together".to_owned(), String::new(), sum.in_gib()]);
            }
            text.push_str(&table.render("  ", width));
        }
        if !self.gpus.is_empty() {
            text.push_str("\nwhere it runs\n");
            for (word, fits) in [("fails on", false), ("fits on", true)] {
                let of: Vec<String> = self
                    .gpus
                    .chunk_by(|a, b| a.memory.to_string() == b.memory.to_string())
                    .filter_map(|alike| named(alike, fits))
                    .collect();
                let said = if of.is_empty() { "no GPU of the catalogue".to_owned() } else { of.join("; ") };
                paragraph(&mut text, "  ", &format!("{word} {said}"), width);
            }
        }
        text
    }

    /// Both for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let tensors = self
            .tensors
            .iter()
            .map(|tensor| json!({"what": tensor.what, "elements": tensor.elements, "bytes": tensor.bytes.0}));
        let gpus = self.gpus.iter().map(|gpu| {
            json!({
                "gpu": gpu.name,
                "bytes": gpu.memory.0,
                "device_used": gpu.needed.0,
                "fits": gpu.fits(),
            })
        });
        json!({"tensors": tensors.collect::<Vec<_>>(), "gpus": gpus.collect::<Vec<_>>()})
    }
}

/// GPUs of one memory size that do, or do not, have room.
fn named(alike: &[TriedGpu], fits: bool) -> Option<String> {
    let names: Vec<&str> = alike.iter().filter(|gpu| gpu.fits() == fits).map(|gpu| gpu.name.as_str()).collect();
    let memory = alike.first()?.memory;
    (!names.is_empty()).then(|| format!("{memory}: {}", names.join(", ")))
}
