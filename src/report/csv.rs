//! The report as a row of CSV: the JSON object flattened, so that both say the same.

use serde_json::Value;

use super::{Report, json};

/// Lists that have no place in one row; the JSON report holds them.
const LISTS: [&str; 5] = ["stages", "terms", "timeline", "bottlenecks", "roofline.ops"];

/// The reports as CSV with a header: the report's keys, joined by dots. Unknown is empty;
/// assumptions are joined by `; `.
///
/// # Errors
/// As [`table`].
pub fn reports(reports: &[Report]) -> Result<String, csv::Error> {
    table(reports.iter().map(cells))
}

/// A report's row: its cells with their names.
#[must_use]
pub fn cells(report: &Report) -> Vec<(String, String)> {
    let mut cells = Vec::new();
    flatten("", &json::report(report), &mut cells);
    cells
}

/// Rows of named cells as CSV. The header has every name of any row, each behind the one it first followed; a row
/// without it has an empty cell (a GPU without FP8 has no such roof).
///
/// # Errors
/// Where the text cannot be put together.
pub fn table(rows: impl IntoIterator<Item = Vec<(String, String)>>) -> Result<String, csv::Error> {
    let rows: Vec<Vec<(String, String)>> = rows.into_iter().collect();
    let mut header: Vec<&str> = Vec::new();
    for row in &rows {
        let mut at = 0;
        for (name, _) in row {
            // Rows mostly have the same names in the same order: what is sought stands next.
            let rest = header.get(at..).unwrap_or_default().iter().position(|known| known == name);
            match rest {
                Some(further) => at += further + 1,
                None => {
                    header.insert(at, name);
                    at += 1;
                }
            }
        }
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    if !rows.is_empty() {
        writer.write_record(&header)?;
    }
    for row in &rows {
        let mut cells = row.iter().peekable();
        writer.write_record(
            header.iter().map(|name| cells.next_if(|(own, _)| own == name).map_or("", |(_, value)| value.as_str())),
        )?;
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
            scaling: None,
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
            scaling: None,
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
