//! What is alerted about, and how: defaults, and the user's `alerts.yaml` over them.

use serde_json::Value;
use thiserror::Error;

use crate::plan::{Document, Fault};

/// What can be alerted about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alert {
    /// A device's memory is nearly full: percent of it.
    Memory,
    /// Memory grows and will be full soon: minutes until then.
    FullIn,
    /// A device is hot: °C.
    Temperature,
    /// A step takes longer than usual: times the usual one.
    SlowStep,
    /// No step has been done for long: minutes.
    Stalled,
    /// The loss is no number any more.
    Loss,
    /// The run's log has an out-of-memory message.
    OutOfMemory,
    /// The attached process has ended.
    Ended,
    /// A device fell off the bus, its driver reports a critical error, or its memory or links are damaged.
    Gpu,
}

impl Alert {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::OutOfMemory,
        Self::Loss,
        Self::Ended,
        Self::Gpu,
        Self::FullIn,
        Self::Stalled,
        Self::Memory,
        Self::Temperature,
        Self::SlowStep,
    ];

    /// Its key in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::FullIn => "full_in",
            Self::Temperature => "temperature",
            Self::SlowStep => "slow_step",
            Self::Stalled => "stalled",
            Self::Loss => "loss",
            Self::OutOfMemory => "out_of_memory",
            Self::Ended => "ended",
            Self::Gpu => "gpu",
        }
    }

    /// The threshold where the user says nothing: what nobody would want to miss, and what no healthy run
    /// reaches (data-centre GPUs slow down from 85 to 90 °C on). None: there is nothing to measure, it is or
    /// it is not.
    const fn usual(self) -> Option<f64> {
        match self {
            Self::Memory => Some(98.0),
            Self::FullIn => Some(60.0),
            Self::Temperature => Some(90.0),
            Self::SlowStep => Some(2.0),
            Self::Stalled => Some(10.0),
            Self::Loss | Self::OutOfMemory | Self::Ended | Self::Gpu => None,
        }
    }
}

/// How an alert makes itself known beyond the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlertChannels {
    /// The terminal's bell.
    pub bell: bool,
    /// A desktop notification through the terminal.
    pub desktop: bool,
    /// A program to run and its arguments; empty: none. No shell is between.
    pub command: Vec<String>,
}

/// The thresholds and the ways.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertRules {
    /// The thresholds of those that are on.
    on: Vec<(Alert, f64)>,
    /// How all of them make themselves known.
    pub channels: AlertChannels,
}

impl Default for AlertRules {
    fn default() -> Self {
        let on = Alert::ALL.into_iter().map(|alert| (alert, alert.usual().unwrap_or_default())).collect();
        Self { on, channels: AlertChannels::default() }
    }
}

/// Why a key of the alerts is of no use.
#[derive(Debug, Error)]
enum AlertFault {
    #[error("{0} is needed here")]
    Needed(&'static str),
    #[error("a program and its arguments are needed here, as a list")]
    NoCommand,
    #[error("`{0}` is none of bell, desktop and screen")]
    NoChannel(String),
    #[error("known are notify, command, {0}")]
    Unknown(String),
}

impl AlertRules {
    /// The threshold of an alert; none where it is off.
    #[must_use]
    pub fn threshold(&self, alert: Alert) -> Option<f64> {
        self.on.iter().find(|(known, _)| *known == alert).map(|(_, threshold)| *threshold)
    }

    /// Reads a file of alerts: names with a threshold, `on` or `off`; `notify` and `command`.
    ///
    /// # Errors
    /// Each fault with its place: no YAML, an unknown name, a value that is none.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        Self::default().extended(text)
    }

    /// These with what another text says over them.
    ///
    /// # Errors
    /// As [`AlertRules::parse`].
    pub fn extended(self, text: &str) -> Result<Self, Vec<Fault>> {
        let document = Document::parse(text)?;
        let mut rules = self;
        let mut faults = Vec::new();
        for key in document.keys() {
            let value = document.value(&key).unwrap_or_default();
            if let Err(why) = rules.take(&key, &value) {
                faults.push(document.placed(Fault::of(key, why.to_string())));
            }
        }
        if faults.is_empty() { Ok(rules) } else { Err(faults) }
    }

