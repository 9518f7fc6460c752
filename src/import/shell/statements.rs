//! A script cut into its statements.

/// What ends a branch of a `case`: a statement of its own.
pub const CASE_END: &str = ";;";
/// The same where the patterns behind it are compared all the same, and where the next branch is run without.
pub const CASE_GOES_ON: &str = ";;&";
pub const CASE_FALLS: &str = ";&";

/// What a statement has to do with the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Joining {
    /// It comes after it.
    #[default]
    After,
    /// `&&`: it runs where that one has succeeded.
    IfSucceeded,
    /// `||`: it runs where that one has failed.
    IfFailed,
}

/// A statement, and the text that follows it up to a word of its own (`<<EOF`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statement {
    /// The statement.
    pub text: String,
    /// When it runs.
    pub link: Joining,
    /// The text, and whether variables in it are put in.
    pub document: Option<(String, bool)>,
}

/// The word behind `<<`, and whether it is quoted; `<<-` takes tabs away.
fn delimiter(line: &str) -> Option<(String, bool, bool)> {
    let at = line.find("<<").filter(|at| !line[*at..].starts_with("<<<"))?;
    let rest = &line[at + 2..];
    let (tabs, rest) = rest.strip_prefix('-').map_or((false, rest), |rest| (true, rest));
    let word = rest.split_whitespace().next()?;
    let plain: String = word.chars().filter(|letter| !matches!(letter, '"' | '\'' | '\\')).collect();
    let end = plain.find([';', '|', '&', '>', ')']).unwrap_or(plain.len());
    let name = plain.get(..end)?.to_owned();
    let good = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    good.then(|| (name, word.contains(['"', '\'', '\\']), tabs))
}

/// The lines up to the delimiter, and what is left behind it.
fn document(rest: &str, name: &str, tabs: bool) -> (String, usize) {
    let mut used = 0;
    let mut body = String::new();
    for line in rest.split_inclusive('\n') {
        used += line.len();
        let plain = line.trim_end_matches(['\n', '\r']);
        let plain = if tabs { plain.trim_start_matches('\t') } else { plain };
        if plain == name {
            break;
        }
        body.push_str(plain);
        body.push('\n');
    }
    (body, used)
}

/// Gives the statement of a line that asks for it the text that follows; how many bytes that uses up.
fn take_document(line: &mut [Statement], rest: &str) -> usize {
    let asked = line.iter_mut().find_map(|statement| {
        let found = delimiter(&statement.text)?;
        let inside = statement.text.lines().any(|line| line.trim() == found.0);
        (!inside).then_some((statement, found))
    });
    let Some((statement, (name, quoted, tabs))) = asked else { return 0 };
    let (body, used) = document(rest, &name, tabs);
    statement.document = Some((body, !quoted));
    used
}

/// The text that the last line of an open bracket asks for, its delimiter with it, and how many bytes that is.
fn inner_document<'a>(open: &str, rest: &'a str) -> Option<(&'a str, usize)> {
    let (name, _, tabs) = delimiter(open.rsplit('\n').next()?)?;
    let (_, used) = document(rest, &name, tabs);
    let body = rest.get(..used).filter(|body| body.lines().next_back().is_some_and(|line| line.trim() == name))?;
    Some((body, used))
}

/// What a backslash stands before: a line that goes on is a blank. How many bytes that uses up.
fn escaped(letters: &mut std::iter::Peekable<std::str::Chars>, one: &mut String) -> usize {
    // In a comment a backslash does nothing.
    let mut used = 0;
    let mut next = || {
        let letter = letters.next();
        used += letter.map_or(0, char::len_utf8);
        letter
    };
    match next() {
        Some('\n') => one.push(' '),
        Some('\r') => match next() {
            Some('\n') => one.push(' '),
            other => {
                one.push('\\');
                one.extend(other);
            }
        },
        other => {
            one.push('\\');
            one.extend(other);
        }
    }
    used
}

/// Whether a statement is a condition so far.
fn asks(statement: &str) -> bool {
    ["if ", "elif ", "while ", "until "].iter().any(|word| statement.trim_start().starts_with(word))
}

