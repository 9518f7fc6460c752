//! Reads the expressions of a script.

use std::rc::Rc;

use serde_json::Value;
use tree_sitter::Node;

use super::parse::Reader;
use super::syntax::{Argument, Call, Each, Expression, Function, PythonStatement};
use crate::text::python_literal;

impl Reader<'_> {
    pub(super) fn items(&mut self, node: Node) -> Vec<Expression> {
        let mut cursor = node.walk();
        let children: Vec<Node> = node.named_children(&mut cursor).filter(|child| child.kind() != "comment").collect();
        children.into_iter().map(|child| self.expression(child)).collect()
    }

    pub(super) fn expression(&mut self, node: Node) -> Expression {
        self.inside(|reader| reader.expression_of(node)).unwrap_or(Expression::Other)
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
            "list_comprehension" | "set_comprehension" | "generator_expression" | "dictionary_comprehension" => {
                self.each(node)
            }
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
        let pair = node.child_by_field_name("body").filter(|body| body.kind() == "pair");
        Expression::Each(Rc::new(Each {
            key: pair.map(|pair| self.field(pair, "key")),
            value: match pair {
                Some(pair) => self.field(pair, "value"),
                None => self.field(node, "body"),
            },
            target: self.field(*one, "left"),
            items: self.field(*one, "right"),
            conditions,
        }))
    }

    fn lambda(&mut self, node: Node) -> Expression {
        let parameters = node.child_by_field_name("parameters").map(|list| self.parameters(list)).unwrap_or_default();
        let body = vec![PythonStatement::Return(Some(self.field(node, "body")))];
        Expression::Lambda(Rc::new(Function { name: String::new(), parameters, body, decorators: Vec::new() }))
    }
}
