//! Sizes as messages write them.

use crate::units::Bytes;

/// What stands behind a mark.
pub fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    Some(&text[text.find(mark)? + mark.len()..])
}

/// The size behind a mark.
pub fn size_after(text: &str, mark: &str) -> Option<Bytes> {
    size(after(text, mark)?)
}

/// The size that stands right before `mark`.
pub fn size_before(text: &str, mark: &str) -> Option<Bytes> {
    let before = &text[..text.find(mark)?];
    let (rest, unit) = before.rsplit_once(' ')?;
    let number = rest.rsplit([' ', '(', ';', ',']).next()?;
    size(&format!("{number} {unit}"))
}

/// Digits at the beginning.
pub fn number(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// `12.50 MiB` as `format_size` writes it, at the beginning.
pub fn size(text: &str) -> Option<Bytes> {
    let mut words = text.split([' ', ';', ')', ',']);
    let number: f64 = words.next()?.parse().ok()?;
    let unit = match words.next()?.trim_end_matches('.') {
        "bytes" | "B" => 1.0,
        // `format_size` of MPS divides by 1024 all the same.
        "KiB" | "KB" | "kB" => 1024.0,
        "MiB" | "MB" => 1024.0 * 1024.0,
        "GiB" | "GB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" | "TB" => 1024.0_f64.powi(4),
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then(|| Bytes::from_f64(number * unit))
}

/// A number of bytes, thousands set apart or not, behind a mark and before `bytes`.
pub fn bytes_after(text: &str, mark: &str) -> Option<Bytes> {
    let rest = after(text, mark)?.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != ',').unwrap_or(rest.len());
    let plain = rest[..end].replace(',', "");
    rest[end..].trim_start().to_ascii_lowercase().starts_with("byte").then(|| plain.parse().ok().map(Bytes))?
}

/// `31451456kB` behind a mark.
pub fn kibibytes_after(text: &str, mark: &str) -> Option<Bytes> {
    let rest = after(text, mark)?;
    let digits = number(rest)?;
    let kibibytes: u64 = rest[digits.len()..].starts_with("kB").then(|| digits.parse().ok())??;
    kibibytes.checked_mul(1024).map(Bytes)
}

/// `16.00GiB`, `12GB`, XLA's `9.84G`: an amount with its unit right behind it, at the beginning.
pub fn glued(text: &str) -> Option<Bytes> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let unit: String = text[end..].chars().take_while(char::is_ascii_alphabetic).collect();
    let unit = if matches!(unit.as_str(), "K" | "M" | "G" | "T") { unit + "iB" } else { unit };
    size(&format!("{} {unit}", text[..end].trim_end_matches('.')))
}