    fn take(&mut self, key: &str, value: &Value) -> Result<(), AlertFault> {
        match key {
            "notify" => {
                for way in words(value).ok_or(AlertFault::Needed("a list of bell, desktop and screen"))? {
                    match way.as_str() {
                        "bell" => self.channels.bell = true,
                        "desktop" => self.channels.desktop = true,
                        // It always is.
                        "screen" => {}
                        other => return Err(AlertFault::NoChannel(other.to_owned())),
                    }
                }
                return Ok(());
            }
            "command" => {
                self.channels.command = words(value).filter(|words| !words.is_empty()).ok_or(AlertFault::NoCommand)?;
                return Ok(());
            }
            _ => {}
        }
        let Some(alert) = Alert::ALL.into_iter().find(|alert| alert.name() == key) else {
            let known: Vec<&str> = Alert::ALL.iter().map(|alert| alert.name()).collect();
            return Err(AlertFault::Unknown(known.join(", ")));
        };
        self.on.retain(|(known, _)| *known != alert);
        match (value, alert.usual()) {
            (Value::Bool(false), _) => {}
            (Value::String(word), _) if word == "off" => {}
            (Value::Bool(true), usual) => self.on.push((alert, usual.unwrap_or_default())),
            (Value::String(word), usual) if word == "on" => self.on.push((alert, usual.unwrap_or_default())),
            (Value::Number(number), Some(_)) => {
                let threshold = number.as_f64().filter(|threshold| *threshold > 0.0);
                self.on.push((alert, threshold.ok_or(AlertFault::Needed("a positive number"))?));
            }
            (_, Some(_)) => return Err(AlertFault::Needed("a number, on or off")),
            (_, None) => return Err(AlertFault::Needed("on or off")),
        }
        Ok(())
    }
}

/// A list of words.
fn words(value: &Value) -> Option<Vec<String>> {
    let word = |value: &Value| match value {
        Value::String(word) => Some(word.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    value.as_array()?.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_differs_from_the_defaults() {
        let text = "notify: [bell, desktop]\ncommand: [/usr/bin/page, -n, 3]\nmemory: 95\nslow_step: off\nloss: on\n";
        let rules = AlertRules::parse(text).unwrap();
        assert_eq!((rules.threshold(Alert::Memory), rules.threshold(Alert::SlowStep)), (Some(95.0), None));
        assert_eq!(rules.threshold(Alert::Temperature), AlertRules::default().threshold(Alert::Temperature));
        assert!(rules.threshold(Alert::Loss).is_some());
        assert_eq!(rules.channels.command, ["/usr/bin/page", "-n", "3"]);
        assert!(rules.channels.bell && rules.channels.desktop);
    }

    #[test]
    fn without_a_file_the_screen_alone_tells() {
        assert_eq!(AlertRules::parse("").unwrap(), AlertRules::default());
        assert_eq!(AlertRules::default().channels, AlertChannels::default());
        assert!(Alert::ALL.iter().all(|alert| AlertRules::default().threshold(*alert).is_some()));
    }

    #[test]
    fn faults_are_told_with_their_place() {
        for (text, said) in [
            ("memory: 95\ntempreature: 80\n", "2:14: tempreature: known are notify"),
            ("memory: much\n", "memory: a number, on or off"),
            ("memory: -1\n", "memory: a positive number"),
            ("loss: 3\n", "loss: on or off"),
            ("notify: [horn]\n", "notify: `horn`"),
            ("command: rm -rf /\n", "command: a program and its arguments"),
        ] {
            let faults = AlertRules::parse(text).unwrap_err();
            assert!(faults.iter().any(|fault| fault.to_string().contains(said)), "{text}: {faults:?}");
        }
    }
}
