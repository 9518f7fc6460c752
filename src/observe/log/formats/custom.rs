//! The user's own pattern: a regular expression whose named groups say what they hold.

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use super::super::facts::{LineFacts, LineFormat, leading_count, leading_number};
use super::super::figures::NumberStyle;
use crate::reading::LogFormat;
use crate::units::{Bytes, FlopsPerSec, Fraction, Seconds};

/// The names that groups may have.
const NAMES: [&str; 15] = [
    "step",
    "total_steps",
    "epoch",
    "loss",
    "grad_norm",
    "step_time_s",
    "step_time_ms",
    "steps_per_s",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "mfu",
    "tflops_per_gpu",
    "allocated_gib",
    "reserved_gib",
];

/// What a compiled pattern may take: one that needs more is none that a person wrote.
const LARGEST: usize = 1 << 20;

/// The user's own pattern.
#[derive(Debug, Clone)]
pub struct CustomPattern {
    pattern: Regex,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// It cannot be compiled.
    #[error("`{0}` is no regular expression: {1}")]
    NoExpression(String, String),
    /// A group is named as nothing that is read.
    #[error("the group `{0}` has none of the names {names}", names = NAMES.join(", "))]
    UnknownGroup(String),
    /// Nothing says where a step ends.
    #[error(
        "`{0}` needs a group for the step or its time, as in (?<step>\\d+); names are {names}",
        names = NAMES.join(", ")
    )]
    NoStep(String),
}

impl CustomPattern {
    /// Reads the pattern.
    ///
    /// # Errors
    /// No regular expression, or no group that has one of the names.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let compiled = RegexBuilder::new(pattern).size_limit(LARGEST).build().map_err(|error| {
            let text = error.to_string();
            let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
            PatternError::NoExpression(pattern.to_owned(), last.trim_start_matches("error: ").to_owned())
        })?;
        let groups: Vec<&str> = compiled.capture_names().flatten().collect();
        if let Some(unknown) = groups.iter().find(|group| !NAMES.contains(group)) {
            return Err(PatternError::UnknownGroup((*unknown).to_owned()));
        }
        if !groups.iter().any(|group| matches!(*group, "step" | "step_time_s" | "step_time_ms" | "steps_per_s")) {
            return Err(PatternError::NoStep(pattern.to_owned()));
        }
        Ok(Self { pattern: compiled })
    }
}

impl LineFormat for CustomPattern {
    fn name(&self) -> LogFormat {
        LogFormat::Own
    }

    // The pattern is written for the line as it stands.
    fn reads_as_written(&self) -> bool {
        true
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let groups = self.pattern.captures(line)?;
        let style = NumberStyle::of_line(line);
        let text = |name: &str| Some(style.clone().plain(groups.name(name)?.as_str()).into_owned());
        let number = |name: &str| leading_number(&text(name)?);
        let count = |name: &str| leading_count(&text(name)?);
        let positive = |name: &str| number(name).filter(|number| number.is_finite() && *number > 0.0);
        let seconds = positive("step_time_s").map(Seconds);
        let millis = positive("step_time_ms").map(|millis| Seconds(millis / 1000.0));
        let rate = positive("steps_per_s").map(|rate| Seconds(1.0 / rate));
        Some(LineFacts {
            step: count("step"),
            total_steps: count("total_steps"),
            epoch: number("epoch"),
            loss: number("loss"),
            grad_norm: number("grad_norm"),
            step_time: seconds.or(millis).or(rate),
            tokens_per_s: positive("tokens_per_s"),
            tokens_per_s_per_gpu: positive("tokens_per_s_per_gpu"),
            samples_per_s: positive("samples_per_s"),
            mfu: positive("mfu").map(|percent| Fraction(percent / 100.0)),
            model_flops_per_gpu: positive("tflops_per_gpu").map(FlopsPerSec::from_tera),
            peak_allocated: positive("allocated_gib").map(Bytes::from_gib),
            peak_reserved: positive("reserved_gib").map(Bytes::from_gib),
            ..LineFacts::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_say_what_they_hold() {
        let mut own = CustomPattern::new(
            r"\[(?<step>[\d,]+)/(?<total_steps>\d+)\] L=(?<loss>\S+) (?<step_time_ms>\S+) util (?<mfu>\S+)",
        )
        .unwrap();
        let facts = own.read("12:00 [1,200/5000] L=2.75 312.5ms util 41.5%").unwrap();
        assert_eq!((facts.step, facts.total_steps, facts.loss), (Some(1_200), Some(5_000), Some(2.75)));
        assert_eq!((facts.step_time, facts.mfu), (Some(Seconds(0.312_5)), Some(Fraction(0.415))));
        let facts = own.read("12:00 [1,200/5000] L=2,75 3,125e2ms util 41,5%").unwrap();
        assert_eq!((facts.loss, facts.step_time), (Some(2.75), Some(Seconds(0.312_5))));
        assert_eq!(own.read("something else"), None);
    }

    #[test]
    fn a_pattern_that_helps_nobody_is_refused_with_a_line() {
        for (pattern, part) in [
            ("(?<step>", "is no regular expression"),
            ("(?<stpe>[0-9]+)", "the group `stpe`"),
            ("loss [0-9]+", "needs a group"),
            (r"(?<step>(\w{999}){999})", "is no regular expression"),
        ] {
            let error = CustomPattern::new(pattern).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
