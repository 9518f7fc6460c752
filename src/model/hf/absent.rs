//! What a file leaves to its class, and functions that no class has.

use super::keys::Keys;
use crate::model::Decoder;
use crate::plan::Fault;

/// A size, by all names that classes have for it.
type NamedSize = (&'static [&'static str], fn(&Decoder) -> u64);

/// Sizes that a class has a default for.
const SIZES: [NamedSize; 4] = [
    (&["hidden_size", "n_embd", "d_model", "dim"], |d| d.hidden),
    (&["num_hidden_layers", "n_layer", "num_layers", "n_layers"], |d| d.layers),
    (&["num_attention_heads", "n_head", "num_heads", "n_heads"], |d| d.heads),
    (&["vocab_size"], |d| d.vocab),
];

/// The sizes of a decoder that its file does not say.
pub(super) fn sizes(keys: Keys<'_>, decoder: &Decoder) -> Vec<String> {
    let said = |names: &[&str]| names.iter().any(|name| keys.has(name));
    // Heads of a model that attends nowhere are none.
    let absent = SIZES.iter().filter(|(names, _)| !said(names));
    let absent = absent.filter(|(names, _)| decoder.attention_layers() > 0 || names[0] != "num_attention_heads");
    // What reads images has no vocabulary: one row stands for it.
    let absent = absent.filter(|(names, _)| decoder.vocab > 1 || names[0] != "vocab_size");
    absent
        .map(|(names, of)| format!("model.hf_config.{}: {} (absent: the default of its class)", names[0], of(decoder)))
        .collect()
}

/// Functions by the names of transformers (activations.py, `ACT2CLS`), and of classes that write their own.
const FUNCTIONS: [&str; 28] = [
    "gelu",
    "gelu_10",
    "gelu_fast",
    "gelu_new",
    "gelu_python",
    "gelu_python_tanh",
    "gelu_pytorch_tanh",
    "gelu_accurate",
    "laplace",
    "leaky_relu",
    "linear",
    "mish",
    "quick_gelu",
    "relu",
    "relu2",
    "relu_squared",
    "relu6",
    "sigmoid",
    "silu",
    "swish",
    "swiglu",
    "geglu",
    "tanh",
    "prelu",
    "xielu",
    "hardswish",
    "elu",
    "identity",
];

/// Refuses a function that transformers does not have: a `KeyError` there.
pub(super) fn check_function(keys: Keys<'_>) -> Result<(), Fault> {
    for name in ["hidden_act", "hidden_activation", "activation_function", "activation", "mlp_hidden_act"] {
        if let Some(said) = keys.text(&[name]).filter(|said| !FUNCTIONS.contains(said)) {
            return Err(Keys::fault(name, format!("`{said}` is no function of transformers (ACT2CLS)")));
        }
    }
    Ok(())
}
