//! A change to plans that is read once and made to many.

use std::path::Path;

use super::change::Change;
use super::document::Document;
use super::fault::Fault;
use super::keys::Plan;
use super::load::plan_of;

/// Keys with their values as a plan has them, and keys that go.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOverlay {
    over: Plan,
    remove: Vec<&'static str>,
}

impl PlanOverlay {
    /// What `change` comes to. Paths of files in it start at `folder`.
    ///
    /// # Errors
    /// Where a key is unknown or a value is not one of its kind.
    pub fn read(change: &Change, folder: &Path) -> Result<Self, Fault> {
        let mut document = Document::parse("").map_err(first)?;
        for (key, value) in &change.set {
            document = document.with_value(key, value)?;
        }
        // Its place in a text that nobody wrote helps nobody.
        let over = plan_of(&document, folder).map_err(|faults| Fault { at: None, ..first(faults) })?;
        Ok(Self { over, remove: change.remove.clone() })
    }

    /// Makes the change to `plan`.
    pub fn apply(&self, plan: &mut Plan) {
        for path in &self.remove {
            plan.clear(path);
        }
        plan.lay(&self.over);
    }
}

fn first(faults: Vec<Fault>) -> Fault {
    faults.into_iter().next().unwrap_or_else(|| Fault::of("", "not readable"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Checkpointing;

    fn changed(text: &str, change: &Change) -> (Plan, Plan) {
        let document = Document::parse(text).unwrap();
        let mut plan = document.plan().unwrap();
        PlanOverlay::read(change, Path::new("")).unwrap().apply(&mut plan);
        (plan, document.changed(change).unwrap().plan().unwrap())
    }

    #[test]
    fn a_plan_changes_as_its_text_would() {
        let text = "model:\n  architecture: {num_layers: 4, moe: {num_experts: 8}}\n  batch_size: 8\n\
                    training:\n  activation_checkpointing: full\n  lora: {rank: 4}\nhardware:\n  gpu_type: A100\n";
        let mut change = Change::to("model.architecture.hidden_size", "256")
            .and("model.architecture.moe.experts_per_token", "2")
            .and("training.activation_checkpointing.every", "3")
            .and("distribution.sharding", "zero3");
        change.remove = vec!["training.lora.rank", "hardware.gpu_type", "training.activation_checkpointing"];
        let (by_value, by_text) = changed(text, &change);
        assert_eq!(by_value.training.activation_checkpointing, Some(Checkpointing::Every(3)));
        assert_eq!(by_value.model, by_text.model);
        assert_eq!(by_value.hardware, by_text.hardware);
        assert_eq!(by_value.distribution, by_text.distribution);
        assert_eq!(by_value.training.activation_checkpointing, by_text.training.activation_checkpointing);
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_told_without_a_place() {
        let read =
            |key, value: &str| PlanOverlay::read(&Change::to(key, value), Path::new("")).unwrap_err().to_string();
        assert!(read("model.batch_size", "many").starts_with("model.batch_size: `many` where a whole number"));
        assert!(read("training.precision", "bf61").contains("nearest: `bf16`"));
    }
}
