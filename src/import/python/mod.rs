//! Python scripts, read as far as a plan needs it: what their calls of libraries are given. Nothing is run.

mod alternatives;
mod arithmetic;
mod builtins;
mod calls;
mod comprehensions;
mod conditions;
mod effects;
mod evaluate;
mod libraries;
mod omega;
mod parse;
mod parse_expressions;
mod script;
mod statements;
mod store;
mod syntax;
mod value;

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};

use serde_json::Value;

use alternatives::{first, of, trained};
pub use evaluate::ARGV;
pub use script::ScriptSurroundings;
use script::{FollowedScript, LibraryCall, unnamed};
use store::Collection;
use syntax::Expression;
use value::{ArgumentSource, Known};

use super::origin::{Origin, Setting};
use super::settings::{Settings, UNKNOWN, whole};
use super::{python_calls, script_defaults};

/// No deeper dictionary is looked into.
const DEEPEST: usize = 8;

/// What a call is passed by one of its keywords.
#[derive(Debug, Clone)]
pub enum PassedArgument {
    /// Nothing, or `None`.
    Nothing,
    /// A plain value.
    Plain(Setting<Value>),
    /// What a call of a library made: the path of what was called, and what that was given.
    Made(String, Settings),
    /// What is not followed.
    Open,
}

/// A script that has been read.
pub struct ScriptReader<'a> {
    name: &'a str,
    content: &'a str,
    whole: &'a str,
    /// How many lines it has without those modules, and how many of them are the named file's.
    lines: usize,
    named_lines: usize,
    /// The script's own arguments: their defaults, and what its command gives.
    own: Settings,
    script: RefCell<FollowedScript<'a>>,
    /// Whether a default of those was taken.
    pub asked: Cell<bool>,
    /// Whether a file of settings was asked for a name that it has not: no run comes there.
    pub absent: Cell<bool>,
    /// Whether a value is one that the script divides among its ranks later.
    pub divided: Cell<bool>,
    /// Whether a call takes keywords from what is not followed: `TrainingArguments(**kwargs)`.
    pub open: Cell<bool>,
}

impl<'a> ScriptReader<'a> {
    /// A reader of a script with its own arguments, over which `given` goes.
    pub fn new(name: &'a str, content: &'a str, given: Settings) -> Self {
        Self::of_project(name, content, content, given, (None, None))
    }

    /// The same of a script whose `whole` text ends with the modules of its project, with what lies around it.
    pub fn of_project(
        name: &'a str,
        content: &'a str,
        whole: &'a str,
        given: Settings,
        outside: ScriptSurroundings<'a>,
    ) -> Self {
        let own = script_defaults::read(name, content).with(given);
        let nothing = script_defaults::nothing(content);
        let script = FollowedScript::read(
            name.to_owned(),
            &parse::statements(whole),
            own.clone(),
            nothing,
            unnamed(whole),
            outside,
        );
        Self {
            name,
            content,
            whole,
            lines: content.lines().count(),
            named_lines: content.lines().count(),
            own,
            script: RefCell::new(script),
            asked: Cell::new(false),
            absent: Cell::new(false),
            divided: Cell::new(false),
            open: Cell::new(false),
        }
    }

    /// The same, of whose text only the first lines are the named file's.
    pub fn with_named_lines(self, named_lines: usize) -> Self {
        Self { named_lines, ..self }
    }

