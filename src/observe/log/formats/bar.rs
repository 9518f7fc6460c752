//! tqdm's bar, ` 33%|███▉   | 307/938 [00:01<00:02, 289.04it/s, loss=0.198]` (`tqdm.std.tqdm.format_meter`),
//! by whose it is: torchtune (epoch, step and loss before it), Lightning (`Epoch 3:` before it), or
//! nobody's in particular (Trainer, accelerate's and diffusers' scripts). Where there is no room for it the bar itself
//! is left out, ` 33% 307/938 [`; where the total is not known, Lightning's has neither: `Epoch 0: |   | 512/? [`.

use super::super::facts::{LineFacts, LineFormat, count, leading_number, number_after, of_total};
use crate::reading::LogFormat;
use crate::units::Seconds;

/// What a bar shows.
pub struct Bar<'a> {
    /// What stands before it.
    pub label: &'a str,
    /// Rounds done.
    pub done: u64,
    /// Of so many, where that is known.
    pub total: Option<u64>,
    /// The time of one.
    pub each: Option<Seconds>,
    /// What stands behind the rate.
    rest: &'a str,
}

/// The bar that a line is.
pub fn bar(line: &str) -> Option<Bar<'_>> {
    let at = line.match_indices(" [").map(|(at, _)| at).find(|at| is_clock(&line[at + 2..]))?;
    let (head, counts) = line[..at].rsplit_once([' ', '|'])?;
    let meter = &line[at + 2..];
    let (done, total) = match counts.strip_suffix("/?") {
        Some(done) => (done.parse().ok()?, None),
        None => of_total(counts).map(|(done, total)| (done, Some(total)))?,
    };
    let label = match head.split_once('%') {
        Some((label, _)) => label.trim_end_matches(|c: char| c.is_ascii_digit()),
        None => head.split_once('|').filter(|_| total.is_none())?.0,
    };
    let label = label.trim().trim_end_matches(':');
    // Before the first step there is no rate.
    let (_, rate_on) = meter.split_once(", ").unwrap_or((meter, ""));
    let (rate, rest) = rate_on.split_once(',').unwrap_or((rate_on, ""));
    let number = leading_number(rate).filter(|number| number.is_finite() && *number > 0.0);
    let each = match number {
        Some(number) if rate.contains("s/it") => Some(Seconds(number)),
        Some(number) if rate.contains("it/s") => Some(Seconds(1.0 / number)),
        // Counted in something else: examples of a data set, bytes of a download.
        Some(_) => return None,
        None => None,
    };
    total.is_none_or(|total| total > 0 && done <= total).then_some(Bar { label, done, total, each, rest })
}

/// Whether the text begins with the time that has gone by, `01:04`.
fn is_clock(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(text.len());
    text[..end].contains(':')
}

/// `loss=0.198` among what stands behind the rate, under any of its names.
fn loss(rest: &str) -> Option<f64> {
    rest.split([',', ']']).find_map(|field| {
        let (name, value) = field.trim().split_once('=')?;
        matches!(name, "loss" | "reduced_train_loss" | "train_loss" | "train/loss" | "step_loss" | "train_loss_step")
            .then(|| leading_number(value))
            .flatten()
    })
}

/// The number of a field behind the rate.
fn field(rest: &str, wanted: &str) -> Option<f64> {
    rest.split([',', ']']).find_map(|field| {
        let (name, value) = field.trim().split_once('=')?;
        (name == wanted).then(|| leading_number(value)).flatten()
    })
}

/// `1|52|Loss: 2.3697:   0%|▏    | 52/25880 [00:24<3:55:01,  1.83it/s]`: epoch, step and loss stand before the
/// bar, which counts the steps of one epoch.
pub struct TorchtuneBar;

impl LineFormat for TorchtuneBar {
    fn name(&self) -> LogFormat {
        LogFormat::Torchtune
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let (_, from_epoch) = line.split_at(line.find(|c: char| c.is_ascii_digit())?);
        let (epoch, rest) = from_epoch.split_once('|')?;
        let (step, rest) = rest.split_once('|')?;
        let (epoch, step) = (epoch.parse::<u64>().ok()?, step.parse().ok()?);
        let bar = bar(rest)?;
        Some(LineFacts {
            step: Some(step),
            epoch_steps: bar.total,
            epoch: Some(epoch.saturating_sub(1) as f64 + bar.done as f64 / bar.total? as f64),
            loss: number_after(bar.label, "Loss: "),
            step_time: bar.each,
            ..LineFacts::default()
        })
    }
}

