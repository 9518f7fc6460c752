//! The blocks of the language model that a script makes itself, and their width.

use super::Script;
use super::named::{LAYERS, WIDTHS};
use crate::imported::InferredValue;
use crate::plan::keys;

/// What a script has whose numbers of layers may be those of a part of its model, of another model, or of none that it
/// makes.
const OTHERS: [&str; 9] = [
    "from_pretrained(",
    "autoconfig",
    "encoder_layers",
    "decoder_layers",
    "enc_layers",
    "dec_layers",
    "teacher",
    "nn.lstm(",
    "nn.gru(",
];

impl Script<'_> {
    /// Both, where each has one name and one number in it; nothing where either is not followed.
    pub(super) fn shape_of_model(&self) -> Vec<InferredValue> {
        let lower = self.text.to_lowercase();
        let makes_tokens = self.has(&["nn.Embedding("]) && !OTHERS.iter().any(|part| lower.contains(part));
        let both = || Some((self.named(&LAYERS)?, self.named(&WIDTHS)?));
        let Some((layers, width)) = makes_tokens.then(both).flatten() else { return Vec::new() };
        let rows = [
            self.row(keys::architecture::num_layers, Some(layers)),
            self.row(keys::architecture::hidden_size, Some(width)),
        ];
        rows.into_iter().flatten().collect()
    }
}
