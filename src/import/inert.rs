//! Names of settings that were seen in launch files and change neither what is held nor the time of a step, or whose
//! effect another setting tells: kinds of losses, tokens, schedules of checkpoints, sizes of buckets. What has another
//! name and is on may change a plan.

use std::collections::BTreeSet;
use std::sync::OnceLock;

/// The names, each without the sections before it, in small letters and with underscores.
const NAMES: &str = include_str!("inert_names.txt");

/// Whether a setting of that name changes nothing of a plan.
pub fn is_inert(name: &str) -> bool {
    static ALL: OnceLock<BTreeSet<&str>> = OnceLock::new();
    let all = ALL.get_or_init(|| NAMES.lines().collect());
    let last = name.rsplit('.').next().unwrap_or(name).trim_start_matches(['-', '+']);
    all.contains(last.to_lowercase().replace('-', "_").as_str())
}

#[cfg(test)]
mod tests {
    use super::{NAMES, is_inert};

    #[test]
    fn a_name_counts_without_its_sections() {
        assert!(is_inert("zero_optimization.reduce_bucket_size"));
        assert!(is_inert("model.lora-alpha"));
        assert!(!is_inert("use_qlora"));
        assert!(!is_inert("some_new_switch"));
    }

    #[test]
    fn names_are_in_order_and_once() {
        assert!(NAMES.lines().zip(NAMES.lines().skip(1)).all(|(one, next)| one < next));
    }
}
