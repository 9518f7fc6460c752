//! Scripts that a script starts: `bash train.sh 8 4`, `./train.sh`, `sbatch --nodes 8 train.slurm`, with the arguments
//! and variables that it hands on.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::{MAX_TEXT, Script, Surroundings, UNKNOWN, UNSET, assignment};
use crate::{jobs, launch};

/// The script that a command starts, and the words behind it.
pub fn started(command: &[String]) -> Option<(&str, &[String])> {
    let (first, rest) = command.split_first()?;
    if is_submission(first) {
        let ends = |word: &String| [".sh", ".slurm", ".sbatch", ".bash", ".job"].iter().any(|end| word.ends_with(end));
        let at = rest.iter().position(|word| !word.starts_with('-') && ends(word))?;
        return rest.get(at).map(|path| (path.as_str(), rest.get(at + 1..).unwrap_or_default()));
    }
    let shell = matches!(first.rsplit('/').next()?, "bash" | "sh" | "zsh" | "dash");
    if !shell {
        return first.ends_with(".sh").then_some((first.as_str(), rest));
    }
    let at = rest.iter().position(|word| !word.starts_with('-'))?;
    let path = rest.get(at).filter(|path| path.ends_with(".sh"))?;
    // `bash -c TEXT`: the text is no script of a file.
    let text = rest.iter().take(at).any(|word| !word.starts_with("--") && word.ends_with('c'));
    (!text).then(|| (path.as_str(), rest.get(at + 1..).unwrap_or_default()))
}

/// What a shell is handed as a text that starts one script, or what stands behind a submission to another machine:
/// `bash -c "scripts/train.sh 4"`, `gantry run --gpus 8 -- bash train.sh`.
fn handed_in_a_text(command: &[String]) -> Option<Vec<String>> {
    let first = command.first()?.rsplit('/').next()?;
    if first == "gantry" {
        let at = command.iter().position(|word| word == "--")?;
        return Some(command.get(at + 1..)?.to_vec()).filter(|inner| !inner.is_empty());
    }
    let text = match command.get(1..3)? {
        [option, text]
            if matches!(first, "bash" | "sh" | "zsh") && option.starts_with('-') && option.ends_with('c') =>
        {
            text
        }
        _ => return None,
    };
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let alone = !text.contains(['&', ';', '|', '<', '>', '(', '"', '\'', '\n']);
    words.first().filter(|word| alone && word.ends_with(".sh"))?;
    Some(words)
}

fn is_submission(program: &str) -> bool {
    program.rsplit('/').next() == Some("sbatch")
}

/// What Slurm sets for a script that is submitted: options of the command go before those in the script.
fn scheduled(command: &[String], path: &str, text: &str) -> BTreeMap<String, String> {
    let options: Vec<&str> = command.iter().skip(1).map(String::as_str).take_while(|word| *word != path).collect();
    jobs::slurm(&format!("{text}\n#SBATCH {}", options.join(" ")))
}

/// `--export=ALL,NAME=VALUE`: variables that a submission sets.
fn exports(command: &[String]) -> impl Iterator<Item = (&str, &str)> {
    let lists = command.iter().filter_map(|word| word.strip_prefix("--export="));
    lists.flat_map(|list| list.split(',')).filter_map(|part| part.split_once('='))
}

/// What `$1`, `$@` or `$#` is where these words are the arguments: none for `$0` and for the name of a variable.
pub(super) fn positional(name: &str, words: &[String]) -> Option<String> {
    match (name, name.parse::<usize>()) {
        ("@", _) => Some(words.join(" ")),
        ("#", _) => Some(words.len().to_string()),
        (_, Ok(number)) => Some(words.get(number.checked_sub(1)?).cloned().unwrap_or_default()),
        _ => None,
    }
}

impl Script {
    /// Follows a script that a command starts, also behind what starts it elsewhere (`srun --nodes 2 bash train.sh`): what
    /// trains in it is started there.
    pub(super) fn start(
        &mut self,
        leading: &[String],
        command: &[String],
        around: &Surroundings,
        depth: usize,
    ) -> bool {
        let (wrappers, inner) = command.split_at(launch::inner_at(command));
        let first = self.commands.len();
        let followed = self.start_alone(leading, inner, around, depth);
        for one in self.commands.iter_mut().skip(first).filter(|_| followed && !wrappers.is_empty()) {
            if launch::starts(&launch::take_apart(&one.words)) {
                let at = one.words.iter().take_while(|word| assignment(word).is_some()).count();
                one.words.splice(at..at, wrappers.iter().cloned());
            }
        }
        followed
    }

