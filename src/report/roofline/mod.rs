//! The roofline as a chart: in letters for a terminal, and drawn.

mod letters;
mod picture;

use super::page::paragraph;
use super::plots::plan_name;
use super::table::{Align, Table};
use super::text::shortened;
use crate::advise::Finding;
use crate::catalog::Gpu;
use crate::order::StableOrder;
use crate::predict::{Bound, Outline, Prediction};
use crate::printable::printable;
use crate::units::{Bytes, BytesPerSec, Flops, FlopsPerSec, Fraction, Intensity, Seconds, three_figures};
use thiserror::Error;

/// Decades of the intensity axis, as on the dashboard: charts of different plans compare.
const DECADES: (f64, f64) = (-1.0, 4.0);

/// The most columns of the plot in a terminal.
const COLUMNS: usize = 84;

/// Columns beside the plot: ticks on its left, half a label on its right.
const BESIDE: usize = 12;

/// An operator of the user's own.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnOp {
    /// What it is called.
    pub name: String,
    /// Operations for each byte.
    pub intensity: Intensity,
    /// Its operations.
    pub flops: Flops,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Why a text is no operator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OwnOpError {
    /// It is written otherwise.
    #[error("`{0}` is not NAME=FLOPS:BYTES")]
    Form(String),
    /// What should be numbers are none above 0.
    #[error("`{0}`: FLOPS and BYTES are numbers above 0, such as 1.2e12:3e9")]
    Numbers(String),
}

