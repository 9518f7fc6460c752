//! Reads a script into statements, by the grammar that editors use: what is not Python is left out, the rest is read.

use std::rc::Rc;

use serde_json::Value;
use tree_sitter::{Node, Parser};

use super::syntax::{Argument, Call, Class, Each, Expression, Function, Parameter, Statement};
use crate::plan::import::text::python_literal;

/// Deeper nesting is left out.
const DEEPEST: usize = 120;

/// The statements of a text.
pub fn statements(text: &str) -> Vec<Statement> {
    let mut parser = Parser::new();
    if parser.set_language(&tree_sitter_python::LANGUAGE.into()).is_err() {
        return Vec::new();
    }
    let tree = parser.parse(text, None);
    tree.map(|tree| Reader { text, depth: 0 }.block(tree.root_node())).unwrap_or_default()
}

/// The expression that a text is.
pub fn expression(text: &str) -> Expression {
    // In brackets its lines may break anywhere.
    match statements(&format!("({}\n)", text.trim())).into_iter().next() {
        Some(Statement::Expression(found)) => found,
        _ => Expression::Other,
    }
}

struct Reader<'a> {
    text: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn text(&self, node: Node) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    fn name(&self, node: Node, field: &str) -> String {
        node.child_by_field_name(field).map_or("", |found| self.text(found)).to_owned()
    }

    fn block(&mut self, node: Node) -> Vec<Statement> {
        let mut found = Vec::new();
        if self.depth < DEEPEST {
            self.depth += 1;
            let mut cursor = node.walk();
            for child in node.named_children(&mut cursor) {
                self.statement(child, &mut found);
            }
            self.depth -= 1;
        }
        found
    }

    fn body(&mut self, node: Node, field: &str) -> Vec<Statement> {
        node.child_by_field_name(field).map(|body| self.block(body)).unwrap_or_default()
    }

    fn field(&mut self, node: Node, field: &str) -> Expression {
        node.child_by_field_name(field).map_or(Expression::Other, |found| self.expression(found))
    }

    fn statement(&mut self, node: Node, found: &mut Vec<Statement>) {
        let statement = match node.kind() {
            "expression_statement" => return self.expressions(node, found),
            "if_statement" => self.conditions(node),
            "for_statement" => {
                Statement::For(self.field(node, "left"), self.field(node, "right"), self.body(node, "body"))
            }
            "while_statement" => Statement::While(self.field(node, "condition"), self.body(node, "body")),
            "with_statement" => Statement::With(self.opened(node), self.body(node, "body")),
            "try_statement" => self.tried(node),
            "match_statement" => self.cases(node),
            "function_definition" => Statement::Function(self.function(node, Vec::new())),
            "class_definition" => Statement::Class(self.class(node)),
            "decorated_definition" => return self.decorated(node, found),
            "return_statement" => {
                let value = node.named_child(0).filter(|value| value.kind() != "comment");
                Statement::Return(value.map(|value| self.expression(value)))
            }
            "raise_statement" => Statement::Raise,
            "break_statement" | "continue_statement" => Statement::Leave,
            "import_statement" | "import_from_statement" => return self.imports(node, found),
            // What could not be read may hold what can.
            "ERROR" => return found.extend(self.block(node)),
            _ => return,
        };
        found.push(statement);
    }

    fn expressions(&mut self, node: Node, found: &mut Vec<Statement>) {
        let mut cursor = node.walk();
        let children: Vec<Node> = node.named_children(&mut cursor).filter(|child| child.kind() != "comment").collect();
        for child in children {
            match child.kind() {
                "assignment" => self.assignment(child, found),
                "augmented_assignment" => {
                    let sign = self.name(child, "operator").trim_end_matches('=').to_owned();
                    found.push(Statement::Change(self.field(child, "left"), sign, self.field(child, "right")));
                }
                _ => found.push(Statement::Expression(self.expression(child))),
            }
        }
    }

    /// `first = second = value`: the value goes to the last name first, which changes nothing.
    fn assignment(&mut self, node: Node, found: &mut Vec<Statement>) {
        let target = self.field(node, "left");
        match (node.child_by_field_name("right"), target) {
            (Some(right), target) if right.kind() == "assignment" => {
                self.assignment(right, found);
                let value = right.child_by_field_name("left").map_or(Expression::Other, |left| self.expression(left));
                found.push(Statement::Assign(target, value));
            }
            (Some(right), target) => found.push(Statement::Assign(target, self.expression(right))),
            (None, Expression::Name(name)) => found.push(Statement::Field(name)),
            (None, _) => {}
        }
    }

    fn conditions(&mut self, node: Node) -> Statement {
        let mut branches = vec![(self.field(node, "condition"), self.body(node, "consequence"))];
        let mut otherwise = Vec::new();
        let mut cursor = node.walk();
        let others: Vec<Node> = node.children_by_field_name("alternative", &mut cursor).collect();
        for other in others {
            match other.kind() {
                "elif_clause" => branches.push((self.field(other, "condition"), self.body(other, "consequence"))),
                _ => otherwise = self.body(other, "body"),
            }
        }
        Statement::If(branches, otherwise)
    }

    fn children<'t>(node: Node<'t>, kind: &str) -> Vec<Node<'t>> {
        let mut cursor = node.walk();
        node.named_children(&mut cursor).filter(|child| child.kind() == kind).collect()
    }

    fn opened(&mut self, node: Node) -> Vec<(Expression, Option<Expression>)> {
        let clauses = Self::children(node, "with_clause");
        let items = clauses.into_iter().flat_map(|clause| Self::children(clause, "with_item"));
        let mut found = Vec::new();
        for value in items.filter_map(|item| item.child_by_field_name("value")) {
            let target = value.child_by_field_name("alias").and_then(|alias| alias.named_child(0));
            match value.named_child(0).filter(|_| value.kind() == "as_pattern") {
                Some(inner) => {
                    let target = target.map(|target| self.expression(target));
                    found.push((self.expression(inner), target));
                }
                None => found.push((self.expression(value), None)),
            }
        }
        found
    }

    fn tried(&mut self, node: Node) -> Statement {
        let mut body = self.body(node, "body");
        let mut caught = Vec::new();
        let mut cursor = node.walk();
        let clauses: Vec<Node> = node.named_children(&mut cursor).collect();
        for clause in clauses {
            let inner = Self::children(clause, "block");
            match clause.kind() {
                "except_clause" | "except_group_clause" => {
                    caught.push(inner.into_iter().flat_map(|block| self.block(block)).collect());
                }
                "else_clause" => body.extend(self.body(clause, "body")),
                "finally_clause" => body.extend(inner.into_iter().flat_map(|block| self.block(block))),
                _ => {}
            }
        }
        Statement::Try(body, caught)
    }

    fn cases(&mut self, node: Node) -> Statement {
        let clauses = Self::children(node, "block").into_iter().flat_map(|block| Self::children(block, "case_clause"));
        Statement::Match(clauses.map(|clause| self.body(clause, "consequence")).collect())
    }

    fn decorated(&mut self, node: Node, found: &mut Vec<Statement>) {
        let decorators = Self::children(node, "decorator");
        let decorators = decorators.into_iter().filter_map(|above| above.named_child(0));
        let decorators: Vec<Expression> = decorators.map(|above| self.expression(above)).collect();
        let Some(definition) = node.child_by_field_name("definition") else { return };
        found.push(match definition.kind() {
            "class_definition" => Statement::Class(self.class(definition)),
            _ => Statement::Function(self.function(definition, decorators)),
        });
    }

    fn function(&mut self, node: Node, decorators: Vec<Expression>) -> Rc<Function> {
        let parameters = node.child_by_field_name("parameters").map(|list| self.parameters(list)).unwrap_or_default();
        Rc::new(Function { name: self.name(node, "name"), parameters, body: self.body(node, "body"), decorators })
    }

    fn parameters(&mut self, list: Node) -> Vec<Parameter> {
        let mut cursor = list.walk();
        let children: Vec<Node> = list.named_children(&mut cursor).collect();
        let first = |node: Node<'_>| node.named_child(0).map_or("", |inner| self.text(inner)).to_owned();
        let mut found = Vec::new();
        for node in children {
            let (name, rest) = match node.kind() {
                "identifier" => (self.text(node).to_owned(), ""),
                "default_parameter" | "typed_default_parameter" => (self.name(node, "name"), ""),
                "list_splat_pattern" => (first(node), "*"),
                "dictionary_splat_pattern" => (first(node), "**"),
                "typed_parameter" => match node.named_child(0) {
                    Some(inner) if inner.kind() == "list_splat_pattern" => (first(inner), "*"),
                    Some(inner) if inner.kind() == "dictionary_splat_pattern" => (first(inner), "**"),
                    _ => (first(node), ""),
                },
                _ => continue,
            };
            let default = node.child_by_field_name("value");
            found.push((name, default, rest));
        }
        let made = found.into_iter();
        made.map(|(name, default, rest)| {
            let default = default.map(|value| self.expression(value));
            Parameter { name, default, rest }
        })
        .collect()
    }

    fn class(&mut self, node: Node) -> Rc<Class> {
        let bases = node.child_by_field_name("superclasses").map(|list| self.items(list)).unwrap_or_default();
        Rc::new(Class { name: self.name(node, "name"), bases, body: self.body(node, "body") })
    }

    fn imports(&mut self, node: Node, found: &mut Vec<Statement>) {
        let module = node.child_by_field_name("module_name").map(|module| self.text(module).trim_start_matches('.'));
        let mut cursor = node.walk();
        let names: Vec<Node> = node.children_by_field_name("name", &mut cursor).collect();
        for name in names {
            let written =
                if name.kind() == "aliased_import" { self.name(name, "name") } else { self.text(name).into() };
            let alias = Some(self.name(name, "alias")).filter(|alias| !alias.is_empty());
            let (bound, path) = match module {
                Some("") => (written.clone(), written),
                Some(module) => (written.clone(), format!("{module}.{written}")),
                // `import a.b` calls `a` `a`.
                None if alias.is_none() => {
                    let root = written.split('.').next().unwrap_or("").to_owned();
                    (root.clone(), root)
                }
                None => (written.clone(), written),
            };
            found.push(Statement::Import(alias.unwrap_or(bound), path));
        }
    }

    fn items(&mut self, node: Node) -> Vec<Expression> {
        let mut cursor = node.walk();
        let children: Vec<Node> = node.named_children(&mut cursor).filter(|child| child.kind() != "comment").collect();
        children.into_iter().map(|child| self.expression(child)).collect()
    }

    fn expression(&mut self, node: Node) -> Expression {
        if self.depth >= DEEPEST {
            return Expression::Other;
        }
        self.depth += 1;
        let found = self.expression_of(node);
        self.depth -= 1;
        found
    }

    fn boxed(&mut self, node: Node, field: &str) -> Box<Expression> {
        Box::new(self.field(node, field))
    }

    fn expression_of(&mut self, node: Node) -> Expression {
        match node.kind() {
            "identifier" => Expression::Name(self.text(node).to_owned()),
            "true" => Expression::Literal(true.into()),
            "false" => Expression::Literal(false.into()),
            "none" => Expression::Literal(Value::Null),
            "integer" | "float" => python_literal(self.text(node)).map_or(Expression::Other, Expression::Literal),
            "string" => self.string(node),
            "concatenated_string" => Expression::Joined(self.items(node)),
            "attribute" => Expression::Attribute(self.boxed(node, "object"), self.name(node, "attribute")),
            "subscript" => Expression::Item(self.boxed(node, "value"), self.boxed(node, "subscript")),
            "call" => self.call(node),
            "binary_operator" => {
                Expression::Binary(self.boxed(node, "left"), self.name(node, "operator"), self.boxed(node, "right"))
            }
            "unary_operator" => Expression::Signed(self.name(node, "operator"), self.boxed(node, "argument")),
            "not_operator" => Expression::Not(self.boxed(node, "argument")),
            "boolean_operator" => {
                let both = self.name(node, "operator") == "and";
                Expression::Both(both, self.boxed(node, "left"), self.boxed(node, "right"))
            }
            "comparison_operator" => self.comparison(node),
            "conditional_expression" => match <[Expression; 3]>::try_from(self.items(node)) {
                Ok(parts) => Expression::Choice(Box::new(parts)),
                Err(_) => Expression::Other,
            },
            "parenthesized_expression" => self.items(node).into_iter().next().unwrap_or(Expression::Other),
            "list" | "tuple" | "set" | "expression_list" | "pattern_list" | "tuple_pattern" | "list_pattern" => {
                Expression::List(self.items(node))
            }
            "dictionary" => self.table(node),
            "list_comprehension" | "set_comprehension" | "generator_expression" => self.each(node),
            "named_expression" => Expression::Named(self.name(node, "name"), self.boxed(node, "value")),
            "lambda" => self.lambda(node),
            "list_splat" => Expression::Spread(Box::new(self.items(node).pop().unwrap_or(Expression::Other))),
            "await" | "as_pattern_target" => self.items(node).pop().unwrap_or(Expression::Other),
            _ => Expression::Other,
        }
    }

    fn string(&mut self, node: Node) -> Expression {
        let mut cursor = node.walk();
        let children: Vec<Node> = node.named_children(&mut cursor).collect();
        let bytes = children.first().is_some_and(|start| self.text(*start).to_lowercase().contains('b'));
        let mut parts = Vec::new();
        for child in children {
            match child.kind() {
                "string_content" => parts.push(Expression::Literal(self.text(child).into())),
                "interpolation" => parts.push(self.field(child, "expression")),
                _ => {}
            }
        }
        match parts.pop() {
            _ if bytes => Expression::Other,
            None => Expression::Literal("".into()),
            Some(Expression::Literal(one)) if parts.is_empty() => Expression::Literal(one),
            Some(last) => {
                parts.push(last);
                Expression::Joined(parts)
            }
        }
    }

    fn call(&mut self, node: Node) -> Expression {
        let callee = self.field(node, "function");
        let Some(list) = node.child_by_field_name("arguments") else { return Expression::Other };
        let mut arguments = Vec::new();
        if list.kind() == "generator_expression" {
            arguments.push(Argument { name: None, value: self.each(list), line: list.start_position().row + 1 });
        } else {
            let mut cursor = list.walk();
            let children: Vec<Node> = list.named_children(&mut cursor).collect();
            for child in children {
                let line = child.start_position().row + 1;
                let (name, value) = match child.kind() {
                    "comment" => continue,
                    "keyword_argument" => (Some(self.name(child, "name")), self.field(child, "value")),
                    "dictionary_splat" => (Some("**".to_owned()), self.items(child).pop().unwrap_or(Expression::Other)),
                    _ => (None, self.expression(child)),
                };
                arguments.push(Argument { name, value, line });
            }
        }
        Expression::Call(Rc::new(Call { callee, arguments }))
    }

    fn comparison(&mut self, node: Node) -> Expression {
        let mut operands = self.items(node).into_iter();
        let mut cursor = node.walk();
        let signs = node.children_by_field_name("operators", &mut cursor);
        let signs: Vec<String> =
            signs.map(|sign| self.text(sign).split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let Some(first) = operands.next() else { return Expression::Other };
        Expression::Compare(Box::new(first), signs.into_iter().zip(operands).collect())
    }

    fn table(&mut self, node: Node) -> Expression {
        let mut cursor = node.walk();
        let children: Vec<Node> = node.named_children(&mut cursor).collect();
        let mut pairs = Vec::new();
        for child in children {
            match child.kind() {
                "pair" => pairs.push((Some(self.field(child, "key")), self.field(child, "value"))),
                "dictionary_splat" => pairs.push((None, self.items(child).pop().unwrap_or(Expression::Other))),
                _ => {}
            }
        }
        Expression::Table(pairs)
    }

    fn each(&mut self, node: Node) -> Expression {
        let loops = Self::children(node, "for_in_clause");
        let [one] = loops.as_slice() else { return Expression::Other };
        let conditions = Self::children(node, "if_clause");
        let conditions = conditions.into_iter().map(|clause| self.items(clause).pop().unwrap_or(Expression::Other));
        let conditions = conditions.collect();
        Expression::Each(Rc::new(Each {
            value: self.field(node, "body"),
            target: self.field(*one, "left"),
            items: self.field(*one, "right"),
            conditions,
        }))
    }

    fn lambda(&mut self, node: Node) -> Expression {
        let parameters = node.child_by_field_name("parameters").map(|list| self.parameters(list)).unwrap_or_default();
        let body = vec![Statement::Return(Some(self.field(node, "body")))];
        Expression::Lambda(Rc::new(Function { name: String::new(), parameters, body, decorators: Vec::new() }))
    }
}
