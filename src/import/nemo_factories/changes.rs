//! What a script changes of the recipe that it has made: `recipe.trainer.strategy.tensor_model_parallel_size = 4`.

use serde_json::Value;

use crate::imported::ImportedPlan;
use crate::origin::Origin;
use crate::plan::keys;
use crate::python::ScriptReader;
use crate::rows::not_modelled;
use crate::settings::Settings;
use crate::text::{arguments, python_literal};

/// Attributes of a recipe that a script sets, and Megatron's names for them.
const ATTRIBUTES: [(&str, &str); 25] = [
    ("trainer.num_nodes", "nodes"),
    ("trainer.devices", "gpus_per_node"),
    ("trainer.max_steps", "train_iters"),
    ("trainer.gradient_clip_val", "clip_grad"),
    ("trainer.strategy.tensor_model_parallel_size", "tensor_model_parallel_size"),
    ("trainer.strategy.pipeline_model_parallel_size", "pipeline_model_parallel_size"),
    ("trainer.strategy.virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"),
    ("trainer.strategy.context_parallel_size", "context_parallel_size"),
    ("trainer.strategy.expert_model_parallel_size", "expert_model_parallel_size"),
    ("trainer.strategy.expert_tensor_parallel_size", "expert_tensor_parallel_size"),
    ("trainer.strategy.sequence_parallel", "sequence_parallel"),
    ("trainer.strategy.ddp.overlap_grad_reduce", "overlap_grad_reduce"),
    ("trainer.strategy.ddp.overlap_param_gather", "overlap_param_gather"),
    ("data.global_batch_size", "global_batch_size"),
    ("data.micro_batch_size", "micro_batch_size"),
    ("data.seq_length", "seq_length"),
    ("model.config.recompute_granularity", "recompute_granularity"),
    ("model.config.recompute_method", "recompute_method"),
    ("model.config.recompute_num_layers", "recompute_num_layers"),
    ("model.config.cross_entropy_loss_fusion", "cross_entropy_loss_fusion"),
    ("optim.config.use_distributed_optimizer", "use_distributed_optimizer"),
    ("optim.config.weight_decay", "weight_decay"),
    ("optim.config.clip_grad", "clip_grad"),
    ("peft.dim", "dim"),
    ("peft.dropout", "dropout"),
];

/// Attributes that change nothing of what is held: rates, checkpoints, logs, what is read and when it is evaluated.
const QUIET: [&str; 24] = [
    "log",
    "resume",
    "tokenizer",
    "peft.alpha",
    "trainer.val_check_interval",
    "trainer.limit_",
    "trainer.log_every_n_steps",
    "trainer.num_sanity_val_steps",
    "trainer.enable_checkpointing",
    "trainer.max_epochs",
    "trainer.strategy.ckpt_",
    "trainer.strategy.save_ckpt_format",
    "optim.config.lr",
    "optim.config.min_lr",
    "optim.config.adam_",
    "optim.lr_scheduler",
    "model.config.seq_length",
    "data.num_workers",
    "data.dataset_root",
    "data.paths",
    "data.split",
    "data.num_train_samples",
    "data.num_val_samples",
    "data.num_test_samples",
];

/// The parts that a recipe has.
const PARTS: [&str; 7] = ["trainer", "data", "model", "optim", "peft", "log", "resume"];

/// A statement that changes an attribute of a recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct RecipeChange {
    /// Without the recipe's own name: `trainer.max_steps`.
    pub path: String,
    /// None of one that is not followed.
    pub value: Option<Value>,
    pub text: String,
    pub origin: Origin,
    /// It stands in no condition and no loop.
    pub sure: bool,
}

/// What a script changes, in order.
pub fn of_script(name: &str, content: &str, reader: &ScriptReader) -> Vec<RecipeChange> {
    let mut found = Vec::new();
    for change in of_parts(name, content, reader, &PARTS) {
        if change.path != "data" {
            found.push(change);
            continue;
        }
        // Of a data set that is put in its place what it is given counts.
        let inner = change.text.split_once('(').map_or_else(Vec::new, |(_, inner)| arguments(inner));
        for key in ["seq_length", "global_batch_size", "micro_batch_size"] {
            let told = inner.iter().filter_map(|part| part.split_once('=')).find(|(name, _)| name.trim() == key);
            let value = told.filter(|_| change.sure).and_then(|(_, text)| literal(text.trim(), reader));
            found.push(RecipeChange { path: format!("data.{key}"), value, ..change.clone() });
        }
    }
    found
}

/// What a script sets of these parts of a recipe, in order.
pub fn of_parts(name: &str, content: &str, reader: &ScriptReader, parts: &[&str]) -> Vec<RecipeChange> {
    let lines: Vec<&str> = content.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((path, text)) = assigned(line, parts) else { continue };
        let text = whole(text, lines.get(at + 1..).unwrap_or_default());
        let sure = !is_conditional(&lines, at);
        let value = literal(&text, reader).filter(|_| sure);
        let origin = Origin::File { name: name.to_owned(), line: Some(at + 1), key: path.to_owned() };
        found.push(RecipeChange { path: path.to_owned(), value, text, origin, sure });
    }
    found
}

