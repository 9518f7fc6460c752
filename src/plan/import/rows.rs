//! Settings that mean a key of a plan as they stand, as tables.

use super::imported::Imported;
use super::settings::Settings;

/// How a setting's value becomes a plan's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum As {
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
pub type Row = (&'static [&'static str], &'static str, As);

/// Sets the keys of `rows` that `settings` have.
pub fn take(imported: &mut Imported, settings: &Settings, rows: &[Row]) {
    for (names, key, how) in rows {
        let Some(name) = names.iter().find(|name| settings.get(name).is_some()) else { continue };
        match how {
            As::Whole => imported.set(key, settings.whole(name)),
            As::Several => imported.set(key, settings.whole(name).filter(|found| found.value > 1)),
            As::Flag => imported.set(key, settings.flag(name)),
            As::Not => imported.set(key, settings.flag(name).map(|found| found.map(|on| !on))),
            As::Share => imported.set(key, settings.number(name).filter(|found| (0.0..=1.0).contains(&found.value))),
            As::Clipped => imported.set(key, settings.number(name).map(|found| found.map(|norm| norm > 0.0))),
            As::On(word) => imported.set(key, settings.on(name).map(|found| found.map(|_| *word))),
        }
    }
}

/// Notes what prediction does not count of a run.
pub fn not_modelled(imported: &mut Imported, what: &str) {
    imported.note(format!("not modelled: {what}"));
}
