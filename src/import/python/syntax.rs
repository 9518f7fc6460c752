//! Python's syntax as far as the reading of scripts needs it.

use std::rc::Rc;

use serde_json::Value;

/// An expression.
#[derive(Debug)]
pub enum Expression {
    /// A text, a number, a truth value, `None`.
    Literal(Value),
    /// `name`
    Name(String),
    /// `owner.name`
    Attribute(Box<Expression>, String),
    /// `owner[index]`
    Item(Box<Expression>, Box<Expression>),
    /// `callee(…)`
    Call(Rc<Call>),
    /// `left + right`, by its sign.
    Binary(Box<Expression>, String, Box<Expression>),
    /// `-value`, `+value`, `~value`
    Signed(String, Box<Expression>),
    /// `not value`
    Not(Box<Expression>),
    /// `left and right` where true, else `left or right`.
    Both(bool, Box<Expression>, Box<Expression>),
    /// `first < second <= third`
    Compare(Box<Expression>, Vec<(String, Expression)>),
    /// `then if condition else otherwise`
    Choice(Box<[Expression; 3]>),
    /// A list, a tuple or a set.
    List(Vec<Expression>),
    /// A dictionary; without a key what `**` spreads into it.
    Table(Vec<(Option<Expression>, Expression)>),
    /// `f"{part} of it"`
    Joined(Vec<Expression>),
    /// `[value for target in items]` or `{key: value for target in items}`, and whether conditions choose among them.
    Each(Rc<Each>),
    /// `name := value`
    Named(String, Box<Expression>),
    /// `lambda x: …`, which is a function that returns its body.
    Lambda(Rc<Function>),
    /// `*value`
    Spread(Box<Expression>),
    /// What no setting is told by.
    Other,
}

/// A comprehension over one sequence.
#[derive(Debug)]
pub struct Each {
    /// What each item is called in a dictionary; nothing in a list.
    pub key: Option<Expression>,
    /// What each item becomes.
    pub value: Expression,
    /// What it is called.
    pub target: Expression,
    /// Where it comes from.
    pub items: Expression,
    /// Conditions of which each must hold.
    pub conditions: Vec<Expression>,
}

/// A call.
#[derive(Debug)]
pub struct Call {
    /// What is called.
    pub callee: Expression,
    /// What it is given.
    pub arguments: Vec<Argument>,
}

/// What a call is given.
#[derive(Debug)]
pub struct Argument {
    /// Its name, `**` for what is spread.
    pub name: Option<String>,
    /// Its value.
    pub value: Expression,
    /// The line that it begins in, from 1.
    pub line: usize,
}

/// A function of the script's own.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// What it does.
    pub body: Vec<PythonStatement>,
    /// What stands above it behind `@`.
    pub decorators: Vec<Expression>,
}

/// What a function takes.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What it is where nobody gives it.
    pub default: Option<Expression>,
    /// `*` for all further values, `**` for all further keywords, empty otherwise.
    pub rest: &'static str,
}

/// A class of the script's own.
#[derive(Debug)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// What it inherits from.
    pub bases: Vec<Expression>,
    /// What stands in it.
    pub body: Vec<PythonStatement>,
}

/// A statement.
#[derive(Debug)]
pub enum PythonStatement {
    /// A call, mostly.
    Expression(Expression),
    /// `first = second = value`, with the line.
    Assign(Expression, Expression, usize),
    /// `target += value`, by the sign before `=`.
    Change(Expression, String, Expression),
    /// `name: int`, a field without a value.
    Field(String),
    /// Conditions with what happens then, and what otherwise.
    If(Vec<(Expression, Vec<PythonStatement>)>, Vec<PythonStatement>),
    /// `for target in items`
    For(Expression, Expression, Vec<PythonStatement>),
    /// `while condition`
    While(Expression, Vec<PythonStatement>),
    /// `with value as target`
    With(Vec<(Expression, Option<Expression>)>, Vec<PythonStatement>),
    /// What is tried with what follows it, and what catches its errors.
    Try(Vec<PythonStatement>, Vec<Vec<PythonStatement>>),
    /// One of several, by what is not followed.
    Match(Vec<Vec<PythonStatement>>),
    /// `def`
    Function(Rc<Function>),
    /// `class`
    Class(Rc<Class>),
    /// `return value`
    Return(Option<Expression>),
    /// `raise`, which ends what runs.
    Raise,
    /// `break` or `continue`.
    Leave,
    /// A name for something of a module: `from a import b as c` calls `a.b` `c`.
    Import(String, String),
}
