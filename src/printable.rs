//! Text from outside (names of processes, files, GPUs), made safe for a terminal.

/// `text` on one line and without characters that steer a terminal or hide: control
/// characters, bidirectional and other invisible formatting become `·`.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if steers(c) { '·' } else { c }).collect()
}

/// Whether a terminal would obey or hide the character rather than show it: control
/// characters and Unicode's format characters (general categories Cc, Zl, Zp and Cf,
/// without the joiners that scripts and emoji need).
#[must_use]
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn nothing_that_steers_or_hides_is_left() {
        assert_eq!(printable("a\u{1b}[31mb\n\u{202e}c\u{61c}d\u{200b}e\u{feff}f\u{e0041}"), "a·[31mb··c·d·e·f·");
    }

    #[test]
    fn names_in_all_scripts_stay() {
        for name in ["訓練", "entraînement", "пример", "e\u{301}", "उदाहरण\u{200d}"] {
            assert_eq!(printable(name), name);
        }
    }
}
