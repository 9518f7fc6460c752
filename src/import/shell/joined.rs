//! What two branches of a condition leave of a variable that holds a part of a command: the words that both have.

use crate::settings::{UNKNOWN, UNKNOWN_OPTIONS};

/// Longer commands are not laid beside each other.
const MOST_WORDS: usize = 300;

/// The words of two values that hold options: those of both, `--?` where one has options that the other has not, and
/// `?` for a value that differs. None where they are no parts of commands, or have nothing in common.
pub fn joined(one: &[String], other: &[String]) -> Option<Vec<String>> {
    let words = |value: &[String]| -> Vec<String> {
        value.iter().flat_map(|word| word.split_whitespace()).map(str::to_owned).collect()
    };
    let (one, other) = (words(one), words(other));
    let holds_options = |words: &[String]| words.len() > 1 && words.iter().any(|word| word.starts_with("--"));
    if !holds_options(&one) || !holds_options(&other) || one.len().max(other.len()) > MOST_WORDS {
        return None;
    }
    let pairs = aligned(&one, &other);
    if pairs.is_empty() {
        return None;
    }
    let mut whole = Vec::new();
    let (mut left, mut right) = (0, 0);
    for (at, beside) in pairs.into_iter().chain([(one.len(), other.len())]) {
        whole.extend(between(one.get(left..at).unwrap_or_default(), other.get(right..beside).unwrap_or_default()));
        if let Some((word, its)) = one.get(at).zip(other.get(beside)) {
            whole.push(if word == its { word.clone() } else { format!("{}={UNKNOWN}", name(word)) });
        }
        (left, right) = (at + 1, beside + 1);
    }
    Some(whole)
}

/// What stands for words that differ: `?` for each of as many values, then `--?` where options follow.
fn between(one: &[String], other: &[String]) -> Vec<String> {
    // Of `srun torchrun` and `torchrun` the inner launcher counts.
    let starts_ranks = |words: &[String], others: &[String]| words == ["srun"] && others.is_empty();
    if (one.is_empty() && other.is_empty()) || starts_ranks(one, other) || starts_ranks(other, one) {
        return Vec::new();
    }
    let values = |words: &[String]| words.iter().take_while(|word| !word.starts_with('-')).count();
    let alike = Some(values(one)).filter(|count| *count == values(other)).unwrap_or(0);
    let mut whole = vec![UNKNOWN.to_owned(); alike];
    if one.len() > alike || other.len() > alike {
        whole.push(UNKNOWN_OPTIONS.to_owned());
    }
    whole
}

fn name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// The longest row of words that both have in the same order, by their places; `--a=1` and `--a=2` are one option.
fn aligned(one: &[String], other: &[String]) -> Vec<(usize, usize)> {
    let alike = |word: &str, its: &str| {
        word == its || (word.starts_with("--") && word.contains('=') && name(word) == name(its))
    };
    let width = other.len() + 1;
    let mut longest = vec![0_usize; (one.len() + 1) * width];
    let value = |longest: &[usize], at: usize, beside: usize| longest.get(at * width + beside).copied().unwrap_or(0);
    for (at, word) in one.iter().enumerate().rev() {
        for (beside, its) in other.iter().enumerate().rev() {
            let best = if alike(word, its) {
                value(&longest, at + 1, beside + 1) + 1
            } else {
                value(&longest, at + 1, beside).max(value(&longest, at, beside + 1))
            };
            if let Some(place) = longest.get_mut(at * width + beside) {
                *place = best;
            }
        }
    }
    let (mut at, mut beside, mut pairs) = (0, 0, Vec::new());
    while let Some((word, its)) = one.get(at).zip(other.get(beside)) {
        if alike(word, its) {
            pairs.push((at, beside));
            (at, beside) = (at + 1, beside + 1);
        } else if value(&longest, at + 1, beside) >= value(&longest, at, beside + 1) {
            at += 1;
        } else {
            beside += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn branches_keep_the_words_that_both_have() {
        for (one, other, told) in [
            ("srun torchrun --nnodes=? -m a.b", "torchrun --nnodes=1 -m a.b", Some("torchrun --nnodes=? -m a.b")),
            ("--bf16 --steps 4", "--bf16 --steps 8 --lora", Some("--bf16 --steps ? --?")),
            ("--bf16 --a 1", "--fp16 --b 2", None),
            ("0 1 2", "0 1", None),
        ] {
            let words = |text: &str| vec![text.to_owned()];
            let whole = joined(&words(one), &words(other)).map(|words| words.join(" "));
            assert_eq!(whole.as_deref(), told, "{one} | {other}");
        }
    }
}
