//! What length a script cuts its samples to, in its calls of a tokenizer.

use serde_json::Value;

use crate::python::ScriptReader;
use crate::script_doubts::code;
use crate::settings::whole;
use crate::text::arguments;

/// How calls of a tokenizer name the length that they cut to.
const LENGTH: &str = "max_length=";

/// The only length that a script cuts its samples to.
pub fn truncated(text: &str, reader: &ScriptReader) -> Option<Value> {
    // `model_max_length` is what a tokenizer is made with: a call that cuts to a length of its own goes over it.
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let of_call = |at: &usize| !text.get(..*at).is_some_and(|before| before.ends_with(of_name));
    let (calls, made): (Vec<usize>, Vec<usize>) = cutting(text).partition(of_call);
    let mut found: Option<Value> = None;
    for at in if calls.is_empty() { made } else { calls } {
        let part = arguments(text.get(at + LENGTH.len()..)?).into_iter().next()?;
        let parts = match Function::around(text, at).and_then(|function| Some((function.place(part.trim())?, function)))
        {
            Some((place, function)) => function.passed(text, place),
            None => vec![Some(part.trim().to_owned())],
        };
        for part in parts {
            let value = reader.expression(&part?).filter(|value| whole(value).is_some())?;
            if found.as_ref().is_some_and(|other| *other != value) {
                return None;
            }
            found = Some(value);
        }
    }
    found
}

/// Whether a script makes its samples by its model itself, as those that train by rewards do: what its tokenizer cuts are
/// prompts, to which answers are added.
pub fn makes_its_samples(text: &str) -> bool {
    const WAYS: [&str; 4] = ["ppo", "grpo", "rlhf", "reinforce"];
    let lower = || code(text).map(str::to_lowercase);
    code(text).any(|line| line.contains(".generate(")) && lower().any(|line| WAYS.iter().any(|way| line.contains(way)))
}

/// Where a length is named beside the word that cuts to it.
fn cutting(text: &str) -> impl Iterator<Item = usize> + '_ {
    const NEAR: usize = 200;
    let cuts = |at: &usize| {
        let line = text.get(..*at).and_then(|before| before.rsplit('\n').next()).unwrap_or("").trim_start();
        let start = (at.saturating_sub(NEAR)..*at).find(|at| text.is_char_boundary(*at)).unwrap_or(*at);
        let end = (at + NEAR..).find(|at| *at >= text.len() || text.is_char_boundary(*at)).unwrap_or(text.len());
        let around = text.get(start..end.min(text.len())).unwrap_or("");
        !line.starts_with('#') && !line.starts_with("def ") && around.contains("truncation") && !is_made_with(text, *at)
    };
    text.match_indices(LENGTH).map(|(at, _)| at).filter(move |at| cuts(at))
}

/// Whether a tokenizer is made with that length: `from_pretrained(name, max_length=512)` cuts nothing, its own name for what
/// it takes at most is `model_max_length` (`transformers/tokenization_utils_base.py`, `__init__`).
fn is_made_with(text: &str, at: usize) -> bool {
    const LONGEST: usize = 1000;
    let own = text.get(..at).is_some_and(|before| before.ends_with("model_"));
    let mut open = 0_usize;
    for (place, letter) in text.get(..at).unwrap_or("").char_indices().rev().take(LONGEST) {
        match letter {
            ')' => open += 1,
            '(' if open == 0 => {
                return !own && text.get(..place).is_some_and(|before| before.ends_with("from_pretrained"));
            }
            '(' => open -= 1,
            _ => {}
        }
    }
    false
}

/// Whether a script cuts its samples and names no length anywhere: what its tokenizer takes at most is their length.
pub fn cuts_to_the_longest(text: &str) -> bool {
    let names = |line: &str| ["max_length", "max_len", "max_seq", "block_size"].iter().any(|name| line.contains(name));
    let cuts = |line: &str| line.replace(' ', "").contains("truncation=True");
    code(text).any(cuts) && !code(text).any(names)
}

/// A function of the script, as its first line declares it.
struct Function<'a> {
    name: &'a str,
    parameters: Vec<String>,
}

impl<'a> Function<'a> {
    /// The one whose body a place stands in.
    fn around(text: &'a str, at: usize) -> Option<Self> {
        let margin = |line: &str| line.len() - line.trim_start().len();
        let before = text.get(..at)?;
        let mut deepest = margin(before.rsplit('\n').next()?);
        let mut from = at;
        for line in before.rsplit('\n').skip(1) {
            from = before.get(..from)?.rfind(line)?;
            let own = margin(line);
            if line.trim().is_empty() || own >= deepest {
                continue;
            }
            deepest = own;
            if let Some(rest) = line.trim_start().strip_prefix("def ") {
                let name = rest.split('(').next()?.trim();
                let open = from + text.get(from..)?.find('(')? + 1;
                return Some(Self { name, parameters: arguments(text.get(open..)?) });
            }
        }
        None
    }

    /// Which of its parameters has that name, `self` left out.
    fn place(&self, name: &str) -> Option<usize> {
        self.named().position(|parameter| parameter.split([':', '=']).next().unwrap_or("").trim() == name)
    }

    fn named(&self) -> impl Iterator<Item = &String> {
        self.parameters.iter().filter(|parameter| parameter.trim() != "self")
    }

    /// What those who call it hand to a parameter, by `partial` too; nothing for one whose value does not show.
    fn passed(&self, text: &str, place: usize) -> Vec<Option<String>> {
        let parameter = self.named().nth(place).map_or("", String::as_str);
        let name = parameter.split([':', '=']).next().unwrap_or("").trim();
        let default = parameter.split_once('=').map(|(_, value)| value.trim().to_owned());
        let joins = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        let mut handed = Vec::new();
        for (at, word) in text.match_indices(self.name) {
            let (before, behind) = (text.get(..at).unwrap_or(""), text.get(at + word.len()..).unwrap_or(""));
            let line = before.rsplit('\n').next().unwrap_or("").trim_start();
            let declared = ["def ", "from ", "import ", "#"].iter().any(|start| line.starts_with(start));
            if declared || joins(before.chars().next_back()) || joins(behind.chars().next()) {
                continue;
            }
            let given = if let Some(open) = behind.strip_prefix('(') {
                arguments(open)
            } else if before.trim_end().ends_with("partial(") {
                arguments(behind.trim_start().trim_start_matches(','))
            } else {
                let rest = behind.split('\n').next().unwrap_or("");
                if rest.contains("fn_kwargs") {
                    handed.push(None);
                    continue;
                }
                Vec::new()
            };
            let keyword = given.iter().find_map(|part| {
                let (left, value) = part.split_once('=')?;
                (left.trim() == name && !value.starts_with('=')).then(|| value.trim().to_owned())
            });
            let positional = given.get(place).filter(|part| !part.contains('=') && !part.starts_with('*'));
            handed.push(keyword.or_else(|| positional.map(|part| part.trim().to_owned())).or_else(|| default.clone()));
        }
        handed
    }
}
