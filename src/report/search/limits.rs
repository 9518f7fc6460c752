//! The smallest change, the fewest GPUs and the largest model, for people and for scripts.

use serde_json::{Map, Value, json};

use super::{plans, row};
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
    // What needs nothing of the host first: how much of it there is no plan says.
    let apart: Vec<&LargestModel> = found.apart().into_iter().rev().collect();
    for (at, one) in apart.iter().enumerate() {
        let head = if at == 0 { plan } else { "with more in host memory" };
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

/// The fewest GPUs as one JSON object: with every knob free (`any`), and with no more offload than the plan's own (`kept`).
#[must_use]
pub fn gpus_json(plan: &str, found: &Limit<FewestGpus>) -> Value {
    let one = |found: &FewestGpus| {
        found.as_ref().map(|(gpus, one)| {
            let mut fields = Map::from_iter([("num_gpus".to_owned(), Value::from(*gpus))]);
            fields.extend(row(one, None));
            fields
        })
    };
    json!({ "plan": plan, "any": one(&found.any), "kept": one(&found.kept) })
}

/// The smallest change as one JSON object; `keys` is null where no change of so few makes the plan fit.
#[must_use]
pub fn smallest_json(plan: &str, found: Option<&SmallestChange>) -> Value {
    let plans: Vec<Value> = found
        .into_iter()
        .flat_map(|found| &found.plans)
        .map(|one| {
            let mut fields = row(&one.ranked, None);
            for (name, change) in [("chosen", &one.chosen), ("follows", &one.follows)] {
                fields.insert(name.to_owned(), json!({ "set": change.set_json(), "remove": change.remove }));
            }
            Value::Object(fields)
        })
        .collect();
    json!({ "plan": plan, "keys": found.map(|found| found.keys), "ranked": plans })
}

/// The largest models as one JSON object, twice as [`gpus_json`] has it: a standard decoder, and one of the catalogue.
#[must_use]
pub fn model_json(plan: &str, found: &Limit<LargestModel>) -> Value {
    let one = |found: &LargestModel| {
        let standard = found.billions.as_ref().map(|(billions, one)| {
            let mut fields = Map::from_iter([("size_billions".to_owned(), Value::from(*billions))]);
            fields.insert("largest_tried".to_owned(), Value::from(is_largest_tried(*billions)));
            fields.extend(row(one, None));
            fields
        });
        let preset = found.preset.as_ref().map(|(name, one)| {
            let mut fields = Map::from_iter([("preset".to_owned(), Value::from(name.as_str()))]);
            fields.extend(row(one, None));
            fields
        });
        json!({ "standard": standard, "preset": preset })
    };
    json!({ "plan": plan, "any": one(&found.any), "kept": one(&found.kept) })
}
