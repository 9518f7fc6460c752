//! Short lists put in order. A sort of the standard library is compiled anew for each list and costs it some 7 kB; these
//! share one, over positions. Long lists, and those of a prediction, are better off with `slice::sort_by`.

use std::cmp::Ordering;

/// A list that can be put in order. What compares as equal stays in the order in which it was.
///
/// ```
/// use memwall_core::order::StableOrder;
///
/// let mut words = ["tensor", "data", "expert"];
/// words.order_by_key(|word| word.len());
/// assert_eq!(words, ["data", "tensor", "expert"]);
/// ```
pub trait StableOrder<T> {
    /// As `slice::sort_by`.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// As `slice::sort_by_key`.
    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|one, other| key(one).cmp(&key(other)));
    }
}

impl<T> StableOrder<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut places = places(self.len(), &mut |one, other| compare(&self[one], &self[other]));
        arrange(&mut places, &mut |one, other| self.swap(one, other));
    }
}

/// Where each of so many goes.
fn places(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| compare(*one, *other));
    let mut places = vec![0; count];
    for (place, from) in order.into_iter().enumerate() {
        places[from] = place;
    }
    places
}

/// Swaps each to its place: every swap brings one there.
fn arrange(places: &mut [usize], swap: &mut dyn FnMut(usize, usize)) {
    for at in 0..places.len() {
        while places[at] != at {
            let place = places[at];
            swap(at, place);
            places.swap(at, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the standard library's own, with keys that are equal.
    #[test]
    fn a_list_is_as_sorted_by_the_standard_library() {
        for count in [0_usize, 1, 2, 3, 7, 40, 501] {
            let list: Vec<(usize, usize)> = (0..count).map(|at| (at * 7919 % 13, at)).collect();
            let (mut ordered, mut sorted) = (list.clone(), list);
            ordered.order_by_key(|(key, _)| std::cmp::Reverse(*key));
            sorted.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            assert_eq!(ordered, sorted);
        }
    }
}
