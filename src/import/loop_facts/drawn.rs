//! The shapes of samples that a script draws at random in place of data.

use super::Script;
use crate::script_defaults::is_name;
use crate::script_doubts::code;
use crate::settings::{Settings, whole};

/// What draws whole numbers.
const DRAW: &str = "torch.randint(";

impl Script<'_> {
    /// The shape of the whole numbers that it draws in place of samples, without what is shifted off for labels; none
    /// where two differ.
    pub(super) fn shape(&self) -> Option<(u64, u64)> {
        if self.generates() || self.cuts_what_it_draws() {
            return None;
        }
        self.drawn(2).and_then(|sizes| Some((*sizes.first()?, self.unshifted(*sizes.get(1)?))))
    }

    /// Whether what it draws is a data set that no loader cuts, but the script itself: `data[i : i + length]`.
    fn cuts_what_it_draws(&self) -> bool {
        let drawn = code(self.text).filter(|line| line.contains(DRAW));
        let mut names = drawn.filter_map(|line| line.split_once('=')).map(|(name, _)| name.trim());
        let cuts = |name: &str| {
            // `x[:, :-1]` keeps all samples, `x[:8]` does not.
            let item = format!("{name}[");
            let mut items = self.text.split(item.as_str()).skip(1);
            let methods = [".split(", ".chunk(", ".view(", ".reshape("].map(|method| format!("{name}{method}"));
            let functions = ["batch(", "index_select(", "gather("].map(|function| format!("{function}{name},"));
            items.any(|index| !index.trim_start().starts_with(":,"))
                || methods.iter().chain(&functions).any(|part| self.text.contains(part))
        };
        !self.has(&["DataLoader("]) && names.any(|name| is_name(name) && cuts(name))
    }

    /// The number of the images that it draws in place of samples: `torch.randn(16, 3, 224, 224)`.
    pub(super) fn images(&self) -> Option<u64> {
        let of_image = |call: &Settings| {
            let [samples, channels, height, width] = ["0", "1", "2", "3"].map(|place| call.whole(place));
            let is_image = channels?.value <= 4 && height?.value > 4 && width?.value > 4 && !call.holds("4");
            samples.filter(|_| is_image).map(|found| found.value)
        };
        let calls = self.reader.every_call(&["torch.randn", "torch.rand"]);
        let mut found = calls.iter().filter_map(of_image);
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }

    /// The tokens of one sample that its data set draws.
    pub(super) fn made_length(&self) -> Option<u64> {
        if !self.draws_samples() {
            return None;
        }
        self.drawn(1).and_then(|sizes| sizes.first().copied()).filter(|tokens| *tokens > 1)
    }

    /// Whether each row that it draws is a sample: in what gives one out, or in a list of them. A row drawn elsewhere may be
    /// a whole text, of which samples are cut, or labels.
    fn draws_samples(&self) -> bool {
        let (mut inside, mut found) = ("", false);
        for line in self.text.lines() {
            let start = line.trim_start();
            if let Some(head) = start.strip_prefix("def ").or_else(|| start.strip_prefix("async def ")) {
                inside = head.split('(').next().unwrap_or_default();
            } else if !line.is_empty() && start.len() == line.len() {
                inside = "";
            }
            if start.starts_with('#') || !line.contains(DRAW) {
                continue;
            }
            let gives = ["__getitem__", "__getitems__", "__iter__"].contains(&inside);
            if !gives && !line.contains("input_ids") && !line.contains(" for ") {
                return false;
            }
            found = true;
        }
        found
    }

    /// Whether whole numbers that it draws are no tokens: ends of edges, masks.
    fn draws_no_tokens(&self) -> bool {
        const OTHERS: [&str; 4] = ["edge", "adj", "mask", "box"];
        let before = code(self.text).filter_map(|line| line.split_once(DRAW)).map(|(before, _)| before);
        // Of several on a line the last name is the draw's.
        let names = before.filter_map(|before| before.rsplit([',', '(', '{']).next()).map(str::to_lowercase);
        names.into_iter().any(|name| OTHERS.iter().any(|other| name.contains(other)))
    }

    pub(super) fn drawn(&self, places: usize) -> Option<Vec<u64>> {
        if self.draws_no_tokens() {
            return None;
        }
        let calls = self.reader.every_call(&["torch.randint"]);
        let size = |call: &Settings| {
            let told =
                ["size", "2", "1"].iter().find_map(|name| call.get(name).filter(|found| found.value.is_array()))?;
            told.value.as_array()?.iter().map(whole).collect::<Option<Vec<u64>>>()
        };
        let mut sizes: Vec<Vec<u64>> = Vec::new();
        for call in &calls {
            // One whose size is not followed may be what it trains on.
            let size = size(call)?;
            if size.len() == places && !sizes.contains(&size) {
                sizes.push(size);
            }
        }
        let [only] = sizes.as_slice() else { return None };
        Some(only.clone())
    }

    /// Inputs and labels out of one more token: `x[:, :-1]` and `x[:, 1:]`.
    pub(super) fn unshifted(&self, tokens: u64) -> u64 {
        let shifts = self.text.contains(":-1]") && self.text.contains("1:]");
        if shifts { tokens.saturating_sub(1) } else { tokens }
    }
}
