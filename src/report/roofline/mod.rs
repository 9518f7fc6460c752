//! The roofline as a chart: in letters for a terminal, and drawn.

mod picture;

use std::fmt::Write as _;

use super::table::{Align, Table};
use super::text::{paragraph, shortened};
use crate::advise::Finding;
use crate::predict::{Bound, Outline, Prediction};
use crate::printable::printable;
use crate::units::{BytesPerSec, Flops, FlopsPerSec, Fraction, Intensity, three_figures};

/// Decades of the intensity axis, as on the dashboard: charts of different plans compare.
const DECADES: (f64, f64) = (-1.0, 4.0);

/// Columns and rows of the plot in a terminal.
const COLUMNS: usize = 84;
const ROWS: usize = 22;

/// An operator of the user's own.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnOp {
    /// What it is called.
    pub name: String,
    /// Operations for each byte.
    pub intensity: Intensity,
}

impl OwnOp {
    /// Reads `NAME=FLOPS:BYTES`.
    ///
    /// # Errors
    /// Where it is not written so, or a number is not above 0.
    pub fn parse(text: &str) -> Result<Self, String> {
        let positive =
            |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let parts = text.split_once('=').and_then(|(name, rest)| Some((name.trim(), rest.split_once(':')?)));
        let Some((name, (flops, bytes))) = parts.filter(|(name, _)| !name.is_empty()) else {
            return Err(format!("`{text}` is not NAME=FLOPS:BYTES"));
        };
        match (positive(flops), positive(bytes)) {
            (Some(flops), Some(bytes)) => {
                Ok(Self { name: printable(name), intensity: Intensity(Flops(flops).0 / bytes) })
            }
            _ => Err(format!("`{text}`: FLOPS and BYTES are numbers above 0, such as 1.2e12:3e9")),
        }
    }
}

struct Mark {
    label: String,
    name: String,
    intensity: Intensity,
    rate: FlopsPerSec,
    bound: Bound,
    /// Share of the kernels' time; none for the user's own.
    share: Option<f64>,
}

/// The chart of one plan on its GPU.
pub struct RooflineChart {
    title: String,
    bandwidth: BytesPerSec,
    ridge: Intensity,
    /// Dense peaks by matrix type, the highest first.
    roofs: Vec<(&'static str, FlopsPerSec)>,
    /// The roof of the plan's own type.
    own: FlopsPerSec,
    marks: Vec<Mark>,
    /// What would help the operators that take most time.
    advice: Vec<Finding>,
    /// The plan's figures, against which the effects of that are told.
    outline: Option<Outline>,
}

impl RooflineChart {
    /// The chart of `prediction`, under the peaks of its GPU, with operators of the user's own as high as the plan's
    /// roof lets them get.
    #[must_use]
    pub fn of(plan: &str, prediction: &Prediction, mut roofs: Vec<(&'static str, FlopsPerSec)>, own: &[OwnOp]) -> Self {
        let roofline = &prediction.roofline;
        roofs.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        let whole: f64 = roofline.ops.iter().map(|op| op.seconds.0).sum();
        let predicted = roofline.ops.iter().filter_map(|op| {
            let rate = (op.flops.0 > 0.0 && op.seconds.0 > 0.0).then(|| FlopsPerSec(op.flops.0 / op.seconds.0))?;
            let (name, intensity, share) =
                (op.name.to_string(), op.intensity?, op.seconds.0 / whole.max(f64::MIN_POSITIVE));
            Some(Mark { label: String::new(), name, intensity, rate, bound: op.bound, share: Some(share) })
        });
        let given = own.iter().map(|op| Mark {
            label: String::new(),
            name: op.name.clone(),
            intensity: op.intensity,
            rate: roofline.roof_at(op.intensity),
            bound: if op.intensity < roofline.ridge { Bound::Memory } else { Bound::Compute },
            share: None,
        });
        let mut marks: Vec<Mark> = predicted.chain(given).collect();
        for (at, mark) in marks.iter_mut().enumerate() {
            mark.label = label(at);
        }
        let title = format!("{} on {}, plan {plan}", prediction.model, prediction.gpu);
        Self {
            title,
            bandwidth: roofline.bandwidth,
            ridge: roofline.ridge,
            roofs,
            own: roofline.peak,
            marks,
            advice: Vec::new(),
            outline: None,
        }
    }

    /// With what would help the operators that take most time, told after the chart in letters: changes of the plan whose
    /// figures are `outline`.
    #[must_use]
    pub fn with_advice(self, advice: Vec<Finding>, outline: Outline) -> Self {
        Self { advice, outline: Some(outline), ..self }
    }

    /// Decades of the other axis: from the memory roof at the lowest intensity to above the highest peak.
    fn rates(&self) -> (f64, f64) {
        let floor = (self.bandwidth.0.log10() + DECADES.0).floor();
        let highest = self.roofs.iter().map(|(_, peak)| peak.0).fold(self.own.0, f64::max);
        (floor, (highest * 1.5).log10().max(floor + 1.0))
    }

    /// Where a point lies in the plot: shares from its left and its top edge.
    fn place(&self, intensity: f64, rate: f64) -> (f64, f64) {
        let (floor, ceiling) = self.rates();
        let within = |value: f64, low: f64, high: f64| {
            (value.max(f64::MIN_POSITIVE).log10().clamp(low, high) - low) / (high - low)
        };
        (within(intensity, DECADES.0, DECADES.1), 1.0 - within(rate, floor, ceiling))
    }

    /// The chart in letters, and what each letter stands for.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        paragraph(&mut text, "", &self.title);
        let roofs: Vec<String> = self.roofs.iter().map(|(name, peak)| format!("{name} {peak}")).collect();
        paragraph(
            &mut text,
            "",
            &format!("DRAM {}, ridge {}; roofs: {}", self.bandwidth, self.ridge, roofs.join(", ")),
        );
        text.push_str("\nTFLOP/s\n");
        self.plot(&mut text);
        text.push('\n');
        text.push_str(&self.legend().render("  "));
        if let Some(outline) = &self.outline {
            self.helping(outline, &mut text);
        }
        text
    }

