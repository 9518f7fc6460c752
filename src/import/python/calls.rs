//! Calls in a script: its own functions and classes are read, those of libraries are noted.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::script::{FollowedScript, LibraryCall};
use super::statements::StatementEnd;
use super::store::{Collection, Names};
use super::syntax::{Call, Class, Expression, Function, PythonStatement};
use super::value::{ArgumentSource, Known};

/// No deeper chain of calls is followed.
const DEEPEST: usize = 24;

/// What a call is given.
#[derive(Debug, Default)]
pub struct CallArguments {
    /// By place, with the line.
    pub placed: Vec<(Known, usize)>,
    /// By name, with the line.
    pub named: Vec<(String, Known, usize)>,
    /// Whether it is given more that is not known.
    pub open: bool,
}

impl CallArguments {
    /// What it is given at a place.
    pub fn at(&self, place: usize) -> Option<&Known> {
        self.placed.get(place).map(|(value, _)| value)
    }

    /// What it is given by a name.
    pub fn named(&self, name: &str) -> Option<&Known> {
        self.named.iter().rev().find(|(own, ..)| own == name).map(|(_, value, _)| value)
    }

    fn values(&self) -> Vec<Known> {
        self.placed.iter().map(|(value, _)| value.clone()).collect()
    }

    fn by_name(&self) -> BTreeMap<String, Known> {
        self.named.iter().map(|(name, value, _)| (name.clone(), value.clone())).collect()
    }
}

