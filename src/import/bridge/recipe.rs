//! A recipe as its statements leave it: the functions that it stands on, what they set of `cfg`, and the branches whose
//! condition can be told. Nothing is run.

use std::collections::BTreeMap;

use serde_json::Value;

use super::module::{RecipeModule, RecipeStatement};
use crate::origin::{Origin, Setting};
use crate::settings::{Settings, UNKNOWN, truth, whole};
use crate::text::{arguments, python_literal};

/// Functions that call each other.
const DEEPEST: usize = 8;

/// No recipe has more statements.
const MOST_STEPS: usize = 8_000;

/// No value that matters is deeper.
const MOST_NESTED: usize = 24;

/// Calls that change nothing that a plan holds.
const QUIET: [&str; 4] =
    ["warn_deprecated_model", "apply_flex_dispatcher_backend", "set_cuda_graph_modules", "clear_cuda_graph_modules"];

/// The name of the setting that holds what made a section: `model.()`.
pub const MADE: &str = "()";

/// A branch of a condition.
#[derive(Debug, Clone, Copy)]
struct RecipeBranch {
    indent: usize,
    /// Whether one of the branches before was taken; none where a condition is not known.
    taken: Option<bool>,
    /// Whether what stands here is done.
    reading: Option<bool>,
}

/// What a recipe has set so far.
#[derive(Debug, Default)]
pub struct BridgeRecipe {
    /// Values by their dotted names below `cfg`.
    entries: BTreeMap<String, Setting<Value>>,
    /// Calls that were not followed.
    pub open: Vec<String>,
    steps: usize,
    /// Values in each other that are being set.
    nested: usize,
}

/// What a function's names stand for, as written.
type RecipeNames = BTreeMap<String, String>;

impl BridgeRecipe {
    /// What the function of a module makes of what it is given, where it is there.
    pub fn of(module: &RecipeModule, function: &str, given: &[(String, String)]) -> Option<Self> {
        let mut recipe = Self::default();
        recipe.enter(module, function, given, DEEPEST).then_some(recipe)
    }

