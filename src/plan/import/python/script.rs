//! A script as it is read: its statements one after the other, both branches of a condition that is not known. Nothing
//! is run: what a library would do is known for a few calls, and open for all others.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::Value;

use super::store::{Before, Held, Names, Store};
use super::syntax::{Expression, Function, Statement};
use super::value::{Known, Source};
use crate::plan::import::Files;
use crate::plan::import::settings::Settings;

/// No script that matters has more to tell.
const MOST_STEPS: usize = 400_000;

/// Nor more values to copy from place to place.
const MOST_COPIES: usize = 4_000_000;

/// No list that is gone through item by item is longer.
const LONGEST_LIST: usize = 64;

/// A call of a library that a script makes.
#[derive(Debug)]
pub struct Seen {
    /// The path of what is called: `transformers.TrainingArguments`; of a class of the script's own its name and those of
    /// what it inherits from.
    pub names: Vec<String>,
    /// What it is given, by name or place, with the line.
    pub given: Vec<(String, Known, usize)>,
    /// What the conditions around it rest upon.
    pub around: Source,
    /// Whether it is given more, by `**` of what is not known.
    pub open: bool,
    /// Whether it is made: none where a condition is not known.
    pub reached: Option<bool>,
}

/// How a statement ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The next one follows.
    On,
    /// Its function is done.
    Return,
    /// Its loop is done, or this round of it.
    Leave,
    /// The program ends.
    Ended,
}

/// A script that is read.
pub struct Script<'a> {
    /// Where it lies.
    pub(super) path: String,
    /// The files that it may read settings from.
    pub(super) files: Option<&'a dyn Files>,
    pub(super) store: Store,
    pub(super) globals: usize,
    /// What the modules of its project define, for names that are not there yet.
    pub(super) project: usize,
    /// The scopes of the functions that are being read, the innermost last.
    pub(super) scopes: Vec<usize>,
    /// Its own arguments: defaults, and what its command gives.
    pub(super) own: Settings,
    /// What others are by their declarations, where those compute it.
    pub(super) declared: BTreeMap<String, Known>,
    /// Those that are nothing where nobody gives them.
    pub(super) nothing: BTreeSet<String>,
    pub(super) seen: Vec<Seen>,
    /// What the functions that are being read return.
    pub(super) returned: Vec<Option<Known>>,
    /// The functions themselves.
    pub(super) running: Vec<*const Function>,
    /// What the scopes that are done gave a name: open where two differ.
    given_names: BTreeMap<String, Known>,
    /// Whether all has been read, so that a name may be any scope's.
    done: bool,
    /// Functions that have been read.
    pub(super) entered: BTreeSet<*const Function>,
    /// Conditions around that are not known.
    pub(super) unsure: usize,
    /// What those that are known rest upon.
    pub(super) around: Vec<Source>,
    /// What options of `click` are where nobody gives them, by the function that they are of.
    pub(super) options: BTreeMap<*const Function, BTreeMap<String, Known>>,
    /// Whether calls are noted.
    pub(super) noting: bool,
    pub(super) steps: usize,
}

impl<'a> Script<'a> {
    /// Reads statements with the script's own arguments.
    pub fn read(
        path: String,
        statements: &[Statement],
        own: Settings,
        nothing: BTreeSet<String>,
        files: Option<&'a dyn Files>,
    ) -> Self {
        let mut store = Store::default();
        let globals = store.add(Held::Names(Names::default()));
        let project = store.add(Held::Names(Names::default()));
        let mut script = Self {
            path,
            files,
            store,
            globals,
            project,
            scopes: Vec::new(),
            own,
            declared: BTreeMap::new(),
            nothing,
            seen: Vec::new(),
            returned: Vec::new(),
            running: Vec::new(),
            done: false,
            given_names: BTreeMap::new(),
            entered: BTreeSet::new(),
            unsure: 0,
            around: Vec::new(),
            options: BTreeMap::new(),
            noting: false,
            steps: 0,
        };
        script.look_ahead(statements);
        script.noting = true;
        script.block(statements);
        script.left_over(statements);
        script.done = true;
        script
    }

    /// What an expression of any of its functions comes to, after all has been read.
    pub(super) fn later(&mut self, expression: &Expression) -> Known {
        self.steps = 0;
        self.noting = false;
        self.evaluate(expression)
    }

    /// Ends the innermost scope and keeps its names.
    pub(super) fn leave(&mut self) {
        let values = self.scopes.pop().and_then(|scope| self.store.names(scope)).map(|names| names.values.clone());
        for (name, value) in values.unwrap_or_default() {
            let value = match self.given_names.get(&name) {
                Some(before) if !before.same(&value) => Known::Open(vec![name.clone()]),
                _ => value,
            };
            self.given_names.insert(name, value);
        }
    }

