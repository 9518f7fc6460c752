//! Several plans open at a time: the one in front is the state's editor, the others wait here.

use crate::app::editor::Editor;

/// The plans that are open besides the one in front.
#[derive(Debug, Clone, Default)]
pub struct Tabs {
    /// Those to its left, in their order.
    before: Vec<Editor>,
    /// Those to its right, in their order.
    after: Vec<Editor>,
}

impl Tabs {
    /// How many plans are open, and which of them is in front, from 0.
    #[must_use]
    pub fn place(&self) -> (usize, usize) {
        (self.before.len(), self.before.len() + 1 + self.after.len())
    }

    /// Every open plan in order, `front` where it belongs.
    pub fn all<'a>(&'a self, front: &'a Editor) -> impl Iterator<Item = &'a Editor> {
        self.before.iter().chain(std::iter::once(front)).chain(&self.after)
    }

    /// Those that are not in front.
    pub fn others_mut(&mut self) -> impl Iterator<Item = &mut Editor> {
        self.before.iter_mut().chain(&mut self.after)
    }

    /// Puts a new plan in front, to the right of the one that was there.
    pub fn open(&mut self, front: &mut Editor, plan: Editor) {
        self.before.push(std::mem::replace(front, plan));
    }

    /// Brings the next plan to the front, after the last the first.
    pub fn next(&mut self, front: &mut Editor) {
        self.go_to(front, (self.before.len() + 1) % self.place().1);
    }

    /// Brings the previous plan to the front, before the first the last.
    pub fn previous(&mut self, front: &mut Editor) {
        let (at, count) = self.place();
        self.go_to(front, (at + count - 1) % count);
    }

    /// Brings the plan of that place to the front.
    pub fn go_to(&mut self, front: &mut Editor, place: usize) {
        while self.before.len() < place {
            if self.after.is_empty() {
                return;
            }
            let next = self.after.remove(0);
            self.before.push(std::mem::replace(front, next));
        }
        while self.before.len() > place {
            let Some(last) = self.before.pop() else { return };
            self.after.insert(0, std::mem::replace(front, last));
        }
    }

    /// Closes the plan in front. False where it is the only one.
    pub fn close(&mut self, front: &mut Editor) -> bool {
        let next = if self.after.is_empty() { self.before.pop() } else { Some(self.after.remove(0)) };
        match next {
            Some(next) => *front = next,
            None => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    fn plan(name: &str) -> Editor {
        Editor::open_text(name.to_owned(), None, "model: {preset: gpt2}\n".to_owned(), &Catalog::embedded().unwrap())
    }

    fn names(tabs: &Tabs, front: &Editor) -> String {
        tabs.all(front).map(Editor::name).collect()
    }

    #[test]
    fn the_order_stays_whichever_is_in_front() {
        let (mut tabs, mut front) = (Tabs::default(), plan("a"));
        tabs.open(&mut front, plan("b"));
        tabs.open(&mut front, plan("c"));
        assert_eq!((names(&tabs, &front).as_str(), front.name()), ("abc", "c"));
        tabs.next(&mut front);
        assert_eq!((names(&tabs, &front).as_str(), front.name(), tabs.place()), ("abc", "a", (0, 3)));
        tabs.previous(&mut front);
        tabs.previous(&mut front);
        assert_eq!((names(&tabs, &front).as_str(), front.name()), ("abc", "b"));
        assert!(tabs.close(&mut front));
        assert_eq!((names(&tabs, &front).as_str(), front.name()), ("ac", "c"));
        assert!(tabs.close(&mut front));
        assert!(!tabs.close(&mut front));
        assert_eq!(front.name(), "a");
    }
}
