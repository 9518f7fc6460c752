//! What the modules of a run keep for the backward pass, as a table.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::relative;
use crate::order::StableOrder;
use crate::predict::Prediction;
use crate::printable::printable;
use crate::reading::HookModules;
use crate::report::table::{Align, Table};
use crate::units::{Bytes, three_figures};

/// Rows that a person still reads at the end of a run.
const MOST: usize = 12;

/// Cells of a line behind its prefix.
const WIDTH: usize = 71;

/// The modules that keep most, each kind with what is in it, against what the plan has a micro batch keep.
pub(super) fn table(text: &mut String, modules: &HookModules, plan: Option<&Prediction>) {
    let mut kinds: Vec<_> =
        modules.kinds.iter().filter(|kind| !kind.name.is_empty() && kind.saved > Bytes(0)).collect();
    if kinds.is_empty() {
        return;
    }
    let _ = match modules.step {
        0 => write!(text, "memwall: the first forward pass kept {} for its backward pass", modules.saved),
        step => write!(text, "memwall: in step {step} one forward pass kept {} for its backward pass", modules.saved),
    };
    if let Some(predicted) = plan.map(Prediction::saved_by_layers).filter(|saved| *saved > Bytes(0)) {
        let _ = write!(text, ", predicted {predicted} ({})", relative(modules.saved, predicted));
    }
    text.push_str("; modules, with what is in them:\n");
    kinds.order_by_key(|kind| std::cmp::Reverse(kind.saved));
    let mut table = Table::new([
        ("saved", Align::Right),
        ("share", Align::Right),
        ("count", Align::Right),
        ("class", Align::Left),
        ("name", Align::Left),
    ]);
    for kind in kinds.iter().take(MOST) {
        let share = 100.0 * kind.saved.as_f64() / modules.saved.as_f64().max(1.0);
        table.row([
            kind.saved.to_string(),
            format!("{} %", three_figures(share)),
            kind.count.to_string(),
            printable(&kind.class),
            printable(&kind.name),
        ]);
    }
    for line in table.render("  ", WIDTH).lines() {
        let _ = writeln!(text, "memwall: {line}");
    }
    let more = kinds.len().saturating_sub(MOST) as u64 + modules.left_out;
    if more > 0 {
        let _ = writeln!(text, "memwall:   and {more} more, which keep less");
    }
}

/// The modules as programs read them: bytes, and what a kind's modules keep in all.
#[must_use]
pub fn modules_json(modules: &HookModules) -> Value {
    let kinds = modules.kinds.iter().map(|kind| {
        json!({
            "name": kind.name,
            "class": kind.class,
            "count": kind.count,
            "leaf": kind.leaf,
            "saved_bytes": kind.saved.0,
            "params": kind.params,
            "param_bytes": kind.param_bytes.0,
            "input_shape": kind.shape,
            "output_dtype": kind.dtype,
        })
    });
    json!({
        "step": modules.step,
        "saved_bytes": modules.saved.0,
        "left_out": modules.left_out,
        "kinds": kinds.collect::<Vec<_>>(),
    })
}
