//! Names out of tapes, kept as long as the program runs: operators are known by them everywhere, and predictions are
//! made by the thousand.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Most names that are kept; each has at most [`LONGEST`] bytes.
const MOST: usize = 50_000;
const LONGEST: usize = 120;

static KNOWN: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

/// The name for as long as the program runs; beyond the first fifty thousand `operator` for all.
pub fn intern(name: &str) -> &'static str {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_with(HashSet::new);
    let end = (0..=name.len().min(LONGEST)).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    let name = &name[..end];
    if let Some(one) = known.get(name) {
        return one;
    }
    if known.len() >= MOST {
        return "operator";
    }
    let one: &'static str = Box::leak(crate::printable::printable(name).into_boxed_str());
    known.insert(one);
    one
}

#[cfg(test)]
mod tests {
    use super::intern;

    #[test]
    fn a_name_is_kept_once() {
        assert!(std::ptr::eq(intern("mlp.fc1"), intern(&String::from("mlp.fc1"))));
        assert_eq!(intern(&"ü".repeat(100)).len(), 120);
    }
}
