//! The statements of a script, one after the other; both branches of a condition that is not known.

use std::rc::Rc;

use serde_json::Value;

use super::script::FollowedScript;
use super::store::Before;
use super::syntax::{Expression, PythonStatement};
use super::value::{ArgumentSource, Known};

/// No list that is gone through item by item is longer.
const LONGEST_LIST: usize = 64;

/// How a statement ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementEnd {
    /// The next one follows.
    On,
    /// Its function is done.
    Return,
    /// Its loop is done, or this round of it.
    Leave,
    /// The program is done.
    Finished,
    /// The program fails.
    Ended,
}

impl FollowedScript<'_> {
    pub(super) fn block(&mut self, statements: &[PythonStatement]) -> StatementEnd {
        for statement in statements {
            if !self.step() {
                return StatementEnd::Ended;
            }
            let flow = self.statement(statement);
            if flow != StatementEnd::On {
                return flow;
            }
        }
        StatementEnd::On
    }

    fn statement(&mut self, statement: &PythonStatement) -> StatementEnd {
        match statement {
            PythonStatement::Expression(expression) => {
                self.evaluate(expression);
                Self::ends(expression).unwrap_or(StatementEnd::On)
            }
            PythonStatement::Assign(target, value, line) => {
                let found = self.assigned(value);
                self.line = *line;
                self.assign(target, found);
                StatementEnd::On
            }
            PythonStatement::Change(target, sign, value) => {
                let changed = self.changed(target, sign, value);
                self.assign(target, changed);
                StatementEnd::On
            }
            PythonStatement::If(branches, otherwise) => self.conditions(branches, otherwise),
            PythonStatement::For(target, items, body) => self.each_item(target, items, body),
            PythonStatement::While(condition, body) => self.repeated(condition, body),
            PythonStatement::With(opened, body) => {
                for (value, target) in opened {
                    let value = self.evaluate(value);
                    if let Some(target) = target {
                        self.assign(target, value);
                    }
                }
                self.block(body)
            }
            // What is imported is there, and what is tried succeeds.
            PythonStatement::Try(body, caught) => match self.block(body) {
                StatementEnd::Ended if caught.len() == 1 => {
                    caught.first().map_or(StatementEnd::Ended, |body| self.block(body))
                }
                flow => flow,
            },
            PythonStatement::Match(cases) => self.either(cases.iter().map(Vec::as_slice).chain([&[][..]]).collect()),
            PythonStatement::Return(value) => {
                let value = value.as_ref().map_or(Known::plain(Value::Null), |value| self.evaluate(value));
                if let Some(returned) = self.returned.last_mut() {
                    *returned = Some(match returned.take() {
                        Some(before) => before.either(&value).unwrap_or(Known::UNKNOWN),
                        None => value,
                    });
                }
                StatementEnd::Return
            }
            PythonStatement::Raise => StatementEnd::Ended,
            PythonStatement::Leave => StatementEnd::Leave,
            PythonStatement::Function(_) | PythonStatement::Class(_) | PythonStatement::Import(..) => {
                self.define(statement);
                StatementEnd::On
            }
            PythonStatement::Field(_) => StatementEnd::On,
        }
    }

    /// What is assigned: settings that a condition which holds has chosen rest upon it.
    fn assigned(&mut self, value: &Expression) -> Known {
        let found = self.evaluate(value);
        if !matches!(value, Expression::Table(_)) {
            return found;
        }
        let around = self.around.iter().fold(ArgumentSource::default(), |all, one| all.and(one));
        self.chosen(found, &around)
    }

    /// Gives functions, classes and what is imported their names.
    fn define(&mut self, statement: &PythonStatement) {
        let (name, value) = match statement {
            PythonStatement::Function(function) => {
                self.command(function);
                (&function.name, Known::Function(Rc::clone(function), None))
            }
            PythonStatement::Class(class) => (&class.name, Known::Class(Rc::clone(class))),
            // A module of the project's own is known by what it defines.
            PythonStatement::Import(name, path) => {
                (name, self.defined(path).unwrap_or_else(|| Known::Library(path.clone())))
            }
            _ => return,
        };
        self.store.set(self.scope(), name, value);
    }

    /// How an expression ends the program, where it does: `sys.exit(1)`. One that hands on what a function of the script's
    /// gives, `sys.exit(main())`, ends what has been done.
    fn ends(expression: &Expression) -> Option<StatementEnd> {
        let Expression::Call(call) = expression else { return None };
        let exits = match &call.callee {
            Expression::Name(name) => matches!(name.as_str(), "exit" | "quit" | "SystemExit"),
            Expression::Attribute(owner, name) => {
                name == "exit" && matches!(&**owner, Expression::Name(owner) if owner == "sys")
            }
            _ => false,
        };
        match call.arguments.first().map(|first| &first.value) {
            _ if !exits => None,
            None => Some(StatementEnd::Finished),
            Some(Expression::Literal(code)) if code.is_null() || *code == 0 => Some(StatementEnd::Finished),
            Some(Expression::Call(_)) => Some(StatementEnd::Finished),
            Some(_) => Some(StatementEnd::Ended),
        }
    }

    fn conditions(
        &mut self,
        branches: &[(Expression, Vec<PythonStatement>)],
        otherwise: &[PythonStatement],
    ) -> StatementEnd {
        let mut open: Vec<&[PythonStatement]> = Vec::new();
        let mut around = ArgumentSource::default();
        for (condition, body) in branches {
            let (holds, source) = self.holds(condition);
            around = around.and(&source);
            match holds {
                Some(true) if open.is_empty() => {
                    if let Some(flow) = self.unless_ended(&around, body) {
                        return flow;
                    }
                }
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

    /// A branch that is taken; none where the program fails in it, which what trains does not come by.
    fn unless_ended(&mut self, around: &ArgumentSource, body: &[PythonStatement]) -> Option<StatementEnd> {
        let before = self.seen.len();
        self.store.branch();
        let flow = self.under(around.clone(), body);
        let left = self.store.take_back();
        if flow == StatementEnd::Ended {
            self.seen.truncate(before);
            return None;
        }
        self.store.adopt(left);
        Some(flow)
    }

    fn under(&mut self, around: ArgumentSource, body: &[PythonStatement]) -> StatementEnd {
        self.around.push(around);
        let flow = self.block(body);
        self.around.pop();
        flow
    }

    /// One of several branches, it is not known which. One that ends the program is not it.
    fn either(&mut self, branches: Vec<&[PythonStatement]>) -> StatementEnd {
        let mut left: Vec<(StatementEnd, Before)> = Vec::new();
        self.unsure += 1;
        for body in branches {
            self.store.branch();
            let flow = self.block(body);
            left.push((flow, self.store.take_back()));
        }
        self.unsure -= 1;
        let stops = |flow: StatementEnd| matches!(flow, StatementEnd::Ended | StatementEnd::Finished);
        if !left.iter().all(|(flow, _)| stops(*flow)) {
            left.retain(|(flow, _)| !stops(*flow));
        }
        let goes_on = left.iter().any(|(flow, _)| *flow == StatementEnd::On);
        let flow = left.first().map_or(StatementEnd::On, |(flow, _)| *flow);
        if goes_on {
            left.retain(|(flow, _)| *flow == StatementEnd::On);
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
        if goes_on { StatementEnd::On } else { flow }
    }

    fn each_item(&mut self, target: &Expression, items: &Expression, body: &[PythonStatement]) -> StatementEnd {
        let items = self.evaluate(items);
        let known = self.store.items(&items).filter(|items| items.len() <= LONGEST_LIST).cloned();
        let Some(items) = known else {
            self.assign(target, Known::UNKNOWN);
            return match self.block(body) {
                StatementEnd::Leave => StatementEnd::On,
                flow => flow,
            };
        };
        for item in items {
            self.assign(target, item);
            match self.block(body) {
                StatementEnd::On | StatementEnd::Leave => {}
                flow => return flow,
            }
        }
        StatementEnd::On
    }

    fn repeated(&mut self, condition: &Expression, body: &[PythonStatement]) -> StatementEnd {
        match self.holds(condition).0 {
            Some(false) => StatementEnd::On,
            _ => match self.block(body) {
                StatementEnd::Leave => StatementEnd::On,
                flow => flow,
            },
        }
    }

    /// Gives what stands on the left a value.
    pub(super) fn assign(&mut self, target: &Expression, value: Known) {
        match target {
            Expression::Name(name) => self.store.set(self.scope(), name, value),
            Expression::Attribute(owner, name) => {
                if name == "requires_grad" && self.truth(&value) != Some(true) {
                    self.frozen.push((self.line, self.blindly > 0));
                }
                match self.evaluate(owner) {
                    Known::Collection(at) => {
                        self.store.set(at, name, value);
                        self.store.told_at(at, name, self.line);
                    }
                    Known::Made(_, Some(call)) if self.noting => self.set_later(call, name, value),
                    _ => {}
                }
            }
            Expression::Item(owner, index) => {
                let (owner, index) = (self.evaluate(owner), self.evaluate(index));
                if let (Known::Collection(at), Some(name)) = (owner, index.text()) {
                    self.store.set(at, name, value);
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

    /// Gives what a call of a library made an attribute, as if the call had been given it: `training_args.bf16 = True`. On
    /// a condition that is not known either may hold.
    fn set_later(&mut self, call: usize, name: &str, value: Known) {
        let unsure = self.unsure > 0;
        let Some(call) = self.seen.get_mut(call) else { return };
        let value = if unsure && call.reached.is_some() { Known::Open(vec![name.to_owned()]) } else { value };
        call.given.retain(|(given, ..)| given != name);
        call.given.push((name.to_owned(), value, self.line));
    }

    fn changed(&mut self, target: &Expression, sign: &str, value: &Expression) -> Known {
        let left = self.evaluate(target);
        let right = self.evaluate(value);
        self.combined(&left, sign, &right, value)
    }
}