impl OwnOp {
    /// Reads `NAME=FLOPS:BYTES`.
    ///
    /// # Errors
    /// Where it is not written so, or a number is not above 0.
    pub fn parse(text: &str) -> Result<Self, OwnOpError> {
        let positive =
            |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let parts = text.split_once('=').and_then(|(name, rest)| Some((name.trim(), rest.split_once(':')?)));
        let Some((name, (flops, bytes))) = parts.filter(|(name, _)| !name.is_empty()) else {
            return Err(OwnOpError::Form(text.to_owned()));
        };
        match (positive(flops), positive(bytes)) {
            (Some(flops), Some(bytes)) => {
                let intensity = Intensity(flops / bytes);
                Ok(Self { name: printable(name), intensity, flops: Flops(flops), bytes: Bytes::from_f64(bytes) })
            }
            _ => Err(OwnOpError::Numbers(text.to_owned())),
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
    /// Share of what the roof above it allows; none for the user's own, which lie on it.
    reached: Option<f64>,
}

/// The chart of one plan on its GPU.
pub struct RooflineChart {
    title: String,
    /// The same for a picture: without the plan's path.
    caption: String,
    bandwidth: BytesPerSec,
    ridge: Intensity,
    /// Dense peaks by matrix type, the highest first.
    roofs: Vec<(&'static str, FlopsPerSec)>,
    /// The roof of the plan's own type.
    own: FlopsPerSec,
    /// Bandwidth of the L2 cache, where it is known.
    l2: Option<BytesPerSec>,
    marks: Vec<Mark>,
    /// What would help each of the user's own operators.
    own_advice: Vec<String>,
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
        roofs.order_by(|a, b| b.1.0.total_cmp(&a.1.0));
        let whole: f64 = roofline.ops.iter().map(|op| op.seconds.0).sum();
        let predicted = roofline.ops.iter().filter_map(|op| {
            let rate = (op.flops.0 > 0.0 && op.seconds.0 > 0.0).then(|| FlopsPerSec(op.flops.0 / op.seconds.0))?;
            let (name, intensity, share) =
                (op.name.to_string(), op.intensity?, op.seconds.0 / whole.max(f64::MIN_POSITIVE));
            let (label, reached) = (String::new(), Some(roofline.reached(op)));
            Some(Mark { label, name, intensity, rate, bound: op.bound, share: Some(share), reached })
        });
        let marks = predicted.collect();
        let subject = format!("{} on {}", prediction.model, prediction.gpu);
        let chart = Self {
            title: format!("{subject}, plan {plan}"),
            caption: format!("Roofline: {subject} ({})", plan_name(plan)),
            bandwidth: roofline.bandwidth,
            ridge: roofline.ridge,
            roofs,
            own: roofline.peak,
            l2: roofline.l2,
            marks,
            own_advice: Vec::new(),
            advice: Vec::new(),
            outline: None,
        };
        chart.with_own(own, roofline.peak_name)
    }

    /// The chart of a GPU alone, with operators of the user's own under the roof of its matrix type. None where the
    /// catalogue has no peak of the GPU.
    #[must_use]
    pub fn of_gpu(gpu: &Gpu, own: &[OwnOp]) -> Option<Self> {
        let mut roofs = gpu.peaks.named();
        roofs.order_by(|a, b| b.1.0.total_cmp(&a.1.0));
        let find = |name: &str| roofs.iter().find(|(known, _)| *known == name).copied();
        let (name, peak) = find("bf16").or_else(|| find("fp16")).or_else(|| roofs.first().copied())?;
        let chart = Self {
            title: format!("{}, without a plan: operators in {name}", gpu.name),
            caption: format!("Roofline: {}", gpu.name),
            bandwidth: gpu.bandwidth,
            ridge: peak.ridge(gpu.bandwidth),
            roofs,
            own: peak,
            l2: gpu.l2_bandwidth,
            marks: Vec::new(),
            own_advice: Vec::new(),
            advice: Vec::new(),
            outline: None,
        };
        Some(chart.with_own(own, name))
    }

    /// With operators of the user's own, as high as the roof of the type `name` lets them get.
    fn with_own(mut self, own: &[OwnOp], name: &str) -> Self {
        for op in own {
            let rate = FlopsPerSec((op.intensity.0 * self.bandwidth.0).min(self.own.0));
            let bound = if op.intensity < self.ridge { Bound::Memory } else { Bound::Compute };
            let (label, share) = (String::new(), None);
            self.marks.push(Mark {
                label,
                name: op.name.clone(),
                intensity: op.intensity,
                rate,
                bound,
                share,
                reached: None,
            });
            self.own_advice.push(self.about_own(op, rate, name));
        }
        for (at, mark) in self.marks.iter_mut().enumerate() {
            mark.label = label(at);
        }
        self
    }

    /// What binds an operator of the user's own, what it takes at least, and what would help.
    fn about_own(&self, op: &OwnOp, rate: FlopsPerSec, name: &str) -> String {
        let least = Seconds(op.flops.0 / rate.0);
        let share = Fraction(rate.0 / self.own.0);
        let (intensity, ridge) = (op.intensity, self.ridge);
        if op.intensity < self.ridge {
            let times = three_figures(ridge.0 / intensity.0);
            return format!(
                "{}: {intensity} is below the ridge of {ridge}: DRAM binds it, at {least} at least and {share} of the \
                 peak at most. {times} times as many operations a byte would reach the peak: fuse it with its neighbours \
                 so that {} are read and written once, halve its bytes with a narrower type, or make its batch larger",
                op.name, op.bytes
            );
        }
        let faster = self.roofs.first().filter(|(_, peak)| peak.0 > self.own.0 * 1.01);
        let narrower = faster.map_or(String::new(), |(faster, peak)| {
            let times = three_figures((peak.0.min(intensity.0 * self.bandwidth.0)) / rate.0);
            format!("; in {faster} up to {times} times as fast")
        });
        format!(
            "{}: {intensity} is above the ridge of {ridge}: the {name} units bind it, at {least} at least. Fewer \
             operations or a faster type help, less traffic does not{narrower}",
            op.name
        )
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
        // Above the highest roof there is room for its name.
        (floor, (highest * 2.0).log10().max(floor + 1.0))
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
    pub fn text(&self, width: usize) -> String {
        let mut text = String::new();
        paragraph(&mut text, "", &self.title, width);
        let roofs: Vec<String> = self.roofs.iter().map(|(name, peak)| format!("{name} {peak}")).collect();
        let l2 = self.l2.map_or(String::new(), |rate| format!(", L2 {rate}"));
        paragraph(
            &mut text,
            "",
            &format!("DRAM {}{l2}, ridge {}; roofs: {}", self.bandwidth, self.ridge, roofs.join(", ")),
            width,
        );
        text.push_str("\nTFLOP/s\n");
        self.in_letters(&mut text, width.saturating_sub(BESIDE).min(COLUMNS));
        text.push('\n');
        text.push_str(&self.legend().render("  ", width));
        if !self.own_advice.is_empty() {
            text.push_str("\nyour own operators, at the most that the roof allows\n");
        }
        for advice in &self.own_advice {
            paragraph(&mut text, "  ", advice, width);
        }
        if let Some(outline) = &self.outline {
            self.helping(outline, &mut text, width);
        }
        text
    }

    fn helping(&self, outline: &Outline, text: &mut String, width: usize) {
        if !self.advice.is_empty() {
            text.push_str("\nwhat would help the operators that take most time\n");
        }
        for finding in &self.advice {
            paragraph(text, "  ", &finding.message, width);
            if finding.fixes.is_empty() {
                paragraph(text, "      ", "nothing tried takes a tenth off it", width);
            }
            for fix in &finding.fixes {
                paragraph(text, "      ", &fix.line(outline), width);
            }
        }
    }

    fn legend(&self) -> Table {
        let mut table = Table::new([
            ("", Align::Left),
            ("operator", Align::Left),
            ("FLOP/B", Align::Right),
            ("rate", Align::Right),
            ("bound", Align::Left),
            ("of roof", Align::Right),
            ("time", Align::Right),
        ]);
        for mark in &self.marks {
            table.row([
                mark.label.clone(),
                shortened(&mark.name, 30),
                three_figures(mark.intensity.0),
                mark.rate.to_string(),
                mark.bound.word().to_owned(),
                mark.reached.map_or_else(|| "–".to_owned(), |share| Fraction(share).to_string()),
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
        let text = chart(&["mine=1e12:1e10"]).text(80);
        assert!(text.contains("roofs: bf16 989 TFLOP/s, fp32 66.9 TFLOP/s"), "{text}");
        // 1e12 / 1e10 = 100 FLOP/B, below the ridge of 295: 100 x 3.35 TB/s.
        let line = text.lines().find(|line| line.contains("mine")).unwrap();
        assert!(line.contains("100") && line.contains("335 TFLOP/s") && line.contains("memory"), "{line}");
        assert!(text.lines().any(|line| line.trim_start().starts_with("a  mlp.up")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
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
    fn operators_that_lie_on_each_other_share_a_label_and_none_overlap() {
        let own = ["one=1e12:1e10", "two=1.01e12:1.01e10", "three=1.2e12:1e10", "four=1e12:1.3e10", "five=1:1e9"];
        let drawing = chart(&own).drawing();
        crate::report::plot::hold_words_apart(&drawing);
        let svg = drawing.svg();
        assert!(svg.contains("one, two") && svg.contains("five (3.35 kFLOP/s)"), "{svg}");
    }

    /// NVIDIA H100 SXM: 989.4 TFLOP/s over 3.35 TB/s are 295 operations a byte; 1e12 operations over 1e10 bytes take
    /// 1e10 / 3.352e12 = 2.98 ms.
    #[test]
    fn a_gpu_needs_no_plan_and_own_operators_get_advice() {
        let catalog = crate::catalog::Catalog::embedded().unwrap();
        let own = [OwnOp::parse("mine=1e12:1e10").unwrap(), OwnOp::parse("big=1e15:1e12").unwrap()];
        let chart = RooflineChart::of_gpu(catalog.gpu("NVIDIA H100").unwrap(), &own).unwrap();
        let text = chart.text(80).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("mine: 100 FLOP/B is below the ridge of 295 FLOP/B: DRAM binds it, at 2.98 ms"),
            "{text}"
        );
        assert!(text.contains("2.95 times as many operations a byte"), "{text}");
        assert!(text.contains("big: 1000 FLOP/B is above the ridge"), "{text}");
        crate::report::plot::hold_words_apart(&chart.drawing());
    }

    #[test]
    fn an_operator_of_ones_own_needs_a_name_and_two_numbers() {
        for text in ["x", "x=1", "=1:2", "x=1:0", "x=-1:2", "x=a:b", "x=inf:1"] {
            assert!(OwnOp::parse(text).is_err(), "{text}");
        }
        let op = OwnOp { name: "x".to_owned(), intensity: Intensity(3.0), flops: Flops(6.0), bytes: Bytes(2) };
        assert_eq!(OwnOp::parse("x=6:2").unwrap(), op);
    }
}
