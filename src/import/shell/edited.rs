//! Files that a script copies or changes before it starts what reads them: `cp`, `mv`, `sed`, `jq`. What cannot be
//! followed makes the file unknown: it is not read as it was before.

use serde_json::Value;

use super::{MAX_TEXT, Script};

/// Endings of files that a training reads its settings from.
const SETTINGS: [&str; 6] = [".json", ".yaml", ".yml", ".toml", ".py", ".jsonc"];

impl Script {
    /// Takes in what a command does to files; `target` is where its output goes, `source` reads a file from outside.
    pub(super) fn edited(&mut self, command: &[String], target: Option<&str>, source: &dyn Fn(&str) -> Option<String>) {
        let (name, words) = match command.split_first() {
            Some((name, words)) => (name.as_str(), words),
            None => return,
        };
        let end = words.iter().position(|word| word.starts_with(['>', '<'])).unwrap_or(words.len());
        let words = words.get(..end).unwrap_or_default();
        let plain: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
        let handed = self.piped.take();
        match (name, plain.as_slice()) {
            ("cp" | "mv", [from, to]) => {
                let text = self.text_of(from, source);
                self.put(to, text);
            }
            ("sed", _) => self.substituted(words, target, handed, source),
            ("cat", [from]) if target.is_none() => self.piped = self.text_of(from, source),
            ("jq", [filter, from]) if target.is_some() && words.len() == 2 => {
                let text = self.text_of(from, source).and_then(|text| assigned(&text, filter));
                if let Some(to) = target {
                    self.put(to, text);
                }
            }
            ("yq" | "dasel" | "perl" | "ex" | "patch", _) => {
                plain.iter().filter(|path| is_settings(path)).for_each(|path| self.put(path, None));
            }
            ("cat" | "echo" | "printf" | "tee", _) => {}
            // Another command's output.
            _ => {
                if let Some(to) = target.filter(|path| is_settings(path)) {
                    self.put(to, None);
                }
            }
        }
    }

    fn text_of(&self, path: &str, source: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        if self.changed.contains(path) {
            return None;
        }
        let own = self.files.get(path).cloned();
        own.or_else(|| source(path)).filter(|text| text.len() <= MAX_TEXT)
    }

    /// Holds a file's text, or that it is not known.
    fn put(&mut self, path: &str, text: Option<String>) {
        const MOST_FILES: usize = 64;
        if self.files.len() + self.changed.len() > MOST_FILES {
            return;
        }
        match text {
            Some(text) => {
                self.changed.remove(path);
                self.files.insert(path.to_owned(), text);
            }
            None if is_settings(path) => {
                self.files.remove(path);
                self.changed.insert(path.to_owned());
            }
            None => {}
        }
    }

    /// `sed -i 's/A/B/g' FILE`, `sed -e … -e … FILE > OTHER`; without a file it takes what is handed on, `sed … FILE | sed …`.
    fn substituted(
        &mut self,
        words: &[String],
        target: Option<&str>,
        handed: Option<String>,
        source: &dyn Fn(&str) -> Option<String>,
    ) {
        let (mut scripts, mut files, mut in_place) = (Vec::new(), Vec::new(), false);
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            match word.as_str() {
                "-e" | "--expression" => {
                    scripts.extend(words.get(at).cloned());
                    at += 1;
                }
                word if word.starts_with("-i") || word.starts_with("--in-place") => in_place = true,
                word if word.starts_with('-') => {}
                // BSD's `-i ''`.
                "" => {}
                word if scripts.is_empty() => scripts.push(word.to_owned()),
                word => files.push(word.to_owned()),
            }
        }
        let edit = |text: Option<String>| {
            scripts.iter().try_fold(text, |text, script| Some(Some(substitute(&text?, script)?))).flatten()
        };
        if files.is_empty() && !in_place {
            let text = edit(handed);
            match target {
                Some(to) => self.put(to, text),
                None => self.piped = text,
            }
            return;
        }
        for path in files {
            let text = edit(self.text_of(&path, source));
            if in_place {
                self.put(&path, text);
            } else if let Some(to) = target {
                self.put(to, text);
            } else {
                self.piped = text;
            }
        }
    }
}

