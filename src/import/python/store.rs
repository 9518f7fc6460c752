//! What a script holds while it is read: scopes, objects and lists, with what two branches make of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use super::syntax::Class;
use super::value::Known;

/// No list that matters is longer.
pub const LONGEST_LIST: usize = 4096;

/// A list, or names with values: of a scope, a dictionary, an object.
#[derive(Debug, Clone)]
pub enum Collection {
    /// A list; none where what is in it is not known.
    List(Option<Vec<Known>>),
    /// Names, and whether there may be more.
    Names(Names),
}

impl Collection {
    fn len(&self) -> usize {
        match self {
            Self::List(items) => items.as_ref().map_or(0, Vec::len),
            Self::Names(names) => names.values.len(),
        }
    }
}

/// Names with values.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// What they stand for.
    pub values: BTreeMap<String, Known>,
    /// The lines that they are given in, where those are known.
    pub lines: BTreeMap<String, usize>,
    /// Whether there may be others, or these may be missing.
    pub open: bool,
    /// The class of the script's own that it is an object of.
    pub class: Option<Rc<Class>>,
    /// Whether it is an object and no dictionary.
    pub object: bool,
    /// Whether it stands for the class itself: what calls it makes an object.
    pub stands_for_class: bool,
}

/// What was there before a branch, of what it changed.
pub type Before = BTreeMap<usize, Collection>;

/// All that a script holds.
#[derive(Debug, Default)]
pub struct ScriptState {
    all: Vec<Collection>,
    branches: Vec<Before>,
    /// Values that were copied so far: what a script made to be slow is given up by.
    pub copied: usize,
}

impl ScriptState {
    /// Takes a list or names in.
    pub fn add(&mut self, held: Collection) -> usize {
        self.all.push(held);
        self.all.len() - 1
    }

    /// A list; one that is too long is not known.
    pub fn list(&mut self, items: Vec<Known>) -> Known {
        self.copied += items.len();
        let items = Some(items).filter(|items| items.len() <= LONGEST_LIST);
        Known::Collection(self.add(Collection::List(items)))
    }

    /// A dictionary.
    pub fn table(&mut self, values: BTreeMap<String, Known>) -> Known {
        Known::Collection(self.add(Collection::Names(Names { values, ..Names::default() })))
    }

    /// What is held at a place.
    pub fn get(&self, at: usize) -> Option<&Collection> {
        self.all.get(at)
    }

    /// The names at a place.
    pub fn names(&self, at: usize) -> Option<&Names> {
        match self.all.get(at) {
            Some(Collection::Names(names)) => Some(names),
            _ => None,
        }
    }

    /// What the only object of a class of the script's own holds; none where there are several, or none.
    pub fn only_object(&self, class: &Rc<Class>) -> Option<Names> {
        let mut objects = self.all.iter().filter_map(|held| match held {
            Collection::Names(names) if names.object && !names.stands_for_class => Some(names),
            _ => None,
        });
        let is_of = |names: &&Names| names.class.as_ref().is_some_and(|own| Rc::ptr_eq(own, class));
        let first = objects.by_ref().find(is_of)?;
        if objects.any(|names| is_of(&names)) { None } else { Some(first.clone()) }
    }

    /// The items of a list.
    pub fn items(&self, value: &Known) -> Option<&Vec<Known>> {
        match value {
            Known::Collection(at) => match self.all.get(*at) {
                Some(Collection::List(Some(items))) => Some(items),
                _ => None,
            },
            _ => None,
        }
    }

    /// What is held at a place, to be changed.
    pub fn change(&mut self, at: usize) -> Option<&mut Collection> {
        if let (Some(before), Some(held)) = (self.branches.last_mut(), self.all.get(at))
            && let Entry::Vacant(place) = before.entry(at)
        {
            self.copied += held.len();
            place.insert(held.clone());
        }
        self.all.get_mut(at)
    }

    /// Gives a name a value.
    pub fn set(&mut self, at: usize, name: &str, value: Known) {
        if let Some(Collection::Names(names)) = self.change(at) {
            names.values.insert(name.to_owned(), value);
        }
    }

    /// Says in which line a name was given its value.
    pub fn told_at(&mut self, at: usize, name: &str, line: usize) {
        if let Some(Collection::Names(names)) = self.change(at) {
            names.lines.insert(name.to_owned(), line);
        }
    }

    /// Begins a branch.
    pub fn branch(&mut self) {
        self.branches.push(Before::new());
    }

    /// Ends a branch and takes what it did back: what it left, by place.
    pub fn take_back(&mut self) -> Before {
        let before = self.branches.pop().unwrap_or_default();
        before.into_iter().filter_map(|(at, held)| Some((at, std::mem::replace(self.all.get_mut(at)?, held)))).collect()
    }

    /// Takes over what a branch left.
    pub fn adopt(&mut self, left: Before) {
        for (at, held) in left {
            if let Some(now) = self.change(at) {
                *now = held;
            }
        }
    }

    /// Takes over what two branches left, of which either may have been taken.
    pub fn join(&mut self, one: Before, mut other: Before) {
        for (at, held) in one {
            let now = other.remove(&at).or_else(|| self.all.get(at).cloned());
            self.join_at(at, held, now);
        }
        for (at, held) in other {
            let now = self.all.get(at).cloned();
            self.join_at(at, held, now);
        }
    }

    fn join_at(&mut self, at: usize, one: Collection, other: Option<Collection>) {
        let joined = match (one, other) {
            (Collection::Names(one), Some(Collection::Names(other))) => Collection::Names(joined(one, other)),
            (Collection::List(Some(one)), Some(Collection::List(Some(other))))
                if one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| one.same(other)) =>
            {
                Collection::List(Some(one))
            }
            _ => Collection::List(None),
        };
        if let Some(now) = self.change(at) {
            *now = joined;
        }
    }
}

/// Names that are the same in both, the others open. A name that only one branch gives is what that makes it: it is
/// asked for where it is there, or not at all.
fn joined(one: Names, mut other: Names) -> Names {
    let dictionary = one.class.is_none() && !one.object;
    // An object of a library's has a value of its own where nobody gives one.
    let filled = one.object && one.open;
    let either = |name: &str, value: Known| if filled { Known::Open(vec![name.to_owned()]) } else { value };
    let mut values = BTreeMap::new();
    for (name, value) in one.values {
        let known = match other.values.remove(&name) {
            Some(second) => value.either(&second).unwrap_or_else(|| Known::Open(vec![name.clone()])),
            None => either(&name, value),
        };
        values.insert(name, known);
    }
    for (name, value) in other.values {
        let known = either(&name, value);
        values.insert(name, known);
    }
    let lines = other.lines.into_iter().chain(one.lines).collect();
    Names {
        values,
        lines,
        open: one.open || other.open || dictionary,
        ..Names { values: BTreeMap::new(), lines: BTreeMap::new(), ..one }
    }
}
