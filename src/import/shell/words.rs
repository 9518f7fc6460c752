//! A shell's words: quotes undone, variables put in, split at blanks.

use super::pattern::UNKNOWN_PART;
use super::{MAX_TEXT, MAX_WORDS, Script, UNSET, assignment};
use crate::settings::UNKNOWN;

impl Script {
    /// Splits into words as a shell does, quotes undone and variables put in. A variable that nobody has set is
    /// nothing by itself, and unknown as the value of an option or in a word with more.
    pub(super) fn words(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for word in self.raw_words(text, known) {
            if !word.contains(UNSET) {
                words.push(word);
                continue;
            }
            if assignment(&word).is_some() && words.iter().all(|word| assignment(word).is_some()) {
                words.push(among_options(&word));
                continue;
            }
            let alone = word.chars().all(|letter| letter == UNSET);
            let option = words.last().is_some_and(|last| last.starts_with("--") && !last.contains('='));
            if !alone || option {
                words.push(word.replace(UNSET, UNKNOWN));
            }
        }
        words
    }

    /// As [`Self::words`], with what nobody has set marked.
    pub(super) fn raw_words(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        self.split(text, Splitter::default(), known)
    }

    /// The words of `[[ … ]]`, in which no value is split: a backslash stands before what is quoted, as in a [`Pattern`].
    ///
    /// [`Pattern`]: super::pattern::Pattern
    pub(super) fn marked_words(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        self.split(text, Splitter { marks: true, ..Splitter::default() }, known)
    }

    /// The text of a pattern, its blanks with it: a backslash stands before what is quoted.
    pub(super) fn pattern_text(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        let whole = Splitter { marks: true, whole: true, ..Splitter::default() };
        self.split(text, whole, known).concat().replace(UNSET, "")
    }

    fn split(&self, text: &str, mut splitter: Splitter, known: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let mut rest = text;
        let mut quote = None;
        while let Some(letter) = rest.chars().next() {
            let after = &rest[letter.len_utf8()..];
            match (quote, letter) {
                (None, '\'' | '"') => {
                    quote = Some(letter);
                    splitter.quoted = true;
                }
                (Some(open), _) if open == letter => quote = None,
                // `"$@"` of no arguments is no word.
                (Some('"'), '$') if splitter.word.is_empty() && no_arguments(rest, known) => {
                    splitter.quoted = false;
                    quote = None;
                    rest = rest.split_once('"').map_or("", |(_, behind)| behind);
                    continue;
                }
                (Some('"'), '$') if !splitter.assigns() && self.list(rest, known).is_some() => {
                    let (items, used) = self.list(rest, known).unwrap_or_default();
                    splitter.put_all(&items);
                    rest = rest.get(used.max(1)..).unwrap_or("");
                    continue;
                }
                (None | Some('"'), '$' | '`') => {
                    let (expanded, used) = self.expanded(rest, known);
                    splitter.put(&expanded, quote.is_none() && !splitter.assigns(), quote.is_some());
                    rest = rest.get(used.max(1)..).unwrap_or("");
                    continue;
                }
                (None, '#') if splitter.at_start() => {
                    let end = rest.find('\n').unwrap_or(rest.len());
                    rest = &rest[end..];
                    continue;
                }
                (None | Some('"'), '\\') => {
                    if let Some(escaped) = after.chars().next() {
                        splitter.letter(escaped, true);
                        rest = &after[escaped.len_utf8()..];
                        continue;
                    }
                }
                (None, _) if letter.is_whitespace() && !splitter.whole => splitter.end(),
                _ => splitter.letter(letter, quote.is_some()),
            }
            if splitter.words.len() > MAX_WORDS || splitter.bytes > MAX_TEXT {
                break;
            }
            rest = after;
        }
        splitter.end();
        self.spent.set(self.spent.get() + splitter.bytes);
        splitter.words
    }
}