fn literal(text: &str, reader: &ScriptReader) -> Option<Value> {
    python_literal(text).or_else(|| reader.expression(text))
}

/// `recipe.trainer.max_steps = 10`, of whatever name that has such parts.
fn assigned<'l>(line: &'l str, parts: &[&str]) -> Option<(&'l str, &'l str)> {
    let (left, text) = line.split('#').next().unwrap_or("").split_once('=')?;
    let left = left.trim();
    let plain = left.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '.'));
    let (_, path) = left.split_once('.').filter(|_| plain && !text.starts_with('='))?;
    let first = path.split('.').next().unwrap_or(path);
    (parts.contains(&first) && !left.starts_with("self.")).then_some((path, text.trim()))
}

/// An expression with the lines that its brackets take.
fn whole(first: &str, rest: &[&str]) -> String {
    let depth = |text: &str| {
        let count = |brackets: &[char]| text.matches(|letter| brackets.contains(&letter)).count();
        count(&['(', '[', '{']).saturating_sub(count(&[')', ']', '}']))
    };
    let mut text = first.to_owned();
    for line in rest {
        if depth(&text) == 0 {
            break;
        }
        text.push(' ');
        text.push_str(line.split('#').next().unwrap_or("").trim());
    }
    text
}

/// Whether a line stands within a condition or a loop.
fn is_conditional(lines: &[&str], at: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut depth = lines.get(at).map_or(0, |line| indent(line));
    for line in lines.iter().take(at).rev().filter(|line| !line.trim().is_empty()) {
        if indent(line) < depth {
            depth = indent(line);
            let word = line.split_whitespace().next().unwrap_or("").trim_end_matches(':');
            if ["if", "elif", "else", "for", "while", "try", "except", "with"].contains(&word) {
                return !line.contains("__main__");
            }
        }
    }
    false
}

impl RecipeChange {
    /// Takes it over the recipe's own, and gives the keys of a plan that are open by it.
    pub fn apply(self, imported: &mut ImportedPlan, settings: &mut Settings) -> Vec<(&'static str, String)> {
        let Self { path, value, text, origin, .. } = self;
        let is_quiet = |quiet: &str| {
            path.strip_prefix(quiet)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || quiet.ends_with('_'))
        };
        if QUIET.iter().any(|quiet| is_quiet(quiet)) {
            return Vec::new();
        }
        if path.starts_with("trainer.callbacks") {
            if text.contains("tp_comm_overlap=True") {
                not_modelled(imported, &format!("{origin}: exchanges of tensor parallelism that are hidden"));
            }
            return Vec::new();
        }
        let Some((_, name)) = ATTRIBUTES.iter().find(|(attribute, _)| *attribute == path) else {
            not_modelled(imported, &format!("{origin} = {text}"));
            return Vec::new();
        };
        let open = if value.is_none() { keys_of(name) } else { &[] };
        if value.is_none() && open.is_empty() {
            not_modelled(imported, &format!("{origin} = {text}: not followed"));
        }
        settings.set(name, value.unwrap_or_default(), origin.clone());
        open.iter().map(|key| (*key, format!("{origin} = {text}: not followed"))).collect()
    }
}

/// The keys of a plan that one of Megatron's settings decides.
fn keys_of(name: &str) -> &'static [&'static str] {
    match name {
        "nodes" | "gpus_per_node" => &[keys::cluster::num_gpus, keys::distribution::data_parallel],
        "tensor_model_parallel_size" => &[keys::distribution::tensor_parallel, keys::distribution::data_parallel],
        "pipeline_model_parallel_size" => &[keys::distribution::pipeline_parallel, keys::distribution::data_parallel],
        "context_parallel_size" => &[keys::distribution::context_parallel, keys::distribution::data_parallel],
        "expert_model_parallel_size" => &[keys::distribution::expert_parallel],
        "sequence_parallel" => &[keys::distribution::sequence_parallel],
        "global_batch_size" => &[keys::model::batch_size],
        "micro_batch_size" => &[keys::training::micro_batch_size],
        "seq_length" => &[keys::model::sequence_length],
        "recompute_granularity" => &[keys::training::activation_checkpointing],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::{PARTS, assigned, is_conditional, whole};

    #[test]
    fn an_attribute_goes_by_its_path() {
        assert_eq!(assigned("    recipe.trainer.max_steps = 10  # few", &PARTS), Some(("trainer.max_steps", "10")));
        assert_eq!(assigned("pretrain.data = run.Config(", &PARTS), Some(("data", "run.Config(")));
        for line in ["recipe.trainer.max_steps == 10", "self.model.x = 1", "args.tp = 2", "f(recipe.data.seq_length=1)"]
        {
            assert_eq!(assigned(line, &PARTS), None, "{line}");
        }
        assert_eq!(whole("f(", &["a=1,  # one", ")", "b"]), "f( a=1, )");
    }

    #[test]
    fn a_condition_is_one_above_it() {
        let lines = ["def f():", "    if a:", "        r.trainer.x = 1", "    r.trainer.y = 2"];
        assert!(is_conditional(&lines, 2) && !is_conditional(&lines, 3));
        assert!(!is_conditional(&["if __name__ == \"__main__\":", "    r.trainer.x = 1"], 1));
    }
}
