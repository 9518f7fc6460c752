//! Numbers as people write them, with a unit, in the unit of a key: `80GiB`, `13B`, `32k`.

use crate::plan::schema::{PlanKey, ValueKind};

/// What a letter or word behind a number multiplies it by.
type Units = &'static [(&'static str, f64)];

/// Bytes in 1e9 (the plan file's GB), a second or not.
const GIGABYTES: Units = &[
    ("b", 1e-9),
    ("kb", 1e-6),
    ("mb", 1e-3),
    ("gb", 1.0),
    ("g", 1.0),
    ("tb", 1e3),
    ("kib", 1024.0 / 1e9),
    ("mib", 1_048_576.0 / 1e9),
    ("gib", 1_073_741_824.0 / 1e9),
    ("tib", 1_099_511_627_776.0 / 1e9),
];

/// Operations in 1e12.
const TERAFLOPS: Units = &[("g", 1e-3), ("t", 1.0), ("p", 1e3)];

/// Parameters in billions.
const BILLIONS: Units = &[("k", 1e-6), ("m", 1e-3), ("b", 1.0), ("t", 1e3)];

/// Watts.
const WATTS: Units = &[("w", 1.0), ("kw", 1e3)];

/// Counts.
const COUNTS: Units =
    &[("k", 1e3), ("m", 1e6), ("b", 1e9), ("g", 1e9), ("t", 1e12), ("ki", 1024.0), ("mi", 1_048_576.0)];

/// Lengths of sequences, where `32k` is 32768.
const LENGTHS: Units = &[("k", 1024.0), ("ki", 1024.0), ("m", 1_048_576.0), ("mi", 1_048_576.0)];

fn units(key: &PlanKey) -> Units {
    let name = key.name();
    if key.path.contains("peak_tflops") {
        TERAFLOPS
    } else if name.contains("_gb") {
        GIGABYTES
    } else if name == "size_billions" {
        BILLIONS
    } else if name == "power_limit_w" {
        WATTS
    } else if name.contains("sequence_length") || name == "max_position_embeddings" || name == "sliding_window" {
        LENGTHS
    } else {
        COUNTS
    }
}

/// The number that `typed` means for `key`, as the plan file writes it. None where it is no
/// number with a unit that the key knows, or the key takes no numbers.
#[must_use]
pub fn read(key: &PlanKey, typed: &str) -> Option<String> {
    let whole = match key.kind {
        ValueKind::Whole { .. } | ValueKind::Choice(_) => true,
        ValueKind::Positive { .. } | ValueKind::Amount { .. } | ValueKind::Share => false,
        _ => return None,
    };
    let plain = typed.trim().trim_start_matches('$').replace([' ', '_'], "");
    let split = unit_start(&plain);
    let (number, unit) = plain.split_at(split);
    if unit.is_empty() {
        // As it was written: `2.0e11` stays so.
        return number.parse::<f64>().ok().map(|_| plain);
    }
    let number: f64 = number.parse().ok()?;
    let unit = unit.to_lowercase();
    let unit = ["flop/s", "flops", "flop", "/s", "ps"].iter().find_map(|tail| unit.strip_suffix(tail)).unwrap_or(&unit);
    if unit == "%" && key.kind == ValueKind::Share {
        return Some(tidy(number / 100.0).to_string());
    }
    let factor = units(key).iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor)?;
    let value = number * factor;
    Some(if whole { format!("{:.0}", value.round()) } else { tidy(value).to_string() })
}

/// To twelve figures: what is beyond is the product's rounding.
fn tidy(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// Where the unit begins: at the first letter that is no part of the number.
fn unit_start(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = 0;
    while at < bytes.len() {
        let signed = matches!(bytes.get(at + 1), Some(b'+' | b'-')) && digit(at + 2);
        match bytes[at] {
            b'0'..=b'9' | b'.' => at += 1,
            b'-' | b'+' if at == 0 => at += 1,
            b'e' | b'E' if at > 0 && signed => at += 2,
            b'e' | b'E' if at > 0 && digit(at + 1) => at += 1,
            _ => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::plan::schema;

    fn is(key: &str, typed: &str, meant: Option<&str>) {
        assert_eq!(read(schema::key(key).unwrap(), typed).as_deref(), meant, "{key}: {typed}");
    }

    #[test]
    fn units_are_those_of_the_key() {
        // 80 x 2^30 / 1e9
        is("hardware.memory_limit_gb", "80GiB", Some("85.89934592"));
        is("hardware.memory_limit_gb", "80 GB", Some("80"));
        is("hardware.memory_limit_gb", "500MB", Some("0.5"));
        is("cluster.network_gb_s_per_gpu", "0.05 TB/s", Some("50"));
        is("model.size_billions", "350M", Some("0.35"));
        is("model.size_billions", "1.3B", Some("1.3"));
        is("run.total_tokens", "2.5e11", Some("2.5e11"));
        is("run.total_tokens", "300B", Some("300000000000"));
        is("run.price_per_gpu_hour", "$2.50", Some("2.50"));
        is("hardware.power_limit_w", "0.35kW", Some("350"));
        is("hardware.custom.peak_tflops.bf16", "1.2 PFLOP/s", Some("1200"));
        is("training.dropout", "10%", Some("0.1"));
    }

    #[test]
    fn lengths_count_in_1024_and_batches_in_1000() {
        is("model.sequence_length", "32k", Some("32768"));
        is("model.batch_size", "2k", Some("2000"));
        is("model.batch_size", "2Ki", Some("2048"));
    }

    #[test]
    fn what_is_no_number_stays_what_it_is() {
        for typed in ["", "many", "8 apples", "GiB", "1.2.3"] {
            is("model.batch_size", typed, None);
        }
        is("training.precision", "16", None);
    }
}
