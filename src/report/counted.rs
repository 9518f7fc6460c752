//! What can be said of a model whose class is known and whose memory is not: its parameters.

use serde_json::{Value, json};

use crate::model::ClassCount;

/// For a person.
#[must_use]
pub fn text(plan: &str, count: &ClassCount) -> String {
    let ClassCount { class, total, frozen } = count;
    let kept = if *frozen > 0 { format!(", {frozen} of them never trained") } else { String::new() };
    format!("{plan}: {class}: {total} parameters{kept}; memory and time are not predicted\n")
}

/// The contract's report; what is not predicted is null.
#[must_use]
pub fn json(plan: &str, count: &ClassCount, reasons: &[String]) -> Value {
    json!({
        "plan": plan,
        "model": count.class,
        "gpu": null,
        "params": {"total": count.total, "trainable": count.total - count.frozen, "active_per_token": null},
        "memory": null,
        "stages": null,
        "terms": null,
        "timeline": null,
        "capacity": null,
        "flops": null,
        "traffic": null,
        "time": null,
        "decode": null,
        "roofline": null,
        "bottlenecks": null,
        "assumptions": [],
        "refused": reasons,
    })
}
