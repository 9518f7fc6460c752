//! Answers of Prometheus's query API
//! (<https://prometheus.io/docs/prometheus/latest/querying/api/>), read series by series: one of 10 240 GPUs has
//! 300 000, and only their values are kept.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

use super::labels::Labels;

/// Why an answer is of no use.
#[derive(Debug, Error)]
pub enum AnswerError {
    /// Something else than the query API answered.
    #[error("no answer of a query API: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The server refuses the query.
    #[error("{0}")]
    Refused(String),
    /// A result of another kind than was asked for.
    #[error("no answer of a query API: it has no result")]
    NoResult,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A series with its newest value, or with its values over a range: seconds since the Unix epoch, and the value.
#[derive(Deserialize)]
struct RawSeries<'a> {
    #[serde(borrow)]
    metric: LabelSet<'a>,
    #[serde(borrow, default)]
    value: Option<(f64, Text<'a>)>,
    #[serde(borrow, default)]
    values: Vec<(f64, Text<'a>)>,
}

/// The labels of a series.
#[derive(Debug, Default)]
pub struct LabelSet<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl Labels for LabelSet<'_> {
    fn label(&self, wanted: &str) -> Option<Cow<'_, str>> {
        let found = self.0.iter().find(|(name, _)| name == wanted)?;
        Some(Cow::Borrowed(found.1.as_ref()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LabelSet<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = LabelSet<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut labels = Vec::with_capacity(8);
                while let Some((name, value)) = map.next_entry::<Text<'de>, Text<'de>>()? {
                    labels.push((name.0, value.0));
                }
                Ok(LabelSet(labels))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// Calls `take` for each value of each series of an answer: labels, seconds since the Unix epoch, value. Values that are
/// no numbers are left out.
///
/// # Errors
/// What is no answer of a query API, and its refusals.
pub fn each_value(body: &[u8], take: impl FnMut(&LabelSet<'_>, f64, f64)) -> Result<(), AnswerError> {
    let data: Data<'_> = serde_json::from_str(data(body)?.get())?;
    let result = data.result.ok_or(AnswerError::NoResult)?;
    let mut deserializer = serde_json::Deserializer::from_str(result.get());
    SeriesSeed(take).deserialize(&mut deserializer)?;
    Ok(())
}

/// The labels of each series that an answer of `/series` lists.
///
/// # Errors
/// What is no answer of a query API, and its refusals.
pub fn listed_series(body: &[u8]) -> Result<Vec<LabelSet<'_>>, AnswerError> {
    Ok(serde_json::from_str(data(body)?.get())?)
}

/// What an answer has to say.
fn data(body: &[u8]) -> Result<&RawValue, AnswerError> {
    let envelope: Envelope<'_> = serde_json::from_slice(body)?;
    if envelope.status.0 != "success" {
        return Err(AnswerError::Refused(
            envelope.error.map_or_else(|| "the query failed".to_owned(), |why| why.0.into_owned()),
        ));
    }
    envelope.data.ok_or(AnswerError::NoResult)
}

struct SeriesSeed<F>(F);

impl<'de, F: FnMut(&LabelSet<'_>, f64, f64)> DeserializeSeed<'de> for SeriesSeed<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(&LabelSet<'_>, f64, f64)> Visitor<'de> for SeriesSeed<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut series: A) -> Result<(), A::Error> {
        while let Some(series) = series.next_element::<RawSeries<'de>>()? {
            for (seconds, value) in series.value.iter().chain(&series.values) {
                if let Ok(value) = value.0.parse() {
                    (self.0)(&series.metric, *seconds, value);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_with_one_value_and_with_many_are_read() {
        // The forms of the API's documentation, "Instant vectors" and "Range vectors".
        let instant = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"up","job":"prometheus"},"value":[1435781451.781,"1"]},
            {"metric":{"__name__":"up","job":"a \"b\""},"value":[1435781451.781,"NaN"]}]}}"#;
        let range = br#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"gpu":"0"},"values":[[1435781430.5,"1"],[1435781445.5,"0.5"]]}]}}"#;
        let mut seen = Vec::new();
        each_value(instant, |labels, at, value| seen.push((labels.label("job").unwrap().into_owned(), at, value)))
            .unwrap();
        assert_eq!(seen[0], ("prometheus".to_owned(), 1_435_781_451.781, 1.0));
        assert!(seen[1].0 == "a \"b\"" && seen[1].2.is_nan());
        let mut seen = Vec::new();
        each_value(range, |_, at, value| seen.push((at, value))).unwrap();
        assert_eq!(seen, [(1_435_781_430.5, 1.0), (1_435_781_445.5, 0.5)]);
    }

    #[test]
    fn series_are_listed() {
        // The form of the API's documentation, "Finding series by label matchers".
        let body = br#"{"status":"success","data":[
            {"__name__":"up","job":"prometheus","instance":"localhost:9090"},{"__name__":"up","job":"node"}]}"#;
        let jobs: Vec<String> =
            listed_series(body).unwrap().iter().map(|labels| labels.label("job").unwrap().into_owned()).collect();
        assert_eq!(jobs, ["prometheus", "node"]);
        assert!(listed_series(br#"{"status":"success","data":{}}"#).is_err());
    }

    #[test]
    fn what_is_no_answer_is_said() {
        let told = |body: &[u8]| each_value(body, |_, _, _| {}).unwrap_err().to_string();
        let refused = br#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}"#;
        assert_eq!(told(refused), "parse error: unexpected end");
        assert!(told(b"<html>").starts_with("no answer of a query API"));
        assert!(told(br#"{"status":"success","data":{}}"#).ends_with("it has no result"));
        assert!(told(br#"{"status":"success","data":{"result":{"a":1}}}"#).contains("no answer"));
        assert!(told(br#"{"status":"success","data":{"result":[{"metric":{},"value":[1"#).contains("no answer"));
    }
}
