//! A script as it is read: its statements one after the other, both branches of a condition that is not known. Nothing
//! is run: what a library would do is known for a few calls, and open for all others.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::statements::StatementEnd;
use super::store::{Collection, Names, ScriptState};
use super::syntax::{Class, Expression, Function, PythonStatement};
use super::value::{ArgumentSource, Known};
use crate::Files;
use crate::settings::Settings;

/// No script that matters has more to tell.
const MOST_STEPS: usize = 400_000;

/// Nor more values to copy from place to place.
const MOST_COPIES: usize = 4_000_000;

/// A call of a library that a script makes.
#[derive(Debug)]
pub struct LibraryCall {
    /// The path of what is called: `transformers.TrainingArguments`; of a class of the script's own its name and those of
    /// what it inherits from.
    pub names: Vec<String>,
    /// What it is given, by name or place, with the line.
    pub given: Vec<(String, Known, usize)>,
    /// What the conditions around it rest upon.
    pub around: ArgumentSource,
    /// Whether it is given more, by `**` of what is not known.
    pub open: bool,
    /// Whether it is made: none where a condition is not known.
    pub reached: Option<bool>,
    /// Whether it stands in a function that nothing was seen to call.
    pub blindly: bool,
    /// The line of what it is given first; 0 where it is given nothing.
    pub line: usize,
}

/// What lies around a script: files, and variables of its environment.
pub type ScriptSurroundings<'a> = (Option<&'a dyn Files>, Option<&'a BTreeMap<String, String>>);

/// A script that is read.
pub struct FollowedScript<'a> {
    /// Where it lies.
    pub(super) path: String,
    /// The files that it may read settings from.
    pub(super) files: Option<&'a dyn Files>,
    /// Its environment.
    pub(super) variables: Option<&'a BTreeMap<String, String>>,
    pub(super) store: ScriptState,
    pub(super) globals: usize,
    /// What the modules of its project define, for names that are not there yet.
    pub(super) project: usize,
    /// The scopes of the functions that are being read, the innermost last.
    pub(super) scopes: Vec<usize>,
    /// Its own arguments: defaults, and what its command gives.
    pub(super) own: Settings,
    /// What others are by their declarations, where those compute it.
    pub(super) declared: BTreeMap<String, Known>,
    /// The classes that the last parser fills in.
    pub(super) parsed: Vec<Known>,
    /// Those that are nothing where nobody gives them.
    pub(super) nothing: BTreeSet<String>,
    pub(super) seen: Vec<LibraryCall>,
    /// The objects that parsers have made of what was given.
    pub(super) filled: Vec<usize>,
    /// The functions of its own that are called, and whether for certain.
    pub(super) called: BTreeMap<String, bool>,
    /// Where weights are kept from training, by line, and whether in a function that nothing was seen to call.
    pub(super) frozen: Vec<(usize, bool)>,
    /// What the functions that are being read return.
    pub(super) returned: Vec<Option<Known>>,
    /// The functions themselves.
    pub(super) running: Vec<*const Function>,
    /// The classes whose bases are being looked up: a base's name may since have become a class that inherits from them.
    pub(super) inheriting: Vec<*const Class>,
    /// What the scopes that are done gave a name, open where two differ; and whether only functions did that nothing was
    /// seen to call.
    given_names: BTreeMap<String, (Known, bool)>,
    /// Whether its end was not reached: a call that was not seen may be made all the same.
    pub(super) incomplete: bool,
    /// Whether all has been read, so that a name may be any scope's.
    done: bool,
    /// Functions that the script's text names nowhere but where it defines them.
    unnamed: BTreeSet<String>,
    /// Functions that have been read.
    pub(super) entered: BTreeSet<*const Function>,
    /// Conditions around that are not known.
    pub(super) unsure: usize,
    /// Functions around that nothing was seen to call.
    pub(super) blindly: usize,
    /// What those that are known rest upon.
    pub(super) around: Vec<ArgumentSource>,
    /// What options of `click` are where nobody gives them, by the function that they are of.
    pub(super) options: BTreeMap<*const Function, BTreeMap<String, Known>>,
    /// The line of the last assignment.
    pub(super) line: usize,
    /// Whether calls are noted.
    pub(super) noting: bool,
    pub(super) steps: usize,
}

