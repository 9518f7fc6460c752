//! How many optimizer steps a run takes, where its command or its files say so in a name that means nothing else.

use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::settings::{Settings, whole};
use crate::plan::keys;

/// Names of a whole number of optimizer steps, by their last word: transformers' and litgpt's `max_steps`
/// (training_args.py; litgpt/args.py, `TrainArgs`), accelerate's and diffusers' `max_train_steps`, and what loops of
/// one's own call it.
const NAMES: [&str; 8] = [
    "max_steps",
    "max_train_steps",
    "num_train_steps",
    "num_training_steps",
    "total_steps",
    "train_steps",
    "training_steps",
    "max_iters",
];

/// Where those stand, in front of the last dot.
const SECTIONS: [&str; 4] = ["", "train", "training", "trainer"];

/// Notes the steps of a run.
pub fn note_steps(imported: &mut ImportedPlan, settings: &Settings) {
    let told = |(name, found): (&str, &Setting<serde_json::Value>)| {
        let (section, last) = name.rsplit_once('.').unwrap_or(("", name));
        let named = NAMES.contains(&last) && SECTIONS.contains(&section);
        let steps = whole(&found.value).filter(|steps| named && *steps > 0)?;
        Some(Setting::new(steps, found.origin.clone()))
    };
    let set = || settings.fates().map(|(name, found, _)| (name, found));
    let bare = || {
        let by_epochs = set().any(|(name, _)| name.contains("epoch"));
        let steps = settings.get("steps").filter(|_| !by_epochs)?;
        let steps = Setting::new(whole(&steps.value).filter(|steps| *steps > 0)?, steps.origin.clone());
        matches!(steps.origin, Origin::Argument(_) | Origin::File { .. }).then_some(steps)
    };
    if imported.steps.is_none() {
        imported.steps = set().find_map(told).or_else(bare);
    }
}

/// Tokens of the whole run, where its steps are known and what one step takes. Where answers are generated as well, a
/// step of the trainer's is none of the optimizer's.
pub fn set_tokens(imported: &mut ImportedPlan) {
    let generates = [keys::training::generation_beside, keys::training::generation_memory];
    if generates.iter().any(|key| imported.get(key).is_some()) {
        imported.steps = None;
    }
    let whole = |key| imported.whole(key);
    let (Some(steps), Some(batch), Some(length)) =
        (imported.steps.clone(), whole(keys::model::batch_size), whole(keys::model::sequence_length))
    else {
        return;
    };
    let tokens = steps.value.checked_mul(batch).and_then(|samples| samples.checked_mul(length));
    let origin =
        Origin::Derived(format!("{}: {} steps of {batch} samples of {length} tokens", steps.origin, steps.value));
    imported.fill(keys::run::total_tokens, tokens.map(|tokens| Setting::new(tokens, origin)));
}

/// Optimizer steps of the whole run: stated, or by its tokens where those are.
pub fn steps(imported: &ImportedPlan) -> Option<u64> {
    let by_tokens = || {
        let tokens = imported.get(keys::run::total_tokens)?;
        let stated = !matches!(tokens.origin, Origin::Default { .. });
        let each = imported
            .whole(keys::model::batch_size)?
            .checked_mul(imported.whole(keys::model::sequence_length)?)
            .filter(|each| stated && *each > 0)?;
        Some(whole(&tokens.value)?.div_ceil(each))
    };
    imported.steps.as_ref().map(|steps| steps.value).or_else(by_tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_of(words: &[(&str, i64)]) -> Option<u64> {
        let mut settings = Settings::default();
        for (name, value) in words {
            settings.set(name, (*value).into(), Origin::Argument(format!("--{name}")));
        }
        let mut imported = ImportedPlan::of("a test");
        note_steps(&mut imported, &settings);
        imported.steps()
    }

    /// transformers' default is -1: as many as there are batches (training_args.py). `--steps` beside `--epochs` may be
    /// those of an epoch.
    #[test]
    fn steps_are_those_that_cannot_be_anything_else() {
        assert_eq!(steps_of(&[("max_steps", 300)]), Some(300));
        assert_eq!(steps_of(&[("train.max_steps", 100), ("train.epochs", 2)]), Some(100));
        assert_eq!(steps_of(&[("max_steps", -1), ("num_train_epochs", 3)]), None);
        assert_eq!(steps_of(&[("steps", 4_000)]), Some(4_000));
        assert_eq!(steps_of(&[("steps", 100), ("epochs", 10)]), None);
        assert_eq!(steps_of(&[("eval.max_steps", 50), ("warmup_steps", 10), ("save_steps", 500)]), None);
    }
}