impl Script {
    /// The items of `${name[@]}` and `$@`, which stay words of their own in quotes, and how many bytes that uses up.
    fn list(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<(Vec<String>, usize)> {
        if let Some(sign) = ["$@", "${@}"].into_iter().find(|sign| text.starts_with(sign)) {
            let number = known("#")?.parse().ok().filter(|number| (1..MAX_WORDS).contains(number))?;
            let items: Option<Vec<String>> = (1..=number).map(|at| known(&at.to_string())).collect();
            return Some((items?, sign.len()));
        }
        let inner = text.strip_prefix("${")?;
        let (name, _) = inner.split_once("[@]}")?;
        let plain = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let items = self.variables.get(name).filter(|items| plain && items.len() > 1)?;
        Some((items.clone(), "${[@]}".len() + name.len()))
    }
}

/// The words that a variable is given, without those that nobody has set where they stand by themselves behind an option's
/// value: the shell puts nothing there (`CMD="train.py --lr 1e-4 ${EXTRA} --bf16"`).
fn among_options(word: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for part in word.split_whitespace() {
        let alone = part.chars().all(|letter| letter == UNSET);
        let behind_value = kept.last().is_some_and(|last| !last.starts_with('-') && !last.contains(UNSET));
        let options = kept.iter().any(|word| word.starts_with("--"));
        if !(alone && behind_value && options) {
            kept.push(part);
        }
    }
    let text = if kept.len() == word.split_whitespace().count() { word.to_owned() } else { kept.join(" ") };
    text.replace(UNSET, UNKNOWN)
}

/// Whether a variable stands as a word of its own among the options that a variable is given, behind no option.
pub fn stands_alone(statement: &str, name: &str) -> bool {
    let marks = [format!("${name}"), format!("${{{name}}}")];
    let words = statement.split_whitespace().map(|word| word.trim_matches('"')).filter(|word| *word != "\\");
    let words: Vec<&str> = words.collect();
    let alone = |pair: &[&str]| match pair {
        [before, word] => !before.starts_with('-') && marks.iter().any(|mark| mark == word),
        _ => false,
    };
    statement.contains("--") && words.windows(2).any(alone)
}

/// Whether all arguments of the script stand here up to a closing quote, and none is known.
fn no_arguments(text: &str, known: &dyn Fn(&str) -> Option<String>) -> bool {
    let rest = text.strip_prefix("${@:").map(|rest| rest.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    let all = ["$@\"", "${@}\""].iter().any(|sign| text.starts_with(sign))
        || rest.is_some_and(|rest| rest.starts_with("}\""));
    all && known("@").is_none_or(|arguments| arguments.is_empty())
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Where a sign stands outside of quotes, of substituted commands and of a class.
pub fn unquoted(text: &str, sign: char) -> Option<usize> {
    let (mut quote, mut escaped, mut depth) = (None, false, 0_usize);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, letter) if letter == sign && depth == 0 => return Some(at),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Words as they come together.
#[derive(Debug, Default)]
struct Splitter {
    words: Vec<String>,
    word: String,
    quoted: bool,
    bytes: usize,
    /// What is quoted is marked by a backslash, and values are not split.
    marks: bool,
    /// All is one word.
    whole: bool,
}

impl Splitter {
    fn at_start(&self) -> bool {
        self.word.is_empty() && !self.quoted
    }

    /// Whether the present word gives a variable its value: nothing splits that.
    fn assigns(&self) -> bool {
        // A name is short; a word of megabytes is not gone through at each of its variables.
        const LONGEST_NAME: usize = 256;
        let end = self.word.bytes().take(LONGEST_NAME).position(|byte| byte == b'=');
        end.and_then(|end| self.word.get(..=end)).is_some_and(|start| assignment(start).is_some())
            && self.words.iter().all(|word| assignment(word).is_some())
    }

    fn letter(&mut self, letter: char, quoted: bool) {
        self.bytes += letter.len_utf8();
        if self.marks && quoted && letter.is_ascii_punctuation() {
            self.word.push('\\');
        }
        self.word.push(letter);
    }

    /// Puts a variable's text in; without quotes it is split at blanks.
    fn put(&mut self, text: &str, split: bool, quoted: bool) {
        // An empty value is a word all the same where values are not split.
        self.quoted |= self.marks;
        for letter in text.chars() {
            if self.bytes > MAX_TEXT {
                return;
            }
            match letter {
                '?' if self.marks => self.letter(UNKNOWN_PART, false),
                letter if split && !self.marks && letter.is_whitespace() => self.end(),
                letter => self.letter(letter, quoted),
            }
        }
    }

    /// Puts words in that stay apart: the first goes on what stands before, the last before what comes.
    fn put_all(&mut self, items: &[String]) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.end();
                self.quoted = true;
            }
            item.chars().for_each(|letter| self.letter(letter, true));
            if self.bytes > MAX_TEXT || self.words.len() > MAX_WORDS {
                return;
            }
        }
    }

    fn end(&mut self) {
        if !self.at_start() {
            self.words.push(std::mem::take(&mut self.word));
        }
        self.quoted = false;
    }
}
