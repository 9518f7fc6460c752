//! The time that stands in a line: `2026-02-24 19:46:17,508`, `2025-05-27T15:23:07`, and at its beginning `[19:46:17]`.

/// Milliseconds of the first time stamp in `line`, by whatever clock and zone the log has: good for
/// differences alone.
pub fn stamp(line: &str) -> Option<u64> {
    let bytes = line.as_bytes();
    // Stamps stand near the beginning; a line may be long.
    let is_digit = |at: usize| bytes[at].is_ascii_digit();
    let starts = (0..bytes.len().min(160)).filter(|at| is_digit(*at) && (*at == 0 || !is_digit(at - 1)));
    starts.into_iter().find_map(|at| stamp_at(bytes.get(at..)?)).or_else(|| epoch(line)).or_else(|| clock(line))
}

/// A time without a day, that begins the line. One day's differences are right, and behind midnight time goes back.
fn clock(line: &str) -> Option<u64> {
    const SHAPE: &[u8; 8] = b"00:00:00";
    let text = line.strip_prefix('[').unwrap_or(line).as_bytes();
    let head = text.get(..SHAPE.len())?;
    let fits =
        head.iter().zip(SHAPE).all(|(byte, shape)| if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape });
    let behind = text.get(SHAPE.len()).is_none_or(|next| matches!(next, b' ' | b']' | b',' | b'.' | b'\t' | b'|'));
    let number = |from: usize| u64::from(head[from] - b'0') * 10 + u64::from(head[from + 1] - b'0');
    if !fits || !behind || number(0) > 23 || number(3) > 59 || number(6) > 59 {
        return None;
    }
    Some((number(0) * 3600 + number(3) * 60 + number(6)) * 1000 + millis(&text[SHAPE.len()..]))
}

/// Seconds since 1970 under a name of JSON's: `"_timestamp": 1700000000.5`.
fn epoch(line: &str) -> Option<u64> {
    let rest = ["\"_timestamp\":", "\"timestamp\":", "\"ts\":", "\"time\":"]
        .iter()
        .find_map(|name| line.find(name).map(|at| line[at + name.len()..].trim_start()))?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    let seconds: f64 = rest[..end].parse().ok()?;
    // From 2001 to 2286; anything else is a time of another kind.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (1e9..1e10).contains(&seconds).then_some((seconds * 1000.0) as u64)
}

fn stamp_at(text: &[u8]) -> Option<u64> {
    const SHAPE: &[u8; 19] = b"0000-00-00 00:00:00";
    let head = text.get(..SHAPE.len())?;
    let fits = head.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        b' ' => matches!(byte, b' ' | b'T' | b'_'),
        other => byte == other,
    });
    if !fits {
        return None;
    }
    let number = |from: usize, to: usize| head[from..to].iter().fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0'));
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + number(11, 13) * 3600 + number(14, 16) * 60 + number(17, 19);
    Some(seconds * 1000 + millis(&text[SHAPE.len()..]))
}

/// Days since 0000-03-01 in the Gregorian calendar: years begin in March, so that the leap day ends one.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year.saturating_sub(1) } else { year };
    let month = (month + 9) % 12;
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1
}

/// `,508`, `.508123`.
fn millis(text: &[u8]) -> u64 {
    if !matches!(text.first(), Some(b',' | b'.')) {
        return 0;
    }
    let digit = |at: usize| text.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| u64::from(byte - b'0'));
    (1..4).map_while(digit).zip([100, 10, 1]).map(|(digit, worth)| digit * worth).sum()
}

#[cfg(test)]
mod tests {
    use super::stamp;

    fn between(earlier: &str, later: &str) -> u64 {
        stamp(later).unwrap() - stamp(earlier).unwrap()
    }

    #[test]
    fn differences_over_days_and_leap_days() {
        assert_eq!(between("[2026-02-24 19:46:17,508] a", "[titan] 2026-02-24 19:46:19,145 - root"), 1_637);
        assert_eq!(between("2023-12-31T23:59:59", "2024-01-01T00:00:01.5"), 2_500);
        // 2024 has a 29th of February: two days.
        assert_eq!(between("2024-02-28 00:00:00", "2024-03-01 00:00:00"), 2 * 86_400_000);
        assert_eq!(between("2023-02-28 00:00:00", "2023-03-01 00:00:00"), 86_400_000);
    }

    #[test]
    fn seconds_under_a_name() {
        let line = |at: &str| format!("{{\"step\": 1, \"_timestamp\": {at}}}");
        assert_eq!(between(&line("1700000000.5"), &line("1700000002.75")), 2_250);
        assert_eq!(stamp("{\"time\": 3.5}"), None);
    }

    #[test]
    fn a_clock_that_begins_a_line() {
        assert_eq!(between("[19:46:17] step 3", "[19:46:19] step 5"), 2_000);
        assert_eq!(between("09:59:59.250 | step 3", "10:00:01,500 | step 5"), 2_250);
        for line in ["step 3 at 10:00:00", "[29:46:17] step", "10:00:00/20 step", "0:00:15 step"] {
            assert_eq!(stamp(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_no_stamp_is_none() {
        for line in ["", "iter 0: loss 10.9", "2023-13-01 00:00:00", "1234567890-12-12 00:00:00 2023-1", "2023-01-01"] {
            assert_eq!(stamp(line), None, "{line}");
        }
    }
}
