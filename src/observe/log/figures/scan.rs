//! Finds the numbers of a line, and what stands between their digits.

use super::DecimalMark;

/// Exponents that a figure of a log has.
const LARGEST_EXPONENT: i32 = 60;

/// What may follow an exponent without a blank.
const UNITS: [&str; 8] = ["s", "ms", "us", "sec", "it", "k", "m", "x"];

/// Names behind which two numbers are two fields: `step 12 300 tokens/s`.
const COUNTERS: [&str; 12] =
    ["step", "steps", "iter", "iters", "iteration", "epoch", "update", "batch", "it", "rank", "gpu", "node"];

/// Names whose number has its unit behind it: `throughput 12 300 tokens/s`. Behind others that is another field's.
const RATES: [&str; 3] = ["throughput", "speed", "rate"];

/// What is counted by devices and not measured: `gpus 0,1`.
const DEVICES: [&str; 8] = ["gpu", "gpus", "device", "devices", "rank", "ranks", "node", "nodes"];

/// What stands between the digits of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separators {
    /// Nothing, or a decimal point that can be nothing else.
    None,
    /// A comma that can only be a decimal one.
    Decimal,
    /// Marks between groups of three digits; behind `decimals_at` bytes, decimals.
    Groups { decimals_at: usize },
    /// One comma before three digits: of a group, or of decimals.
    OneComma,
    /// The same with a point.
    OnePoint,
}

/// A number of a line.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    pub begin: usize,
    /// Where its exponent begins, or it ends.
    pub digits_end: usize,
    pub end: usize,
    pub separators: Separators,
    pub exponent: Option<i32>,
    /// The decimal mark that it shows without doubt.
    pub shows: Option<DecimalMark>,
}

/// The numbers of a line that may be figures: no times, dates, names, versions or lists.
pub fn figures(line: &str) -> Vec<Figure> {
    let bytes = line.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let begin = at;
        let end = number_end(line, begin);
        at = end;
        found.extend(figure(line, begin, end));
        // What belongs to a name or a time goes on behind it.
        at += found.last().filter(|last: &&Figure| last.begin == begin).map_or(0, |last| last.end - end);
    }
    found
}

/// Where the digits from `begin` on and the marks between them end.
fn number_end(line: &str, begin: usize) -> usize {
    let bytes = line.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = begin;
    loop {
        while digit(at) {
            at += 1;
        }
        let Some(mark) = line[at..].chars().next() else { return at };
        let next = at + mark.len_utf8();
        let joins = match mark {
            '.' | ',' => digit(next),
            ' ' => is_group(line, next) && joins_by_blank(line, begin, at),
            mark => is_group_mark(mark) && is_group(line, next),
        };
        if !joins {
            return at;
        }
        at = next;
    }
}

/// Marks that part thousands and nothing else: no-break and thin blanks, apostrophes, Python's underscore.
const fn is_group_mark(mark: char) -> bool {
    matches!(mark, '\u{a0}' | '\u{202f}' | '\u{2009}' | '\u{2019}' | '\'' | '_')
}

/// Exactly three digits.
fn is_group(line: &str, at: usize) -> bool {
    let digits = line[at..].bytes().take_while(u8::is_ascii_digit).count();
    digits == 3 && !line[at + digits..].starts_with([':', '-', '%'])
}

