//! Counts as people round them.

/// `36,718`, `123.59M`, `6.74 billion`, `124 M`: a count above zero, as far as it is written.
pub fn count(text: &str) -> Option<u64> {
    let text = text.trim_start_matches(|letter: char| letter.is_whitespace() || "=:(".contains(letter));
    let end = text.find(|letter: char| !(letter.is_ascii_digit() || ",._".contains(letter))).unwrap_or(text.len());
    let digits: String = text[..end].chars().filter(|letter| !",_".contains(*letter)).collect();
    let number: f64 = digits.trim_end_matches('.').parse().ok()?;
    let unit = text[end..].trim_start();
    let word: String = unit.chars().take_while(char::is_ascii_alphabetic).collect();
    let times = match word.as_str() {
        "K" | "k" | "thousand" => 1e3,
        "M" | "million" | "Million" => 1e6,
        "B" | "billion" | "Billion" => 1e9,
        "T" | "trillion" => 1e12,
        _ => 1.0,
    };
    super::super::facts::count((number * times).round()).filter(|count| *count > 0)
}

/// A whole number and nothing else.
pub fn whole(text: &str) -> Option<u64> {
    text.trim().trim_end_matches(',').parse().ok().filter(|number| *number > 0)
}

/// The count behind the first `key` of a line.
pub fn count_after(line: &str, key: &str) -> Option<u64> {
    count(&line[line.find(key)? + key.len()..])
}