impl<'a> FollowedScript<'a> {
    /// Reads statements with the script's own arguments.
    pub fn read(
        path: String,
        statements: &[PythonStatement],
        own: Settings,
        nothing: BTreeSet<String>,
        unnamed: BTreeSet<String>,
        (files, variables): ScriptSurroundings<'a>,
    ) -> Self {
        let mut store = ScriptState::default();
        let globals = store.add(Collection::Names(Names::default()));
        let project = store.add(Collection::Names(Names::default()));
        let mut script = Self {
            path,
            files,
            variables,
            store,
            globals,
            project,
            scopes: Vec::new(),
            own,
            declared: BTreeMap::new(),
            parsed: Vec::new(),
            nothing,
            seen: Vec::new(),
            filled: Vec::new(),
            called: BTreeMap::new(),
            frozen: Vec::new(),
            returned: Vec::new(),
            running: Vec::new(),
            inheriting: Vec::new(),
            incomplete: false,
            done: false,
            given_names: BTreeMap::new(),
            unnamed,
            entered: BTreeSet::new(),
            unsure: 0,
            blindly: 0,
            around: Vec::new(),
            options: BTreeMap::new(),
            line: 0,
            noting: false,
            steps: 0,
        };
        script.look_ahead(statements);
        script.noting = true;
        script.incomplete = script.block(statements) != StatementEnd::On;
        script.left_over(statements);
        script.incomplete |= !script.step();
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
        let blind = self.blindly > 0;
        for (name, value) in values.unwrap_or_default() {
            let value = match self.given_names.get(&name) {
                // What runs goes over what may be called by nobody.
                Some((_, false)) if blind => continue,
                Some((before, of_blind)) if blind || !of_blind => {
                    before.either(&value).unwrap_or_else(|| Known::Open(vec![name.clone()]))
                }
                _ => value,
            };
            self.given_names.insert(name, (value, blind));
        }
    }

    /// What a name stands for.
    pub(super) fn find(&self, name: &str) -> Option<Known> {
        let inner = self.scopes.last().copied().into_iter().chain([self.globals]);
        let outer = self.scopes.iter().rev().skip(1).copied();
        let found = inner.chain(outer).find_map(|at| self.store.names(at)?.values.get(name));
        let any = || self.given_names.get(name).filter(|_| self.done).map(|(value, _)| value);
        let project = || self.store.names(self.project)?.values.get(name);
        found.or_else(any).or_else(project).cloned()
    }

    /// What stands at the left margin of any module, before anything is called: a script starts above the modules that
    /// its text ends with.
    fn look_ahead(&mut self, statements: &[PythonStatement]) {
        for statement in statements {
            let (name, value) = match statement {
                PythonStatement::Function(function) => (&function.name, Known::Function(Rc::clone(function), None)),
                PythonStatement::Class(class) => (&class.name, Known::Class(Rc::clone(class))),
                PythonStatement::Assign(Expression::Name(name), value, _) => {
                    let value = self.evaluate(value);
                    (name, value)
                }
                PythonStatement::With(opened, body) => {
                    self.look_into(opened, body);
                    continue;
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

    /// The same of what a module reads from files at its left margin: `with open(path) as file: CONFIG = yaml.safe_load(file)`.
    fn look_into(&mut self, opened: &[(Expression, Option<Expression>)], body: &[PythonStatement]) {
        for (value, target) in opened {
            let value = self.evaluate(value);
            if let Some(Expression::Name(name)) = target {
                self.store.set(self.project, name, value);
            }
        }
        self.look_ahead(body);
    }

    /// Reads the functions that nothing was seen to call: a function counts as called.
    fn left_over(&mut self, statements: &[PythonStatement]) {
        // A script that has trained already calls none of the functions that it names nowhere.
        let trained = |call: &LibraryCall| !call.blindly && call.names.iter().any(|path| path.ends_with(".train"));
        let trained = self.seen.iter().any(trained);
        for statement in statements {
            match statement {
                PythonStatement::Function(function) if trained && self.unnamed.contains(&function.name) => {}
                PythonStatement::Function(function) => self.call_blindly(function, None),
                PythonStatement::Class(class) => {
                    let object = Names { class: Some(Rc::clone(class)), object: true, ..Names::default() };
                    // What a library calls, it calls of the object that the script has made, where there is one alone.
                    let made = self.store.only_object(class).unwrap_or(object);
                    let object = self.store.add(Collection::Names(made));
                    for inner in &class.body {
                        if let PythonStatement::Function(function) = inner {
                            self.call_blindly(function, Some(object));
                        }
                    }
                }
                PythonStatement::If(branches, otherwise) => {
                    branches.iter().for_each(|(_, body)| self.left_over(body));
                    self.left_over(otherwise);
                }
                _ => {}
            }
        }
    }

    pub(super) fn call_blindly(&mut self, function: &Rc<Function>, of: Option<usize>) {
        if !self.entered.contains(&Rc::as_ptr(function)) {
            self.blindly += 1;
            self.call_function(function, of, Vec::new(), BTreeMap::new(), true);
            self.blindly -= 1;
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
}

/// The functions that a text names nowhere but where it defines them.
pub(super) fn unnamed(text: &str) -> BTreeSet<String> {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for word in text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty()) {
        *named.entry(word).or_default() += 1;
    }
    let defined = text.lines().filter_map(|line| line.trim_start().strip_prefix("def ")?.split('(').next());
    defined.map(str::trim).filter(|name| named.get(name) == Some(&1)).map(str::to_owned).collect()
}
