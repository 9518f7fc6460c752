//! Which metrics the second line shows where it is too short for all of them.

use ratatui::text::Span;

use crate::compare::Residual;
use crate::order::StableOrder;
use crate::reading::Absence;
use crate::ui::text::width_of;

/// A metric of the line.
pub struct LineMetric<'a> {
    /// What is shown of it.
    pub spans: Vec<Span<'a>>,
    /// How long it stays.
    pub rank: MetricRank,
}

/// Which metrics stay where not all of them fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricRank {
    /// The verdict at the end of the first line comes from one that is off.
    Off,
    /// It is as planned, or not compared yet.
    Usual,
    /// No GPU or process shows it: only what the plan predicts of it is known.
    Unseen,
}

impl<'a> LineMetric<'a> {
    /// One that is as planned.
    pub const fn usual(spans: Vec<Span<'a>>) -> Self {
        Self { spans, rank: MetricRank::Usual }
    }

    /// One that is compared.
    pub fn of<T>(spans: Vec<Span<'a>>, residual: &Residual<T>) -> Self {
        let rank = match residual.observed.absence() {
            _ if residual.notable => MetricRank::Off,
            Some(Absence::NotAttached | Absence::NoGpu) => MetricRank::Unseen,
            _ => MetricRank::Usual,
        };
        Self { spans, rank }
    }
}

/// Those of the metrics that fit in `room`, in their order: what is off stays before what is as planned.
pub fn most_important<'a>(metrics: Vec<LineMetric<'a>>, room: usize) -> Vec<Vec<Span<'a>>> {
    let mut by_rank: Vec<usize> = (0..metrics.len()).collect();
    by_rank.order_by_key(|index| (metrics[*index].rank, *index));
    // The first has no bar before it.
    let mut taken = 0;
    let fits = |index: &usize| {
        taken += width_of(&metrics[*index].spans) + if taken > 0 { 3 } else { 0 };
        taken <= room
    };
    let kept: Vec<usize> = by_rank.into_iter().take_while(fits).collect();
    let is_kept = |(index, metric): (usize, LineMetric<'a>)| kept.contains(&index).then_some(metric.spans);
    metrics.into_iter().enumerate().filter_map(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(text: &'static str, rank: MetricRank) -> LineMetric<'static> {
        LineMetric { spans: vec![Span::raw(text)], rank }
    }

    #[test]
    fn what_is_off_stays_longest_and_the_order_stays() {
        let shown = |room: usize| {
            let metrics = vec![
                metric("memory", MetricRank::Usual),
                metric("DRAM", MetricRank::Unseen),
                metric("step", MetricRank::Off),
                metric("ETA", MetricRank::Usual),
            ];
            let kept = most_important(metrics, room);
            kept.iter().map(|spans| spans[0].content.to_string()).collect::<Vec<_>>().join(" ")
        };
        // Each but the first takes three cells more, for the bar before it.
        assert_eq!(shown(26), "memory DRAM step ETA");
        assert_eq!(shown(25), "memory step ETA");
        assert_eq!(shown(18), "memory step");
        assert_eq!(shown(12), "step");
        assert_eq!(shown(3), "");
    }
}
