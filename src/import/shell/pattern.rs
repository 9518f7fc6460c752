//! Patterns of a shell: `7*`, `[ab]?`, `"*"`. A part of a pattern or of a text that only the run knows may be anything.

/// Stands in a pattern for what an expansion leaves unknown: `?` is a sign of its own there.
pub const UNKNOWN_PART: char = '\u{1}';

/// Longer texts are not laid beside a pattern.
const LONGEST_TEXT: usize = 4_096;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Element {
    Letter(char),
    /// `?`
    AnyLetter,
    /// `*`
    AnyText,
    /// `[a-c]`, `[!abc]`
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// Any text, and nobody knows which.
    Unknown,
}

impl Element {
    fn takes(&self, letter: char) -> bool {
        match self {
            Self::Letter(own) => *own == letter,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter)) != *negated
            }
            Self::AnyLetter | Self::AnyText | Self::Unknown => true,
        }
    }
}

/// A pattern that texts are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Element>);

impl Pattern {
    /// Whether a text is one that a marked pattern takes, `@(a|b)` and `?(a)` included, as `[[ … ]]` reads them by itself and
    /// `case` with `extglob`; none where only the run could tell or a sign is not followed.
    pub fn takes(marked: &str, text: &str) -> Option<bool> {
        let answers: Option<Vec<Option<bool>>> =
            alternatives(marked, MOST_ALTERNATIVES)?.iter().map(|one| Some(Self::read(one)?.matches(text))).collect();
        let answers = answers?;
        let open = answers.contains(&None);
        if answers.contains(&Some(true)) {
            Some(true)
        } else if open {
            None
        } else {
            Some(false)
        }
    }

    /// Reads a pattern in which a backslash stands before every letter that means itself. None of a sign that is not
    /// followed (`+(a|b)`, `[[:alpha:]]`).
    pub fn read(text: &str) -> Option<Self> {
        let mut elements = Vec::new();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            elements.push(match letter {
                '\\' => Element::Letter(letters.next()?),
                '(' | ')' | '|' => return None,
                '*' => Element::AnyText,
                '?' => Element::AnyLetter,
                UNKNOWN_PART => Element::Unknown,
                '[' => class(&mut letters)?,
                letter => Element::Letter(letter),
            });
        }
        Some(Self(elements))
    }

    /// The pattern of a text that means itself, `?` what only the run knows.
    pub fn literal(text: &str) -> Self {
        let element = |letter| if unknown(letter) { Element::Unknown } else { Element::Letter(letter) };
        Self(text.chars().map(element).collect())
    }

    /// The pattern of a plain regular expression, which may stand anywhere in the text: letters, `.`, `.*`, and `^` and `$`
    /// at its ends. None of other signs.
    pub fn regular(text: &str) -> Option<Self> {
        let (begins, rest) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let escaped = rest.ends_with("\\$");
        let (ends, rest) = rest.strip_suffix('$').filter(|_| !escaped).map_or((false, rest), |rest| (true, rest));
        let mut elements: Vec<Element> = (!begins).then_some(Element::AnyText).into_iter().collect();
        let mut letters = rest.chars().peekable();
        while let Some(letter) = letters.next() {
            elements.push(match letter {
                '\\' => Element::Letter(letters.next()?),
                '.' if letters.next_if_eq(&'*').is_some() => Element::AnyText,
                '.' => Element::AnyLetter,
                UNKNOWN_PART => return None,
                '*' | '+' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => return None,
                letter => Element::Letter(letter),
            });
            if letters.peek().is_some_and(|sign| matches!(sign, '*' | '+' | '?' | '{')) {
                return None;
            }
        }
        elements.extend((!ends).then_some(Element::AnyText));
        Some(Self(elements))
    }

    /// Whether the pattern matches the whole text; none where only the run could tell.
    pub fn matches(&self, text: &str) -> Option<bool> {
        let letters: Vec<char> = text.chars().collect();
        self.ends(&letters)?.last().copied().unwrap_or(Some(false))
    }

    /// Whether the pattern matches the text up to each of its letters, and up to its end. None of a text that is too long.
    pub fn ends(&self, text: &[char]) -> Option<Vec<Option<bool>>> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let (surely, perhaps) = (self.reached(text, true), self.reached(text, false));
        let both = surely.into_iter().zip(perhaps);
        Some(both.map(|(surely, perhaps)| if surely == perhaps { Some(surely) } else { None }).collect())
    }

    /// The places of a text that the pattern can end at; `surely`: whatever the unknown parts are.
    fn reached(&self, text: &[char], surely: bool) -> Vec<bool> {
        let mut at: Vec<bool> = (0..=text.len()).map(|place| place == 0).collect();
        let may_be_empty = |at: &mut Vec<bool>| {
            for place in 0..text.len() {
                let passes = !surely && text.get(place).copied().is_some_and(unknown) && at.get(place) == Some(&true);
                if let Some(next) = at.get_mut(place + 1).filter(|_| passes) {
                    *next = true;
                }
            }
        };
        may_be_empty(&mut at);
        for element in &self.0 {
            let any = matches!(element, Element::AnyText) || *element == Element::Unknown && !surely;
            let mut next = vec![false; at.len()];
            let mut begun = false;
            for (place, end) in next.iter_mut().enumerate() {
                begun |= at.get(place) == Some(&true);
                let before = place.checked_sub(1).filter(|before| at.get(*before) == Some(&true));
                let letter = before.and_then(|before| text.get(before)).copied();
                let one = *element != Element::Unknown
                    && letter.is_some_and(|letter| !unknown(letter) && element.takes(letter));
                let within = !surely && at.get(place) == Some(&true) && text.get(place).copied().is_some_and(unknown);
                *end = if any { begun } else { one || within };
            }
            at = next;
            may_be_empty(&mut at);
        }
        at
    }
}

