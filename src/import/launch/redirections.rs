//! Where a command's output goes, which is none of its words.

/// A command without what a shell takes out of it: `> train.log`, `2>&1`, `&>>log`, `< /dev/null`.
pub fn without(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let sign = word.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim_start_matches('&');
        let behind = ["<<<", ">>", ">|", ">", "<"].iter().find_map(|sign_of| sign.strip_prefix(sign_of));
        match behind {
            // `<(…)` is a word of its own kind, `<name>` one that is to be filled in.
            Some(rest) if rest.starts_with('(') || rest.ends_with('>') => kept.push(word.clone()),
            Some("") => drop(words.next()),
            Some(_) => {}
            None => kept.push(word.clone()),
        }
    }
    kept
}
