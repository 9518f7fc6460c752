//! One value to choose from, with the facts that help to choose.

use crate::catalog::{Catalog, Gpu, ModelPreset, Scope};
use crate::units::three_figures;

/// A value and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The value as the plan file writes it.
    pub name: String,
    /// Facts, in a few words.
    pub facts: String,
    /// Other names under which it is found.
    pub aliases: String,
}

impl Choice {
    /// A name with its facts.
    #[must_use]
    pub fn of(name: &str, facts: &str) -> Self {
        Self { name: name.to_owned(), facts: facts.to_owned(), aliases: String::new() }
    }

    /// A GPU: memory, bandwidth, the peak that training computes at, power.
    #[must_use]
    pub fn of_gpu(gpu: &Gpu) -> Self {
        let peaks = [("bf16", gpu.peaks.bf16), ("fp16", gpu.peaks.fp16), ("fp32", gpu.peaks.fp32)];
        let peak = peaks.into_iter().find_map(|(name, peak)| Some((name, peak?)));
        let mut facts = vec![gpu.memory.to_string(), gpu.bandwidth.to_string()];
        facts.extend(peak.map(|(name, peak)| format!("{} TF {name}", three_figures(peak.0 / 1e12))));
        facts.extend(gpu.tdp.map(|power| power.to_string()));
        Self { name: gpu.name.clone(), facts: facts.join("  "), aliases: gpu.aliases.join(" ") }
    }

    /// A model: its parameters and kind.
    #[must_use]
    pub fn of_model(model: &ModelPreset) -> Self {
        let params = model.params as f64;
        let size = if params >= 1e9 {
            format!("{} B parameters", three_figures(params / 1e9))
        } else {
            format!("{} M parameters", three_figures(params / 1e6))
        };
        let kind = ["model_type", "_class_name"].iter().find_map(|key| model.hf_config.get(*key)?.as_str());
        let facts = kind.map_or_else(|| size.clone(), |kind| format!("{size}  {kind}"));
        Self { name: model.name.clone(), facts, aliases: model.aliases.join(" ") }
    }

    /// The links of a scope.
    #[must_use]
    pub fn of_links(catalog: &Catalog, scope: Scope) -> Vec<Self> {
        let links = catalog.links.iter().filter(|link| link.scope == scope);
        links
            .map(|link| Self {
                name: link.name.clone(),
                facts: format!("{} each way", link.each_way),
                aliases: link.aliases.join(" "),
            })
            .collect()
    }
}