    /// Where the script lies.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Its text.
    pub const fn content(&self) -> &'a str {
        self.content
    }

    /// Its text with those of the modules of its project.
    pub const fn whole(&self) -> &'a str {
        self.whole
    }

    /// The keywords of the first call of one of `names`; an argument without a name is called by its place.
    pub fn calls(&self, names: &[&str]) -> Settings {
        let script = self.script.borrow();
        first(&script, names).map_or_else(Settings::default, |seen| self.told(&script, names, seen))
    }

    /// The same of the call that makes the model which the script's Trainer is handed, where that can be told.
    pub fn calls_of_model(&self, names: &[&str]) -> Settings {
        let script = self.script.borrow();
        let trained = trained(&script, names).and_then(|at| script.seen.get(at));
        trained.or_else(|| first(&script, names)).map_or_else(Settings::default, |seen| self.told(&script, names, seen))
    }

    /// What each call of one of `names` is given that may be made.
    pub fn every_call(&self, names: &[&str]) -> Vec<Settings> {
        let script = self.script.borrow();
        let made = of(&script, names).filter(|call| call.reached != Some(false));
        made.map(|call| self.given(&script, call)).collect()
    }

    fn told(&self, script: &FollowedScript, names: &[&str], seen: &LibraryCall) -> Settings {
        let mut settings = Settings::default();
        if seen.open {
            // `TrainingArguments(**config["training"])`: whatever a file of settings has.
            let filled = self.own.iter().any(|(name, told)| self.own.is_set(name) && told.origin.is_of_settings());
            self.open.set(self.open.get() || !filled);
            settings.adopt_all(&self.own, |name| (!name.contains('.')).then(|| name.to_owned()));
        }
        self.take(&seen.around);
        settings.over(self.given(script, seen));
        self.open_differences(script, names, seen, &mut settings);
        settings
    }

    /// What a call is given, by name or place.
    fn given(&self, script: &FollowedScript, call: &LibraryCall) -> Settings {
        let mut settings = Settings::default();
        for (key, value, line) in &call.given {
            self.put(script, &mut settings, key, value, Some(*line), 0);
        }
        settings
    }

    /// Whether the first call of one of `names` is reached: none where a condition around it is not followed.
    pub fn reached(&self, names: &[&str]) -> Option<bool> {
        match first(&self.script.borrow(), names) {
            Some(seen) => seen.reached,
            None if !names.iter().any(|name| python_calls::call(self.content, name).is_some()) => Some(true),
            None => (!self.script.borrow().incomplete).then_some(false),
        }
    }

    /// What each call of one of `names` is passed by a keyword, with whether the call is made for certain; `a.b` is what
    /// a dictionary `a` holds, or the call that made it is passed.
    pub fn passed(&self, names: &[&str], keyword: &str) -> Vec<(PassedArgument, bool)> {
        let script = self.script.borrow();
        let calls = of(&script, names);
        calls.map(|call| (self.passed_to(&script, call, keyword), call.reached.is_some())).collect()
    }

    fn passed_to(&self, script: &FollowedScript, call: &LibraryCall, keyword: &str) -> PassedArgument {
        let (first, rest) = keyword.split_once('.').map_or((keyword, None), |(first, rest)| (first, Some(rest)));
        let given = call.given.iter().rev().find(|(name, ..)| name == first);
        let line = given.map(|(.., line)| *line);
        let mut found = given.map(|(_, value, _)| value);
        let mut open = call.open;
        if let (Some(Known::Made(_, Some(at))), Some(rest)) = (found, rest)
            && let Some(made) = script.seen.get(*at)
        {
            return self.passed_to(script, made, rest);
        }
        if let (Some(Known::Collection(at)), Some(rest)) = (found, rest)
            && let Some(names) = script.store.names(*at)
        {
            found = names.values.get(rest);
            open = names.open;
        } else if found.is_some_and(|value| !matches!(value, Known::Plain(Value::Null, _))) && rest.is_some() {
            return PassedArgument::Open;
        }
        match found {
            None if open => PassedArgument::Open,
            None => PassedArgument::Nothing,
            Some(Known::Plain(Value::Null, source)) => {
                self.take(source);
                PassedArgument::Nothing
            }
            Some(Known::Plain(value, source)) => {
                self.take(source);
                let origin = self.origin(line, keyword);
                PassedArgument::Plain(Setting::new(value.clone(), origin))
            }
            // Types and other constants go by their own names.
            Some(Known::Library(path)) if path.starts_with("torch.") => {
                let name = path.trim_start_matches("torch.");
                let origin = self.origin(line, keyword);
                PassedArgument::Plain(Setting::new(name.into(), origin))
            }
            Some(Known::Made(path, Some(at))) => match script.seen.get(*at) {
                Some(made) => PassedArgument::Made(path.clone(), self.given(script, made)),
                None => PassedArgument::Open,
            },
            Some(_) => PassedArgument::Open,
        }
    }

    /// How many calls of `name` are made for certain, in the script or in functions of its modules that it calls.
    pub fn sure_calls(&self, name: &str) -> usize {
        of(&self.script.borrow(), &[name]).filter(|call| call.reached == Some(true) && !call.blindly).count()
    }

    /// Whether the script calls a function of that name, of its own or a library's: none where it may.
    pub fn calls_any(&self, name: &str) -> Option<bool> {
        match self.script.borrow().called.get(name) {
            Some(certain) => certain.then_some(true),
            None => self.reached(&[name]),
        }
    }

    /// Whether the script keeps weights from training: `parameter.requires_grad = False`. A function of its own text
    /// counts as called, one of its modules where it is.
    pub fn freezes(&self) -> bool {
        let script = self.script.borrow();
        let own = |line: usize, blindly: bool| !blindly || line <= self.lines;
        let calls = of(&script, &["requires_grad_"]).any(|call| {
            let given = call.given.iter().find(|(name, ..)| matches!(name.as_str(), "0" | "requires_grad"));
            given.is_some_and(|(_, value, line)| script.truth(value) != Some(true) && own(*line, call.blindly))
        });
        let unread = script.incomplete && self.content.contains("requires_grad");
        calls || unread || script.frozen.iter().any(|(line, blindly)| own(*line, *blindly))
    }

    /// What the script sets of its arguments that are wanted after a parser has filled them in:
    /// `training_args.bf16 = True`. What is not followed is unknown.
    pub fn set_afterwards(&self, wanted: impl Fn(&str) -> bool) -> Settings {
        let script = self.script.borrow();
        let mut settings = Settings::default();
        for names in script.filled.iter().filter_map(|at| script.store.names(*at)) {
            for (name, line) in names.lines.iter().filter(|(name, _)| wanted(name)) {
                if let Some(value) = names.values.get(name) {
                    self.put(&script, &mut settings, name, value, Some(*line), 0);
                }
            }
        }
        settings
    }

    /// The calls of `from_pretrained` that were seen, of classes that are `wanted`: whatever the text calls them.
    pub fn loaded(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let script = self.script.borrow();
        let mut found: Vec<String> = Vec::new();
        for path in of(&script, &["from_pretrained"]).flat_map(|call| &call.names) {
            let class = path.trim_end_matches(".from_pretrained").rsplit('.').next().unwrap_or("");
            let call = format!("{class}.from_pretrained");
            if wanted(class) && !found.contains(&call) {
                found.push(call);
            }
        }
        found
    }

    /// Whether the script makes a call of that name for certain.
    pub fn makes(&self, name: &str) -> bool {
        let script = self.script.borrow();
        let seen = first(&script, &[name]).filter(|seen| seen.reached == Some(true) && !seen.blindly);
        seen.inspect(|seen| self.take(&seen.around)).is_some()
    }

    /// What a dictionary of the script holds, by dotted names behind `name`.
    pub fn section(&self, name: &str) -> Settings {
        let value = self.script.borrow_mut().later(&Expression::Name(name.to_owned()));
        let mut settings = Settings::default();
        if matches!(value, Known::Collection(_)) {
            self.put(&self.script.borrow(), &mut settings, name, &value, None, 0);
        }
        settings
    }

    /// The first of `names` that the script has a whole number for: a name of its own, or an argument.
    pub fn named(&self, names: &[&str]) -> Settings {
        let mut settings = Settings::default();
        for name in names {
            let known = self.script.borrow_mut().later(&Expression::Name((*name).to_owned()));
            if let Some(value) = self.plain(&known).filter(|value| whole(value).is_some_and(|number| number > 0)) {
                let origin = Origin::File { name: self.name.to_owned(), line: None, key: (*name).to_owned() };
                settings.set(name, value, origin);
                break;
            }
        }
        settings
    }

    /// The value of an expression; none where it is not known.
    pub fn expression(&self, text: &str) -> Option<Value> {
        let known = self.script.borrow_mut().later(&parse::expression(text));
        self.plain(&known)
    }

    /// The script's own arguments: their defaults, and what its command gives.
    pub fn own(&self) -> &Settings {
        &self.own
    }

    /// Marks what a value that is taken rests upon.
    fn take(&self, source: &ArgumentSource) {
        for name in source.names() {
            self.asked.set(self.asked.get() || !self.own.is_set(name));
            self.own.accept(name);
        }
        self.divided.set(self.divided.get() || source.divided);
    }

    /// A value that is told in full.
    fn plain(&self, known: &Known) -> Option<Value> {
        match known {
            Known::Plain(value, source) => {
                self.take(source);
                Some(value.clone())
            }
            // Types and other constants go by their own names.
            Known::Library(path) => path.strip_prefix("torch.").map(Value::from),
            Known::Absent => {
                self.absent.set(true);
                None
            }
            Known::Collection(_) => {
                let items = self.script.borrow().store.items(known).cloned()?;
                // Lists of lists tell no setting.
                let plain = |item: &Known| if matches!(item, Known::Collection(_)) { None } else { self.plain(item) };
                items.iter().map(plain).collect()
            }
            _ => None,
        }
    }

    /// Where the script says something: in a line of its own, or in a module of its project.
    fn origin(&self, line: Option<usize>, key: &str) -> Origin {
        let own = line.filter(|line| *line <= self.named_lines);
        let elsewhere = self.named_lines < self.lines && line != own;
        let name = if elsewhere { format!("a module of {}", self.name) } else { self.name.to_owned() };
        Origin::File { name, line: own, key: key.to_owned() }
    }

    fn put(
        &self,
        script: &FollowedScript,
        settings: &mut Settings,
        key: &str,
        known: &Known,
        line: Option<usize>,
        depth: usize,
    ) {
        if let Known::Collection(at) = known
            && let Some(Collection::Names(names)) = script.store.get(*at)
            && depth < DEEPEST
        {
            for (name, value) in &names.values {
                let line = names.lines.get(name).copied().or(line);
                self.put(script, settings, &format!("{key}.{name}"), value, line, depth + 1);
            }
            return;
        }
        let origin = self.origin(line, key);
        settings.set(key, self.plain(known).unwrap_or_else(|| UNKNOWN.into()), origin);
    }
}
