//! What a hook has counted of the model that it runs in, in words: for models that no rule knows.

use super::{HookAbout, HookModules};
use crate::units::{Bytes, grouped};

/// Classes of modules that are named.
const MOST_CLASSES: usize = 4;

impl HookAbout {
    /// What is in memory after an optimizer step on this device, by what it is; none where nothing was counted.
    ///
    /// ```
    /// use memwall_core::reading::HookAbout;
    /// use memwall_core::units::Bytes;
    ///
    /// // 1024 parameters in fp32 and AdamW's two moments of them.
    /// let (param_bytes, optimizer_state_bytes) = (Bytes(4096), Bytes(8192));
    /// let about = HookAbout { param_bytes, optimizer_state_bytes, ..HookAbout::default() };
    /// assert_eq!(
    ///     about.static_words().unwrap(),
    ///     "weights 4.00 KiB, optimizer states 8.00 KiB: 12.0 KiB after a step"
    /// );
    /// ```
    #[must_use]
    pub fn static_words(&self) -> Option<String> {
        let parts = [
            ("weights", self.param_bytes),
            ("gradients", self.gradient_bytes),
            ("optimizer states", self.optimizer_state_bytes),
        ];
        let all = parts.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(bytes.0));
        let told: Vec<String> =
            parts.iter().filter(|(_, bytes)| bytes.0 > 0).map(|(name, bytes)| format!("{name} {bytes}")).collect();
        (!told.is_empty()).then(|| format!("{}: {} after a step", told.join(", "), Bytes(all)))
    }

    /// The type that most parameters are stored in, as a plan calls it.
    #[must_use]
    pub fn stored(&self) -> Option<String> {
        let (dtype, _) = self.dtypes.first()?;
        Some(match dtype.trim_start_matches("torch.") {
            "float32" => "fp32".to_owned(),
            "bfloat16" => "bf16".to_owned(),
            "float16" => "fp16".to_owned(),
            other => other.to_owned(),
        })
    }
}

impl HookModules {
    /// The classes of its layers with the parameters in them, the most first: `GRU 388 800, Linear 154 976`; none where
    /// no layer has any.
    #[must_use]
    pub fn classes(&self) -> Option<String> {
        let mut classes: Vec<(&str, u64)> = Vec::new();
        for kind in self.kinds.iter().filter(|kind| kind.params > 0) {
            match classes.iter_mut().find(|(class, _)| *class == kind.class) {
                Some((_, params)) => *params += kind.params,
                None => classes.push((&kind.class, kind.params)),
            }
        }
        classes.sort_by_key(|(_, params)| std::cmp::Reverse(*params));
        let words: Vec<String> =
            classes.iter().take(MOST_CLASSES).map(|(class, params)| format!("{class} {}", grouped(*params))).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use crate::reading::{HookModules, ModuleKind};

    /// Two linear layers of 64 x 256 and 256 x 64 with biases: 16 640 + 16 448 parameters.
    #[test]
    fn layers_of_a_class_are_counted_together() {
        let kind = |class: &str, params| ModuleKind { class: class.to_owned(), params, ..ModuleKind::default() };
        let kinds = vec![kind("ReLU", 0), kind("Embedding", 32_000), kind("Linear", 16_640), kind("Linear", 16_448)];
        let modules = HookModules { kinds, ..HookModules::default() };
        assert_eq!(modules.classes().unwrap(), "Linear 33 088, Embedding 32 000");
    }
}
