//! Reading measured cases.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::{Map, Value};
use thiserror::Error;

use super::FailedCase;
use crate::files;

/// The most cases of a file.
const MOST: usize = 100_000;

/// The most values of a file: each takes seventy bytes once it is read.
const MOST_VALUES: usize = 2_000_000;

/// A plan and what was measured of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// What it is counted with.
    pub group: Option<String>,
    /// Where the measurement comes from.
    pub source: Option<String>,
    /// A plan file as JSON.
    pub plan: Value,
    /// Quantities by name; only what was measured.
    pub measured: Map<String, Value>,
}

/// Why a text holds no cases.
#[derive(Debug, Error)]
pub enum CasesError {
    /// It begins like JSON and is none.
    #[error("not readable as JSON: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Nothing is in it.
    #[error("holds no cases")]
    Empty,
    /// There are more than anybody measures: reading them all would fill the memory.
    #[error("holds more than {MOST} cases; split the file")]
    TooMany,
    /// It has more values than the cases of any lab.
    #[error("holds more than {MOST_VALUES} values; split the file")]
    TooManyValues,
    /// It is something else.
    #[error("is not a file of cases: expected a JSON array of {{id, plan, measured}}, or one case a line")]
    NoCases,
}

/// The cases of a text: a JSON array, or one object a line. A case that is not one fails alone.
///
/// # Errors
/// Where the text is neither.
pub fn read(text: &str) -> Result<Vec<Result<Case, FailedCase>>, CasesError> {
    if files::most_json_values(text.as_bytes()) > MOST_VALUES {
        return Err(CasesError::TooManyValues);
    }
    if text.trim_start().starts_with('[') {
        let FirstCases(values) = serde_json::from_str(text)?;
        if values.is_empty() {
            return Err(CasesError::Empty);
        }
        if values.len() > MOST {
            return Err(CasesError::TooMany);
        }
        return Ok(values
            .into_iter()
            .enumerate()
            .map(|(at, value)| case(value, &format!("case {}", at + 1)))
            .collect());
    }
    // A single case may be spread over lines.
    if let Ok(value @ Value::Object(_)) = serde_json::from_str(text) {
        return Ok(vec![case(value, "case 1")]);
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    if lines.clone().nth(MOST).is_some() {
        return Err(CasesError::TooMany);
    }
    let values: Vec<_> = lines.map(|(at, line)| (at + 1, serde_json::from_str(line))).collect();
    if values.is_empty() {
        return Err(CasesError::Empty);
    }
    if !values.iter().any(|(_, value)| matches!(value, Ok(Value::Object(_)))) {
        return Err(CasesError::NoCases);
    }
    let of_line = |(at, value): (usize, Result<Value, serde_json::Error>)| {
        let place = format!("line {at}");
        // The parser has seen this line alone: only its column says where.
        let unread = |error: serde_json::Error| format!("not readable as JSON at column {}", error.column());
        value
            .map_err(|error| FailedCase { id: place.clone(), error: unread(error) })
            .and_then(|value| case(value, &place))
    };
    Ok(values.into_iter().map(of_line).collect())
}

/// The cases of an array, one more than there may be at most; of those behind, only that they are JSON.
struct FirstCases(Vec<Value>);

impl<'de> Deserialize<'de> for FirstCases {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = FirstCases;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of cases")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<FirstCases, A::Error> {
                let mut values = Vec::new();
                while values.len() <= MOST {
                    match items.next_element()? {
                        Some(value) => values.push(value),
                        None => return Ok(FirstCases(values)),
                    }
                }
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FirstCases(values))
            }
        }

        deserializer.deserialize_seq(Reader)
    }
}

fn case(value: Value, place: &str) -> Result<Case, FailedCase> {
    let Value::Object(mut object) = value else {
        return Err(FailedCase { id: place.to_owned(), error: "a case is an object".to_owned() });
    };
    let id = match object.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => place.to_owned(),
    };
    let fail = |error: &str| FailedCase { id: id.clone(), error: error.to_owned() };
    let plan = object.remove("plan").filter(Value::is_object).ok_or_else(|| fail("`plan` is missing or no mapping"))?;
    let Some(Value::Object(measured)) = object.remove("measured") else {
        return Err(fail("`measured` is missing or not a mapping"));
    };
    let above_zero = |value: &Value| value.as_f64().is_none_or(|number| number > 0.0);
    for (quantity, value) in &measured {
        let entries = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        if let Some(wrong) = entries.iter().find(|entry| !above_zero(entry)) {
            return Err(fail(&format!("`{quantity}` is {wrong}: what was measured is above zero")));
        }
    }
    let [group, source] = ["group", "source"].map(|key| object.get(key).and_then(Value::as_str).map(str::to_owned));
    Ok(Case { id, group, source, plan, measured })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = r#"{"id": "a", "group": "g", "plan": {}, "measured": {"params": 3}, "notes": "n"}"#;

    #[test]
    fn a_file_of_millions_is_refused_before_it_fills_the_memory() {
        let values = format!("[{}1]", "1,".repeat(MOST_VALUES));
        assert!(matches!(read(&values), Err(CasesError::TooManyValues)));
        let array = format!("[{}1]", "1,".repeat(MOST));
        assert!(matches!(read(&array), Err(CasesError::TooMany)));
        assert!(matches!(read(&"1\n".repeat(MOST + 1)), Err(CasesError::TooMany)));
        let most = format!("[{}1]", "1,".repeat(MOST - 1));
        assert_eq!(read(&most).unwrap().len(), MOST);
    }

    #[test]
    fn arrays_lines_and_a_single_spread_case_are_read_alike() {
        let spread = CASE.replace(", ", ",\n");
        for text in [format!("[{CASE}, {CASE}]"), format!("{CASE}\n\n{CASE}\n"), spread] {
            let cases = read(&text).unwrap();
            for case in cases {
                let case = case.unwrap();
                assert_eq!((case.id.as_str(), case.group.as_deref()), ("a", Some("g")));
                assert_eq!(case.measured["params"], 3);
            }
        }
    }

    #[test]
    fn a_broken_case_fails_alone_and_is_named() {
        let text = format!("{CASE}\nnonsense\n{{\"id\": \"b\"}}\n{{\"plan\": {{}}}}\n3");
        let cases = read(&text).unwrap();
        assert!(cases[0].is_ok());
        let failed: Vec<_> = cases.into_iter().filter_map(Result::err).map(|failure| failure.id).collect();
        assert_eq!(failed, ["line 2", "b", "line 4", "line 5"]);
    }

    #[test]
    fn a_measured_value_is_above_zero() {
        for (measured, told) in [
            (r#"{"peak_allocated_bytes": -5}"#, "`peak_allocated_bytes` is -5: "),
            (r#"{"step_time_s": 0}"#, "`step_time_s` is 0: "),
            (r#"{"static_bytes_by_rank": [3, 0.0]}"#, "`static_bytes_by_rank` is 0.0: "),
        ] {
            let cases = read(&format!("[{{\"plan\": {{}}, \"measured\": {measured}}}]")).unwrap();
            let failure = cases[0].as_ref().unwrap_err();
            assert!(failure.error.starts_with(told) && !failure.error.contains('\n'), "{failure:?}");
        }
    }

    #[test]
    fn a_text_without_cases_is_an_error() {
        assert!(read("").is_err());
        assert!(read("[1, 2").is_err());
        assert!(matches!(read(" []\n"), Err(CasesError::Empty)));
    }
}
