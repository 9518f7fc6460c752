//! What substituted commands print, where that can be told without running them: folders and names of paths, and
//! arithmetic.

use super::Script;
use crate::plan::import::expression;
use crate::plan::import::settings::UNKNOWN;

impl Script {
    /// What `$(command)` stands for; unknown where only a run could tell.
    pub(super) fn output(&self, command: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        self.printed(command, known)
            .filter(|text| !text.split(['/', ' ']).any(|part| part == UNKNOWN))
            .unwrap_or_else(|| UNKNOWN.to_owned())
    }

    fn printed(&self, command: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let bare = command.replace("2>&1", "").replace(">/dev/null", "").replace("> /dev/null", "");
        if let Some((first, second)) = bare.split_once("&&").or_else(|| bare.split_once(';')) {
            let words = self.words(first, known);
            let pwd = second.split_whitespace().next() == Some("pwd") && second.split_whitespace().count() <= 2;
            let target = words.iter().skip(1).find(|word| !word.starts_with('-'));
            return target.filter(|_| pwd && words.first().is_some_and(|word| word == "cd")).cloned();
        }
        if bare.contains(['|', '<', '>', '&']) {
            return None;
        }
        let words = self.words(&bare, known);
        let (name, rest) = words.split_first()?;
        if name == "pwd" {
            return Some(".".to_owned());
        }
        let path = rest.iter().find(|word| !word.starts_with('-'))?.trim_end_matches('/').to_owned();
        match name.as_str() {
            "dirname" => Some(path.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned()),
            "realpath" | "readlink" => Some(path),
            "basename" => {
                let base = path.rsplit('/').next().unwrap_or("").to_owned();
                let ending = rest.iter().filter(|word| !word.starts_with('-')).nth(1);
                Some(ending.and_then(|ending| base.strip_suffix(ending.as_str())).map_or(base.clone(), str::to_owned))
            }
            "expr" => expression::whole(&rest.join(" ").replace("\\*", "*"), &|_| None).map(|value| value.to_string()),
            "echo" => Some(rest.join(" ")),
            _ => None,
        }
    }
}