    /// What a name stands for.
    pub(super) fn find(&self, name: &str) -> Option<Known> {
        let inner = self.scopes.last().copied().into_iter().chain([self.globals]);
        let outer = self.scopes.iter().rev().skip(1).copied();
        let found = inner.chain(outer).find_map(|at| self.store.names(at)?.values.get(name));
        let any = || self.given_names.get(name).filter(|_| self.done);
        let project = || self.store.names(self.project)?.values.get(name);
        found.or_else(any).or_else(project).cloned()
    }

    /// What stands at the left margin of any module, before anything is called: a script starts above the modules that
    /// its text ends with.
    fn look_ahead(&mut self, statements: &[Statement]) {
        for statement in statements {
            let (name, value) = match statement {
                Statement::Function(function) => (&function.name, Known::Function(Rc::clone(function), None)),
                Statement::Class(class) => (&class.name, Known::Class(Rc::clone(class))),
                Statement::Assign(Expression::Name(name), value) => {
                    let value = self.evaluate(value);
                    (name, value)
                }
                _ => continue,
            };
            if self.store.names(self.project).is_some_and(|names| !names.values.contains_key(name)) && !value.is_open()
            {
                self.store.set(self.project, name, value);
            }
        }
        self.steps = 0;
    }

    /// Reads the functions that nothing was seen to call: a function counts as called.
    fn left_over(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Function(function) => self.call_blindly(function, None),
                Statement::Class(class) => {
                    let object = Names { class: Some(Rc::clone(class)), object: true, ..Names::default() };
                    let object = self.store.add(Held::Names(object));
                    for inner in &class.body {
                        if let Statement::Function(function) = inner {
                            self.call_blindly(function, Some(object));
                        }
                    }
                }
                Statement::If(branches, otherwise) => {
                    branches.iter().for_each(|(_, body)| self.left_over(body));
                    self.left_over(otherwise);
                }
                _ => {}
            }
        }
    }

    pub(super) fn call_blindly(&mut self, function: &Rc<Function>, of: Option<usize>) {
        if !self.entered.contains(&Rc::as_ptr(function)) {
            self.call_function(function, of, Vec::new(), BTreeMap::new(), true);
        }
    }

    /// The scope that names are given in.
    pub(super) fn scope(&self) -> usize {
        self.scopes.last().copied().unwrap_or(self.globals)
    }

    /// Whether there is more time for this script.
    pub(super) fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps < MOST_STEPS && self.store.copied < MOST_COPIES
    }

    pub(super) fn block(&mut self, statements: &[Statement]) -> Flow {
        for statement in statements {
            if !self.step() {
                return Flow::Ended;
            }
            let flow = self.statement(statement);
            if flow != Flow::On {
                return flow;
            }
        }
        Flow::On
    }

    fn statement(&mut self, statement: &Statement) -> Flow {
        match statement {
            Statement::Expression(expression) => {
                self.evaluate(expression);
                if self.ends(expression) { Flow::Ended } else { Flow::On }
            }
            Statement::Assign(target, value) => {
                let value = self.evaluate(value);
                self.assign(target, value);
                Flow::On
            }
            Statement::Change(target, sign, value) => {
                let changed = self.changed(target, sign, value);
                self.assign(target, changed);
                Flow::On
            }
            Statement::If(branches, otherwise) => self.conditions(branches, otherwise),
            Statement::For(target, items, body) => self.each_item(target, items, body),
            Statement::While(condition, body) => self.repeated(condition, body),
            Statement::With(opened, body) => {
                for (value, target) in opened {
                    let value = self.evaluate(value);
                    if let Some(target) = target {
                        self.assign(target, value);
                    }
                }
                self.block(body)
            }
            // What is imported is there, and what is tried succeeds.
            Statement::Try(body, caught) => match self.block(body) {
                Flow::Ended if caught.len() == 1 => caught.first().map_or(Flow::Ended, |body| self.block(body)),
                flow => flow,
            },
            Statement::Match(cases) => self.either(cases.iter().map(Vec::as_slice).chain([&[][..]]).collect()),
            Statement::Function(function) => {
                let value = Known::Function(Rc::clone(function), None);
                self.store.set(self.scope(), &function.name, value);
                self.command(function);
                Flow::On
            }
            Statement::Class(class) => {
                self.store.set(self.scope(), &class.name, Known::Class(Rc::clone(class)));
                Flow::On
            }
            Statement::Return(value) => {
                let value = value.as_ref().map_or(Known::plain(Value::Null), |value| self.evaluate(value));
                if let Some(returned) = self.returned.last_mut() {
                    *returned = Some(match returned.take() {
                        Some(before) if !before.same(&value) => Known::UNKNOWN,
                        _ => value,
                    });
                }
                Flow::Return
            }
            Statement::Raise => Flow::Ended,
            Statement::Leave => Flow::Leave,
            Statement::Import(name, path) => {
                // A module of the project's own is known by what it defines.
                let value = self.defined(path).unwrap_or_else(|| Known::Library(path.clone()));
                self.store.set(self.scope(), name, value);
                Flow::On
            }
            Statement::Field(_) => Flow::On,
        }
    }

    /// Whether an expression ends the program: `sys.exit(1)`.
    fn ends(&self, expression: &Expression) -> bool {
        let Expression::Call(call) = expression else { return false };
        matches!(&call.callee, Expression::Name(name) if matches!(name.as_str(), "exit" | "quit"))
            || matches!(&call.callee, Expression::Attribute(owner, name)
                if name == "exit" && matches!(&**owner, Expression::Name(owner) if owner == "sys"))
    }

    fn conditions(&mut self, branches: &[(Expression, Vec<Statement>)], otherwise: &[Statement]) -> Flow {
        let mut open: Vec<&[Statement]> = Vec::new();
        let mut around = Source::default();
        for (condition, body) in branches {
            let (holds, source) = self.holds(condition);
            around = around.and(&source);
            match holds {
                Some(true) if open.is_empty() => return self.under(around, body),
                Some(true) => {
                    open.push(body);
                    return self.either(open);
                }
                Some(false) => {}
                None => open.push(body),
            }
        }
        if open.is_empty() {
            return self.under(around, otherwise);
        }
        open.push(otherwise);
        self.either(open)
    }

    fn under(&mut self, around: Source, body: &[Statement]) -> Flow {
        self.around.push(around);
        let flow = self.block(body);
        self.around.pop();
        flow
    }

    /// One of several branches, it is not known which. One that ends the program is not it.
    fn either(&mut self, branches: Vec<&[Statement]>) -> Flow {
        let mut left: Vec<(Flow, Before)> = Vec::new();
        self.unsure += 1;
        for body in branches {
            self.store.branch();
            let flow = self.block(body);
            left.push((flow, self.store.take_back()));
        }
        self.unsure -= 1;
        let ends = left.iter().all(|(flow, _)| *flow == Flow::Ended);
        if !ends {
            left.retain(|(flow, _)| *flow != Flow::Ended);
        }
        let goes_on = left.iter().any(|(flow, _)| *flow == Flow::On);
        let flow = left.first().map_or(Flow::On, |(flow, _)| *flow);
        if goes_on {
            left.retain(|(flow, _)| *flow == Flow::On);
        }
        let mut rest = left.into_iter().map(|(_, left)| left);
        if let Some(first) = rest.next() {
            match rest.next() {
                None => self.store.adopt(first),
                Some(second) => {
                    self.store.join(first, second);
                    for third in rest {
                        self.store.join(third, Before::new());
                    }
                }
            }
        }
        if goes_on { Flow::On } else { flow }
    }

    fn each_item(&mut self, target: &Expression, items: &Expression, body: &[Statement]) -> Flow {
        let items = self.evaluate(items);
        let known = self.store.items(&items).filter(|items| items.len() <= LONGEST_LIST).cloned();
        let Some(items) = known else {
            self.assign(target, Known::UNKNOWN);
            return match self.block(body) {
                Flow::Leave => Flow::On,
                flow => flow,
            };
        };
        for item in items {
            self.assign(target, item);
            match self.block(body) {
                Flow::On | Flow::Leave => {}
                flow => return flow,
            }
        }
        Flow::On
    }

    fn repeated(&mut self, condition: &Expression, body: &[Statement]) -> Flow {
        match self.holds(condition).0 {
            Some(false) => Flow::On,
            _ => match self.block(body) {
                Flow::Leave => Flow::On,
                flow => flow,
            },
        }
    }

    /// Gives what stands on the left a value.
    pub(super) fn assign(&mut self, target: &Expression, value: Known) {
        match target {
            Expression::Name(name) => self.store.set(self.scope(), name, value),
            Expression::Attribute(owner, name) => {
                if let Known::Held(at) = self.evaluate(owner) {
                    self.store.set(at, name, value);
                }
            }
            Expression::Item(owner, index) => {
                let (owner, index) = (self.evaluate(owner), self.evaluate(index));
                if let (Known::Held(at), Some(name)) = (owner, index.text()) {
                    self.store.set(at, &name.to_owned(), value);
                }
            }
            Expression::List(targets) => {
                let items = self.store.items(&value).filter(|items| items.len() == targets.len()).cloned();
                for (place, target) in targets.iter().enumerate() {
                    let item = items.as_ref().and_then(|items| items.get(place).cloned());
                    self.assign(target, item.unwrap_or(Known::UNKNOWN));
                }
            }
            Expression::Spread(inner) => self.assign(inner, Known::UNKNOWN),
            _ => {}
        }
    }

    fn changed(&mut self, target: &Expression, sign: &str, value: &Expression) -> Known {
        let left = self.evaluate(target);
        let right = self.evaluate(value);
        self.combined(&left, sign, &right, value)
    }
}