/// No pattern that matters has more.
const MOST_ALTERNATIVES: usize = 64;

/// The plain patterns that one with `@(a|b)` or `?(a|b)` stands for.
fn alternatives(text: &str, most: usize) -> Option<Vec<String>> {
    let opens = |at: usize| at > 0 && text.get(..at - 1).is_some_and(|before| !before.ends_with('\\'));
    let found = text.match_indices('(').map(|(at, _)| at).find(|at| opens(*at) && text[..*at].ends_with(['@', '?']));
    let Some(open) = found else { return Some(vec![text.to_owned()]) };
    let close = open + text.get(open..)?.find(')')?;
    let (before, inner) = (text.get(..open - 1)?, text.get(open + 1..close)?);
    if inner.contains(['(', '\\']) {
        return None;
    }
    let nothing = text[..open].ends_with('?').then_some("");
    let rest = alternatives(text.get(close + 1..)?, most)?;
    let parts: Vec<&str> = inner.split('|').chain(nothing).collect();
    let all = parts.iter().flat_map(|part| rest.iter().map(move |rest| format!("{before}{part}{rest}")));
    (parts.len() * rest.len() <= most).then(|| all.collect())
}

/// Whether a letter of a text stands for what only the run knows.
fn unknown(letter: char) -> bool {
    matches!(letter, '?' | UNKNOWN_PART)
}

/// The class behind a `[`; one that nothing closes is none.
fn class(letters: &mut std::iter::Peekable<std::str::Chars>) -> Option<Element> {
    let negated = letters.next_if(|letter| matches!(letter, '!' | '^')).is_some();
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        let first = match letters.next()? {
            ']' if !ranges.is_empty() => return Some(Element::Class { negated, ranges }),
            '[' | UNKNOWN_PART => return None,
            '\\' => letters.next()?,
            letter => letter,
        };
        let mut behind = letters.clone();
        let is_range = behind.next() == Some('-') && behind.next().is_some_and(|last| last != ']');
        if is_range {
            letters.next();
            let last = letters.next().filter(|last| !matches!(*last, '[' | UNKNOWN_PART))?;
            ranges.push((first, if last == '\\' { letters.next()? } else { last }));
        } else {
            ranges.push((first, first));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns_match_as_in_a_shell() {
        // bash(1), "Pattern Matching".
        for (pattern, text, is) in [
            ("@(7b|13b)", "13b", Some(true)),
            ("qwen?(2)-@(7b|13b)*", "qwen-7b-chat", Some(true)),
            ("@(7b|13b)", "70b", Some(false)),
            ("@(7b|?)", "x", Some(true)),
            ("+(7)", "77", None),
        ] {
            assert_eq!(Pattern::takes(pattern, text), is, "{pattern} {text}");
        }
        for (pattern, text, is) in [
            ("7*", "7B-chat", Some(true)),
            ("7*", "13B", Some(false)),
            ("*lora*", "full", Some(false)),
            ("*lora*", "q-lora", Some(true)),
            ("[Yy]es", "yes", Some(true)),
            ("[!0-9]*", "7b", Some(false)),
            ("llama-[23]", "llama-3", Some(true)),
            ("?B", "7B", Some(true)),
            ("?B", "13B", Some(false)),
            ("\\*", "*", Some(true)),
            ("\\*", "a", Some(false)),
            ("", "", Some(true)),
            // A part of the text that only the run knows.
            ("*.yaml", "?.yaml", Some(true)),
            ("*.yaml", "?.json", Some(false)),
            ("*llama*", "?-7b", None),
            ("a*", "?", None),
            ("*", "?", Some(true)),
            ("\u{1}b", "ab", None),
            ("\u{1}b", "ac", Some(false)),
        ] {
            assert_eq!(Pattern::read(pattern).unwrap().matches(text), is, "{pattern} {text}");
        }
        for refused in ["@(a|b)", "[abc", "[[:alpha:]]"] {
            assert_eq!(Pattern::read(refused), None, "{refused}");
        }
    }

    #[test]
    fn plain_regular_expressions_are_found_anywhere() {
        for (expression, text, is) in [
            ("llama", "meta-llama-3", Some(true)),
            ("^llama", "meta-llama-3", Some(false)),
            ("7b$", "llama-7b", Some(true)),
            ("llama.*7b", "llama-2-7b-hf", Some(true)),
            ("70b", "llama-?", None),
        ] {
            assert_eq!(Pattern::regular(expression).unwrap().matches(text), is, "{expression} {text}");
        }
        for refused in ["^[0-9]+$", "a|b", "ab*"] {
            assert_eq!(Pattern::regular(refused), None, "{refused}");
        }
    }
}
