//! Every quantity, predicted and observed side by side.

use ratatui::text::{Line, Span};

use super::{NAME, Page};
use crate::compare::{Comparison, Residual, Tolerance};
use crate::printable::printable;
use crate::reading::Reading;
use crate::ui::Look;
use crate::ui::header::{difference, tokens};
use crate::ui::text::{left, marked, right, signed_percent, without_mean};

/// From this width on the verdict stands beside the difference.
const WITH_VERDICT: usize = 68;

/// Adds the table.
pub fn add(comparison: &Comparison, look: &Look, page: &mut Page<'_>) {
    let within = if page.width >= WITH_VERDICT { "  verdict" } else { "" };
    page.add(Line::styled(
        format!(
            " {}{}{}{}{within}",
            left("", NAME),
            right("predicted", 12),
            right("observed", 14),
            right("off by", 10)
        ),
        look.theme.dim(),
    ));
    row("device-used", &comparison.memory, ToString::to_string, look, page);
    // Which only PyTorch itself can tell of.
    for (name, bytes) in [("reserved", &comparison.reserved), ("allocated", &comparison.allocated)] {
        if bytes.observed.value().is_some() {
            row(name, bytes, ToString::to_string, look, page);
        }
    }
    row("DRAM", &comparison.bandwidth, ToString::to_string, look, page);
    row("compute", &comparison.compute, ToString::to_string, look, page);
    if let Some(power) = &comparison.power {
        row("power", power, ToString::to_string, look, page);
    }
    row("step", &comparison.step, ToString::to_string, look, page);
    if let Some(rate) = &comparison.tokens {
        row("tokens", rate, |rate| format!("{}/s", tokens(rate.0)), look, page);
    }
    if let Some(mfu) = &comparison.mfu {
        row("MFU", mfu, ToString::to_string, look, page);
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
    look: &Look,
    page: &mut Page<'_>,
) {
    let theme = &look.theme;
    let mut spans = vec![
        Span::styled(format!(" {}", left(what, NAME)), theme.text()),
        Span::styled(right(&show(&residual.predicted), 12), theme.predicted()),
        Span::styled(right(&marked(&residual.observed, show), 14), theme.observed()),
    ];
    if let Some(relative) = residual.relative {
        let (style, arrow) = difference(residual, relative, look);
        spans.push(Span::styled(format!("{}{}", right(&signed_percent(relative), 8), left(arrow, 2)), style));
        if let Some(verdict) = residual.verdict().filter(|_| page.width >= WITH_VERDICT) {
            let within = format!("  {verdict} ({})", tolerated(residual.tolerance));
            spans.push(Span::styled(within, theme.dim()));
        }
    }
    if let Reading::Absent(why) = &residual.observed {
        spans.push(Span::styled(format!("  {}", printable(&without_mean(why))), theme.dim()));
    }
    page.add(spans);
}