    /// Follows a script that a command starts, where it can be read; whether it could. Its variables are its own:
    /// it has those that are exported, and `leading`, which stand in front of the command.
    fn start_alone(&mut self, leading: &[String], command: &[String], around: &Surroundings, depth: usize) -> bool {
        if let Some(inner) = handed_in_a_text(command) {
            return self.start_alone(leading, &inner, around, depth);
        }
        let Some((path, words)) = started(command) else { return false };
        let submitted = command.first().is_some_and(|first| is_submission(first));
        // `sbatch $0`: its own commands are read anyway.
        if submitted && (around.variable)("0").as_deref() == Some(path) {
            return true;
        }
        let own = self.files.get(path).cloned();
        let Some(text) = own.or_else(|| (around.file)(path)).filter(|text| text.len() <= MAX_TEXT) else {
            return false;
        };
        let redirected =
            |word: &String| word.trim_start_matches(|letter: char| letter.is_ascii_digit()).starts_with('>');
        let end = words.iter().position(redirected).unwrap_or(words.len());
        let arguments: Vec<String> = words.iter().take(end).filter(|word| *word != "&").cloned().collect();
        let given = leading.iter().filter_map(|word| assignment(word)).map(|(name, _, value)| (name, value.to_owned()));
        let mut variables: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in self.exported.iter().map(|(name, value)| (name.as_str(), value.clone())).chain(given) {
            variables.insert(name.to_owned(), vec![value]);
        }
        if submitted {
            let set = scheduled(command, path, &text);
            let told = exports(command).map(|(name, value)| (name.to_owned(), value.to_owned()));
            variables.extend(set.clone().into_iter().chain(told).map(|(name, value)| (name, vec![value])));
            self.submit(set);
        }
        // What it is handed is in its environment, and so in that of the scripts that it starts in turn.
        let environment: Vec<(String, String)> =
            variables.iter().map(|(name, value)| (name.clone(), value.join(" "))).collect();
        let before = (std::mem::replace(&mut self.variables, variables), self.exported.clone(), self.folder.clone());
        self.exported.extend(environment);
        let shifted = Cell::new(0);
        let known = |name: &str| match name {
            "0" => Some(path.to_owned()),
            _ => {
                positional(name, arguments.get(shifted.get()..).unwrap_or_default()).or_else(|| (around.variable)(name))
            }
        };
        let inner = Surroundings { variable: &known, file: around.file, shifted: Some(&shifted) };
        self.run(&text.replace(UNSET, ""), &inner, depth + 1);
        (self.variables, self.exported, self.folder) = before;
        true
    }

    /// A command with the text of a shell that it starts (`srun bash -c '$LAUNCHER $CMD'`), in which the script's own
    /// variables are put: in single quotes it is that shell which looks them up, in its environment.
    pub(super) fn handed_on(&self, mut command: Vec<String>) -> Vec<String> {
        let is_option = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
        let starts = |word: &String| matches!(word.rsplit('/').next(), Some("sh" | "bash" | "zsh" | "dash"));
        let shell = command.iter().position(starts);
        let option = shell.and_then(|shell| command.iter().skip(shell).position(is_option).map(|at| shell + at));
        if let Some(text) = option.and_then(|option| command.get_mut(option + 1)) {
            *text = self.with_variables(text);
        }
        command
    }

    /// A text with the values of the script's variables in it; what it does not know stays.
    fn with_variables(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let braced = part.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let end = part.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(part.len());
            let (name, behind) = braced.unwrap_or_else(|| part.split_at(end));
            match self.variables.get(name).filter(|_| whole.len() < MAX_TEXT) {
                // The lines of a value are no commands of their own.
                Some(words) => whole.extend([words.join(" ").replace('\n', " ").as_str(), behind]),
                None => whole.extend(["$", part]),
            }
        }
        whole
    }

    /// Keeps what Slurm sets, which tells the processes of its job; of jobs that differ it is unknown.
    fn submit(&mut self, set: BTreeMap<String, String>) {
        for (name, value) in set {
            let other = self.exported.get(&name).is_some_and(|known| *known != value);
            self.exported.insert(name, if other { UNKNOWN.to_owned() } else { value });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::handed_in_a_text;

    #[test]
    fn a_text_may_start_one_script() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            handed_in_a_text(&words).map(|words| words.join(" "))
        };
        assert_eq!(of(&["/bin/bash", "-c", "scripts/train.sh 4 $X"]).as_deref(), Some("scripts/train.sh 4 $X"));
        assert_eq!(of(&["gantry", "run", "--gpus", "8", "--", "bash", "a.sh", "b"]).as_deref(), Some("bash a.sh b"));
        for words in [["bash", "-c", "cd a && b.sh"], ["bash", "-c", "torchrun a.py"], ["bash", "a.sh", "b.sh"]] {
            assert_eq!(of(&words), None, "{words:?}");
        }
    }
}