/// Whether the number from `begin` to a blank at `at` goes on behind it: in a field of its own, or under a name that
/// counts nothing. Two columns of figures are two numbers.
fn joins_by_blank(line: &str, begin: usize, at: usize) -> bool {
    let first = &line[begin..at];
    let groups: Vec<&str> = first.split(' ').collect();
    let lead = groups[0];
    if lead.len() > 3 || lead.starts_with('0') || !first.bytes().all(|byte| byte.is_ascii_digit() || byte == b' ') {
        return false;
    }
    // All groups that follow belong to it, or none does.
    let mut rest = &line[at..];
    while rest.starts_with(' ') && is_group(rest, 1) {
        rest = &rest[4..];
    }
    let decimals = rest.starts_with([',', '.']) && rest[1..].starts_with(|next: char| next.is_ascii_digit());
    let behind = rest.trim_start();
    let ends_field = behind.is_empty() || behind.starts_with(['|', ',', ';', ')', ']']);
    let unit = behind.starts_with(char::is_alphabetic);
    let before = line[..begin].trim_end();
    let opens_field = before.is_empty() || before.ends_with(['|', ',', ';', '(', '[']) || before.ends_with(" -");
    let named = before.trim_end_matches([':', '=', ' ']);
    let name = named.rsplit(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default().to_ascii_lowercase();
    if opens_field || RATES.contains(&name.as_str()) {
        return unit || decimals || ends_field;
    }
    !name.is_empty() && !COUNTERS.contains(&name.as_str()) && (decimals || ends_field)
}

/// The number between two places, where it is a figure at all.
fn figure(line: &str, begin: usize, digits_end: usize) -> Option<Figure> {
    if !stands_free(line, begin) {
        return None;
    }
    let (exponent, end) = exponent(line, digits_end);
    let after = &line[end..];
    let digit_follows = |text: &str| text.starts_with(|next: char| next.is_ascii_digit());
    // A time, a date or a version goes on.
    if after.starts_with([':', '-', '.', '_']) && digit_follows(&after[1..]) {
        return None;
    }
    let digits = &line[begin..digits_end];
    let (separators, shows) = separators(digits)?;
    let in_brackets = line[..begin].ends_with(['[', '(']) && after.starts_with([']', ')']);
    let by_comma = shows == Some(DecimalMark::Comma) || separators == Separators::OneComma;
    if by_comma && (in_brackets || names_devices(&line[..begin])) {
        return None;
    }
    Some(Figure { begin, digits_end, end, separators, exponent, shows })
}

/// Whether a number begins here, and no part of a name, a time, a date or a path.
fn stands_free(line: &str, begin: usize) -> bool {
    let mut before = line[..begin].chars().rev();
    match before.next() {
        None => true,
        Some(letter) if letter.is_alphanumeric() => false,
        Some('_' | '.' | '#' | '@') => false,
        Some(':' | '-' | ',' | '\'' | '+') => !before.next().is_some_and(|letter| letter.is_ascii_digit()),
        _ => true,
    }
}

fn names_devices(before: &str) -> bool {
    let before = before.trim_end_matches([' ', ':', '=', '[', '(']);
    let name = before.rsplit(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
    DEVICES.contains(&name.to_ascii_lowercase().as_str())
}

/// The exponent that begins at a place, and where it ends.
fn exponent(line: &str, at: usize) -> (Option<i32>, usize) {
    let none = (None, at);
    let Some(rest) = line[at..].strip_prefix(['e', 'E']) else { return none };
    let sign = usize::from(rest.starts_with(['+', '-']));
    let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let end = at + 1 + sign + digits;
    let unit: String = line[end..].chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    if !unit.is_empty() && !UNITS.contains(&unit.to_ascii_lowercase().as_str()) {
        return none;
    }
    match rest[..sign + digits].parse::<i32>() {
        Ok(exponent) if exponent.abs() <= LARGEST_EXPONENT => (Some(exponent), end),
        _ => none,
    }
}

/// What the marks between the digits are; none of a list, a version or an address.
fn separators(digits: &str) -> Option<(Separators, Option<DecimalMark>)> {
    let marks: Vec<(usize, char)> = digits.char_indices().filter(|(_, letter)| !letter.is_ascii_digit()).collect();
    let Some(&(last_at, last)) = marks.last() else { return Some((Separators::None, None)) };
    let decimal = |mark: char| if mark == ',' { DecimalMark::Comma } else { DecimalMark::Point };
    if let [(at, mark @ ('.' | ','))] = marks[..] {
        let may_group = (1..=3).contains(&at) && !digits.starts_with('0') && digits.len() - at - 1 == 3;
        return Some(match (mark, may_group) {
            (',', true) => (Separators::OneComma, None),
            (_, true) => (Separators::OnePoint, None),
            (',', false) => (Separators::Decimal, Some(decimal(mark))),
            (_, false) => (Separators::None, Some(decimal(mark))),
        });
    }
    let group_mark = marks[0].1;
    let other_end = matches!(last, '.' | ',') && last != group_mark;
    let decimals_at = if other_end { last_at } else { digits.len() };
    let mut groups = digits[..decimals_at].split(group_mark);
    let lead = groups.next()?;
    let three = |group: &str| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit());
    if lead.is_empty() || lead.len() > 3 || lead.starts_with('0') || !groups.all(three) {
        return None;
    }
    // A group's comma says that a point parts decimals, and the other way round.
    let shows = match (other_end, group_mark) {
        (true, _) => Some(decimal(last)),
        (false, ',') => Some(DecimalMark::Point),
        (false, '.') => Some(DecimalMark::Comma),
        _ => None,
    };
    Some((Separators::Groups { decimals_at }, shows))
}
