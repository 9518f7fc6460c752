//! Every quantity, predicted and observed side by side.

use ratatui::text::{Line, Span};

use super::{NAME, Page};
use crate::compare::{Comparison, Residual, Tolerance};
use crate::predict::Prediction;
use crate::printable::printable;
use crate::reading::Reading;
use crate::ui::Look;
use crate::ui::header::{difference, tokens};
use crate::ui::text::{fit, left, marked, right, signed_percent, width_of, without_mean};

/// Cells of what is predicted, of what is observed, and of the shortest verdict with its gap.
const PREDICTED: usize = 12;
const OBSERVED: usize = 14;
const VERDICT: usize = 11;

/// Cells of the name and of the difference.
#[derive(Clone, Copy)]
struct Columns {
    name: usize,
    off_by: usize,
    /// What is predicted stands on other panes too: where not all columns fit, it goes. The verdict stays.
    predicted: bool,
}

impl Columns {
    const WIDE: Self = Self { name: NAME, off_by: 10, predicted: true };
    /// Those that a pane of 60 columns has room for.
    const NARROW: Self = Self { name: 11, off_by: 9, predicted: true };
    const NARROWEST: Self = Self { predicted: false, ..Self::WIDE };

    fn of(width: usize) -> Self {
        let fits = |columns: &Self| width > columns.name + PREDICTED + OBSERVED + columns.off_by + VERDICT;
        [Self::WIDE, Self::NARROW].into_iter().find(fits).unwrap_or(Self::NARROWEST)
    }
}

/// Adds the table; of a plan that `serves` without what only training has. What a run that is over was at is all it will be.
pub fn add(
    comparison: &Comparison,
    (prediction, serves, is_over): (&Prediction, bool, bool),
    look: &Look,
    page: &mut Page<'_>,
) {
    let columns = Columns::of(page.width);
    let predicted = if columns.predicted { right("predicted", PREDICTED) } else { String::new() };
    let (name, off_by) = (left("", columns.name), right("off by", columns.off_by));
    let head = format!(" {name}{predicted}{}{off_by}   verdict", right("observed", OBSERVED));
    page.add(Line::styled(head, look.theme.dim()));
    row(prediction.device_used_name(), &comparison.memory, ToString::to_string, (look, is_over), page);
    // Which only PyTorch itself can tell of.
    for (name, bytes) in [("reserved", &comparison.reserved), ("allocated", &comparison.allocated)] {
        if bytes.observed.value().is_some() {
            row(name, bytes, ToString::to_string, (look, is_over), page);
        }
    }
    row("DRAM", &comparison.bandwidth, ToString::to_string, (look, is_over), page);
    row("compute", &comparison.compute, ToString::to_string, (look, is_over), page);
    if let Some(power) = &comparison.power {
        row("power", power, ToString::to_string, (look, is_over), page);
    }
    if serves {
        // A server has no steps that a log or hook could count.
        return;
    }
    row("step", &comparison.step, ToString::to_string, (look, is_over), page);
    if let Some(rate) = &comparison.tokens {
        row("tokens", rate, |rate| format!("{}/s", tokens(rate.0)), (look, is_over), page);
    }
    if let Some(mfu) = &comparison.mfu {
        row("MFU", mfu, ToString::to_string, (look, is_over), page);
    }
}

/// `±3 %`, or `-14 to +42 %` where runs stray further to one side.
fn tolerated(tolerance: Tolerance) -> String {
    let (below, above) = ((tolerance.below * 100.0).round(), (tolerance.above * 100.0).round());
    if below == above { format!("±{above:.0} %") } else { format!("-{below:.0} to +{above:.0} %") }
}

fn row<T: Copy>(
    what: &'static str,
    residual: &Residual<T>,
    show: impl Fn(&T) -> String,
    (look, is_over): (&Look, bool),
    page: &mut Page<'_>,
) {
    let theme = &look.theme;
    let columns = Columns::of(page.width);
    let mut spans = vec![Span::styled(format!(" {}", left(what, columns.name)), theme.text())];
    if columns.predicted {
        spans.push(Span::styled(right(&show(&residual.predicted), PREDICTED), theme.predicted()));
    }
    spans.push(Span::styled(right(&marked(&residual.observed, show), OBSERVED), theme.observed()));
    if let Some(relative) = residual.relative {
        let (style, arrow) = difference(residual, relative, look);
        let off_by = format!("{}{}", right(&signed_percent(relative), columns.off_by - 2), left(arrow, 2));
        spans.push(Span::styled(off_by, style));
        let room = page.width.saturating_sub(width_of(&spans));
        let verdict = residual.verdict(is_over).unwrap_or_default();
        let whole = format!(" {verdict} ({})", tolerated(residual.tolerance));
        let said = if whole.chars().count() <= room { whole } else { fit(&format!(" {verdict}"), room) };
        spans.push(Span::styled(said, theme.dim()));
    }
    if let Reading::Absent(why) = &residual.observed {
        spans.push(Span::styled(format!("  {}", printable(&without_mean(why))), theme.dim()));
    }
    page.add(spans);
}
