//! Versions that a library may have: the one that is installed, or those that a requirement leaves.

/// The first two numbers of a version: `2.8.0+cu128` is 2 and 8. No default changes with the third.
pub type Version = (u64, u64);

/// Above every version.
pub const NEWEST: Version = (u64::MAX, 0);

/// From `least` to below `below`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// The first that it may be.
    pub least: Version,
    /// The first that it is not any more.
    pub below: Version,
}

impl VersionRange {
    /// `4.57.1` is one version, `>=4.40,<4.47` a requirement as pip reads it (PEP 440); none where it says nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let mut range = Self { least: (0, 0), below: NEWEST };
        for clause in text.split(',').map(str::trim).filter(|clause| !clause.is_empty()) {
            let at = clause.find(|letter: char| !"=<>~!^".contains(letter)).unwrap_or(clause.len());
            let (sign, written) = clause.split_at(at);
            let version = numbers(written.trim())?;
            let next = (version.0, version.1.saturating_add(1));
            match sign {
                "" | "=" | "==" | "===" => {
                    let family = written.trim().trim_end_matches(".*").split('.').count() == 1 && written.contains('*');
                    range = Self { least: version, below: if family { (version.0 + 1, 0) } else { next } };
                }
                ">=" | ">" => range.least = range.least.max(version),
                "<" => range.below = range.below.min(if has_patch(written) { next } else { version }),
                "<=" => range.below = range.below.min(next),
                // `~=4.46` stays below 5, `~=4.46.1` below 4.47; Poetry's `^` keeps the first number.
                "~=" if written.split('.').count() > 2 => range = Self { least: version, below: next },
                "~=" | "^" => range = Self { least: version, below: (version.0.saturating_add(1), 0) },
                "!=" => {}
                _ => return None,
            }
        }
        let says = range.least > (0, 0) || range.below < NEWEST;
        (says && range.least < range.below).then_some(range)
    }

    /// Whether all of it lies in `since` to below `until`; none where only a part does.
    pub fn is_within(self, since: Version, until: Version) -> Option<bool> {
        if self.least >= since && self.below <= until {
            Some(true)
        } else if self.below <= since || self.least >= until {
            Some(false)
        } else {
            None
        }
    }
}

fn numbers(version: &str) -> Option<Version> {
    let mut parts = version.trim_start_matches('v').split(|letter: char| !letter.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next().and_then(|part| part.parse().ok()).unwrap_or(0)))
}

/// Whether a third number above zero is written: `<4.47.2` leaves 4.47 itself.
fn has_patch(written: &str) -> bool {
    written.trim().split('.').nth(2).is_some_and(|part| !part.chars().all(|letter| letter == '0'))
}

#[cfg(test)]
mod tests {
    use super::{NEWEST, VersionRange};

    #[test]
    fn versions_and_requirements_are_ranges() {
        for (text, least, below) in [
            ("2.8.0+cu128", (2, 8), (2, 9)),
            ("5.0.0rc1", (5, 0), (5, 1)),
            ("==4.57.1", (4, 57), (4, 58)),
            ("==4.57.*", (4, 57), (4, 58)),
            ("==4.*", (4, 0), (5, 0)),
            (">=4.40,<4.47", (4, 40), (4, 47)),
            (">=4.40.0, <=4.46.3", (4, 40), (4, 47)),
            ("<4.47.2", (0, 0), (4, 48)),
            ("~=4.46.1", (4, 46), (4, 47)),
            ("~=4.46", (4, 46), (5, 0)),
            ("^4.46.0", (4, 46), (5, 0)),
            (">=5", (5, 0), NEWEST),
        ] {
            let range = VersionRange::parse(text).unwrap();
            assert_eq!((range.least, range.below), (least, below), "{text}");
        }
        for text in ["main", "", "!=4.5", ">=5,<4", "git+https"] {
            assert_eq!(VersionRange::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_range_lies_within_beside_or_across() {
        let range = VersionRange::parse(">=4.40,<4.47").unwrap();
        assert_eq!(range.is_within((4, 32), (4, 54)), Some(true));
        assert_eq!(range.is_within((5, 0), NEWEST), Some(false));
        assert_eq!(range.is_within((4, 45), NEWEST), None);
    }
}
