//! What substituted commands print, where that can be told without running them: folders and names of paths,
//! arithmetic, what a function of the script echoes, and what usual filters make of that.

use super::statements::statements;
use super::{Script, Surroundings, UNSET, pipes};
use crate::expression;
use crate::settings::UNKNOWN;

impl Script {
    /// What `$(command)` stands for; unknown where only a run could tell.
    pub(super) fn output(&self, command: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        // A comment between the options of a command that goes on: `` `# where it is stored` ``.
        if command.trim_start().starts_with('#') && !command.trim().contains('\n') {
            return String::new();
        }
        // Of what a function puts together the known words stay: they are options.
        let whole = |text: &String| {
            let options = text.split_whitespace().any(|word| word.starts_with("--") || word.contains('='));
            options || !text.split(['/', ' ']).any(|part| part == UNKNOWN)
        };
        self.printed(command, known).filter(whole).unwrap_or_else(|| UNKNOWN.to_owned())
    }

    fn printed(&self, command: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let bare = command.replace("2>&1", "").replace(">/dev/null", "").replace("> /dev/null", "");
        if let Some(found) = self.on_condition(&bare, known) {
            return found;
        }
        if let Some(text) = self.printed_apart(&bare) {
            return Some(text);
        }
        if let Some((first, second)) = bare.split_once("&&").or_else(|| bare.split_once(';')) {
            let words = self.words(first, known);
            let pwd = second.split_whitespace().next() == Some("pwd") && second.split_whitespace().count() <= 2;
            let target = words.iter().skip(1).find(|word| !word.starts_with('-'));
            return target.filter(|_| pwd && words.first().is_some_and(|word| word == "cd")).cloned();
        }
        let parts = statements(&bare);
        let [first, filters @ ..] = parts.as_slice() else { return None };
        if bare.contains(['<', '>', '&']) || (!filters.is_empty() && !piped(&bare, filters.len())) {
            return None;
        }
        let unset = self.unset.borrow().len();
        let text = self.printed_alone(&first.text, known)?;
        if filters.is_empty() {
            return Some(text);
        }
        if self.unset.borrow().len() > unset {
            return None;
        }
        // Of a value that nobody knows the number of parts is not known either.
        let filters: Vec<Vec<String>> = filters.iter().map(|filter| self.words(&filter.text, known)).collect();
        let kept = filters.iter().all(|filter| pipes::moves_blanks(filter));
        pipes::through(&text, &filters).filter(|_| kept || !text.contains(UNKNOWN))
    }

    /// What `[ "$A" = 1 ] && echo "--a" || echo "--b"` prints; none of what does not begin with a condition.
    fn on_condition(&self, command: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<Option<String>> {
        let (condition, rest) = command.split_once("&&")?;
        let asks = ["[ ", "[[ ", "test "].iter().any(|start| condition.trim_start().starts_with(start));
        if !asks || rest.contains("&&") {
            return None;
        }
        let (then, otherwise) = rest.split_once("||").map_or((rest, None), |(then, rest)| (then, Some(rest)));
        // What nobody has set the run's surroundings may set.
        let unset = self.raw_words(condition, known).iter().any(|word| word.contains(UNSET));
        let holds = if unset { None } else { self.holds(condition, known) };
        Some(match (holds, otherwise) {
            (Some(true), _) => self.printed(then, known),
            (Some(false), Some(otherwise)) => self.printed(otherwise, known),
            (Some(false), None) => Some(String::new()),
            (None, _) => None,
        })
    }

    /// What a command prints by itself.
    fn printed_alone(&self, bare: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let words = self.words(bare, known);
        let (name, rest) = words.split_first()?;
        if self.functions.contains_key(name) {
            return self.echoed(&words, known);
        }
        match name.as_str() {
            "pwd" => return Some(".".to_owned()),
            "echo" => return Some(said(rest)),
            "seq" => return counted(rest),
            // Where a program lies that is there: it is called by that path.
            "which" => return rest.first().cloned(),
            "command" if rest.first().is_some_and(|word| word == "-v") => return rest.get(1).cloned(),
            _ => {}
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
            _ => None,
        }
    }

    /// What a function of the script prints: it echoes once, whatever its conditions are.
    fn echoed(&self, words: &[String], known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        const MOST_CALLS: usize = 64;
        if self.calls.get() >= MOST_CALLS {
            return None;
        }
        self.calls.set(self.calls.get() + 1);
        let mut inner = self.clone();
        inner.commands.clear();
        inner.follow(words, &Surroundings { variable: known, file: &|_| None, shifted: None }, self.depth.get());
        self.calls.set(inner.calls.get());
        self.spent.set(inner.spent.get());
        // What goes elsewhere is not printed.
        let prints = |command: &&super::ShellCommand| {
            let aside = command.words.iter().any(|word| word.starts_with('>') || word.starts_with("1>"));
            !aside && !command.words.first().is_some_and(|name| matches!(name.as_str(), "return" | "shift" | "set"))
        };
        let mut commands = inner.commands.iter().filter(prints);
        let echo = commands.next().filter(|command| command.words.first().is_some_and(|name| name == "echo"))?;
        let text = said(echo.words.get(1..).unwrap_or_default());
        commands.next().is_none().then_some(text)
    }
}

/// What `seq [-s SIGN] [FIRST [STEP]] LAST` prints of whole numbers.
fn counted(words: &[String]) -> Option<String> {
    const MOST: usize = 1024;
    let (sign, numbers) = match words {
        [option, sign, numbers @ ..] if option == "-s" => (sign.as_str(), numbers),
        [option, numbers @ ..] if option.starts_with("-s") => (option.get(2..)?, numbers),
        numbers => ("\n", numbers),
    };
    let numbers: Option<Vec<i64>> = numbers.iter().map(|word| word.parse().ok()).collect();
    let (first, step, last) = match numbers?.as_slice() {
        [last] => (1, 1, *last),
        [first, last] => (*first, 1, *last),
        [first, step, last] => (*first, *step, *last),
        _ => return None,
    };
    let within = |number: &i64| if step > 0 { *number <= last } else { *number >= last };
    let all = std::iter::successors(Some(first), |number| number.checked_add(step)).take_while(within);
    let told: Vec<String> = all.take(MOST + 1).map(|number| number.to_string()).collect();
    (step != 0 && told.len() <= MOST).then(|| told.join(sign))
}

/// What `echo` prints of its words.
fn said(words: &[String]) -> String {
    let options = |word: &&String| word.as_str() == "-n" || word.as_str() == "-e";
    words.iter().skip_while(options).map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Whether all that parts a text are pipes.
fn piped(text: &str, parts: usize) -> bool {
    let signs = text.matches('|').count();
    signs == parts && !text.contains("||") && !text.contains(['\n', ';'])
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn numbers_are_counted() {
        for (line, told) in [
            ("3", Some("1\n2\n3")),
            ("16 8 32", Some("16\n24\n32")),
            ("-s, 0 3", Some("0,1,2,3")),
            ("-s , 0 1", Some("0,1")),
            ("5 -2 1", Some("5\n3\n1")),
            ("1 0 2", None),
            ("0 1 9999999", None),
            ("1 x", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(counted(&words).as_deref(), told, "{line}");
        }
    }
}
