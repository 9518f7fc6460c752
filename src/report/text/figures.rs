//! The memory figures that tools show, and which tool shows which.

use crate::predict::Prediction;
use crate::report::table::{Align, Table};

/// The figures of the stage that needs most, smallest first.
pub fn table(text: &mut String, prediction: &Prediction, width: usize) {
    let (stage, on_cpu) = (prediction.largest(), prediction.on_cpu);
    text.push('\n');
    let mut figures = Table::new([("", Align::Left), ("GiB", Align::Right), ("", Align::Left)]);
    let allocated = if on_cpu {
        "tensors at the peak: PyTorch does not count them on a CPU"
    } else {
        "tensors at the peak: torch.cuda.max_memory_allocated()"
    };
    let reserved = if on_cpu {
        "what malloc holds for them"
    } else {
        "held by the caching allocator: torch.cuda.max_memory_reserved()"
    };
    let device_used = if on_cpu {
        "with Python and its libraries: the resident set"
    } else {
        "with CUDA context, NCCL and workspaces: nvidia-smi"
    };
    let rows = [
        ("static", stage.static_bytes, "allocated between steps"),
        ("allocated", stage.peak_allocated, allocated),
        ("reserved", stage.peak_reserved, reserved),
        (prediction.device_used_name(), stage.device_used, device_used),
    ];
    for (name, bytes, meaning) in rows {
        figures.row([name.to_owned(), bytes.in_gib(), meaning.to_owned()]);
    }
    text.push_str(&figures.render("  ", width));
}
