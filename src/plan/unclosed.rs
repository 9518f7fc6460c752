//! Where a bracket or quote was opened that nothing closes: a parser only notices far behind it, at the
//! end of the text or at whatever happens to stand there.

/// A bracket or quote without its other half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnclosedDelimiter {
    /// The bracket or quote.
    pub mark: char,
    /// Its line, from 1.
    pub line: usize,
    /// Its column in characters, from 0.
    pub column: usize,
    /// A bracket of the other kind that stands where it should be closed.
    pub wrong: Option<char>,
}

/// The bracket or quote that most likely lacks its other half in a text that could not be read; none
/// where all are paired.
pub fn unclosed(text: &str) -> Option<UnclosedDelimiter> {
    let mut scan = Scan::default();
    let mut block = None;
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        if scan.is_between() {
            // The lines of a text behind `|` or `>` are its own.
            if block.is_some_and(|outer| line.trim().is_empty() || indent > outer) {
                continue;
            }
            block = begins_text(line).then_some(indent);
        }
        if let Some(found) = scan.line(number + 1, indent, line) {
            return Some(found);
        }
    }
    scan.quote.or(scan.suspect).or_else(|| scan.open.last().map(|(open, _)| *open))
}

/// Ends in the mark of a text that goes on in the lines below: `key: |`, `- >-`.
fn begins_text(line: &str) -> bool {
    let mark = line.trim_end().rsplit(' ').next().unwrap_or_default();
    mark.starts_with(['|', '>']) && mark[1..].chars().all(|c| matches!(c, '-' | '+') || c.is_ascii_digit())
}

#[derive(Default)]
struct Scan {
    /// Brackets that are open, each with the indentation of its line.
    open: Vec<(UnclosedDelimiter, usize)>,
    /// A quote that is open.
    quote: Option<UnclosedDelimiter>,
    /// A bracket whose other half, at the beginning of a line, stands further out than its own line.
    suspect: Option<UnclosedDelimiter>,
}

impl Scan {
    /// Within no bracket and no quote.
    fn is_between(&self) -> bool {
        self.open.is_empty() && self.quote.is_none()
    }

    fn line(&mut self, number: usize, indent: usize, line: &str) -> Option<UnclosedDelimiter> {
        let mut letters = line.chars().enumerate().peekable();
        // A value may begin: brackets and quotes inside of a bare word are letters of it.
        let mut begins = true;
        let mut before = ' ';
        while let Some((column, letter)) = letters.next() {
            let here = UnclosedDelimiter { mark: letter, line: number, column, wrong: None };
            if let Some(quote) = self.quote {
                let doubled = quote.mark == '\'' && letters.peek().is_some_and(|(_, next)| *next == '\'');
                if letter == '\\' && quote.mark == '"' || letter == '\'' && doubled {
                    letters.next();
                } else if letter == quote.mark {
                    // What is quoted in a plan ends on its line.
                    if quote.line < number {
                        return Some(quote);
                    }
                    self.quote = None;
                    begins = false;
                }
                before = letter;
                continue;
            }
            match letter {
                '#' if before.is_whitespace() => return None,
                '"' | '\'' if begins => self.quote = Some(here),
                '[' | '{' if begins || !self.open.is_empty() => self.open.push((here, indent)),
                ']' | '}' => {
                    if let Some(found) = self.close(here, indent, line[..].trim_start().starts_with(letter)) {
                        return Some(found);
                    }
                }
                _ => {}
            }
            let separates = match letter {
                ',' | '[' | '{' => true,
                ':' | '-' | '?' => letters.peek().is_none_or(|(_, next)| next.is_whitespace()) || before == '"',
                letter => letter.is_whitespace() && begins,
            };
            begins = separates;
            before = letter;
        }
        None
    }

    /// Takes a closing bracket. `leads`: its line begins with it.
    fn close(&mut self, here: UnclosedDelimiter, indent: usize, leads: bool) -> Option<UnclosedDelimiter> {
        // Without an opening one it is a letter, or the parser's to tell.
        let (open, its_indent) = self.open.pop()?;
        if (open.mark, here.mark) != ('[', ']') && (open.mark, here.mark) != ('{', '}') {
            return Some(UnclosedDelimiter { wrong: Some(here.mark), ..open });
        }
        if leads && indent < its_indent && self.suspect.is_none() {
            self.suspect = Some(open);
        }
        if self.open.is_empty() {
            self.suspect = None;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::unclosed;

    fn found(text: &str) -> Option<(char, usize, usize)> {
        unclosed(text).map(|found| (found.mark, found.line, found.column))
    }

    #[test]
    fn the_innermost_that_is_open_is_told_where_it_was_opened() {
        assert_eq!(found("a: {b: 1\nc: 2\n"), Some(('{', 1, 3)));
        assert_eq!(found("a: [1, 2\n"), Some(('[', 1, 3)));
        assert_eq!(found("{\"a\": {\"b\": 1,\n \"c\": {\"d\": 2}\n"), Some(('{', 1, 6)));
        assert_eq!(found("a: 1\nb: \"x\nc: 2\n"), Some(('"', 2, 3)));
        assert_eq!(found("b: 'x\nc: 'y'\n"), Some(('\'', 1, 3)), "it would end at the quote below");
        assert_eq!(found("a: [1, {b: 2]\n"), Some(('{', 1, 7)));
        assert_eq!(found("{\"a\":{\"b\":[1}}"), Some(('[', 1, 10)));
    }

    #[test]
    fn a_bracket_that_closes_further_out_than_it_opened_closes_another() {
        let text = "{\n  \"model\": {\n    \"preset\": \"gpt2\",\n  \"training\": {\n    \"a\": 1\n  }\n}\n";
        assert_eq!(found(text), Some(('{', 2, 11)));
    }

    #[test]
    fn what_is_paired_or_no_bracket_is_left_alone() {
        for text in [
            "a: {b: [1, 2], c: \"]\"} # {\n",
            "a: x[1\nb: it's {\nc: a \"b\n",
            "a: |\n  text {\n  [\n\n  more '\nb: 1\n",
            "- 'it''s'\n- \"a \\\" b\"\n",
            "{\n  \"a\": [\n    1\n  ]\n}\n",
            "a: 1 ]\n",
            "",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
