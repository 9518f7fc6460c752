//! Readings as text: a value with its time, or the reason why there is none.

use std::cell::Cell;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Absence, Moment, Reading, ReadingKind};

thread_local! {
    /// When the readings that are being read were taken, where they do not say so themselves. serde hands
    /// nothing down to what it reads, and to fill the time in afterwards took ten times as long as all the rest.
    static TAKEN: Cell<Option<Moment>> = const { Cell::new(None) };
}

/// Runs `read`, in which readings without a time are from `at`.
pub fn taken_at<T>(at: Moment, read: impl FnOnce() -> T) -> T {
    let before = TAKEN.replace(Some(at));
    let read = read();
    TAKEN.set(before);
    read
}

/// A [`Reading`] as it is written.
#[derive(Serialize, Deserialize)]
struct SerializedReading<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<ReadingKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<Absence>,
}

impl<T: Serialize> Serialize for Reading<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match self {
            Self::Known { value, at, kind } => SerializedReading {
                value: Some(value),
                at: Some(*at),
                kind: Some(*kind).filter(|kind| *kind != ReadingKind::Measured),
                absent: None,
            },
            Self::Absent(why) => SerializedReading { value: None, at: None, kind: None, absent: Some(why.clone()) },
        };
        written.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Reading<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = SerializedReading::deserialize(deserializer)?;
        match (written.value, written.at.or(TAKEN.get()), written.absent) {
            (Some(value), Some(at), _) => {
                Ok(Self::Known { value, at, kind: written.kind.unwrap_or(ReadingKind::Measured) })
            }
            (Some(_), None, _) => Err(D::Error::missing_field("at")),
            (None, _, Some(why)) => Ok(Self::Absent(why)),
            // JSON has no word for a number that is none: it stands there as null.
            (None, _, None) => Ok(Self::Absent(Absence::Failed("not a number".into()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Sample;
    use crate::units::{BytesPerSec, Watts};

    #[test]
    fn a_reading_is_read_as_it_was_written() {
        let bound = Reading::upper_bound(BytesPerSec(1.5e12), Moment(7));
        let absent: Reading<BytesPerSec> = Reading::Absent(Absence::Failed("NVML error 77".into()));
        for (reading, text) in [
            (Reading::measured(BytesPerSec(0.5), Moment(7)), r#"{"value":0.5,"at":7}"#),
            (bound, r#"{"value":1500000000000.0,"at":7,"kind":"upper_bound"}"#),
            (Reading::Absent(Absence::NotSupported), r#"{"absent":"not_supported"}"#),
            (absent, r#"{"absent":{"failed":"NVML error 77"}}"#),
        ] {
            assert_eq!(serde_json::to_string(&reading).unwrap(), text);
            assert_eq!(serde_json::from_str::<Reading<BytesPerSec>>(text).unwrap(), reading);
        }
    }

    #[test]
    fn a_sample_of_before_a_field_was_known_has_not_read_it() {
        let text = r#"{"at":5,"devices":[{"index":3,"power":{"value":700.0,"at":5}}]}"#;
        let sample: Sample = serde_json::from_str(text).unwrap();
        let device = &sample.devices[0];
        assert_eq!((device.index, &device.power), (3, &Reading::measured(Watts(700.0), Moment(5))));
        assert_eq!(device.memory, Reading::not_read());
    }

    #[test]
    fn a_reading_without_a_time_is_from_when_all_were_taken() {
        let text = r#"[{"value":1.0},{"value":2.0,"at":3}]"#;
        let read = || serde_json::from_str::<Vec<Reading<Watts>>>(text);
        let expected = vec![Reading::measured(Watts(1.0), Moment(9)), Reading::measured(Watts(2.0), Moment(3))];
        assert_eq!(taken_at(Moment(9), read).unwrap(), expected);
        assert!(read().is_err(), "outside of a sample it has to say so");
    }

    #[test]
    fn a_number_that_is_none_is_absent() {
        let text = serde_json::to_string(&Reading::measured(Watts(f64::NAN), Moment(5))).unwrap();
        let reading: Reading<Watts> = serde_json::from_str(&text).unwrap();
        assert_eq!(reading, Reading::Absent(Absence::Failed("not a number".into())));
    }
}
