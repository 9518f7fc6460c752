//! The smallest change, the fewest GPUs and the largest model, for people.

use super::plans;
use crate::advise::{FewestGpus, LargestModel, Limit, RankedPlan, SmallestChange, is_largest_tried};
use crate::report::page::paragraph;
use crate::report::setup::gpus as gpus_of;
use crate::units::{Bytes, three_figures};

/// The fewest GPUs, as text.
#[must_use]
pub fn gpus(plan: &str, found: &Limit<FewestGpus>, width: usize) -> String {
    let mut text = String::new();
    let Some((gpus, one)) = &found.any else {
        paragraph(&mut text, "", &format!("{plan}: fits on no number of these GPUs"), width);
        return text;
    };
    let line = |gpus: u64, one: &RankedPlan| {
        let capacity = one.outline.capacity;
        let fewer = if gpus == 1 { "" } else { " and not on fewer" };
        format!("fits on {}{fewer} ({} of {}{})", gpus_of(gpus), capacity.needed, capacity.bytes, on_host(one))
    };
    paragraph(&mut text, "", &format!("{plan}: {}", line(*gpus, one)), width);
    match &found.kept {
        Some((more, _)) if more == gpus => {}
        Some((more, one)) => {
            paragraph(&mut text, "", &format!("with no more offload than the plan's own: {}", line(*more, one)), width);
        }
        None => {
            paragraph(
                &mut text,
                "",
                "with no more offload than the plan's own it fits on no number of these GPUs",
                width,
            );
        }
    }
    text.push_str(&plans(found.apart().into_iter().map(|(_, one)| one)).render("  ", width));
    text
}

/// What of a plan lies in host memory, where any does.
fn on_host(one: &RankedPlan) -> String {
    match one.host.filter(|host| *host > Bytes::ZERO) {
        Some(host) => format!(", and {host} of host memory for each GPU"),
        None => String::new(),
    }
}

/// The smallest change, as text.
#[must_use]
pub fn smallest(plan: &str, found: Option<&SmallestChange>, width: usize) -> String {
    let mut text = String::new();
    let Some(found) = found else {
        paragraph(&mut text, "", &format!("{plan}: no change of up to four keys makes it fit"), width);
        return text;
    };
    let line = match found.keys {
        0 => format!("{plan}: fits as it is"),
        1 => format!("{plan}: changing one key makes it fit"),
        keys => format!("{plan}: changing {keys} keys makes it fit, and nothing less does"),
    };
    paragraph(&mut text, "", &line, width);
    for (at, one) in found.plans.iter().enumerate().filter(|_| found.keys > 0) {
        let follows = match one.follows.words() {
            words if words.is_empty() => words,
            words => format!(" (then follows: {words})"),
        };
        paragraph(&mut text, "  ", &format!("#{}: {}{follows}", at + 1, one.chosen.words()), width);
    }
    text.push_str(&plans(found.plans.iter().map(|one| &one.ranked)).render("  ", width));
    text
}

/// The largest models, as text.
#[must_use]
pub fn model(plan: &str, found: &Limit<LargestModel>, width: usize) -> String {
    let mut text = String::new();
    let apart = found.apart();
    for (at, one) in apart.iter().enumerate() {
        let head = if at == 0 { plan } else { "with no more offload than the plan's own" };
        let line = match &one.billions {
            Some((billions, plan)) => {
                let gpus = gpus_of(plan.outline.num_gpus);
                let size = three_figures(*billions);
                let host = on_host(plan).trim_start_matches(", and").to_owned();
                let host = if host.is_empty() { host } else { format!(", with{host}") };
                let least = if is_largest_tried(*billions) { "at least " } else { "" };
                format!("{head}: {least}{size} B parameters fit on {gpus}{host}")
            }
            None => format!("{head}: no model fits"),
        };
        paragraph(&mut text, "", &line, width);
        if let Some((name, plan)) = &one.preset {
            paragraph(&mut text, "", &format!("largest of the catalogue: {name}{}", on_host(plan)), width);
        }
    }
    let both = apart.into_iter().flat_map(|one| {
        let sized = one.billions.iter().map(|(_, plan)| plan);
        sized.chain(one.preset.iter().map(|(_, plan)| plan))
    });
    text.push_str(&plans(both).render("  ", width));
    text
}
