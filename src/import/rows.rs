//! Settings that mean a key of a plan as they stand, as tables.

use super::imported::ImportedPlan;
use super::settings::{Settings, text};

/// How a setting's value becomes a plan's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// A whole number.
    Whole,
    /// A whole number; one and less are the default and say nothing.
    Several,
    /// A truth value.
    Flag,
    /// The opposite of a truth value.
    Not,
    /// A number between 0 and 1.
    Share,
    /// A norm that gradients are clipped to: whether it is above 0.
    Clipped,
    /// This word, where the setting is true.
    On(&'static str),
}

/// Names of a setting, the first that is there counts; the plan's key; how it is read.
pub type SettingRow = (&'static [&'static str], &'static str, SettingKind);

/// Sets the keys of `rows` that `settings` have.
pub fn take(imported: &mut ImportedPlan, settings: &Settings, rows: &[SettingRow]) {
    for (names, key, how) in rows {
        let Some(name) = names.iter().find(|name| settings.get(name).is_some()) else { continue };
        match how {
            SettingKind::Whole => imported.set(key, settings.whole(name)),
            SettingKind::Several => imported.set(key, settings.whole(name).filter(|found| found.value > 1)),
            SettingKind::Flag => imported.set(key, settings.flag(name)),
            SettingKind::Not => imported.set(key, settings.flag(name).map(|found| found.map(|on| !on))),
            SettingKind::Share => {
                imported.set(key, settings.number(name).filter(|found| (0.0..=1.0).contains(&found.value)))
            }
            SettingKind::Clipped => imported.set(key, settings.number(name).map(|found| found.map(|norm| norm > 0.0))),
            SettingKind::On(word) => imported.set(key, settings.on(name).map(|found| found.map(|_| *word))),
        }
    }
}

/// Says of a setting that it states what is counted, where its value is one of `words`; another one is left to be told.
pub fn usual(settings: &Settings, name: &str, words: &[&str]) {
    let word = settings.get(name).and_then(|found| text(&found.value)).unwrap_or_default().to_lowercase();
    if words.contains(&word.as_str()) {
        settings.accept(name);
    }
}

/// Notes what prediction does not count of a run.
pub fn not_modelled(imported: &mut ImportedPlan, what: &str) {
    imported.note(format!("not modelled: {what}"));
}
