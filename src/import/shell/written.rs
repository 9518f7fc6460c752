//! Files and variables that a script fills with texts of its own.

use super::statements::Statement;
use super::{MAX_TEXT, Script, ShellCommand, Surroundings, UNSET, assignment};
use crate::settings::{UNKNOWN, UNKNOWN_OPTIONS};

/// No script that matters writes more files.
const MOST_FILES: usize = 64;

impl Script {
    /// Takes in what a statement writes: `cat > ds.json <<EOF`, `echo '{…}' > ds.json`, `read -d '' ARGS <<EOF`.
    pub(super) fn written(&mut self, before: usize, statement: &Statement, around: &Surroundings) {
        let known = around.variable;
        let Some(ShellCommand { words: command, .. }) = self.commands.get(before).cloned() else { return };
        let body = statement
            .document
            .as_ref()
            .map(|(body, expands)| if *expands { self.filled(&body.replace("\\\n", ""), known) } else { body.clone() });
        let name = command.first().map_or("", String::as_str);
        if command.iter().find(|word| assignment(word).is_none()).is_some_and(|word| word == "read") {
            // Of a sourced script each statement has been looked at by itself.
            if statement.text.contains("read") {
                self.read_into(&command, body);
            }
            return;
        }
        let at = command.iter().position(|word| word.starts_with('>'));
        let target = at.and_then(|at| {
            let sign = command.get(at)?;
            let joined = sign.trim_start_matches('>');
            Some((
                if joined.is_empty() { command.get(at + 1)?.clone() } else { joined.to_owned() },
                sign.starts_with(">>"),
            ))
        });
        self.edited(&command, target.as_ref().map(|(path, _)| path.as_str()), around.file);
        let text = match name {
            "cat" => body,
            "echo" | "printf" => {
                let words = command.get(1..at.unwrap_or(1)).unwrap_or_default();
                Some(words.iter().filter(|word| !word.starts_with('-')).cloned().collect::<Vec<_>>().join(" "))
            }
            "tee" => body,
            _ => None,
        };
        let target = target.or_else(|| (name == "tee").then(|| command.get(1).map(|path| (path.clone(), false)))?);
        let (Some((path, added)), Some(text)) = (target, text) else { return };
        if self.files.len() < MOST_FILES {
            self.changed.remove(&path);
            let old = if added { self.files.remove(&path).unwrap_or_default() } else { String::new() };
            self.files.insert(path, old + &text + "\n");
        }
    }

    /// `read -d '' ARGS <<EOF`, `read -ra ARGS <<< "$LINE"`: variables of a text; what comes from elsewhere only a run
    /// could tell, of a list even which options it holds.
    fn read_into(&mut self, command: &[String], body: Option<String>) {
        let words = command.iter().skip_while(|word| *word != "read").skip(1);
        let before: Vec<&String> = words.take_while(|word| !word.starts_with('<')).collect();
        if let (Some(variable), Some(body)) = (before.last(), body) {
            self.variables.insert((*variable).clone(), vec![body.trim_end().to_owned()]);
            return;
        }
        let options: String = before.iter().filter(|word| word.starts_with('-')).map(|word| word.as_str()).collect();
        let list = options.contains('a');
        let line = command.iter().position(|word| word.starts_with("<<<")).and_then(|at| {
            let joined = command.get(at)?.trim_start_matches('<');
            if joined.is_empty() { command.get(at + 1).map(String::as_str) } else { Some(joined) }
        });
        let known = line.filter(|line| !line.contains([UNSET, '?']));
        let sign = command.first().and_then(|word| word.strip_prefix("IFS="));
        let plain = |word: &&String| word.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        let names: Vec<String> = before.into_iter().filter(plain).cloned().collect();
        let most = if list { usize::MAX } else { names.len() };
        let mut found = known.and_then(|line| fields(line, sign, most)).map(Vec::into_iter);
        for name in &names {
            if found.is_none() && self.skips(name) {
                self.read_unseen(name);
                continue;
            }
            let value = match &mut found {
                Some(found) if list => found.by_ref().collect(),
                Some(found) => vec![found.next().unwrap_or_default()],
                None => vec![if list { UNKNOWN_OPTIONS } else { UNKNOWN }.to_owned()],
            };
            self.variables.insert(name.clone(), value);
        }
    }

