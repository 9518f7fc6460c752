//! The words that people write a step, an epoch, a loss and a time with, in English and the languages near it.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::super::facts::leading_number;
use crate::units::Seconds;

/// A pattern that is built where it is asked for first.
pub type WordPattern = LazyLock<Option<Regex>>;

static STEP: WordPattern = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:(?:global[_ ]?step|training[_ ]step|step|steps|iter|iters|iteration|num_updates?|schritte?|étape|etape|paso|passo)\b|iter\(train\)|\bit\s*[:=#])\s*[:=#]?\s*[\[(]?\s*(\d[\d.,]*)(?:\s*(?:/|of|von|sur|de|di)\s*(\d[\d.,]*))?")
        .ok()
});
/// The first step that a line names. A number with a unit is a time: `Step: 4s205ms | Tot: 44s505ms | Loss: 3.055` (the
/// progress bar of kuangliu/pytorch-cifar, `utils.py`). A step that is a unit has none behind it: `884ms/step 814 tok/s`.
pub fn named_step(line: &str) -> Option<Captures<'_>> {
    let is_count = |found: &Captures| {
        let end = found.get(2).or_else(|| found.get(1)).map_or(line.len(), |last| last.end());
        let begin = found.get(0).map_or(0, |all| all.start());
        !has_unit(&line[end..]) && !ends_in_per(&line[..begin])
    };
    (*STEP).as_ref()?.captures_iter(line).find(is_count)
}

/// Whether a number's unit follows it at once: `4s205ms`, `400k`, `12%`. Words that count steps are none: `400it`.
fn has_unit(after: &str) -> bool {
    const UNITS: [&str; 15] =
        ["us", "µs", "ms", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "h", "hours", "k", "b"];
    let end = after.find(|letter: char| !letter.is_alphabetic()).unwrap_or(after.len());
    after.starts_with('%') || UNITS.contains(&after[..end].to_lowercase().as_str())
}

/// Whether what comes next is the unit that something is told for: `12 ms/`, `3.1 samples per `.
fn ends_in_per(before: &str) -> bool {
    const UNITS: [&str; 14] = [
        "us", "µs", "ms", "s", "sec", "secs", "second", "seconds", "min", "tok", "tokens", "samples", "images", "imgs",
    ];
    let lower = before.trim_end().to_lowercase();
    let Some(told) = lower.strip_suffix('/') else { return lower.ends_with(" per") || lower.ends_with("_per_") };
    let told = told.trim_end();
    let word = told.rsplit(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
    // Behind a rate the slash parts it from the step: `img/s / step 400`.
    let rate = told.strip_suffix(word).is_some_and(|rest| rest.ends_with('/'));
    UNITS.contains(&word) && !rate
}

/// A place alone, at the beginning of a line or behind its stamp: `[  45/300] loss=3.2`.
pub static PLACE: WordPattern = LazyLock::new(|| {
    Regex::new(
        r"^(?:[^\[\]a-zA-Z]*?\s)?(?:\[[^\[\]/]*\]\s*)?\[?\s*(\d[\d,.]*)\s*/\s*(\d[\d,.]*)\s*[\]:|,-]*\s+[a-zA-Z]",
    )
    .ok()
});
pub static EPOCH: WordPattern = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:epoch|epoche|[ée]poque|[ée]poca)\b\s*[:=#]?\s*[\[(]?\s*(\d+)(?:\s*(?:/|of|von|sur|de|di)\s*(\d+))?",
    )
    .ok()
});
pub static LOSS: WordPattern = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:(?:train(?:ing)?[_ /.]?|(?:lm|total|step|average|avg|mean|running)[_ ])?loss|xent|(?:trainings)?verlust|perte|p[ée]rdida|perdita|perda)\b\s*[:=]?\s*\(?([-+]?(?:\d[\d.,]*(?:e[-+]?\d+)?|nan|inf))\b").ok()
});
/// A number directly before its unit, or behind a name: `loss 2.5, steps/sec: 7.1` has no 2.5 steps a second.
static TIME: WordPattern = LazyLock::new(|| {
    Regex::new(
        r"(?ix)
          \b(?: (?:step|iter)[_\ ]?time | time[_\ ]per[_\ ]step | time/step | (?:iter_)?dt )\b \s*[:=]?\s* (\d[\d.,]*)\s*(ms|s|sec)?\b
          | (?:\d[\d.,]*\d|\d)\s+(?:steps?|it|iters?)/s(?:ec|econd)?\b\s*[:=]\s*(\d[\d.,]*)
          | (?:\d[\d.,]*\d|\d)\s+(ms|s|sec)\s*/\s*(?:step|it|iter)\b\s*[:=]\s*(\d[\d.,]*)
          | (\d[\d.,]*\d|\d)\s*(ms|s|sec)\s*/\s*(?:step|it|iter)\b
          | (\d[\d.,]*\d|\d)\s*(?:steps?|it|iters?)/s(?:ec|econd)?\b
          | \bcompleted\ step:\ \d+,\ seconds:\ (\d[\d.,]*)
          | \b(?:steps?|it|iters?|iterations?)(?:/|_per_)s(?:ec|econd)?\b\s*[:=]\s*(\d[\d.,]*)
          | \b(ms|s|sec)/(?:step|it|iter)\b\s*[:=]\s*(\d[\d.,]*)",
    )
    .ok()
});
pub fn time(line: &str) -> Option<Seconds> {
    let found = (*TIME).as_ref()?.captures(line)?;
    let positive =
        |group: usize| leading_number(found.get(group)?.as_str()).filter(|number| number.is_finite() && *number > 0.0);
    let unit = |group: usize| match found.get(group).map(|unit| unit.as_str().to_lowercase()).as_deref() {
        Some("ms") => 0.001,
        _ => 1.0,
    };
    // `dt 12` without a unit may be either.
    let said = positive(1).filter(|_| found.get(2).is_some()).map(|time| Seconds(time * unit(2)));
    // `loss 2.4 it/s: 7.1`: the number before a name is another figure's.
    let timed = [(5, 4), (6, 7), (12, 11)].into_iter();
    let timed = timed.filter_map(|(time, of)| positive(time).map(|time| Seconds(time * unit(of)))).next();
    said.or(timed)
        .or_else(|| positive(9).map(Seconds))
        .or_else(|| [3, 8, 10].into_iter().find_map(positive).map(|rate| Seconds(1.0 / rate)))
}

