//! Versions that a script's own calls tell: keywords that a library takes only from a version on, or up to one. Each was
//! read in the named file of the last release that has it and the first that has it not.

use std::collections::BTreeMap;

use super::range::{NEWEST, VersionRange};
use crate::own_loop;

/// Classes of arguments, which all have the Trainer's.
const ARGUMENTS: &[&str] = &["TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig"];

/// The Trainer's own classes.
const TRAINERS: &[&str] = &["Trainer", "Seq2SeqTrainer"];

/// TRL's.
const OF_TRL: &[&str] =
    &["SFTTrainer", "DPOTrainer", "KTOTrainer", "ORPOTrainer", "CPOTrainer", "RewardTrainer", "GRPOTrainer"];

/// A keyword of a call, and the versions of the library that take it.
struct CallSign {
    library: &'static str,
    calls: &'static [&'static str],
    keyword: &'static str,
    versions: &'static str,
}

const fn sign(
    library: &'static str,
    calls: &'static [&'static str],
    keyword: &'static str,
    versions: &'static str,
) -> CallSign {
    CallSign { library, calls, keyword, versions }
}

const SIGNS: &[CallSign] = &[
    // transformers/training_args.py
    sign("transformers", ARGUMENTS, "evaluation_strategy", "<4.51"),
    sign("transformers", ARGUMENTS, "eval_strategy", ">=4.41"),
    sign("transformers", ARGUMENTS, "overwrite_output_dir", "<5.0"),
    sign("transformers", ARGUMENTS, "no_cuda", "<5.0"),
    // transformers/trainer.py
    sign("transformers", TRAINERS, "tokenizer", "<5.0"),
    sign("transformers", TRAINERS, "processing_class", ">=4.46"),
    // trl/trainer/*_trainer.py
    sign("trl", OF_TRL, "tokenizer", "<0.16"),
    sign("trl", OF_TRL, "processing_class", ">=0.12"),
    sign("trl", &["SFTTrainer"], "max_seq_length", "<0.13"),
    sign("trl", &["SFTTrainer"], "dataset_text_field", "<0.13"),
    sign("trl", &["SFTTrainer"], "packing", "<0.13"),
    sign("trl", &["DPOTrainer"], "beta", "<0.13"),
    sign("trl", &["DPOTrainer"], "max_length", "<0.13"),
    // trl/trainer/*_config.py
    sign("trl", &["SFTConfig"], "max_seq_length", "<0.20"),
    sign("trl", &["SFTConfig"], "max_length", ">=0.16"),
    sign("trl", &["GRPOConfig"], "vllm_device", "<0.18"),
    sign("trl", &["GRPOConfig"], "vllm_mode", ">=0.18"),
];

/// Names that are imported from a library, and the versions that have them (`__init__.py`).
const IMPORTS: &[(&str, &str, &str)] =
    &[("transformers", "AdamW", "<4.50"), ("trl", "DataCollatorForCompletionOnlyLM", "<0.20")];

/// Libraries under the names that they had before, and the versions that had them.
const OLD_NAMES: &[(&str, &str, &str)] =
    &[("pytorch_pretrained_bert", "transformers", "<1.0"), ("pytorch_transformers", "transformers", "<2.0")];

/// Options of a command that become arguments of the Trainer.
const OPTIONS: &[(&str, &str)] = &[("evaluation_strategy", "<4.51"), ("eval_strategy", ">=4.41")];

/// What was there of transformers when TRL 0.19 came (June 2025).
const OF_OLD_TRL: &str = "<4.54";

/// What is known of versions, narrowed by what a script's text calls and its command is given; and what told it. What
/// contradicts a version that is known, or another sign, tells nothing.
pub fn narrowed(
    known: &BTreeMap<String, String>,
    text: &str,
    given: impl Fn(&str) -> bool,
) -> (BTreeMap<String, String>, Vec<String>) {
    let mut versions = known.clone();
    let mut told = Vec::new();
    // unsloth keeps what TRL's trainers took before, whichever version it stands on.
    if text.contains("unsloth") {
        return (versions, told);
    }
    let mut narrow = |library: &str, range: &str, what: String| {
        let before = versions.get(library).cloned();
        let both = before.as_ref().map_or_else(|| range.to_owned(), |before| format!("{before},{range}"));
        let (old, new) = (before.as_deref().and_then(VersionRange::parse), VersionRange::parse(&both));
        // From where on alone leaves the newest, which stands in for every version anyway.
        let ends = new.is_some_and(|new| new.below < NEWEST);
        if ends && new != old {
            versions.insert(library.to_owned(), both);
            told.push(format!("{what}: only {library} {range} takes it"));
        }
    };
    for sign in SIGNS {
        let takes = |call: &&&str| {
            let calls = own_loop::calls(text, call);
            calls.iter().flatten().any(|part| part.split_once('=').is_some_and(|(name, _)| name.trim() == sign.keyword))
        };
        if let Some(call) = sign.calls.iter().find(takes) {
            narrow(sign.library, sign.versions, format!("{call}({})", sign.keyword));
        }
    }
    for (library, name, range) in IMPORTS {
        if imports(text, library, name) {
            narrow(library, range, (*name).to_owned());
        }
    }
    for (name, library, range) in OLD_NAMES {
        if ["from", "import"].iter().any(|word| text.contains(&format!("{word} {name}"))) {
            narrow(library, range, (*name).to_owned());
        }
    }
    for (name, range) in OPTIONS.iter().filter(|(name, _)| given(name)) {
        narrow("transformers", range, format!("--{name}"));
    }
    let trl = versions.get("trl").and_then(|text| VersionRange::parse(text));
    if !versions.contains_key("transformers") && !told.is_empty() && trl.is_some_and(|range| range.below <= (0, 19)) {
        versions.insert("transformers".to_owned(), OF_OLD_TRL.to_owned());
        told.push(format!("TRL before 0.19: with a transformers of its time, {OF_OLD_TRL}"));
    }
    (versions, told)
}

/// Whether a text imports a name from a library, on one line or between brackets.
fn imports(text: &str, library: &str, name: &str) -> bool {
    text.match_indices(&format!("from {library} import ")).any(|(at, found)| {
        let rest = text.get(at + found.len()..).unwrap_or("");
        let names = if rest.starts_with('(') { rest.split(')').next() } else { rest.lines().next() };
        names.unwrap_or("").split([',', '(', '\n']).any(|part| part.trim() == name)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::narrowed;

    fn of(text: &str, known: &[(&str, &str)]) -> BTreeMap<String, String> {
        let known = known.iter().map(|(name, range)| ((*name).to_owned(), (*range).to_owned())).collect();
        narrowed(&known, text, |_| false).0
    }

    #[test]
    fn keywords_tell_versions() {
        let old = "args = TrainingArguments(\n    evaluation_strategy='steps',\n)\nSFTTrainer(model, tokenizer=tok)\n";
        let found = of(old, &[("trl", ">=0.8.1")]);
        assert_eq!(found["transformers"], "<4.51");
        assert_eq!(found["trl"], ">=0.8.1,<0.16");
    }

    #[test]
    fn an_installed_version_stands() {
        assert_eq!(of("SFTTrainer(model, tokenizer=tok)\n", &[("trl", "0.19.0")])["trl"], "0.19.0");
    }

    #[test]
    fn names_between_brackets_are_imported() {
        let text = "from transformers import (\n    AutoModel,\n    AdamW,\n)\n";
        assert_eq!(of(text, &[])["transformers"], "<4.50");
        assert!(of("from torch.optim import AdamW\nfrom transformers import AutoModel\n", &[]).is_empty());
    }
}