    /// A text with its variables put in, those that nobody has set as unknown.
    fn filled(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        self.put_in(text, known).replace(UNSET, UNKNOWN)
    }

    /// A text with its variables put in.
    pub(super) fn put_in(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '`']) {
            if filled.len() > MAX_TEXT {
                break;
            }
            filled.push_str(&rest[..at]);
            if rest[..at].ends_with('\\') {
                filled.pop();
                filled.push_str(&rest[at..=at]);
                rest = &rest[at + 1..];
                continue;
            }
            let (value, used) = self.expanded(&rest[at..], known);
            filled.push_str(&value);
            rest = rest[at..].get(used.max(1)..).unwrap_or("");
        }
        filled + rest
    }
}

/// The fields into which `read` cuts a line, the last of `most` with all that is left: at blanks, or at the one sign that
/// `IFS` is set to. None where the signs are others.
fn fields(line: &str, sign: Option<&str>, most: usize) -> Option<Vec<String>> {
    const SIGNS: [char; 6] = [',', ':', ';', '|', '/', '='];
    let own = |fields: Vec<&str>| fields.into_iter().map(str::to_owned).collect();
    match sign {
        Some("") => Some(vec![line.to_owned()]),
        Some(sign) if sign.trim().is_empty() => fields(line, None, most),
        Some(sign) => {
            let mut letters = sign.chars();
            let first = letters.next().filter(|sign| SIGNS.contains(sign) && letters.next().is_none())?;
            Some(own(line.splitn(most.max(1), first).collect()))
        }
        None => {
            let mut found = Vec::new();
            let mut rest = line.trim();
            while found.len() + 1 < most
                && let Some((field, behind)) = rest.split_once(char::is_whitespace)
            {
                found.push(field);
                rest = behind.trim_start();
            }
            found.push(rest);
            Some(own(found))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Surroundings, read, read_around};

    fn last(text: &str) -> Vec<String> {
        read(text, &|_| None).commands.pop().unwrap_or_default().words
    }

    #[test]
    fn a_line_is_read_into_several_variables() {
        let cut = |read: &str| last(&format!("CONFIG=\"4,1,8,1,True\"\n{read}\ntrain $TP $PP $SP"));
        assert_eq!(cut("IFS=',' read -r TP PP EP CP SP <<< \"$CONFIG\""), ["train", "4", "1", "True"]);
        // The last has what is left over.
        assert_eq!(cut("IFS=, read -r TP PP SP <<< $CONFIG"), ["train", "4", "1", "8,1,True"]);
        assert_eq!(cut("read TP PP SP <<< \"2 3  x y\""), ["train", "2", "3", "x", "y"]);
        assert_eq!(
            cut("IFS=',' read -ra TP <<< \"$CONFIG\"\nPP=${TP[1]}\nSP=${TP[4]}\nTP=${TP[0]}"),
            ["train", "4", "1", "True"]
        );
        // What comes from elsewhere, or is cut at signs that are not known, nobody tells.
        assert_eq!(cut("IFS=$'\\t' read -r TP PP SP <<< \"$CONFIG\""), ["train", "?", "?", "?"]);
    }

    #[test]
    fn a_sourced_script_stands_where_it_lies() {
        let inner = "HERE=\"$(cd -- \"$(dirname -- \"${BASH_SOURCE[0]}\")\" && pwd)\"";
        let file = |path: &str| (path == "models/a.sh").then(|| inner.to_owned());
        let known = |name: &str| (name == "0").then(|| "runs/train.sh".to_owned());
        let around = Surroundings { variable: &known, file: &file, shifted: None };
        let mut script = read_around("source models/a.sh\npython $HERE/train.py", &around);
        assert_eq!(script.commands.pop().unwrap().words, ["python", "models/train.py"]);
    }
}