    fn helping(&self, outline: &Outline, text: &mut String) {
        if !self.advice.is_empty() {
            text.push_str("\nwhat would help the operators that take most time\n");
        }
        for finding in &self.advice {
            paragraph(text, "  ", &finding.message);
            if finding.fixes.is_empty() {
                paragraph(text, "      ", "nothing tried takes a tenth off it");
            }
            for fix in &finding.fixes {
                paragraph(text, "      ", &fix.line(outline));
            }
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn plot(&self, text: &mut String) {
        let mut cells = vec![vec![' '; COLUMNS]; ROWS];
        let cell = |(x, y): (f64, f64)| {
            let column = (x * (COLUMNS - 1) as f64).round() as usize;
            ((y * (ROWS - 1) as f64).round() as usize, column)
        };
        let intensity_at =
            |column: usize| 10_f64.powf(DECADES.0 + (DECADES.1 - DECADES.0) * column as f64 / (COLUMNS - 1) as f64);
        let (_, ridge) = cell(self.place(self.ridge.0, self.own.0));
        for row in &mut cells {
            row[ridge] = '┊';
        }
        for (_, peak) in &self.roofs {
            for column in 0..COLUMNS {
                let slope = intensity_at(column) * self.bandwidth.0;
                let (row, column) = cell(self.place(intensity_at(column), slope.min(peak.0)));
                let own = (peak.0 / self.own.0 - 1.0).abs() < 1e-9;
                cells[row][column] = if slope < peak.0 {
                    '⋅'
                } else if own {
                    '━'
                } else {
                    '─'
                };
            }
        }
        for mark in &self.marks {
            let (row, column) = cell(self.place(mark.intensity.0, mark.rate.0));
            // Marks that lie in one cell stand side by side.
            let free = (column..COLUMNS).find(|column| !cells[row][*column].is_ascii_alphanumeric()).unwrap_or(column);
            for (offset, letter) in mark.label.chars().enumerate().filter(|(offset, _)| free + offset < COLUMNS) {
                cells[row][free + offset] = letter;
            }
        }
        let (floor, ceiling) = self.rates();
        let decades: Vec<(usize, i32)> = (floor.ceil() as i32..=ceiling.floor() as i32)
            .map(|decade| (cell(self.place(1.0, 10_f64.powi(decade))).0, decade))
            .collect();
        for (row, line) in cells.iter().enumerate() {
            let tick = decades.iter().find(|(at, _)| *at == row).map(|(_, decade)| format!("{} ┤", power(decade - 12)));
            let _ = writeln!(
                text,
                "{:>8}{}",
                tick.unwrap_or_else(|| "│".to_owned()),
                line.iter().collect::<String>().trim_end()
            );
        }
        let mut axis = " ".repeat(COLUMNS + 16);
        for decade in DECADES.0 as i32..=DECADES.1 as i32 {
            let (_, column) = cell(self.place(10_f64.powi(decade), 1.0));
            axis.replace_range(column + 8..column + 8 + power(decade).len(), &power(decade));
        }
        let _ = writeln!(text, "{}\n        FLOP/B, ridge ┊ {}", axis.trim_end(), self.ridge);
    }

    fn legend(&self) -> Table {
        let mut table = Table::new([
            ("", Align::Left),
            ("operator", Align::Left),
            ("FLOP/B", Align::Right),
            ("rate", Align::Right),
            ("bound", Align::Left),
            ("time", Align::Right),
        ]);
        for mark in &self.marks {
            table.row([
                mark.label.clone(),
                shortened(&mark.name, 40),
                three_figures(mark.intensity.0),
                mark.rate.to_string(),
                mark.bound.word().to_owned(),
                mark.share.map_or_else(|| "–".to_owned(), |share| Fraction(share).to_string()),
            ]);
        }
        table
    }
}

/// `a` to `z`, then `A` to `Z`, then two letters.
fn label(at: usize) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let letter = |at: usize| char::from(LETTERS[at % LETTERS.len()]);
    if at < LETTERS.len() {
        letter(at).to_string()
    } else {
        format!("{}{}", letter(at / LETTERS.len() - 1), letter(at))
    }
}

/// A power of ten without an exponent.
fn power(decade: i32) -> String {
    let zeros = "0".repeat(decade.unsigned_abs().saturating_sub(u32::from(decade < 0)) as usize);
    if decade >= 0 { format!("1{zeros}") } else { format!("0.{zeros}1") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn chart(own: &[&str]) -> RooflineChart {
        let own: Vec<OwnOp> = own.iter().map(|text| OwnOp::parse(text).unwrap()).collect();
        let roofs = vec![("fp32", FlopsPerSec(66.9e12)), ("bf16", FlopsPerSec(989.4e12))];
        RooflineChart::of("a.yaml", &sample::two_stages(), roofs, &own)
    }

    #[test]
    fn every_operator_has_its_letter_and_its_line() {
        let text = chart(&["mine=1e12:1e10"]).text();
        assert!(text.contains("roofs: bf16 989 TFLOP/s, fp32 66.9 TFLOP/s"), "{text}");
        // 1e12 / 1e10 = 100 FLOP/B, below the ridge of 295: 100 x 3.35 TB/s.
        let line = text.lines().find(|line| line.contains("mine")).unwrap();
        assert!(line.contains("100") && line.contains("335 TFLOP/s") && line.contains("memory"), "{line}");
        assert!(text.lines().any(|line| line.trim_start().starts_with("a  mlp.up")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn the_svg_labels_roofs_ridge_and_operators_and_is_well_formed() {
        let svg = chart(&["a<b&c=1:1"]).drawing().svg();
        for said in
            ["bf16 989 TFLOP/s", "fp32 66.9 TFLOP/s", "ridge 295 FLOP/B", "mlp.up", "a&lt;b&amp;c", "DRAM 3.35 TB/s"]
        {
            assert!(svg.contains(said), "{said}: {svg}");
        }
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn no_two_labels_of_the_drawing_lie_on_each_other() {
        use crate::report::drawing::{Anchor, DrawnShape, width};
        let own = ["one=1e12:1e10", "two=1.1e12:1.1e10", "three=1.2e12:1e10", "four=1e12:1.3e10", "five=1e12:1e11"];
        let shapes = chart(&own).drawing().shapes;
        let boxes: Vec<(f64, f64, f64, &str)> = shapes
            .iter()
            .filter_map(|shape| match shape {
                DrawnShape::Words { at, anchor: Anchor::Start, size: 12.0, words, .. } => {
                    Some((at.0, at.0 + width(words, 12.0), at.1, words.as_str()))
                }
                _ => None,
            })
            .collect();
        assert!(boxes.iter().any(|(.., words)| *words == "one, two"), "{boxes:?}");
        for (at, one) in boxes.iter().enumerate() {
            for other in &boxes[at + 1..] {
                let apart = one.1 <= other.0 || other.1 <= one.0 || (one.2 - other.2).abs() >= 12.0;
                assert!(apart, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn an_operator_of_ones_own_needs_a_name_and_two_numbers() {
        for text in ["x", "x=1", "=1:2", "x=1:0", "x=-1:2", "x=a:b", "x=inf:1"] {
            assert!(OwnOp::parse(text).is_err(), "{text}");
        }
        assert_eq!(OwnOp::parse("x=6:2").unwrap(), OwnOp { name: "x".to_owned(), intensity: Intensity(3.0) });
    }
}
