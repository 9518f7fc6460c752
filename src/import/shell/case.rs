//! `case WORD in PATTERN) … ;; esac`: which of its branches are read.

use super::Script;
use super::condition::Branches;
use super::pattern::Pattern;
use super::statements::{CASE_END, CASE_FALLS, CASE_GOES_ON};
use super::words::unquoted;

/// A `case` that is open.
#[derive(Debug, Clone, Default)]
pub struct OpenCase {
    /// The word that is compared.
    word: String,
    /// It is what the script itself sets, whole.
    is_own: bool,
    /// Patterns of `a | b)` that were read already.
    patterns: Vec<String>,
    /// The next branch is run whatever its pattern.
    falls: bool,
    /// A pattern comes next, or the end.
    pub expects_pattern: bool,
}

impl Branches {
    /// Opens a `case`; what is left is what stands behind its `in`.
    pub(super) fn open_case<'a>(
        &mut self,
        header: &'a str,
        script: &mut Script,
        known: &dyn Fn(&str) -> Option<String>,
    ) -> &'a str {
        let is_end = |at: &usize| header[at + " in".len()..].chars().next().is_none_or(char::is_whitespace);
        let end = header.match_indices(" in").map(|(at, _)| at).find(is_end);
        let (compared, first) = end.map_or((header, ""), |at| (&header[..at], &header[at + " in".len()..]));
        let follows = self.follows();
        let case = OpenCase {
            word: script.words(compared, known).join(" "),
            is_own: follows && script.decides_itself(compared),
            patterns: Vec::new(),
            falls: false,
            expects_pattern: true,
        };
        let asks = if follows { script.asked_unset(compared, known) } else { Default::default() };
        self.begin_case(case, asks);
        first.trim()
    }

    /// Behind the pattern of a `case` that a statement begins with, if it does; none where it is no more than
    /// a part of one.
    pub(super) fn behind_pattern<'a>(
        &mut self,
        statement: &'a str,
        script: &mut Script,
        known: &dyn Fn(&str) -> Option<String>,
    ) -> Option<&'a str> {
        if [CASE_END, CASE_GOES_ON, CASE_FALLS].contains(&statement) {
            let reads = statement != CASE_END && self.compares_on();
            self.innermost_case().into_iter().for_each(|case| {
                (case.expects_pattern, case.falls) = (true, reads && statement == CASE_FALLS);
            });
            return None;
        }
        let Some(case) = self.innermost_case().filter(|case| case.expects_pattern) else { return Some(statement) };
        if statement.is_empty() || statement.split_whitespace().next() == Some("esac") {
            return Some(statement);
        }
        let inner = statement.strip_prefix('(').unwrap_or(statement);
        let Some(end) = unquoted(inner, ')') else {
            // `"a" | "b")` comes in pieces, as every pipe does.
            case.patterns.push(inner.trim().to_owned());
            return None;
        };
        case.expects_pattern = false;
        case.patterns.extend(inner[..end].split('|').map(|pattern| pattern.trim().to_owned()));
        let patterns = std::mem::take(&mut case.patterns);
        let falls = std::mem::take(&mut case.falls);
        let OpenCase { word, is_own, .. } = case.clone();
        let decided = is_own && patterns.iter().all(|one| script.decides_itself(one));
        let is = |one: &String| Pattern::takes(&script.pattern_text(one, known), &word);
        let each: Vec<Option<bool>> = patterns.iter().map(is).collect();
        let holds = match (each.contains(&Some(true)), each.contains(&None)) {
            _ if falls => Some(true),
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        };
        self.next_branch(holds, decided, script);
        Some(inner[end + 1..].trim())
    }
}
