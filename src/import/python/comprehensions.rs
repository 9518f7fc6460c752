//! What a comprehension of a script comes to.

use super::script::FollowedScript;
use super::store::{Collection, Names};
use super::syntax::{Each, Expression};
use super::value::Known;

impl FollowedScript<'_> {
    /// `[value for target in items]`, `{key: value for target in items}`
    pub(super) fn each(&mut self, each: &Each) -> Known {
        let items = self.evaluate(&each.items);
        let Some(items) = self.store.items(&items).cloned() else {
            let unknown = match each.key {
                Some(_) => Collection::Names(Names { open: true, ..Names::default() }),
                None => Collection::List(None),
            };
            return Known::Collection(self.store.add(unknown));
        };
        let mut names = Names { open: self.is_of_open_names(&each.items), ..Names::default() };
        let scope = self.store.add(Collection::Names(Names::default()));
        let outer = self.store.names(self.scope()).map(|names| names.values.clone()).unwrap_or_default();
        if let Some(Collection::Names(names)) = self.store.change(scope) {
            names.values = outer;
        }
        self.scopes.push(scope);
        let mut found = Some(Vec::new());
        for item in items {
            self.assign(&each.target, item);
            let holds = each.conditions.iter().map(|condition| self.holds(condition).0).collect::<Vec<_>>();
            if holds.contains(&Some(false)) {
                continue;
            }
            let value = self.evaluate(&each.value);
            if let Some(key) = &each.key {
                // What only the run decides may be left out.
                let value = if holds.contains(&None) { Known::UNKNOWN } else { value };
                match self.evaluate(key).text() {
                    Some(key) => drop(names.values.insert(key.to_owned(), value)),
                    None => names.open = true,
                }
                continue;
            }
            found = found.filter(|_| !holds.contains(&None)).map(|mut found| {
                found.push(value);
                found
            });
        }
        self.scopes.pop();
        let collection = if each.key.is_some() { Collection::Names(names) } else { Collection::List(found) };
        Known::Collection(self.store.add(collection))
    }

    /// Whether items are `owner.items()` of a dictionary that may hold more than is known.
    fn is_of_open_names(&mut self, items: &Expression) -> bool {
        let Expression::Call(call) = items else { return false };
        let Expression::Attribute(owner, _) = &call.callee else { return false };
        let Known::Collection(at) = self.evaluate(owner) else { return false };
        self.store.names(at).is_some_and(|names| names.open)
    }
}