impl FollowedScript<'_> {
    /// A call: what it gives.
    pub(super) fn call(&mut self, call: &Call) -> Known {
        let (callee, owner) = match &call.callee {
            Expression::Attribute(owner, name) => {
                let owner = self.evaluate(owner);
                (self.called_of(&owner, name), Some((owner, name.as_str())))
            }
            Expression::Name(name) => match self.evaluate(&call.callee) {
                // No argument of the script's is called.
                Known::Plain(..) => (Known::Open(vec![name.clone()]), None),
                found => (found, None),
            },
            other => (self.evaluate(other), None),
        };
        let given = self.given(call);
        if let Some((owner, name)) = owner
            && !matches!(callee, Known::Function(..) | Known::Class(_))
            && let Some(found) = self.method(&owner, name, &given)
        {
            return found;
        }
        match callee {
            Known::Function(function, of) => {
                let certain = self.unsure == 0 && self.blindly == 0;
                *self.called.entry(function.name.clone()).or_default() |= certain;
                self.call_function(&function, of, given.values(), given.by_name(), false)
            }
            Known::Class(class) => self.object(&class, given),
            // `cls(…)` in a function that is called of the class.
            Known::Collection(at) => {
                match self.store.names(at).filter(|names| names.stands_for_class).map(|it| it.class.clone()) {
                    Some(Some(class)) => self.object(&class, given),
                    _ => Known::UNKNOWN,
                }
            }
            // A model that is called is no model that is loaded.
            Known::Made(path, Some(_)) if path.ends_with("from_pretrained") => {
                self.library(format!("{path}.__call__"), given)
            }
            Known::Library(path) | Known::Made(path, _) => self.library(path, given),
            Known::Open(path) => self.library(path.join("."), given),
            _ => Known::UNKNOWN,
        }
    }

    /// What a method is, as something that is called.
    fn called_of(&mut self, owner: &Known, name: &str) -> Known {
        match owner {
            Known::Library(path) => {
                let path = format!("{path}.{name}");
                self.defined(&path).unwrap_or(Known::Library(path))
            }
            Known::Made(path, _) => Known::Made(format!("{path}.{name}"), None),
            Known::Open(path) => {
                Known::Open(path.iter().map(String::as_str).chain([name]).map(str::to_owned).collect())
            }
            Known::Collection(at) => match self.member(*at, name) {
                found @ (Known::Function(..) | Known::Class(_) | Known::Library(_)) => found,
                _ => Known::Open(vec![name.to_owned()]),
            },
            Known::Class(class) => self.of_class(class, name),
            _ => Known::Open(vec![name.to_owned()]),
        }
    }

    /// A function that is called of a class: `Config.load(path)`.
    fn of_class(&mut self, class: &Rc<Class>, name: &str) -> Known {
        for statement in &class.body {
            if let PythonStatement::Function(function) = statement
                && function.name == name
            {
                let of = function.parameters.first().filter(|first| first.name == "cls").map(|_| {
                    let class = Some(Rc::clone(class));
                    let object = Names { class, object: true, stands_for_class: true, ..Names::default() };
                    self.store.add(Collection::Names(object))
                });
                return Known::Function(Rc::clone(function), of);
            }
        }
        Known::Open(vec![class.name.clone(), name.to_owned()])
    }

    fn given(&mut self, call: &Call) -> CallArguments {
        let mut given = CallArguments::default();
        for argument in &call.arguments {
            let value = self.evaluate(&argument.value);
            match argument.name.as_deref() {
                Some("**") => {
                    let mut names = Names::default();
                    self.spread_into(&mut names, &value);
                    given.open |= names.open;
                    given.named.extend(names.values.into_iter().map(|(name, value)| (name, value, argument.line)));
                }
                Some(name) => given.named.push((name.to_owned(), value, argument.line)),
                None if matches!(argument.value, Expression::Spread(_)) => match self.store.items(&value) {
                    Some(items) => given.placed.extend(items.iter().map(|item| (item.clone(), argument.line))),
                    None => given.open = true,
                },
                None => given.placed.push((value, argument.line)),
            }
        }
        given
    }

    /// Reads a function of the script's own with what it is given. One that is called from nowhere takes the script's own
    /// arguments by their names.
    pub(super) fn call_function(
        &mut self,
        function: &Rc<Function>,
        of: Option<usize>,
        placed: Vec<Known>,
        mut named: BTreeMap<String, Known>,
        blindly: bool,
    ) -> Known {
        let twice = self.running.contains(&Rc::as_ptr(function));
        if self.scopes.len() >= DEEPEST || twice {
            return Known::UNKNOWN;
        }
        self.entered.insert(Rc::as_ptr(function));
        let mut scope = Names::default();
        let mut placed = of.map(Known::Collection).into_iter().chain(placed);
        let options = self.options.get(&Rc::as_ptr(function)).cloned();
        for parameter in &function.parameters {
            let value = match parameter.rest {
                "*" => {
                    let rest = placed.by_ref().collect();
                    self.store.list(rest)
                }
                "**" => {
                    let names = Names { values: std::mem::take(&mut named), open: blindly, ..Names::default() };
                    Known::Collection(self.store.add(Collection::Names(names)))
                }
                _ => match placed.next().or_else(|| named.remove(&parameter.name)) {
                    Some(given) => given,
                    None => {
                        self.missing(parameter.name.as_str(), parameter.default.as_ref(), options.as_ref(), blindly)
                    }
                },
            };
            scope.values.insert(parameter.name.clone(), value);
        }
        let scope = self.store.add(Collection::Names(scope));
        self.scopes.push(scope);
        self.running.push(Rc::as_ptr(function));
        self.returned.push(None);
        let flow = self.block(&function.body);
        for statement in &function.body {
            if let PythonStatement::Function(inner) = statement {
                self.call_blindly(inner, None);
            }
        }
        self.running.pop();
        self.leave();
        match self.returned.pop().flatten() {
            Some(found) if flow == StatementEnd::Return || !found.is_open() => found,
            Some(_) => Known::UNKNOWN,
            None => Known::plain(Value::Null),
        }
    }

    /// What a parameter is that a call does not give.
    fn missing(
        &mut self,
        name: &str,
        default: Option<&Expression>,
        options: Option<&BTreeMap<String, Known>>,
        blindly: bool,
    ) -> Known {
        if (blindly || options.is_some())
            && let Some(told) = self.argument(&[name.to_owned()])
        {
            return told;
        }
        match (options.and_then(|options| options.get(name)), default) {
            (Some(found), _) => found.clone().also(&ArgumentSource::argument(name)),
            (None, Some(default)) => self.evaluate(default),
            (None, None) => Known::Open(vec![name.to_owned()]),
        }
    }

    /// Takes down what stands above a function that makes a command of it: `click`'s options.
    pub(super) fn command(&mut self, function: &Rc<Function>) {
        let mut options: Option<BTreeMap<String, Known>> = None;
        for above in &function.decorators {
            let (callee, call) = match above {
                Expression::Call(call) => (&call.callee, Some(call)),
                other => (other, None),
            };
            let name = if let Expression::Attribute(_, name) = callee { name.as_str() } else { "" };
            let click = |owner: &Expression| matches!(owner, Expression::Name(owner) if owner == "click");
            let command = matches!(name, "command" | "main" | "group");
            let option = name == "option" && matches!(callee, Expression::Attribute(owner, _) if click(owner));
            if !command && !option {
                // `@autocast()` is a call of a library as any other.
                if call.is_some() {
                    self.evaluate(above);
                }
                continue;
            }
            let options = options.get_or_insert_default();
            if let Some(call) = call.filter(|_| option) {
                let given = self.given(call);
                let written = given.placed.iter().filter_map(|(value, _)| value.text());
                let name = written.max_by_key(|name| (!name.starts_with('-'), name.len()));
                let name = name.map(|name| name.trim_start_matches('-').replace('-', "_"));
                let flag = given.named("is_flag").map(|_| Known::plain(false));
                let default = given.named("default").cloned().or(flag).unwrap_or_else(|| Known::plain(Value::Null));
                options.extend(name.map(|name| (name, default)));
            }
        }
        if let Some(options) = options {
            self.options.insert(Rc::as_ptr(function), options);
        }
    }

    /// What a class gives each of its objects, and the paths of the libraries' classes that it inherits from.
    pub(super) fn inherited(&mut self, class: &Rc<Class>) -> (BTreeMap<String, Known>, Vec<String>) {
        let (mut fields, mut paths) = (BTreeMap::new(), Vec::new());
        if self.scopes.len() >= DEEPEST || self.inheriting.contains(&Rc::as_ptr(class)) {
            return (fields, paths);
        }
        self.inheriting.push(Rc::as_ptr(class));
        for base in &class.bases {
            match self.evaluate(base) {
                Known::Class(base) => {
                    let (above, further) = self.inherited(&base);
                    fields.extend(above);
                    paths.extend(further);
                }
                Known::Library(path) => paths.push(path),
                Known::Open(path) => paths.push(path.join(".")),
                _ => {}
            }
        }
        self.inheriting.pop();
        let scope = self.store.add(Collection::Names(Names::default()));
        self.scopes.push(scope);
        for statement in &class.body {
            if let PythonStatement::Assign(Expression::Name(name), value, _) = statement {
                let value = self.default_of(value);
                self.store.set(scope, name, value.clone());
                fields.insert(name.clone(), value);
            }
        }
        self.scopes.pop();
        (fields, paths)
    }

    /// The value of a field, which `field(default=…)` and `field(default_factory=…)` hold.
    fn default_of(&mut self, value: &Expression) -> Known {
        const FIELDS: [&str; 4] = ["field", "HfArg", "Field", "Argument"];
        if let Expression::Call(call) = value
            && let Expression::Name(name) | Expression::Attribute(_, name) = &call.callee
            && FIELDS.contains(&name.as_str())
        {
            let given = self.given(call);
            if let Some(found) = given.named("default") {
                return found.clone();
            }
            return match given.named("default_factory").cloned() {
                Some(Known::Function(function, _)) => {
                    self.call_function(&function, None, Vec::new(), BTreeMap::new(), false)
                }
                Some(Known::Class(class)) => self.object(&class, CallArguments::default()),
                _ => Known::UNKNOWN,
            };
        }
        self.evaluate(value)
    }

    /// An object of a class of the script's own.
    fn object(&mut self, class: &Rc<Class>, given: CallArguments) -> Known {
        let (values, paths) = self.inherited(class);
        if !paths.is_empty() {
            self.note(std::iter::once(class.name.clone()).chain(paths).collect(), &given);
        }
        let object = Names { values, class: Some(Rc::clone(class)), object: true, ..Names::default() };
        let object = self.store.add(Collection::Names(object));
        let function = |name: &str| {
            class.body.iter().find_map(|statement| match statement {
                PythonStatement::Function(function) if function.name == name => Some(Rc::clone(function)),
                _ => None,
            })
        };
        if let Some(made) = function("__init__") {
            self.call_function(&made, Some(object), given.values(), given.by_name(), false);
            return Known::Collection(object);
        }
        let fields = class.body.iter().filter_map(|statement| match statement {
            PythonStatement::Field(name) | PythonStatement::Assign(Expression::Name(name), ..) => Some(name),
            _ => None,
        });
        for (name, value) in fields.zip(given.values()) {
            self.store.set(object, name, value);
        }
        for (name, value) in given.by_name() {
            self.store.set(object, &name, value);
        }
        if let Some(after) = function("__post_init__") {
            self.call_function(&after, Some(object), Vec::new(), BTreeMap::new(), false);
        }
        Known::Collection(object)
    }

    /// Notes a call of a library: its place among those that were seen.
    pub(super) fn note(&mut self, names: Vec<String>, given: &CallArguments) -> Option<usize> {
        if !self.noting {
            return None;
        }
        let placed = given.placed.iter().enumerate();
        let placed = placed.map(|(place, (value, line))| (place.to_string(), value.clone(), *line));
        let lines = given.placed.iter().map(|(_, line)| *line).chain(given.named.iter().map(|(.., line)| *line));
        self.seen.push(LibraryCall {
            names,
            given: placed.chain(given.named.iter().cloned()).collect(),
            around: self.around.iter().fold(ArgumentSource::default(), |all, one| all.and(one)),
            open: given.open,
            reached: (self.unsure == 0).then_some(true),
            blindly: self.blindly > 0,
            line: lines.min().unwrap_or(0),
        });
        self.seen.len().checked_sub(1)
    }
}
