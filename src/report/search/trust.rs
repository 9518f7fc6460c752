//! What measured runs say of searched plans: bands, level plans, and what is left of a claimed gain.

use serde_json::{Value, json};

use crate::advise::{RankedPlan, SearchOutcome, fold};
use crate::compare::{Bands, Claim, claimed, level};
use crate::report::page::paragraph;
use crate::units::{Bytes, Fraction};

/// What measured runs say of the `top` ranked plans that are shown, as text: the band of their step times, which of them
/// are level, and which of those leaves the most memory.
#[must_use]
pub fn text(found: &SearchOutcome, (bands, top): (&Bands, usize), width: usize) -> String {
    let mut text = String::new();
    let band = bands.time.within(2.0);
    let few = if bands.few { "; few measured runs like this: the band is of a wider kind" } else { "" };
    let [below, above] = [band.below, band.above].map(Fraction);
    paragraph(
        &mut text,
        "",
        &format!("band: 95 of 100 such runs take {below} less to {above} more time than predicted{few}"),
        width,
    );
    if let Some(claim) = claimed(found, bands) {
        paragraph(&mut text, "", &gain_words(claim), width);
    }
    let mut folded = fold(&found.ranked);
    folded.truncate(top);
    let level = level(folded.iter().map(|one| one.plan), bands);
    let leanest =
        folded.iter().map(|one| one.plan).take(level).enumerate().min_by_key(|(_, one)| one.outline.capacity.needed);
    if let Some((at, leanest)) = leanest.filter(|_| level > 1) {
        let left = leanest.outline.capacity;
        let left = Bytes(left.bytes.0.saturating_sub(left.needed.0));
        let line = format!(
            "level: #1 to #{level} lie within each other's bands; of these #{} leaves the most memory, {left}",
            at + 1
        );
        paragraph(&mut text, "", &line, width);
    }
    text
}

/// The gain over the plan as it is, with what the bands of both leave of it.
fn gain_words(claim: Claim) -> String {
    let Claim { gain, least, most, among } = claim;
    let range = format!("{} to {}", signed(least), signed(most));
    let told = if claim.is_shown() { "" } else { ": measured runs do not say that the best is faster" };
    let chosen = if among > 1 { format!(" and the choice among {among} sets of degrees") } else { String::new() };
    format!("gain: {} over the plan as it is, {range} with the bands of both{chosen}{told}", signed(gain))
}

/// A share with its sign, where it is a loss.
fn signed(share: f64) -> String {
    if share < 0.0 { format!("−{}", Fraction(-share)) } else { Fraction(share).to_string() }
}

/// The same in the JSON of a search: the band in percent, the gain over the plan as it is with both bands, whether few
/// measured runs are like this, how many of the ranked plans are level, and each one's own.
pub fn write(value: &mut Value, found: &SearchOutcome, bands: &Bands) {
    let band = bands.time.within(2.0);
    value["step_band_pct"] = json!([-100.0 * band.below, 100.0 * band.above]);
    value["few_measured"] = bands.few.into();
    let claim = claimed(found, bands);
    value["gain"] = claim.map_or(Value::Null, |claim| {
        json!({
            "pct": 100.0 * claim.gain,
            "least_pct": 100.0 * claim.least,
            "most_pct": 100.0 * claim.most,
            "among": claim.among,
            "is_shown": claim.is_shown(),
        })
    });
    let level = level(&found.ranked, bands);
    value["level"] = level.into();
    for (place, one) in found.ranked.iter().enumerate() {
        for (name, own) in of_row(one, bands, place < level) {
            value["ranked"][place][name] = own;
        }
    }
}

/// Seconds between which 95 of 100 such runs take a step, and whether the plan is level with the first.
pub(super) fn of_row(one: &RankedPlan, bands: &Bands, is_level: bool) -> [(&'static str, Value); 3] {
    let (band, step) = (bands.time.within(2.0), one.outline.time.step.0);
    [
        ("step_least_s", (step * (1.0 - band.below)).into()),
        ("step_most_s", (step * (1.0 + band.above)).into()),
        ("is_level", is_level.into()),
    ]
}
