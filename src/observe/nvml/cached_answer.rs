//! What changes rarely is asked rarely.

use crate::reading::Moment;

/// Time between two askings, in milliseconds.
const EVERY: u64 = 10_000;

/// An answer that holds for a while.
#[derive(Debug, Default)]
pub struct CachedAnswer<T> {
    held: Option<(Moment, T)>,
}

impl<T> CachedAnswer<T> {
    /// The answer, asked anew when it is old.
    pub fn get(&mut self, now: Moment, ask: impl FnOnce() -> T) -> &mut T {
        let fresh = self.held.take().filter(|(at, _)| now.0.saturating_sub(at.0) < EVERY);
        &mut self.held.insert(fresh.unwrap_or_else(|| (now, ask()))).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_ten_seconds() {
        let mut slowly = CachedAnswer::default();
        assert_eq!(*slowly.get(Moment(5_000), || 1), 1);
        assert_eq!(*slowly.get(Moment(14_999), || 2), 1);
        assert_eq!(*slowly.get(Moment(15_000), || 3), 3);
    }
}