    /// As settings.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        for (name, found) in &self.entries {
            settings.set(name, found.value.clone(), found.origin.clone());
        }
        settings
    }

    /// Does what a function does; whether there is such a one.
    fn enter(&mut self, module: &RecipeModule, function: &str, given: &[(String, String)], deepest: usize) -> bool {
        let Some(deepest) = deepest.checked_sub(1) else { return false };
        let Some((home, own)) = module.defining(function) else { return false };
        let module = home.as_ref().unwrap_or(module);
        let Some(body) = module.function(&own) else { return false };
        let mut names: RecipeNames = module.constants();
        names.extend(body.parameters.iter().filter_map(|(name, usual)| Some((name.clone(), usual.clone()?))));
        for (name, value) in given {
            // One without a name goes to the parameter of its place.
            let place = name.parse::<usize>().ok().and_then(|at| body.parameters.get(at));
            names.insert(place.map_or(name, |(name, _)| name).clone(), value.clone());
        }
        let mut branches: Vec<RecipeBranch> = Vec::new();
        for statement in &body.statements {
            self.steps += 1;
            if self.steps > MOST_STEPS || !self.statement(module, statement, &mut names, &mut branches, deepest) {
                break;
            }
        }
        true
    }

    /// One statement; whether another follows it.
    fn statement(
        &mut self,
        module: &RecipeModule,
        statement: &RecipeStatement,
        names: &mut RecipeNames,
        branches: &mut Vec<RecipeBranch>,
        deepest: usize,
    ) -> bool {
        let text = statement.text.as_str();
        let other = text.starts_with("elif ") || text == "else:";
        branches.retain(|branch| branch.indent < statement.indent || (other && branch.indent == statement.indent));
        if other || text.starts_with("if ") {
            self.branch(text, statement.indent, names, branches);
            return true;
        }
        let state = |branch: &RecipeBranch| branch.reading;
        if branches.iter().any(|branch| state(branch) == Some(false)) {
            return true;
        }
        let sure = branches.iter().all(|branch| state(branch) == Some(true));
        if let Some(value) = text.strip_prefix("return") {
            if value.contains('(') && sure {
                self.called(module, value.trim(), names, deepest);
            }
            return !sure;
        }
        match assignment(text) {
            Some((target, value)) if sure => self.assign(module, target, value, names, (statement.line, deepest)),
            Some((target, _)) => {
                if let Some(path) = target.strip_prefix("cfg.") {
                    self.put(module, path, UNKNOWN, names, statement.line);
                }
                let local = target.split('.').next().unwrap_or(target);
                names.insert(target.to_owned(), UNKNOWN.to_owned());
                names.entry(local.to_owned()).or_insert_with(|| UNKNOWN.to_owned());
            }
            None if sure => self.called(module, text, names, deepest),
            None => self.leave_open(text),
        }
        true
    }

    /// Opens a branch by its condition.
    fn branch(&mut self, text: &str, indent: usize, names: &RecipeNames, branches: &mut Vec<RecipeBranch>) {
        let before = branches.iter().position(|branch| branch.indent == indent).map(|at| branches.remove(at));
        let condition = text.strip_prefix("elif ").or_else(|| text.strip_prefix("if "));
        let holds = condition.map_or(Some(true), |text| self.holds(text.trim_end_matches(':'), names));
        let earlier = before.map_or(Some(false), |branch| branch.taken);
        let reading = match (earlier, holds) {
            (Some(true), _) | (_, Some(false)) => Some(false),
            (Some(false), Some(true)) => Some(true),
            _ => None,
        };
        let taken = match (earlier, holds) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        branches.push(RecipeBranch { indent, taken, reading });
    }

    /// Whether a condition holds: `cfg.a > 1`, `cfg.a is not None`, `isinstance(scheme, str) and … in ["lora", …]`.
    fn holds(&self, text: &str, names: &RecipeNames) -> Option<bool> {
        let known = |name: &str| match name.trim().strip_prefix("cfg.") {
            Some(path) => self.entries.get(path).map(|found| found.value.clone()),
            None => python_literal(names.get(name.trim())?),
        };
        if let Some(rest) = text.strip_prefix("isinstance(") {
            let (name, kind) = rest.split_once(')')?.0.split_once(',')?;
            let value = known(name)?;
            let list = text.split_once(" in ").or_else(|| text.split_once(" == ")).map(|(_, list)| list);
            let named = |word: &str| list.is_none_or(|list| list.contains(&format!("\"{word}\"")));
            return match kind.trim() {
                "str" => Some(value.as_str().is_some_and(named)),
                _ => value.is_string().then_some(false),
            };
        }
        if let Some((name, number)) = text.split_once(" > ") {
            return Some(whole(&known(name)?)? > number.trim().parse::<u64>().ok()?);
        }
        if let Some(name) = text.strip_suffix(" is not None") {
            return Some(!known(name)?.is_null());
        }
        if let Some(name) = text.strip_suffix(" is None") {
            return Some(known(name)?.is_null());
        }
        truth(&known(text)?)
    }

    /// `cfg = other()`, `cfg.model.seq_length = 4096`, `peft_cfg = …`, `peft_cfg.dim = 8`.
    fn assign(
        &mut self,
        module: &RecipeModule,
        target: &str,
        value: &str,
        names: &mut RecipeNames,
        at: (usize, usize),
    ) {
        let (line, deepest) = at;
        // A section that a function is given under a name of its own: `model_cfg` for `cfg.model`.
        let section = target.split_once('.').and_then(|(own, field)| Some((names.get(own)?, field)));
        let given =
            section.filter(|(section, _)| section.starts_with("cfg.")).map(|(own, field)| format!("{own}.{field}"));
        let target = given.as_deref().unwrap_or(target);
        if target == "cfg" {
            if let Some(inner) = value.strip_prefix("ConfigContainer(") {
                self.entries.clear();
                return self.put_keywords(module, "", inner, names, line);
            }
            return self.called(module, value, names, deepest);
        }
        if let Some(path) = target.strip_prefix("cfg.") {
            return self.put(module, path, value, names, line);
        }
        // Of several names the first is what the call makes: `opt_cfg, scheduler_cfg = …`.
        let name = target.split(',').next().unwrap_or(target).trim();
        if !name.contains('.') {
            let fields = format!("{name}.");
            names.retain(|other, _| !other.starts_with(&fields));
        }
        names.insert(name.to_owned(), value.to_owned());
    }

    /// A call: what a function of the project does to `cfg`.
    fn called(&mut self, module: &RecipeModule, text: &str, names: &RecipeNames, deepest: usize) {
        let Some((callee, inner)) = text.split_once('(') else { return };
        let parts = arguments(inner);
        let given: Vec<(String, String)> = parts
            .iter()
            .enumerate()
            .map(|(place, part)| match part.split_once('=') {
                Some((name, value)) => (name.trim().to_owned(), value.trim().to_owned()),
                None => (place.to_string(), part.trim().to_owned()),
            })
            .map(|(name, value)| (name, names.get(&value).cloned().unwrap_or(value)))
            .collect();
        let quiet = QUIET.contains(&callee.trim()) || callee.contains('.') && !callee.contains("cfg.");
        if !quiet && !self.enter(module, callee.trim(), &given, deepest) {
            self.leave_open(text);
        }
    }

    fn leave_open(&mut self, text: &str) {
        let shown: String = text.split('(').next().unwrap_or(text).chars().take(60).collect();
        let quiet = QUIET.contains(&shown.trim())
            || ["pass", "raise", "cfg.env_vars", "\"\"\""].iter().any(|word| shown.starts_with(word));
        if !quiet && !self.open.contains(&shown) {
            self.open.push(shown);
        }
    }

    /// Sets what stands at a path: a value, what a name stands for with its own fields, or what a call is given.
    fn put(&mut self, module: &RecipeModule, path: &str, text: &str, names: &RecipeNames, line: usize) {
        self.nested += 1;
        self.steps += 1;
        let followed = self.nested <= MOST_NESTED && self.steps <= MOST_STEPS;
        let text = if followed { text.trim() } else { UNKNOWN };
        self.put_value(module, path, text, names, line);
        self.nested -= 1;
    }

    fn put_value(&mut self, module: &RecipeModule, path: &str, text: &str, names: &RecipeNames, line: usize) {
        let below = format!("{path}.");
        let origin = || Origin::File { name: module.shown.clone(), line: Some(line), key: path.to_owned() };
        self.entries.retain(|name, _| !name.starts_with(&below));
        if let Some(value) = literal(text) {
            self.entries.insert(path.to_owned(), Setting::new(value, origin()));
            return;
        }
        if let Some(told) = names.get(text).filter(|told| *told != text) {
            self.put(module, path, told, names, line);
            let fields = format!("{text}.");
            let own: Vec<(String, String)> = names
                .iter()
                .filter_map(|(name, value)| Some((name.strip_prefix(&fields)?.to_owned(), value.clone())))
                .collect();
            for (field, value) in own {
                self.put(module, &format!("{path}.{field}"), &value, names, line);
            }
            return;
        }
        let call = text.split_once('(').filter(|(callee, _)| {
            !callee.is_empty() && callee.chars().all(|letter| letter.is_ascii_alphanumeric() || "._".contains(letter))
        });
        match call {
            Some((callee, inner)) => {
                // `cfg.a = made_of(cfg.a)`: what stood there.
                let before =
                    self.entries.remove(path).and_then(|found| Some(format!("\"{}\")", found.value.as_str()?)));
                let itself = inner.trim_end_matches(')').trim() == format!("cfg.{path}");
                self.entries.insert(format!("{below}{MADE}"), Setting::new(callee.into(), origin()));
                let inner = before.as_deref().filter(|_| itself).unwrap_or(inner);
                self.put_keywords(module, &below, inner, names, line);
            }
            None => {
                self.entries.insert(path.to_owned(), Setting::new(UNKNOWN.into(), origin()));
            }
        }
    }

    fn put_keywords(&mut self, module: &RecipeModule, below: &str, inner: &str, names: &RecipeNames, line: usize) {
        for (place, part) in arguments(inner).iter().enumerate() {
            match part
                .split_once('=')
                .filter(|(name, _)| name.trim().chars().all(|one| one.is_alphanumeric() || one == '_'))
            {
                Some((name, value)) => self.put(module, &format!("{below}{}", name.trim()), value, names, line),
                None => self.put(module, &format!("{below}{place}"), part, names, line),
            }
        }
    }
}

/// The target and the value of an assignment.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let (target, value) = text.split_once(" = ")?;
    // `cfg.model: Provider = …`
    let target = target.split(':').next()?.trim();
    let plain = target.chars().all(|letter| letter.is_ascii_alphanumeric() || "_., ".contains(letter));
    plain.then_some((target, value.trim()))
}

/// A plain value: a literal, a list of such, a type of torch's by its last name.
fn literal(text: &str) -> Option<Value> {
    if text == UNKNOWN {
        return Some(UNKNOWN.into());
    }
    if let Some(name) = text.strip_prefix("torch.").filter(|name| name.chars().all(char::is_alphanumeric)) {
        return Some(name.into());
    }
    // A member of an enumeration: `AttnBackend.flash`.
    let named = text.split_once('.').filter(|(class, member)| {
        let plain = |word: &str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        class.starts_with(|letter: char| letter.is_ascii_uppercase()) && plain(class) && plain(member)
    });
    if let Some((_, member)) = named {
        return Some(member.into());
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let items: Option<Vec<Value>> = arguments(inner).iter().map(|item| literal(item.trim())).collect();
        return items.map(Value::from);
    }
    python_literal(text)
}
