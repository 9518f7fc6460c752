//! Calls of a library that a script makes more than once: on conditions that are not known, one after the other, or for
//! models other than the one that trains.

use super::super::settings::{Settings, UNKNOWN};
use super::ScriptReader;
use super::script::{FollowedScript, LibraryCall};
use super::value::Known;

/// No longer chain of calls leads from a Trainer to the model that it trains.
const LONGEST_CHAIN: usize = 8;

impl ScriptReader<'_> {
    /// Opens what a call of `names` may be given otherwise, where `chosen` and others stand on conditions that are not
    /// known: any of them may be the one that is made.
    pub(super) fn open_differences(
        &self,
        script: &FollowedScript,
        names: &[&str],
        chosen: &LibraryCall,
        settings: &mut Settings,
    ) {
        if chosen.reached.is_some() {
            return;
        }
        for other in of(script, names).filter(|call| !std::ptr::eq(*call, chosen)) {
            let given = self.given(script, other);
            let told = |all: &Settings, name: &str| all.get(name).map(|found| found.value.clone());
            let both = settings.iter().chain(given.iter()).map(|(name, _)| name);
            let differing: Vec<String> =
                both.filter(|name| told(settings, name) != told(&given, name)).map(str::to_owned).collect();
            for name in differing {
                let origin = settings.get(&name).or_else(|| given.get(&name)).map(|found| found.origin.clone());
                if let Some(origin) = origin {
                    settings.set(&name, UNKNOWN.into(), origin);
                }
            }
        }
    }

    /// The names in which further calls of `names` that are made for certain differ from the first, of those that are
    /// `wanted`: the script trains several times, one after the other.
    pub fn changed_later(&self, names: &[&str], wanted: &[&str]) -> Vec<String> {
        let script = self.script.borrow();
        let certain = |call: &&LibraryCall| call.reached == Some(true) && !call.blindly;
        let mut calls = of(&script, names).filter(certain).map(|call| self.given(&script, call));
        let Some(before) = calls.next() else { return Vec::new() };
        let mut changed: Vec<String> = Vec::new();
        for later in calls {
            let value = |all: &Settings, name: &str| all.get(name).map(|found| found.value.clone());
            let differs = |name: &&&str| value(&before, name) != value(&later, name);
            for name in wanted.iter().filter(differs) {
                if !changed.iter().any(|known| known == name) {
                    changed.push((*name).to_owned());
                }
            }
        }
        changed
    }

    /// Models of other names that calls of `names` load before the last training is over, beside the one that trains:
    /// what they are called, or the line in which they are loaded.
    pub fn other_models(&self, names: &[&str]) -> Vec<String> {
        let script = self.script.borrow();
        let own = trained(&script, names).and_then(|at| script.seen.get(at)).or_else(|| first(&script, names));
        let Some(own) = own.and_then(|call| loaded_name(&self.given(&script, call), call)) else { return Vec::new() };
        let mut found: Vec<String> = Vec::new();
        for call in before_the_last(&script).filter(|call| of_names(call, names)) {
            let name = loaded_name(&self.given(&script, call), call);
            if let Some(name) = name.filter(|name| *name != own && !found.contains(name)) {
                found.push(name);
            }
        }
        found
    }

    /// Whether a script loads adapters that exist for the model that it trains, and does not merge them into it:
    /// `PeftModel.from_pretrained(model, path)`.
    pub fn loads_adapters(&self) -> bool {
        const LOADS: [&str; 3] = [
            "PeftModel.from_pretrained",
            "PeftModelForCausalLM.from_pretrained",
            "AutoPeftModelForCausalLM.from_pretrained",
        ];
        let script = self.script.borrow();
        let ends = |call: &LibraryCall, end: &str| call.names.iter().any(|path| path.ends_with(end));
        before_the_last(&script).any(|call| of_names(call, &LOADS))
            && !before_the_last(&script).any(|call| ends(call, "merge_and_unload"))
    }
}

/// The calls that stand before the end of the last training, in functions that are called.
fn before_the_last<'s>(script: &'s FollowedScript<'_>) -> impl Iterator<Item = &'s LibraryCall> {
    let trains = |call: &LibraryCall| of_names(call, &["train", "backward"]);
    let last = script.seen.iter().rposition(trains).unwrap_or(script.seen.len());
    script.seen.iter().take(last).filter(|call| !call.blindly)
}

/// The call of one of `names` whose model a Trainer of the script is handed, by way of what wraps it.
pub(super) fn trained(script: &FollowedScript, names: &[&str]) -> Option<usize> {
    let is_trainer = |call: &&LibraryCall| call.names.iter().any(|path| path.ends_with("Trainer"));
    let trainers = script.seen.iter().filter(is_trainer);
    let mut call = trainers.min_by_key(|call| (call.reached != Some(true), call.blindly))?;
    for _ in 0..LONGEST_CHAIN {
        let model = call.given.iter().find(|(name, ..)| matches!(name.as_str(), "0" | "model"))?;
        let Known::Made(_, Some(at)) = &model.1 else { return None };
        call = script.seen.get(*at)?;
        if of_names(call, names) {
            return Some(*at);
        }
    }
    None
}

fn of_names(call: &LibraryCall, names: &[&str]) -> bool {
    let is =
        |path: &str, name: &str| path.strip_suffix(name).is_some_and(|front| front.is_empty() || front.ends_with('.'));
    call.names.iter().any(|path| names.iter().any(|name| is(path, name)))
}

/// The name that a call loads a model by; of one that is not known what the script asks for it.
fn loaded_name(given: &Settings, call: &LibraryCall) -> Option<String> {
    const PLACES: [&str; 3] = ["0", "pretrained_model_name_or_path", "model_name"];
    if let Some(found) = given.first_text(&PLACES) {
        return Some(found.value);
    }
    call.given.iter().find(|(name, ..)| PLACES.contains(&name.as_str())).and_then(|(_, value, _)| match value {
        Known::Open(path) if !path.is_empty() => Some(path.join(".").trim_start_matches('.').to_owned()),
        _ => None,
    })
}

/// The calls of one of `names`.
pub(super) fn of<'s>(script: &'s FollowedScript<'_>, names: &[&str]) -> impl Iterator<Item = &'s LibraryCall> {
    let called = |path: &str, name: &str| {
        path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    script.seen.iter().filter(move |seen| seen.names.iter().any(|path| names.iter().any(|name| called(path, name))))
}

/// The first call of one of `names` that is made for certain, else the first that may be.
pub(super) fn first<'s>(script: &'s FollowedScript<'_>, names: &[&str]) -> Option<&'s LibraryCall> {
    let mut found = of(script, names);
    let first = found.next()?;
    if first.reached.is_some() {
        return Some(first);
    }
    found.find(|seen| seen.reached.is_some()).or(Some(first))
}
