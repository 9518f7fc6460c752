//! Reads a script into statements, by the grammar that editors use: what is not Python is left out, the rest is read.

use std::rc::Rc;

use tree_sitter::{Node, Parser};

use super::syntax::{Class, Expression, Function, Parameter, PythonStatement};

/// Deeper nesting is left out.
const DEEPEST: usize = 120;

/// The statements of a text.
pub fn statements(text: &str) -> Vec<PythonStatement> {
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
        Some(PythonStatement::Expression(found)) => found,
        _ => Expression::Other,
    }
}

/// Reads the nodes of a text.
pub(super) struct Reader<'a> {
    text: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn text(&self, node: Node) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    pub(super) fn name(&self, node: Node, field: &str) -> String {
        node.child_by_field_name(field).map_or("", |found| self.text(found)).to_owned()
    }

    fn block(&mut self, node: Node) -> Vec<PythonStatement> {
        let mut found = Vec::new();
        self.inside(|reader| {
            let mut cursor = node.walk();
            for child in node.named_children(&mut cursor) {
                reader.statement(child, &mut found);
            }
        });
        found
    }

    fn body(&mut self, node: Node, field: &str) -> Vec<PythonStatement> {
        node.child_by_field_name(field).map(|body| self.block(body)).unwrap_or_default()
    }

    /// Reads something inside, unless it is too deep.
    pub(super) fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        Some(found)
    }

    pub(super) fn field(&mut self, node: Node, field: &str) -> Expression {
        node.child_by_field_name(field).map_or(Expression::Other, |found| self.expression(found))
    }

    fn statement(&mut self, node: Node, found: &mut Vec<PythonStatement>) {
        let statement = match node.kind() {
            "expression_statement" => return self.expressions(node, found),
            "if_statement" => self.conditions(node),
            "for_statement" => {
                PythonStatement::For(self.field(node, "left"), self.field(node, "right"), self.body(node, "body"))
            }
            "while_statement" => PythonStatement::While(self.field(node, "condition"), self.body(node, "body")),
            "with_statement" => PythonStatement::With(self.opened(node), self.body(node, "body")),
            "try_statement" => self.tried(node),
            "match_statement" => self.cases(node),
            "function_definition" => PythonStatement::Function(self.function(node, Vec::new())),
            "class_definition" => PythonStatement::Class(self.class(node)),
            "decorated_definition" => return self.decorated(node, found),
            "return_statement" => {
                let value = node.named_child(0).filter(|value| value.kind() != "comment");
                PythonStatement::Return(value.map(|value| self.expression(value)))
            }
            "raise_statement" => self.raised(node),
            "break_statement" | "continue_statement" => PythonStatement::Leave,
            "import_statement" | "import_from_statement" => return self.imports(node, found),
            // What could not be read may hold what can.
            "ERROR" => return found.extend(self.block(node)),
            _ => return,
        };
        found.push(statement);
    }

    /// `raise SystemExit(main())` does what it is given, as `sys.exit(main())`.
    fn raised(&mut self, node: Node) -> PythonStatement {
        let exits = |call: &Node| call.kind() == "call" && self.name(*call, "function") == "SystemExit";
        let call = node.named_child(0).filter(exits);
        call.map_or(PythonStatement::Raise, |call| PythonStatement::Expression(self.expression(call)))
    }

    fn expressions(&mut self, node: Node, found: &mut Vec<PythonStatement>) {
        let mut cursor = node.walk();
        let children: Vec<Node> = node.named_children(&mut cursor).filter(|child| child.kind() != "comment").collect();
        for child in children {
            match child.kind() {
                "assignment" => self.assignment(child, found),
                "augmented_assignment" => {
                    let sign = self.name(child, "operator").trim_end_matches('=').to_owned();
                    found.push(PythonStatement::Change(self.field(child, "left"), sign, self.field(child, "right")));
                }
                _ => found.push(PythonStatement::Expression(self.expression(child))),
            }
        }
    }

    /// `first = second = value`: the value goes to the last name first, which changes nothing.
    fn assignment(&mut self, node: Node, found: &mut Vec<PythonStatement>) {
        let target = self.field(node, "left");
        let line = node.start_position().row + 1;
        match (node.child_by_field_name("right"), target) {
            (Some(right), target) if right.kind() == "assignment" => {
                self.assignment(right, found);
                let value = right.child_by_field_name("left").map_or(Expression::Other, |left| self.expression(left));
                found.push(PythonStatement::Assign(target, value, line));
            }
            (Some(right), target) => found.push(PythonStatement::Assign(target, self.expression(right), line)),
            (None, Expression::Name(name)) => found.push(PythonStatement::Field(name)),
            (None, _) => {}
        }
    }

    fn conditions(&mut self, node: Node) -> PythonStatement {
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
        PythonStatement::If(branches, otherwise)
    }

    pub(super) fn children<'t>(node: Node<'t>, kind: &str) -> Vec<Node<'t>> {
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

    fn tried(&mut self, node: Node) -> PythonStatement {
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
        PythonStatement::Try(body, caught)
    }

    fn cases(&mut self, node: Node) -> PythonStatement {
        let clauses = Self::children(node, "block").into_iter().flat_map(|block| Self::children(block, "case_clause"));
        PythonStatement::Match(clauses.map(|clause| self.body(clause, "consequence")).collect())
    }

    fn decorated(&mut self, node: Node, found: &mut Vec<PythonStatement>) {
        let decorators = Self::children(node, "decorator");
        let decorators = decorators.into_iter().filter_map(|above| above.named_child(0));
        let decorators: Vec<Expression> = decorators.map(|above| self.expression(above)).collect();
        let Some(definition) = node.child_by_field_name("definition") else { return };
        found.push(match definition.kind() {
            "class_definition" => PythonStatement::Class(self.class(definition)),
            _ => PythonStatement::Function(self.function(definition, decorators)),
        });
    }

    fn function(&mut self, node: Node, decorators: Vec<Expression>) -> Rc<Function> {
        let parameters = node.child_by_field_name("parameters").map(|list| self.parameters(list)).unwrap_or_default();
        Rc::new(Function { name: self.name(node, "name"), parameters, body: self.body(node, "body"), decorators })
    }

    pub(super) fn parameters(&mut self, list: Node) -> Vec<Parameter> {
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

    fn imports(&mut self, node: Node, found: &mut Vec<PythonStatement>) {
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
            found.push(PythonStatement::Import(alias.unwrap_or(bound), path));
        }
    }
}
