//! The type that a loop computes in under PyTorch's autocast, over whatever its weights are stored in.

use serde_json::Value;

use crate::python::{PassedArgument, ScriptReader};
use crate::python_calls::call;
use crate::script_doubts::code;
use crate::settings::text;

/// What a loop's calls of it come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autocast {
    /// It makes none, or all are turned off.
    None,
    /// All that are made cast to that type: `fp16`, `bf16`.
    Half(&'static str),
    /// Which it makes is not followed.
    Open,
}

/// PyTorch's own: accelerate's follows its mixed precision.
const CALLS: [&str; 2] = ["torch.autocast", "amp.autocast"];

impl Autocast {
    /// Those of a loop.
    pub fn of(reader: &ScriptReader, loop_text: &str) -> Self {
        let own = |line: &str| line.contains("autocast(") && !line.contains("accelerator.autocast(");
        if call(loop_text, "autocast").is_none() || !code(loop_text).any(own) {
            return Self::None;
        }
        let passed = |keyword: &str| reader.passed(&CALLS, keyword);
        let (devices, first) = (passed("device_type"), passed("0"));
        let (enabled, types, second) = (passed("enabled"), passed("dtype"), passed("1"));
        // A script that names no GPU, or sees none, trains on what it casts for.
        let gpu = if reader.hides_gpus() {
            Gpu::Hidden
        } else if loop_text.contains("cuda") {
            Gpu::Named
        } else {
            Gpu::Unnamed
        };
        let mut all: Option<Self> = None;
        for (at, (dtype, certain)) in types.iter().enumerate() {
            let at_place = |list: &[(PassedArgument, bool)]| list.get(at).map(|(found, _)| found.clone());
            let device = at_place(&devices).filter(is_told).or_else(|| at_place(&first).filter(is_word));
            // `torch.cuda.amp.autocast(True)`
            let switch = at_place(&enabled).filter(is_told).or_else(|| at_place(&first).filter(is_switch));
            let dtype = Some(dtype.clone()).filter(is_told).or_else(|| at_place(&second).filter(is_word));
            let one = if *certain { cast(device, switch, dtype, gpu) } else { Self::Open };
            match all {
                Some(before) if before != one => return Self::Open,
                _ => all = Some(one),
            }
        }
        all.unwrap_or(Self::Open)
    }
}

fn is_told(found: &PassedArgument) -> bool {
    !matches!(found, PassedArgument::Nothing)
}

fn is_word(found: &PassedArgument) -> bool {
    matches!(found, PassedArgument::Plain(told) if told.value.is_string()) || matches!(found, PassedArgument::Open)
}

fn is_switch(found: &PassedArgument) -> bool {
    matches!(found, PassedArgument::Plain(told) if told.value.is_boolean())
}

/// Whether a script may train on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gpu {
    /// It names one.
    Named,
    /// It names none.
    Unnamed,
    /// It sees none.
    Hidden,
}

/// What one call casts to: fp16 on a GPU where it is told no type, bf16 on a CPU (`torch/amp/autocast_mode.py`,
/// `get_autocast_dtype`).
fn cast(
    device: Option<PassedArgument>,
    enabled: Option<PassedArgument>,
    dtype: Option<PassedArgument>,
    gpu: Gpu,
) -> Autocast {
    let word = match device {
        None => Some("cuda".to_owned()),
        Some(PassedArgument::Plain(told)) => text(&told.value),
        Some(_) => None,
    };
    // PyTorch turns one for a GPU off that is not there (`torch.autocast.__init__`).
    if gpu == Gpu::Hidden && word.as_ref().is_some_and(|word| word.starts_with("cuda")) {
        return Autocast::None;
    }
    let usual = word.and_then(|word| match word.as_str() {
        "cpu" if gpu != Gpu::Named => Some("bf16"),
        word => word.starts_with("cuda").then_some("fp16"),
    });
    let on = match enabled {
        None => Some(true),
        Some(PassedArgument::Plain(told)) => match told.value {
            Value::Bool(on) => Some(on),
            _ => None,
        },
        Some(_) => None,
    };
    match (on, usual, dtype) {
        (Some(false), ..) => Autocast::None,
        (Some(true), Some(half), None) => Autocast::Half(half),
        (Some(true), Some(_), Some(PassedArgument::Plain(told))) => match text(&told.value).as_deref() {
            Some("float16" | "half") => Autocast::Half("fp16"),
            Some("bfloat16") => Autocast::Half("bf16"),
            // No matrix is multiplied in another type then.
            Some("float32" | "float") => Autocast::None,
            _ => Autocast::Open,
        },
        _ => Autocast::Open,
    }
}