/// `Epoch 3:  33%|███▉  | 307/938 [00:01<00:02, 289.04it/s, loss=0.198, v_num=51]`: epochs from 0, batches
/// within one.
pub struct Lightning;

impl LineFormat for Lightning {
    fn name(&self) -> LogFormat {
        LogFormat::Lightning
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let Some(bar) = bar(line) else { return rich(line) };
        let epoch: u64 = bar.label.strip_prefix("Epoch ")?.parse().ok()?;
        // How long a stream is nobody tells.
        // NeMo tells the optimizer's steps beside the batches of the bar, of which several may make one.
        let told = field(bar.rest, "global_step").and_then(count);
        if told.is_some_and(|step| step.abs_diff(bar.done) > 1) {
            return Some(LineFacts { step: told, loss: loss(bar.rest), ..LineFacts::default() });
        }
        let before = if epoch == 0 { Some(0) } else { bar.total.and_then(|total| epoch.checked_mul(total)) };
        Some(LineFacts {
            step: before.and_then(|before| before.checked_add(bar.done)),
            step_is_derived: true,
            epoch: bar.total.map(|total| epoch as f64 + bar.done as f64 / total as f64),
            loss: loss(bar.rest),
            step_time: bar.each,
            ..LineFacts::default()
        })
    }
}

/// `Epoch 2/9 ━━━━━━━╸━━━━ 307/938 0:00:05 • 0:00:11 57.95it/s v_num: 0.000 train_loss: 0.198`: Lightning's bar by Rich
/// (src/lightning/pytorch/callbacks/progress/rich_progress.py).
fn rich(line: &str) -> Option<LineFacts> {
    let mut words = line.trim().strip_prefix("Epoch ")?.split_whitespace();
    let epoch: u64 = words.next()?.split('/').next()?.parse().ok()?;
    let mut words = words.skip_while(|word| !word.starts_with(|letter: char| letter.is_ascii_digit()));
    let (done, total) = of_total(words.next()?)?;
    let rate = words.find_map(|word| word.strip_suffix("it/s"))?;
    let rate: f64 = rate.parse().ok().filter(|rate: &f64| rate.is_finite())?;
    let fields: Vec<&str> = words.collect();
    let mut pairs = fields.windows(2);
    let loss = pairs.find(|pair| pair[0].ends_with("loss:") || pair[0] == "train_loss_step:");
    (total > 0 && done <= total).then(|| LineFacts {
        step: epoch.checked_mul(total).and_then(|before| before.checked_add(done)),
        step_is_derived: true,
        epoch: Some(epoch as f64 + done as f64 / total as f64),
        loss: loss.and_then(|pair| leading_number(pair[1])),
        step_time: (rate > 0.0).then(|| Seconds(1.0 / rate)),
        ..LineFacts::default()
    })
}

/// A bar of a training loop without a framework's mark.
#[derive(Default)]
pub struct PlainBar {
    /// The total of the bar that is under way: one with fewer rounds in between is an evaluation.
    under_way: Option<u64>,
}

impl LineFormat for PlainBar {
    fn name(&self) -> LogFormat {
        LogFormat::Bar
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let bar = bar(line)?;
        let label = bar.label.to_ascii_lowercase();
        let names_training = ["train", "step", "iter"].iter().any(|word| label.contains(word));
        if !label.is_empty() && !names_training {
            return None;
        }
        // One that has not moved may never do so: Lightning draws `Training: 0/18` before the bar of each epoch.
        let total = bar.total.filter(|_| bar.done > 0)?;
        if self.under_way.is_some_and(|under_way| total < under_way) {
            return None;
        }
        self.under_way = (bar.done < total).then_some(total);
        Some(LineFacts {
            step: Some(bar.done),
            total_steps: Some(total),
            loss: loss(bar.rest),
            step_time: bar.each,
            ..LineFacts::default()
        })
    }
}
