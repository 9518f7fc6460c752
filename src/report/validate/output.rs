//! Outcomes as text, JSON and CSV.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{ErrorSummary, ValidationOutcome, ValidationRow, summaries};
use crate::order::StableOrder;
use crate::report::csv::{cell, table};
use crate::report::json::number;
use crate::report::table::{Align, Table};
use crate::units::{Bytes, Flops, Fraction, Seconds, three_figures};

/// The object that the contract fixes.
#[must_use]
pub fn json(outcome: &ValidationOutcome) -> Value {
    let rows: Vec<Value> = outcome.rows.iter().map(row_json).collect();
    let summary: Map<String, Value> = summaries(&outcome.rows, |row| row.quantity.as_str())
        .into_iter()
        .map(|summary| (summary.key.to_owned(), summary_json(&summary)))
        .collect();
    let failed: Vec<Value> =
        outcome.failed.iter().map(|failure| json!({"id": failure.id, "error": failure.error})).collect();
    json!({"rows": rows, "summary": summary, "failed": failed})
}

fn row_json(row: &ValidationRow) -> Value {
    json!({
        "id": row.id,
        "group": row.group,
        "quantity": row.quantity,
        "measured": row.measured,
        "predicted": row.predicted,
        "error_pct": number(row.error_pct),
        "reason": row.reason,
    })
}

fn summary_json<K>(summary: &ErrorSummary<K>) -> Value {
    json!({
        "n": summary.n,
        "mean_abs_pct": number(summary.mean_abs_pct),
        "median_abs_pct": number(summary.median_abs_pct),
        "p90_abs_pct": number(summary.p90_abs_pct),
        "max_abs_pct": number(summary.max_abs_pct),
        "bias_pct": number(summary.bias_pct),
    })
}

/// The rows; summaries are for whoever reads them.
///
/// # Errors
/// None that rows of equal length can raise.
pub fn csv(outcome: &ValidationOutcome) -> Result<String, csv::Error> {
    table(outcome.rows.iter().map(|row| {
        let Value::Object(object) = row_json(row) else { return Vec::new() };
        object.iter().map(|(key, value)| (key.clone(), cell(value))).collect()
    }))
}

/// Rows, then the errors by group and quantity, then by quantity over all groups. The
/// entries of a list count as one quantity. `truth` heads the column of what predictions are held against.
#[must_use]
pub fn text(outcome: &ValidationOutcome, truth: &'static str, width: usize) -> String {
    let mut rows = Table::new([
        ("case", Align::Left),
        ("quantity", Align::Left),
        (truth, Align::Right),
        ("predicted", Align::Right),
        ("error %", Align::Right),
        ("", Align::Left),
    ]);
    for row in &outcome.rows {
        rows.row([
            row.id.clone(),
            row.quantity.clone(),
            figure(row.family(), &row.measured),
            row.predicted.as_ref().map_or_else(|| "–".to_owned(), |value| figure(row.family(), value)),
            row.error_pct.map_or_else(|| "–".to_owned(), |error| format!("{error:+.2}")),
            row.reason.clone().unwrap_or_default(),
        ]);
    }
    let mut text = if rows.is_empty() { String::new() } else { rows.render("", width) };

    let mut by_group = summaries(&outcome.rows, |row| (row.group.as_deref().unwrap_or("–"), row.family()));
    by_group.order_by_key(|summary| summary.key.0);
    if by_group.first().map(|one| one.key.0) != by_group.last().map(|one| one.key.0) {
        text.push_str("\nabsolute error in percent by group and quantity\n");
        text.push_str(&summary_table(
            &by_group,
            ["group", "quantity"],
            |(group, quantity)| vec![*group, *quantity],
            width,
        ));
    }
    if !by_group.is_empty() {
        text.push_str("\nabsolute error in percent by quantity\n");
        let by_quantity = summaries(&outcome.rows, ValidationRow::family);
        text.push_str(&summary_table(&by_quantity, ["quantity"], |quantity| vec![*quantity], width));
    }
    if !outcome.failed.is_empty() {
        let _ = writeln!(text, "\n{} failed", outcome.failed.len());
    }
    text
}