/// Whether a `[[` is open at the end of a statement so far.
fn is_in_test(statement: &str) -> bool {
    let begins =
        |at: &usize| statement.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with([' ', '\n']));
    let open = statement.match_indices("[[ ").map(|(at, _)| at).filter(begins).last();
    open.is_some_and(|at| !statement.get(at..).unwrap_or_default().contains("]]"))
}

/// The statements of a script: split at line ends, `;`, `&&`, `||`, `|` and `&` outside of quotes
/// and brackets; comments left out.
pub fn statements(text: &str) -> Vec<Statement> {
    let mut all: Vec<Statement> = Vec::new();
    let mut one = String::new();
    let mut quote = None;
    // Only its own kind closes a bracket: `a)` of a `case` stands in a function's braces.
    let mut brackets: Vec<char> = Vec::new();
    // Where the present line's statements begin.
    let mut line_start = 0_usize;
    let mut letters = text.chars().peekable();
    let mut at = 0_usize;
    let mut link = Joining::After;
    while let Some(letter) = letters.next() {
        at += letter.len_utf8();
        match (quote, letter) {
            (None | Some('"'), '\\') => {
                at += escaped(&mut letters, &mut one);
                continue;
            }
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '#') if one.is_empty() || one.ends_with([' ', '\t', '\n', '(']) => {
                while let Some(letter) = letters.next_if(|letter| *letter != '\n') {
                    at += letter.len_utf8();
                }
                continue;
            }
            (None, '(' | '{') => brackets.push(if letter == '(' { ')' } else { '}' }),
            (None, ')' | '}') => {
                brackets.pop_if(|open| *open == letter);
            }
            (None, '\n' | ';' | '&' | '|') if brackets.is_empty() => {
                if one.ends_with('>') && letter == '&' {
                    one.push(letter);
                    continue;
                }
                // The conditions of an `if` stay together: `if [ A ] || [ B ]; then`; so does a test of several parts.
                let stays = matches!(letter, '&' | '|') && (asks(&one) || is_in_test(&one));
                if stays && letters.next_if_eq(&letter).is_some() {
                    at += letter.len_utf8();
                    one.extend([letter, letter]);
                    continue;
                }
                let doubled = letter != '\n' && letters.next_if_eq(&letter).is_some();
                at += usize::from(doubled);
                link = split(&mut all, &mut one, link, if doubled { letter } else { '\n' });
                if letter == ';' && letters.next_if_eq(&'&').is_some() {
                    at += 1;
                    all.pop_if(|_| doubled);
                    let end = if doubled { CASE_GOES_ON } else { CASE_FALLS };
                    all.push(Statement { text: end.to_owned(), ..Statement::default() });
                }
                if letter == '\n' {
                    let used =
                        take_document(all.get_mut(line_start..).unwrap_or_default(), text.get(at..).unwrap_or(""));
                    if used > 0 {
                        at += used;
                        letters = text.get(at..).unwrap_or("").chars().peekable();
                    }
                    line_start = all.len();
                }
                continue;
            }
            // A text in `$(cat <<EOF …)` or in a function: its quotes and brackets are none of the script's.
            (None, '\n') => {
                let rest = text.get(at..).unwrap_or("");
                if let Some((body, used)) = inner_document(&one, rest) {
                    one.push(letter);
                    // Of a substituted command only the end is kept: what it prints is not told.
                    let kept =
                        if brackets.last() == Some(&'}') { body } else { body.lines().next_back().unwrap_or("") };
                    one.push_str(kept);
                    one.push(letter);
                    at += used;
                    letters = text.get(at..).unwrap_or("").chars().peekable();
                    continue;
                }
            }
            _ => {}
        }
        one.push(letter);
    }
    all.push(Statement { text: one, link, document: None });
    all
}

/// Ends a statement, at a sign that stands twice or at another end; what the next one has to do with it.
fn split(all: &mut Vec<Statement>, one: &mut String, link: Joining, doubled: char) -> Joining {
    // `A &&` goes on in the next line.
    if doubled == '\n' && link != Joining::After && one.trim().is_empty() {
        one.clear();
        return link;
    }
    all.push(Statement { text: std::mem::take(one), link, document: None });
    match doubled {
        '&' => Joining::IfSucceeded,
        '|' => Joining::IfFailed,
        ';' => {
            all.push(Statement { text: CASE_END.to_owned(), ..Statement::default() });
            Joining::After
        }
        _ => Joining::After,
    }
}
