//! A script cut into its statements.

/// The statements of a script: split at line ends, `;`, `&&`, `||`, `|` and `&` outside of quotes
/// and brackets; comments left out.
pub fn statements(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut one = String::new();
    let mut quote = None;
    let mut brackets = 0_usize;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None | Some('"'), '\\') => {
                // A line that goes on; in a comment a backslash does nothing.
                let next = letters.next().filter(|next| *next != '\r').or_else(|| letters.next());
                match next {
                    Some('\n') => one.push(' '),
                    next => {
                        one.push(letter);
                        one.extend(next);
                    }
                }
                continue;
            }
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '#') if one.is_empty() || one.ends_with([' ', '\t', '\n', '(']) => {
                while letters.peek().is_some_and(|letter| *letter != '\n') {
                    letters.next();
                }
                continue;
            }
            (None, '(' | '{') => brackets += 1,
            (None, ')' | '}') => brackets = brackets.saturating_sub(1),
            (None, '\n' | ';' | '&' | '|') if brackets == 0 => {
                if one.ends_with('>') && letter == '&' {
                    one.push(letter);
                    continue;
                }
                all.push(std::mem::take(&mut one));
                continue;
            }
            _ => {}
        }
        one.push(letter);
    }
    all.push(one);
    all
}
