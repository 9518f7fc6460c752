//! The report as a row of CSV: the JSON object flattened, so that both say the same.

use serde_json::Value;

use super::{Report, json};

/// Lists that have no place in one row; the JSON report holds them.
const LISTS: [&str; 5] = ["stages", "terms", "timeline", "bottlenecks", "roofline.ops"];

/// The reports as CSV with a header: the report's keys, joined by dots. Unknown is empty;
/// assumptions are joined by `; `.
///
/// # Errors
/// Where the rows differ in their columns (a report with a batch limit beside one without).
pub fn reports(reports: &[Report]) -> Result<String, csv::Error> {
    let rows = reports.iter().map(|report| {
        let mut cells = Vec::new();
        flatten("", &json::report(report), &mut cells);
        cells
    });
    table(rows)
}

/// Rows of named cells as CSV; the first row's names are the header.
///
/// # Errors
/// Where a row differs from the first in its number of cells.
pub fn table(rows: impl IntoIterator<Item = Vec<(String, String)>>) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for (at, row) in rows.into_iter().enumerate() {
        if at == 0 {
            writer.write_record(row.iter().map(|(name, _)| name))?;
        }
        writer.write_record(row.iter().map(|(_, value)| value))?;
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    String::from_utf8(bytes).map_err(|error| csv::Error::from(std::io::Error::other(error)))
}

/// A JSON scalar as a cell: bare, and empty where null.
#[must_use]
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

/// The scalars of a JSON object as cells, named by their keys joined by dots.
pub(super) fn flatten(path: &str, value: &Value, cells: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, cells);
            }
        }
        Value::Array(_) if LISTS.contains(&path) => {}
        scalar => cells.push((path.to_owned(), cell(scalar))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn one_header_and_one_row_a_plan() {
        let prediction = sample::two_stages();
        let odd = Report {
            plan: "a, \"b\".yaml",
            prediction: &prediction,
            max_batch: None,
            max_sequence: None,
            advice: None,
        };
        let text = reports(&[odd, odd]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("plan,model,gpu,params.total,"), "{}", lines[0]);
        assert!(
            lines[0].contains(",roofline.ridge,roofline.roofs.") && lines[0].ends_with(",assumptions"),
            "{}",
            lines[0]
        );
        assert!(lines[1].starts_with("\"a, \"\"b\"\".yaml\",gpt2 12 x 768,NVIDIA H100,124439808,"), "{}", lines[1]);
    }

    #[test]
    fn unknown_is_empty_and_figures_are_unrounded() {
        let prediction = sample::two_stages();
        let text = reports(&[Report {
            plan: "a",
            prediction: &prediction,
            max_batch: None,
            max_sequence: None,
            advice: None,
        }])
        .unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headers = reader.headers().unwrap().clone();
        let row = reader.records().next().unwrap().unwrap();
        let get = |name: &str| row.get(headers.iter().position(|head| head == name).unwrap()).unwrap().to_owned();
        assert_eq!(get("time.total_cost"), "");
        assert_eq!(get("memory.device_used"), "9663676417");
        assert_eq!(get("capacity.fits"), "true");
        assert_eq!(get("assumptions"), "training.precision: bf16-mixed");
    }
}
