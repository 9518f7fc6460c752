//! Where a point of the roofline lies in its plot.

use ratatui::layout::Rect;

use crate::predict::Roofline;
use crate::units::{FlopsPerSec, Intensity};

/// Decades of the intensity axis: fixed while nothing is narrowed, so that charts of different
/// plans compare.
const DECADES: (f64, f64) = (-1.0, 4.0);

/// The power of ten at which a CPU's axis ends: where its operators do, which are far below those of a GPU.
pub fn end_of_cpu(roofline: &Roofline) -> f64 {
    let all = roofline.ops.iter().filter_map(|op| op.intensity).map(|intensity| intensity.0);
    all.fold(roofline.ridge.0, f64::max).max(1.0).log10().ceil().clamp(DECADES.0 + 2.0, DECADES.1)
}

/// The axes: where a point of the chart lies in the plot.
pub struct Axes {
    /// The lowest and highest power of ten of the intensity.
    pub left: f64,
    /// The highest.
    pub right: f64,
    /// The lowest power of ten of the rate.
    pub floor: f64,
    /// The highest.
    pub ceiling: f64,
}

impl Axes {
    /// From the memory roof at the lowest intensity, where the roof starts, to just above
    /// `peak`. Each `zoom` halves both axes, around the intensity `about`. The whole axis ends at `end`, where that is
    /// not the same for all plans.
    pub fn of(
        roofline: &Roofline,
        peak: FlopsPerSec,
        (zoom, end): (u8, Option<f64>),
        about: Option<Intensity>,
    ) -> Self {
        let ceiling = |floor: f64| (peak.0 * 1.6).log10().max(floor + 1.0);
        if zoom == 0 {
            let (left, right) = (DECADES.0, end.unwrap_or(DECADES.1));
            let floor = (roofline.bandwidth.0.log10() + left).max(0.0);
            return Self { left, right, floor, ceiling: ceiling(floor) };
        }
        let width = (DECADES.1 - DECADES.0) / f64::from(1_u32 << zoom.min(8));
        let about = about.unwrap_or(roofline.ridge).0.max(f64::MIN_POSITIVE).log10();
        let left = (about - width / 2.0).clamp(DECADES.0, DECADES.1 - width);
        let roof = roofline.roof_at(Intensity(10_f64.powf(left))).0.log10();
        let whole = ceiling(0.0) - (roofline.bandwidth.0.log10() + DECADES.0).max(0.0);
        let height = whole / f64::from(1_u32 << zoom.min(8));
        // As low as the roof is on the left, and lower by as much as operators stay below it.
        let floor = (roof - height / 2.0).max(0.0);
        Self {
            left,
            right: left + width,
            floor,
            ceiling: ceiling(floor).min(roof + width + height / 2.0).max(floor + 0.3),
        }
    }

    /// Where an intensity lies.
    pub fn x(&self, intensity: Intensity) -> f64 {
        intensity.0.max(f64::MIN_POSITIVE).log10().clamp(self.left, self.right)
    }

    /// Where a rate lies.
    pub fn y(&self, rate: FlopsPerSec) -> f64 {
        rate.0.max(f64::MIN_POSITIVE).log10().clamp(self.floor, self.ceiling)
    }

    /// Whether an intensity lies within the chart.
    pub fn shows(&self, intensity: Intensity) -> bool {
        let x = intensity.0.max(f64::MIN_POSITIVE).log10();
        (self.left..=self.right).contains(&x) || self.right - self.left >= DECADES.1 - DECADES.0
    }

    /// The middle of the cell in which a braille dot at that place lies. Marks are printed
    /// by another rounding than dots are drawn: without this they stand above their roof.
    pub fn snapped(&self, (x, y): (f64, f64), plot: Rect) -> (f64, f64) {
        let middle = |share: f64, cells: u16, dots: f64| {
            let last = f64::from(cells.saturating_sub(1).max(1));
            let cell = ((share * (f64::from(cells) * dots - 1.0)).round() / dots).floor();
            ((cell + 0.5) / last).min(1.0)
        };
        let (width, height) = (self.right - self.left, self.ceiling - self.floor);
        let right = middle((x - self.left) / width, plot.width, 2.0);
        let down = middle((self.ceiling - y) / height, plot.height, 4.0);
        (self.left + right * width, self.ceiling - down * height)
    }

    /// The cell of a place that was moved to its middle.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn cell(&self, (x, y): (f64, f64), plot: Rect) -> Rect {
        let cells = |share: f64, cells: u16| (share * f64::from(cells.saturating_sub(1))).floor() as u16;
        let right = cells((x - self.left) / (self.right - self.left), plot.width);
        let down = cells((self.ceiling - y) / (self.ceiling - self.floor), plot.height);
        Rect { x: plot.x + right, y: plot.y + down, width: 1, height: 1 }
    }
}
