//! What a sign behind a variable's name makes of its value: `${x##*/}`, `${x%.yaml}`, `${x/old/new}`, `${x^^}`, `${x:0:2}`.

use super::pattern::Pattern;
use super::words::unquoted;
use super::{Script, UNSET};
use crate::expression;
use crate::settings::UNKNOWN;

/// Longer values are not cut.
const LONGEST_VALUE: usize = 512;

impl Script {
    /// The value after such a sign; unknown where only the run could tell.
    pub(super) fn value_after(&self, value: &str, sign: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        if sign.is_empty() || sign == "[@]" || sign == "[*]" {
            return value.to_owned();
        }
        let is_known = value != UNKNOWN && !value.contains(UNSET) && value.len() <= LONGEST_VALUE;
        let made = if is_known { self.made_of(value, sign, known) } else { None };
        made.unwrap_or_else(|| UNKNOWN.to_owned())
    }

    fn made_of(&self, value: &str, sign: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let letters: Vec<char> = value.chars().collect();
        let pattern = |text: &str| Pattern::read(&self.pattern_text(text, known));
        match sign {
            ",," => return Some(value.to_lowercase()),
            "^^" => return Some(value.to_uppercase()),
            "^" => return Some(first(value, |letter| letter.to_uppercase().collect())),
            "," => return Some(first(value, |letter| letter.to_lowercase().collect())),
            _ => {}
        }
        if let Some(rest) = sign.strip_prefix('#') {
            let (longest, text) = rest.strip_prefix('#').map_or((false, rest), |rest| (true, rest));
            let end = chosen(pattern(text)?.ends(&letters)?, longest)?.unwrap_or(0);
            return Some(letters.iter().skip(end).collect());
        }
        if let Some(rest) = sign.strip_prefix('%') {
            let (longest, text) = rest.strip_prefix('%').map_or((false, rest), |rest| (true, rest));
            let pattern = pattern(text)?;
            let tail = |start: usize| pattern.ends(letters.get(start..)?)?.pop();
            let tails: Option<Vec<Option<bool>>> = (0..=letters.len()).map(tail).collect();
            let start = chosen(tails?, !longest)?.unwrap_or(letters.len());
            return Some(letters.iter().take(start).collect());
        }
        if let Some(rest) = sign.strip_prefix('/') {
            return self.replaced(&letters, rest, known);
        }
        let (start, count) = sign.strip_prefix(':').map(|rest| rest.split_once(':').unwrap_or((rest, "")))?;
        let number = |text: &str| {
            let text = self.put_in(text, known);
            expression::whole(&text, &|name| self.variable(name, known)?.trim().parse().ok())
        };
        let start = usize::try_from(number(start)?).ok()?;
        let count = if count.is_empty() { letters.len() } else { usize::try_from(number(count)?).ok()? };
        (!value.contains(UNKNOWN)).then(|| letters.iter().skip(start).take(count).collect())
    }

    /// `old/new`, `/old/new` for all of them, `#old/new` at the start, `%old/new` at the end.
    fn replaced(&self, letters: &[char], rest: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let (place, rest) = match rest.chars().next()? {
            sign @ ('/' | '#' | '%') => (sign, rest.get(1..)?),
            _ => (' ', rest),
        };
        let (old, new) = unquoted(rest, '/').map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
        let pattern = Pattern::read(&self.pattern_text(old, known))?;
        let new = self.put_in(new.trim_matches(['"', '\'']), known);
        let (mut made, mut at, mut done) = (String::new(), 0, false);
        while let Some(letter) = letters.get(at) {
            let open = !done && (place != '#' || at == 0);
            let mut ends = if open { pattern.ends(letters.get(at..)?)? } else { Vec::new() };
            if place == '%' {
                let last = ends.len().saturating_sub(1);
                ends.iter_mut().take(last).for_each(|end| *end = Some(false));
            }
            // A pattern that takes nothing replaces nothing.
            if let Some(nothing) = ends.first_mut() {
                *nothing = Some(false);
            }
            match chosen(ends, true)? {
                Some(end) => {
                    made.push_str(&new);
                    at += end;
                    done = place != '/';
                }
                None => {
                    made.push(*letter);
                    at += 1;
                }
            }
        }
        Some(made)
    }
}

/// The place that a pattern matches up to, the last or the first; none of none. None at all where only the run could tell.
#[allow(clippy::option_option, reason = "unknown is another thing than nowhere")]
fn chosen(ends: Vec<Option<bool>>, last: bool) -> Option<Option<usize>> {
    let mut all: Vec<(usize, Option<bool>)> = ends.into_iter().enumerate().collect();
    if last {
        all.reverse();
    }
    match all.into_iter().find(|(_, is)| *is != Some(false)) {
        Some((at, Some(_))) => Some(Some(at)),
        Some((_, None)) => None,
        None => Some(None),
    }
}

fn first(value: &str, change: fn(char) -> String) -> String {
    let mut letters = value.chars();
    letters.next().map(change).into_iter().chain([letters.collect()]).collect()
}