/// The name of a rate, its number behind it or before it. Of one GPU it is another rate.
pub static TOKENS: WordPattern = LazyLock::new(|| {
    Regex::new(r"(?i)(?:(\d[\d,.]*\d|\d)\s*(k|m)?\s*)?\b(?:tps|(?:tok|toks|tokens)(?:/s|/sec|/second|_per_s(?:ec(?:ond)?)?| per sec(?:ond)?))\b(/)?(?:\s*([:=])?\s*(\d[\d,.]*)\s*(k|m)?\b)?").ok()
});
/// An evaluation's line.
pub static OTHER: WordPattern = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?:^|[^a-z])(?:val|valid(?:at(?:e|ing|ion))?|eval(?:uat(?:e|ing|ion))?|test(?:ing)?|validier\w*|evaluier\w*|testverlust|validierungs\w*|[ée]valuation|valida[cz]i\w+|valida[cç]\w+|evalua[cç]\w+|valutazion\w+|prueba|prova|auswertung|essai)(?:[^a-z]|$)|\[dev\]",
    )
    .ok()
});

/// A figure of an evaluation: `val_loss 5.5`, `eval/acc=0.5`, `val loss: 3.2`.
pub static BESIDE: WordPattern = LazyLock::new(|| {
    Regex::new(
        r"(?ix)(^|[^a-z]) (?:val|valid(?:ation)?|eval(?:uation)?|test)
          (?: (?:[_/.-][a-z]\w*)+ | \s(?:loss|ppl|perplexity) ) (?:[/.]\w+)* \s* [:=]? \s* \(? [-+]? (?:\d[\d.,]*(?:e[-+]?\d+)?|nan|inf)\b",
    )
    .ok()
});

/// Losses of a generator and of what judges it: `Loss_D: 0.25 Loss_G: 4.41`, `[D loss: 0.5]`, `d_loss=0.5`.
static TWO_MODELS: WordPattern = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:(?:d|disc|discriminator)[_ ]?loss(?:es)?|loss[_ ]?(?:d|disc|discriminator)|err_?d)(?:\b|_)\s*[:=]?\s*\(?[-+]?(?:\d|nan|inf)").ok()
});

/// Whether a line tells the losses of two models that train against each other, of which neither is the run's.
pub fn has_two_models(line: &str) -> bool {
    (*TWO_MODELS).as_ref().is_some_and(|pattern| pattern.is_match(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_unit_is_no_step() {
        let step = |line: &str| named_step(line).map(|found| found[0].trim().to_owned());
        for line in ["Step: 4s205ms | Tot: 44s505ms", "884ms/step 814 tok/s", "step 400k", "step 12%"] {
            assert_eq!(step(line), None, "{line}");
        }
        // A counted word, a slash that parts a rate from the step, a script without blanks.
        for line in ["iter 400/1000it loss 2.3", "103.2 img/s / step 400 | loss 2.31", "step: 400步 loss: 2.3"] {
            assert!(step(line).is_some_and(|found| found.contains("400")), "{line}");
        }
    }
}