fn is_settings(path: &str) -> bool {
    SETTINGS.iter().any(|ending| path.ends_with(ending))
}

/// `s/A/B/g`, several behind each other; none where the pattern is more than plain letters.
fn substitute(text: &str, script: &str) -> Option<String> {
    let mut text = text.to_owned();
    for one in script.split(';').map(str::trim).filter(|one| !one.is_empty()) {
        let rest = one.strip_prefix('s')?;
        let sign = rest.chars().next().filter(|sign| !sign.is_alphanumeric())?;
        let parts: Vec<&str> = rest.get(sign.len_utf8()..)?.split(sign).collect();
        let [old, new, flags] = parts.as_slice() else { return None };
        // A dollar sign is the end of a line at a pattern's end alone.
        let special =
            |part: &str| part.contains(['*', '[', ']', '^', '+', '(', ')', '&', '\\', '?']) || part.ends_with('$');
        // A dot stands for itself almost always, and for any letter too: only where it is escaped is it plain.
        let old = old.replace("\\.", "\u{1}");
        if special(&old) || old.contains('.') || special(new) || old.is_empty() || !matches!(*flags, "" | "g") {
            return None;
        }
        let old = old.replace('\u{1}', ".");
        text = if *flags == "g" {
            text.replace(&old, new)
        } else {
            text.split_inclusive('\n').map(|line| line.replacen(&old, new, 1)).collect()
        };
        if text.len() > MAX_TEXT {
            return None;
        }
    }
    Some(text)
}

/// A JSON text after `.a.b = 1 | .c = "x"`; none where the filter is anything else.
fn assigned(text: &str, filter: &str) -> Option<String> {
    let mut root: Value = serde_json::from_str(text).ok()?;
    for one in filter.split('|') {
        let (path, value) = one.split_once('=')?;
        if path.trim_end().ends_with(['+', '-', '*', '/', '|', '!', '=']) || value.starts_with('=') {
            return None;
        }
        let value: Value = serde_json::from_str(value.trim()).ok()?;
        let mut place = &mut root;
        for name in path.trim().strip_prefix('.')?.split('.') {
            let name = name.trim_matches('"');
            if name.is_empty() || name.contains(['[', ']', '(', '"']) {
                return None;
            }
            place = place.as_object_mut()?.entry(name).or_insert_with(|| Value::Object(serde_json::Map::new()));
        }
        *place = value;
    }
    serde_json::to_string(&root).ok()
}

#[cfg(test)]
mod tests {
    use super::{assigned, substitute};

    #[test]
    fn plain_substitutions_are_made() {
        for (text, script, after) in [
            ("a: BATCH, BATCH\nb: BATCH", "s/BATCH/8/", Some("a: 8, BATCH\nb: 8")),
            ("a: BATCH, BATCH", "s|BATCH|/x|g", Some("a: /x, /x")),
            ("v1.5", "s/1\\.5/2/", Some("v2")),
            ("v1.5", "s/1.5/2/", None),
            ("a: 4", "s/a: .*/a: 8/", None),
            ("a", "/a/d", None),
            ("a: ${N}", "s/${N}/8/g", Some("a: 8")),
            ("a: 4", "s/4$/8/", None),
            ("x y", "s/x/1/; s/y/2/", Some("1 2")),
        ] {
            assert_eq!(substitute(text, script).as_deref(), after, "{script}");
        }
    }

    #[test]
    fn assignments_of_jq_are_made() {
        let text = r#"{"zero_optimization": {"stage": 2}, "bf16": {"enabled": false}}"#;
        let after = assigned(text, ".zero_optimization.stage = 3 | .train_batch_size = 64").unwrap();
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let expected = r#"{"bf16": {"enabled": false}, "train_batch_size": 64, "zero_optimization": {"stage": 3}}"#;
        assert_eq!(read(&after), read(expected));
        assert_eq!(assigned(text, ".bf16.enabled |= not"), None);
        assert_eq!(assigned(text, "del(.bf16)"), None);
    }
}
