//! LMFlow's pipelines, whose arguments a name chooses: `AutoArguments.get_pipeline_args_class("dpo_aligner")`.

use super::super::common::ImportContext;

/// Where its classes of arguments stand.
const ARGUMENTS: &str = "src/lmflow/args.py";

/// Pipelines whose arguments stand on `TrainingArguments`, where that file is not at hand.
const ON_TRAINER: [&str; 4] = ["finetuner", "rm_tuner", "dpov2_aligner", "raft_aligner"];

/// The pipeline of a script whose arguments do not stand on `TrainingArguments`: it makes its own, of which none of the
/// Trainer's defaults is known.
pub fn own_arguments(context: &ImportContext, script: &str) -> Option<String> {
    if !script.contains("get_pipeline_args_class(") {
        return None;
    }
    let (_, rest) = script.split_once("pipeline_name = ")?;
    let name = rest.lines().next()?.trim().trim_matches(['"', '\'']);
    let known = context.run.files.read(ARGUMENTS).ok().and_then(|text| stands_on_trainer(&text, name));
    let stands = known.unwrap_or_else(|| ON_TRAINER.contains(&name));
    (!stands).then(|| format!("the pipeline {name}, which makes its own TrainingArguments"))
}

/// Whether the class that a mapping has for a pipeline stands on `TrainingArguments`.
fn stands_on_trainer(text: &str, pipeline: &str) -> Option<bool> {
    const DEEPEST: usize = 8;
    let (_, rest) = text.split_once(&format!("\"{pipeline}\": "))?;
    let mut open = vec![rest.split([',', '}', '\n']).next()?.trim().to_owned()];
    for _ in 0..DEEPEST {
        let class = open.pop()?;
        let behind = |line| str::strip_prefix(line, "class ")?.strip_prefix(class.as_str());
        let head = text.lines().filter_map(behind).find(|rest| rest.starts_with(['(', ':']));
        let bases = head?.trim_start_matches('(').trim_end_matches([':', ')']);
        if bases.contains("TrainingArguments") {
            return Some(true);
        }
        open.extend(bases.split(',').map(|base| base.trim().to_owned()).filter(|base| !base.is_empty()));
        if open.is_empty() {
            return Some(false);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::stands_on_trainer;

    #[test]
    fn a_class_stands_on_the_trainers_through_others() {
        let text = "class Bare(TrainingArguments):\nclass A(TrainingArguments):\nclass B(A):\nclass C:\nM = {\n    \"b\": B,\n    \"c\": C,\n}\n";
        assert_eq!(stands_on_trainer(text, "b"), Some(true));
        assert_eq!(stands_on_trainer(text, "c"), Some(false));
        assert_eq!(stands_on_trainer(text, "d"), None);
    }
}
