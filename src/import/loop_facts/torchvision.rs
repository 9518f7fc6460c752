//! The model of torchvision's that a script makes by its name: `models.__dict__[args.arch]()`, `models.resnet18()`.

use std::collections::BTreeSet;

use super::Script;
use crate::origin::Setting;
use crate::script_doubts::code;
use crate::text::arguments;

/// Names and parameters of those that tell classes apart.
const MODELS: &str = include_str!("../torchvision_models.txt");

/// What changes what such a model has.
const CHANGES: [&str; 7] = [".fc =", ".classifier =", ".classifier[", ".heads", ".head =", ".conv1 =", "requires_grad"];

/// Parameters of a model of a thousand classes by its name in torchvision; none of one that is not known.
#[must_use]
pub fn parameters(name: &str) -> Option<u64> {
    let mut rows = MODELS.lines().filter_map(|line| line.split_once(' '));
    rows.find(|(known, _)| *known == name).and_then(|(_, count)| count.parse().ok())
}

/// What is called of a module `models`, with what it is given.
struct ModelCall<'a> {
    name: &'a str,
    given: Vec<String>,
}

fn calls(line: &str) -> impl Iterator<Item = ModelCall<'_>> {
    line.match_indices("models.").filter_map(|(at, of)| {
        let is_part = line[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        let (name, given) = line[at + of.len()..].split_once('(').filter(|_| !is_part)?;
        Some(ModelCall { name, given: arguments(given) })
    })
}

impl Script<'_> {
    /// Its name; nothing where the script makes several, or alters one.
    pub(super) fn model_of_torchvision(&self) -> Option<Setting<String>> {
        let imported = ["torchvision.models", "from torchvision import models"];
        if !imported.iter().any(|import| self.text.contains(import)) || self.has(&CHANGES) {
            return None;
        }
        let mut made: BTreeSet<&str> = BTreeSet::new();
        for call in code(self.text).flat_map(calls) {
            if call.given.iter().any(|part| part.contains("num_classes") || part.contains("**")) {
                return None;
            }
            let looked_up = call.name.strip_prefix("__dict__[").and_then(|name| name.strip_suffix(']'));
            made.extend(looked_up.or(parameters(call.name).is_some().then_some(call.name)));
        }
        let mut made = made.into_iter();
        let call = made.next().filter(|_| made.next().is_none())?;
        let told = self.reader.expression(call).and_then(|value| Some(value.as_str()?.to_owned()));
        let name = told.unwrap_or_else(|| call.to_owned());
        parameters(&name)?;
        Some(Setting::new(name, self.says(&format!("torchvision's {call}"))))
    }
}
