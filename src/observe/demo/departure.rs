//! What the demo's run does otherwise than its plan, so that one can see it found out.

use thiserror::Error;

/// What a simulated run does otherwise than its plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Departure {
    /// Keys of the plan with other values, `KEY=VALUE`.
    pub changes: Vec<String>,
    /// Its memory grows until the GPU is full.
    pub leak: bool,
}

/// A word that says no departure.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("demo: `{0}` is neither `leak` nor KEY=VALUE, a key of the plan")]
pub struct DepartureError(String);

impl Departure {
    /// Words with commas between: `leak`, `KEY=VALUE`.
    ///
    /// # Errors
    /// Where a word is neither.
    pub fn parse(text: &str) -> Result<Self, DepartureError> {
        let mut departure = Self::default();
        for word in text.split(',').map(str::trim) {
            match word.split_once('=') {
                Some((key, _)) if !key.trim().is_empty() => departure.changes.push(word.to_owned()),
                None if word == "leak" => departure.leak = true,
                _ => return Err(DepartureError(word.to_owned())),
            }
        }
        Ok(departure)
    }

    /// In words, for the source's line; none where the run does what its plan says.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let leak = self.leak.then(|| "a leak".to_owned());
        let all: Vec<String> = self.changes.iter().cloned().chain(leak).collect();
        (!all.is_empty()).then(|| all.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_a_leak_are_told_from_anything_else() {
        let both = Departure::parse("sequence_parallel=false, leak").unwrap();
        assert_eq!(both, Departure { changes: vec!["sequence_parallel=false".to_owned()], leak: true });
        assert_eq!(both.words().unwrap(), "sequence_parallel=false and a leak");
        for wrong in ["", "x", "=4", "leak,"] {
            assert!(Departure::parse(wrong).is_err(), "{wrong}");
        }
    }
}
