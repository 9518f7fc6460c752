//! What an expression of a script comes to.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::script::FollowedScript;
use super::store::{Collection, Names};
use super::syntax::{Expression, PythonStatement};
use super::value::{ArgumentSource, Known};
use crate::settings::UNKNOWN;

/// Libraries that no project has a module of its own for.
const LIBRARIES: [&str; 16] = [
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "unsloth",
    "bitsandbytes",
    "numpy",
    "os",
    "sys",
    "json",
    "yaml",
    "math",
    "typing",
    "dataclasses",
];

/// The setting that holds the words of a script's command, its name first.
pub const ARGV: &str = "sys.argv";

impl FollowedScript<'_> {
    /// What an expression comes to.
    pub(super) fn evaluate(&mut self, expression: &Expression) -> Known {
        if !self.step() {
            return Known::UNKNOWN;
        }
        match expression {
            Expression::Literal(value) => Known::plain(value.clone()),
            Expression::Name(name) => self.name(name),
            Expression::Attribute(owner, name) => {
                let owner = self.evaluate(owner);
                self.attribute(&owner, name)
            }
            Expression::Item(owner, index) => {
                let (owner, index) = (self.evaluate(owner), self.evaluate(index));
                self.item(&owner, &index)
            }
            Expression::Call(call) => self.call(call),
            Expression::Binary(left, sign, right) => {
                let (first, second) = (self.evaluate(left), self.evaluate(right));
                self.combined(&first, sign, &second, right)
            }
            Expression::Signed(sign, inner) => {
                let value = self.evaluate(inner);
                match (sign.as_str(), value.number()) {
                    ("-", Some(number)) => Known::numeral(-number, value.whole().is_some()).also(&value.source()),
                    ("+", Some(_)) => value,
                    _ => Known::UNKNOWN,
                }
            }
            Expression::Not(_) | Expression::Compare(..) => match self.holds(expression) {
                (Some(holds), source) => Known::plain(holds).also(&source),
                (None, _) => Known::UNKNOWN,
            },
            Expression::Both(..) => self.both(expression),
            Expression::Choice(parts) => {
                let [then, condition, otherwise] = &**parts;
                let (holds, source) = self.holds(condition);
                match holds {
                    Some(true) => self.evaluate(then).also(&source),
                    Some(false) => self.evaluate(otherwise).also(&source),
                    None => {
                        self.unsure += 1;
                        let (one, other) = (self.evaluate(then), self.evaluate(otherwise));
                        self.unsure -= 1;
                        // Either way it is the same.
                        one.either(&other).unwrap_or(Known::UNKNOWN)
                    }
                }
            }
            Expression::List(items) => self.list(items),
            Expression::Table(pairs) => self.table(pairs),
            Expression::Joined(parts) => self.joined(parts),
            Expression::Each(each) => self.each(each),
            Expression::Named(name, value) => {
                let value = self.evaluate(value);
                self.store.set(self.scope(), name, value.clone());
                value
            }
            Expression::Lambda(function) => Known::Function(Rc::clone(function), None),
            Expression::Spread(inner) => self.evaluate(inner),
            Expression::Other => Known::UNKNOWN,
        }
    }

    fn name(&mut self, name: &str) -> Known {
        match self.find(name) {
            // What is handed on to a function may be an argument of the script's.
            Some(Known::Open(path)) if path.len() < 2 => self.argument(&[name.to_owned()]).unwrap_or(Known::Open(path)),
            Some(found) => found,
            None if name == "__name__" => Known::plain("__main__"),
            None if name == "__file__" => Known::plain(self.path.as_str()),
            None if LIBRARIES.contains(&name) => Known::Library(name.to_owned()),
            None => self.argument(&[name.to_owned()]).unwrap_or_else(|| Known::Open(vec![name.to_owned()])),
        }
    }

    /// What the project itself defines by the last part of a path.
    pub(super) fn defined(&self, path: &str) -> Option<Known> {
        let (root, name) = (path.split('.').next()?, path.rsplit('.').next()?);
        let own = !LIBRARIES.contains(&root) && path.contains('.');
        self.store.names(self.project)?.values.get(name).filter(|_| own).cloned()
    }

    /// One of the script's own arguments, by the names that lead to it.
    pub(super) fn argument(&mut self, path: &[String]) -> Option<Known> {
        let last = path.last()?;
        let long = path.len().checked_sub(2).and_then(|start| path.get(start..)).map(|two| two.join("."));
        let found = long.iter().chain([last]).find_map(|name| Some((name, self.own.get(name)?.value.clone())));
        if let Some((name, value)) = found {
            let source = ArgumentSource::argument(name);
            return Some(self.told(value).also(&source));
        }
        if let Some(found) = self.declared.get(last) {
            return Some(found.clone().also(&ArgumentSource::argument(last)));
        }
        (path.len() > 1 && self.nothing.contains(last)).then(|| Known::plain(Value::Null))
    }

    /// Whether the settings that the script is given have neither such a name nor such a section.
    fn is_absent(&self, name: &str) -> bool {
        let section = format!("{name}.");
        self.own.iter().any(|(own, _)| self.own.is_set(own))
            && !self.own.iter().any(|(own, _)| own.starts_with(&section))
    }

    /// What something that is not known has for a name.
    pub(super) fn asked(&mut self, path: &[String], name: &str) -> Known {
        let mut path = if path.is_empty() { vec![String::new()] } else { path.to_vec() };
        path.push(name.to_owned());
        self.argument(&path).unwrap_or(Known::Open(path))
    }

    /// What a call of a library was given, or got afterwards, by a name: `args.batch_size = args.batch_size // 4`.
    fn given_to(&self, call: usize, name: &str) -> Option<Known> {
        let given = &self.seen.get(call)?.given;
        let found = given.iter().rev().find(|(given, ..)| given == name).map(|(_, value, _)| value);
        found.filter(|value| matches!(value, Known::Plain(..))).cloned()
    }

    /// `cuda` of `torch.device("cuda:0")`.
    fn kind_of_device(&self, call: usize) -> Known {
        let told = self.given_to(call, "0").or_else(|| self.given_to(call, "type"));
        let kind = told.as_ref().and_then(Known::text).map(|text| text.split(':').next().unwrap_or("").to_owned());
        kind.zip(told).map_or(Known::UNKNOWN, |(kind, told)| Known::plain(kind).also(&told.source()))
    }

    /// `owner.name`
    pub(super) fn attribute(&mut self, owner: &Known, name: &str) -> Known {
        match owner {
            // absl's: what `DEFINE_integer` and the like declare.
            Known::Library(path) if path.ends_with("flags.FLAGS") => self.asked(&[], name),
            Known::Library(path) => {
                let path = format!("{path}.{name}");
                self.defined(&path).unwrap_or(Known::Library(path))
            }
            Known::Collection(at) => self.member(*at, name),
            Known::Made(path, _) if name == "num_processes" && path.ends_with("Accelerator") => Known::Ranks,
            Known::Made(path, Some(call)) if path == "torch.device" && name == "type" => self.kind_of_device(*call),
            Known::Made(_, Some(call)) => self.given_to(*call, name).unwrap_or_else(|| self.asked(&[], name)),
            Known::Made(..) => self.asked(&[], name),
            Known::Open(path) => self.asked(path, name),
            Known::Absent => Known::Absent,
            Known::Class(class) => {
                let (fields, _) = self.inherited(class);
                fields.get(name).cloned().unwrap_or(Known::UNKNOWN)
            }
            Known::Plain(Value::String(path), source) => match name {
                "parents" => {
                    let mut folders = vec![above(path)];
                    while let Some(last) = folders.last().filter(|last| **last != ".") {
                        folders.push(above(last));
                    }
                    let folders = folders.into_iter().map(|folder| Known::plain(folder).also(source)).collect();
                    self.store.list(folders)
                }
                "parent" => Known::plain(above(path)).also(source),
                "name" => Known::plain(path.rsplit('/').next().unwrap_or("")).also(source),
                _ => Known::UNKNOWN,
            },
            Known::Plain(..) | Known::Function(..) | Known::Opened(..) | Known::Ranks => Known::UNKNOWN,
        }
    }

    pub(super) fn member(&mut self, at: usize, name: &str) -> Known {
        let Some(names) = self.store.names(at) else { return Known::UNKNOWN };
        if let Some(found) = names.values.get(name) {
            return found.clone();
        }
        if let Some(class) = names.class.clone() {
            for statement in &class.body {
                if let PythonStatement::Function(function) = statement
                    && function.name == name
                {
                    let property = |above: &Expression| matches!(above, Expression::Name(name) if name == "property" || name == "cached_property");
                    if function.decorators.iter().any(property) {
                        return self.call_function(function, Some(at), Vec::new(), BTreeMap::new(), false);
                    }
                    return Known::Function(Rc::clone(function), Some(at));
                }
            }
            // What an object is asked for and does not hold itself: settings by dotted names.
            for statement in &class.body {
                if let PythonStatement::Function(function) = statement
                    && function.name == "__getattr__"
                    && !name.starts_with('_')
                {
                    return self.call_function(function, Some(at), vec![Known::plain(name)], BTreeMap::new(), false);
                }
            }
        }
        self.asked(&[], name)
    }

    /// `owner[index]`
    pub(super) fn item(&mut self, owner: &Known, index: &Known) -> Known {
        match (owner, index.text(), index.whole()) {
            (Known::Library(path), Some("WORLD_SIZE"), _) if path == "os.environ" => Known::Ranks,
            (Known::Library(path), Some(name), _) if path == "os.environ" => {
                self.variable(name).unwrap_or(Known::UNKNOWN)
            }
            (Known::Library(path), None, Some(place)) if path == "sys.argv" => self.word(place),
            (Known::Collection(at), Some(name), _) => {
                let found = self.entry(*at, name).unwrap_or(Known::UNKNOWN);
                self.chosen(found, &index.source())
            }
            (Known::Collection(_), None, Some(place)) => {
                let items = self.store.items(owner);
                let found = items.and_then(|items| {
                    let place = if place < 0 { place + i64::try_from(items.len()).ok()? } else { place };
                    items.get(usize::try_from(place).ok()?).cloned()
                });
                found.unwrap_or(Known::UNKNOWN)
            }
            (Known::Open(_) | Known::Made(..), Some(name), _) => {
                let path = if let Known::Open(path) = owner { path.as_slice() } else { &[] };
                match self.asked(path, name) {
                    Known::Open(_) if self.is_absent(name) => Known::Absent,
                    found => found,
                }
            }
            (Known::Absent, ..) => Known::Absent,
            // Which of several it is, is not known: each of them is such a thing.
            (Known::Open(path), ..) => Known::Open(path.clone()),
            _ => Known::UNKNOWN,
        }
    }

    /// A word of the script's command.
    fn word(&mut self, place: i64) -> Known {
        let words = self.own.get(ARGV).and_then(|found| found.value.as_array());
        let word = usize::try_from(place).ok().and_then(|place| words?.get(place).cloned());
        word.map_or(Known::UNKNOWN, |word| self.told(word))
    }

    /// What an argument has chosen of a table: what it holds rests upon that argument.
    pub(super) fn chosen(&mut self, found: Known, source: &ArgumentSource) -> Known {
        let Known::Collection(at) = found else { return found.also(source) };
        let Some(names) = self.store.names(at).filter(|names| !names.object && source.names().next().is_some()) else {
            return found;
        };
        let mut names = names.clone();
        names.values = names.values.into_iter().map(|(name, value)| (name, value.also(source))).collect();
        Known::Collection(self.store.add(Collection::Names(names)))
    }

    /// What a dictionary has for a name.
    pub(super) fn entry(&mut self, at: usize, name: &str) -> Option<Known> {
        let names = self.store.names(at)?;
        if let Some(found) = names.values.get(name) {
            return Some(found.clone());
        }
        if names.open { self.argument(&[String::new(), name.to_owned()]) } else { None }
    }

    fn list(&mut self, items: &[Expression]) -> Known {
        let mut found = Vec::new();
        for item in items {
            let value = self.evaluate(item);
            match (item, self.store.items(&value).cloned()) {
                (Expression::Spread(_), Some(inner)) => found.extend(inner),
                (Expression::Spread(_), None) => return Known::Collection(self.store.add(Collection::List(None))),
                _ => found.push(value),
            }
        }
        self.store.list(found)
    }

    fn table(&mut self, pairs: &[(Option<Expression>, Expression)]) -> Known {
        let mut names = Names::default();
        for (key, value) in pairs {
            let value = self.evaluate(value);
            match key.as_ref().map(|key| self.evaluate(key)) {
                Some(key) => match key.text() {
                    Some(key) => drop(names.values.insert(key.to_owned(), value)),
                    None => names.open |= key.is_open(),
                },
                None => self.spread_into(&mut names, &value),
            }
        }
        Known::Collection(self.store.add(Collection::Names(names)))
    }

    /// `{**value}`
    pub(super) fn spread_into(&self, names: &mut Names, value: &Known) {
        match value {
            Known::Collection(at) => match self.store.names(*at) {
                Some(inner) => {
                    names.values.extend(inner.values.clone());
                    names.open |= inner.open;
                }
                None => names.open = true,
            },
            _ => names.open = true,
        }
    }

    fn joined(&mut self, parts: &[Expression]) -> Known {
        let (mut text, mut source) = (String::new(), ArgumentSource::default());
        for part in parts {
            match self.evaluate(part) {
                Known::Plain(Value::String(part), from) => {
                    text.push_str(&part);
                    source = source.and(&from);
                }
                Known::Plain(value, from) => {
                    text.push_str(&value.to_string());
                    source = source.and(&from);
                }
                _ => return Known::UNKNOWN,
            }
        }
        Known::of_text(text).also(&source)
    }

    /// `left and right`, `left or right`
    fn both(&mut self, expression: &Expression) -> Known {
        let Expression::Both(and, left, right) = expression else { return Known::UNKNOWN };
        let first = self.evaluate(left);
        match self.truth(&first) {
            Some(truth) if truth == *and => self.evaluate(right).also(&first.source()),
            Some(_) => first,
            None => {
                let second = self.evaluate(right);
                match self.truth(&second) {
                    // `unknown and False`, `unknown or True`: true or false for certain.
                    Some(truth) if truth != *and && matches!(second, Known::Plain(Value::Bool(_), _)) => second,
                    _ => Known::UNKNOWN,
                }
            }
        }
    }

    /// What an argument is told, as Python reads it: a command gives numbers and truths as words.
    pub(super) fn told(&mut self, value: Value) -> Known {
        match value {
            Value::String(text) if text == UNKNOWN => Known::UNKNOWN,
            Value::String(text) => match (text.trim(), text.trim().parse::<i64>(), text.trim().parse::<f64>()) {
                (_, Ok(whole), _) => Known::plain(whole),
                (_, _, Ok(number)) if number.is_finite() => Known::plain(number),
                ("True" | "true", ..) => Known::plain(true),
                ("False" | "false", ..) => Known::plain(false),
                ("None", ..) => Known::plain(Value::Null),
                _ => Known::plain(text),
            },
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.told(item)).collect();
                self.store.list(items)
            }
            Value::Object(entries) => {
                let values = entries.into_iter().map(|(name, value)| (name, self.told(value))).collect();
                self.store.table(values)
            }
            value => Known::plain(value),
        }
    }
}

/// The folder of a path.
pub(super) fn above(path: &str) -> &str {
    path.trim_end_matches('/').rsplit_once('/').map_or(".", |(folder, _)| folder)
}