fn summary_table<const N: usize, K>(
    summaries: &[ErrorSummary<K>],
    names: [&'static str; N],
    name: impl Fn(&K) -> Vec<&str>,
    width: usize,
) -> String {
    let figures = ["n", "mean", "median", "p90", "max", "bias", "unanswered"];
    let heads = names.map(|name| (name, Align::Left)).into_iter().chain(figures.map(|name| (name, Align::Right)));
    let mut table = Table::new(heads);
    let percent = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    for summary in summaries {
        let key = name(&summary.key).into_iter().map(str::to_owned);
        table.row(key.chain([
            summary.n.to_string(),
            percent(summary.mean_abs_pct),
            percent(summary.median_abs_pct),
            percent(summary.p90_abs_pct),
            percent(summary.max_abs_pct),
            summary.bias_pct.map_or_else(|| "–".to_owned(), |value| format!("{value:+.2}")),
            if summary.unanswered > 0 { summary.unanswered.to_string() } else { String::new() },
        ]));
    }
    table.render("  ", width)
}

/// A figure in the unit of its quantity. Counts of parameters are exact and shown so.
fn figure(quantity: &str, value: &Value) -> String {
    let Some(number) = value.as_f64() else {
        return match value {
            Value::Bool(true) => "yes".to_owned(),
            Value::Bool(false) => "no".to_owned(),
            other => cell(other),
        };
    };
    match quantity {
        "params" | "trainable_params" => cell(value),
        "step_time_s" => Seconds(number).to_string(),
        "mfu" | "hfu" => format!("{:.1} %", Fraction(number).percent()),
        flops if flops.starts_with("flops_") => Flops(number).to_string(),
        bytes if bytes.contains("_bytes") => Bytes::from_f64(number).to_string(),
        _ => three_figures(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::report::validate::read;

    fn outcome() -> ValidationOutcome {
        let cases = json!([
            {"id": "a", "group": "one", "plan": {"model": {}}, "measured": {"step_time_s": 0.4, "hfu": 0.5}},
            {"id": "b, \"b\"", "group": "two", "plan": {"model": {}},
             "measured": {"peak_allocated_bytes_by_rank": [8_589_934_593_u64, 8_589_934_593_u64], "fits": false}},
            {"id": "c", "plan": {}, "measured": {}},
        ]);
        let mut outcome = ValidationOutcome::default();
        for case in read(&cases.to_string()).unwrap() {
            outcome.add(
                case,
                |plan| {
                    if plan == &json!({}) { Err("no model".to_owned()) } else { Ok(sample::two_stages()) }
                },
            );
        }
        outcome
    }

    #[test]
    fn json_is_the_contracts_object() {
        let value = json(&outcome());
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&value), "rows summary failed");
        assert_eq!(keys(&value["rows"][0]), "id group quantity measured predicted error_pct reason");
        let summary = "n mean_abs_pct median_abs_pct p90_abs_pct max_abs_pct bias_pct";
        assert_eq!(keys(&value["summary"]["step_time_s"]), summary);
        assert_eq!(
            value["summary"]["hfu"],
            json!({"n": 0, "mean_abs_pct": null, "median_abs_pct": null,
            "p90_abs_pct": null, "max_abs_pct": null, "bias_pct": null})
        );
        assert_eq!(value["summary"]["fits"]["mean_abs_pct"], 100);
        assert_eq!(value["failed"], json!([{"id": "c", "error": "no model"}]));
        // Every row's quantity has its summary.
        for row in value["rows"].as_array().unwrap() {
            assert!(value["summary"].get(row["quantity"].as_str().unwrap()).is_some(), "{row}");
        }
    }

    #[test]
    fn csv_has_a_row_a_quantity_with_its_quotes_right() {
        let text = csv(&outcome()).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headers = reader.headers().unwrap().iter().collect::<Vec<_>>().join(" ");
        assert_eq!(headers, "id group quantity measured predicted error_pct reason");
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 5);
        assert_eq!(&rows[2][0], "b, \"b\"");
        assert_eq!(&rows[1][4], "");
    }

    #[test]
    fn text_pools_the_entries_of_a_list() {
        insta::assert_snapshot!(text(&outcome(), "measured", 120), @r#"
        case    quantity                         measured  predicted  error %
        a       step_time_s                        400 ms     500 ms   +25.00
        a       hfu                                50.0 %          –        –  the formula of HFU does not apply to this model
        b, "b"  peak_allocated_bytes_by_rank[0]  8.00 GiB   8.00 GiB    +0.00
        b, "b"  peak_allocated_bytes_by_rank[1]  8.00 GiB   8.00 GiB    +0.00
        b, "b"  fits                                   no        yes  +100.00

        absolute error in percent by group and quantity
          group  quantity                      n    mean  median     p90     max     bias  unanswered
          one    step_time_s                   1   25.00   25.00   25.00   25.00   +25.00
          one    hfu                           0       –       –       –       –        –           1
          two    peak_allocated_bytes_by_rank  2    0.00    0.00    0.00    0.00    +0.00
          two    fits                          1  100.00  100.00  100.00  100.00  +100.00

        absolute error in percent by quantity
          quantity                      n    mean  median     p90     max     bias  unanswered
          step_time_s                   1   25.00   25.00   25.00   25.00   +25.00
          hfu                           0       –       –       –       –        –           1
          peak_allocated_bytes_by_rank  2    0.00    0.00    0.00    0.00    +0.00
          fits                          1  100.00  100.00  100.00  100.00  +100.00

        1 failed
        "#);
    }

    #[test]
    fn figures_wear_their_units() {
        assert_eq!(figure("peak_allocated_bytes_by_rank", &json!(8_589_934_592_u64)), "8.00 GiB");
        assert_eq!(figure("step_time_s", &json!(0.25)), "250 ms");
        assert_eq!(figure("mfu", &json!(0.4321)), "43.2 %");
        assert_eq!(figure("params", &json!(124_439_808)), "124439808");
        assert_eq!(figure("fits", &json!(true)), "yes");
        assert_eq!(figure("flops_forward", &json!(2e12)), "2.00 TFLOP");
    }
}
