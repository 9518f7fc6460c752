//! The report as the JSON object that the contract fixes: names stay, figures are
//! unrounded, what is unknown is null.

use serde_json::{Map, Value, json};

use super::{MaxSequence, Report};
use crate::advise::{Advice, Finding};
use crate::predict::{Component, Prediction, RooflineOp, StageMemory, StepTime, Term, TimeTerm};
use crate::units::Bytes;

/// A figure; null where there is none (also for an infinite one, which JSON cannot say).
/// Whole numbers are written as such, so that counts stay counts.
#[must_use]
#[allow(clippy::cast_possible_truncation)]
pub fn number(value: impl Into<Option<f64>>) -> Value {
    /// Up to here every whole number has a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let Some(value) = value.into() else { return Value::Null };
    if value.fract() == 0.0 && value.abs() <= EXACT { Value::from(value as i64) } else { Value::from(value) }
}

/// The report of one plan.
#[must_use]
pub fn report(report: &Report) -> Value {
    let prediction = report.prediction;
    let mut object = json!({
        "plan": report.plan,
        "model": prediction.model,
        "gpu": prediction.gpu,
        "params": {
            "total": prediction.params.total,
            "trainable": prediction.params.trainable,
            "active_per_token": prediction.params.active_per_token,
        },
        "memory": memory(prediction.largest()),
        "stages": prediction.stages.iter().map(stage).collect::<Vec<_>>(),
        "terms": prediction.largest().terms.iter().map(term).collect::<Vec<_>>(),
        "timeline": timeline(prediction.largest()),
        "capacity": capacity(prediction),
        "flops": {
            "forward": number(prediction.flops.forward.0),
            "backward": number(prediction.flops.backward.0),
            "recompute": number(prediction.flops.recompute.0),
        },
        "traffic": traffic(prediction),
        "time": time(report),
        "decode": decode(prediction.decode.as_ref()),
        "roofline": {
            "ridge": number(prediction.roofline.ridge.0),
            "roofs": roofs(prediction),
            "ops": prediction.roofline.ops.iter().map(operator).collect::<Vec<_>>(),
        },
        "bottlenecks": report.advice.map_or_else(Vec::new, bottlenecks),
        "assumptions": prediction.assumptions,
    });
    if let Some(object) = object.as_object_mut() {
        object.insert("time_terms".to_owned(), prediction.time_terms.iter().map(time_term).collect());
    }
    if let (Some(setup), Some(object)) = (report.setup, object.as_object_mut()) {
        object.insert("setup".to_owned(), setup.value.clone());
    }
    if let (Some(found), Some(object)) = (report.max_batch, object.as_object_mut()) {
        object.insert("max_batch_size".to_owned(), found.json());
        object.insert("max_sequence_length".to_owned(), MaxSequence::json(report.max_sequence));
    }
    if let (Some(layer), Some(object)) = (report.layer, object.as_object_mut()) {
        object.insert("layer".to_owned(), layer.json());
    }
    object
}

fn memory(stage: &StageMemory) -> Value {
    let components: Map<String, Value> = Component::ALL
        .into_iter()
        .map(|component| (component.key().to_owned(), bytes(stage.component(component))))
        .collect();
    json!({
        "components": components,
        "static": bytes(stage.static_bytes),
        "peak_phase": stage.peak_phase.word(),
        "peak_cause": stage.peak_cause,
        "peak_allocated": bytes(stage.peak_allocated),
        "peak_reserved": bytes(stage.peak_reserved),
        "device_used": bytes(stage.device_used),
        "activations_end_of_forward": bytes(stage.activations_end_of_forward),
    })
}

fn stage(stage: &StageMemory) -> Value {
    json!({
        "stage": stage.stage,
        "layers": stage.layers,
        "static": bytes(stage.static_bytes),
        "peak_allocated": bytes(stage.peak_allocated),
        "peak_reserved": bytes(stage.peak_reserved),
        "device_used": bytes(stage.device_used),
    })
}

fn term(term: &Term) -> Value {
    json!({
        "name": term.name,
        "component": term.component.key(),
        "bytes": bytes(term.bytes),
        "formula": term.formula.to_string(),
        "source": term.source,
    })
}

fn time_term(term: &TimeTerm) -> Value {
    let transfer = term.transfer.as_ref();
    json!({
        "name": term.name,
        "part": term.part.word(),
        "seconds": number(term.seconds.0),
        "hidden_s": number(term.hidden.0),
        "efficiency": number(term.efficiency),
        "bytes": transfer.map(|moved| moved.bytes.0),
        "count": number(transfer.map(|moved| moved.count)),
        "ranks": transfer.map(|moved| moved.ranks),
        "link": transfer.map(|moved| moved.link.as_str()),
        "formula": term.formula,
        "source": term.source,
    })
}

fn timeline(stage: &StageMemory) -> Vec<Value> {
    let points = stage.timeline.iter();
    points
        .map(|point| json!({"phase": point.phase.word(), "at": point.at.to_string(), "allocated": point.allocated.0}))
        .collect()
}

fn capacity(prediction: &Prediction) -> Value {
    let capacity = prediction.capacity;
    json!({
        "bytes": bytes(capacity.bytes),
        "headroom": i64::try_from((capacity.bytes - capacity.needed).0).ok(),
        "fits": capacity.needed <= capacity.bytes,
    })
}

fn traffic(prediction: &Prediction) -> Value {
    let traffic = prediction.traffic;
    json!({
        "total": bytes(traffic.total()),
        "by": {
            "parameters": bytes(traffic.parameters),
            "gradients": bytes(traffic.gradients),
            "activations": bytes(traffic.activations),
            "optimizer_states": bytes(traffic.optimizer_states),
        },
    })
}

/// One more token for each request: null throughout where none are generated, so that rows of a table agree.
fn decode(token: Option<&StepTime>) -> Value {
    let figure = |of: fn(&StepTime) -> f64| number(token.map(of));
    json!({
        "step_s": figure(|time| time.step.0),
        "compute_s": figure(|time| time.compute.0),
        "memory_bound_s": figure(|time| time.memory_bound.0),
        "communication_s": figure(|time| time.communication.0),
        "bubble_s": figure(|time| time.bubble.0),
        "launch_s": figure(|time| time.launch.0),
        "tokens_per_s": number(token.and_then(|time| time.tokens_per_s)),
        "tokens_per_s_per_gpu": number(token.and_then(|time| time.tokens_per_s_per_gpu)),
        "bandwidth_gb_s": figure(|time| time.bandwidth.0 / 1e9),
        "mbu": figure(|time| time.mbu),
    })
}

fn time(report: &Report) -> Value {
    let prediction = report.prediction;
    let time = &prediction.time;
    json!({
        "step_s": number(time.step.0),
        "compute_s": number(time.compute.0),
        "memory_bound_s": number(time.memory_bound.0),
        "communication_s": number(time.communication.0),
        "bubble_s": number(time.bubble.0),
        "launch_s": number(time.launch.0),
        "tokens_per_s": number(time.tokens_per_s),
        "tokens_per_s_per_gpu": number(time.tokens_per_s_per_gpu),
        "samples_per_s": number(time.samples_per_s),
        "model_tflops_per_gpu": number(time.model_flops_per_gpu.0 / 1e12),
        "mfu": number(time.mfu),
        "hfu": number(time.hfu),
        "bandwidth_gb_s": number(time.bandwidth.0 / 1e9),
        "mbu": number(time.mbu),
        "total_hours": number(time.total_hours),
        "total_cost": number(time.total_cost),
        "total_tokens": number(time.total_tokens()),
        "total_gpu_hours": number(prediction.gpu_hours()),
        "total_energy_kwh": number(prediction.energy().map(|energy| energy.0 / 3.6e6)),
        "power_w": number(time.power.map(|power| power.0)),
        "scaling_efficiency": number(report.scaling.map(|share| share.0)),
        "bottleneck": time.bottleneck().word(),
        "total_steps": number(report.total_steps()),
    })
}

fn bottlenecks(advice: &Advice) -> Vec<Value> {
    let finding = |finding: &Finding| {
        json!({
            "severity": finding.severity.word(),
            "kind": finding.kind,
            "message": finding.message,
            "fixes": finding.fixes.iter().map(|fix| fix.line(&advice.outline)).collect::<Vec<_>>(),
        })
    };
    advice.findings.iter().map(finding).collect()
}

/// Peaks by type in operations a second, and bandwidths in bytes a second.
fn roofs(prediction: &Prediction) -> Value {
    let roofline = &prediction.roofline;
    let mut roofs: Map<String, Value> =
        roofline.roofs.iter().map(|(name, peak)| ((*name).to_owned(), number(peak.0))).collect();
    roofs.insert("hbm".to_owned(), number(roofline.bandwidth.0));
    roofs.insert("l2".to_owned(), number(roofline.l2.map(|rate| rate.0)));
    Value::Object(roofs)
}

fn operator(op: &RooflineOp) -> Value {
    json!({
        "name": op.name,
        "count": op.count,
        "flops": number(op.flops.0),
        "bytes": bytes(op.bytes),
        "intensity": number(op.intensity.map(|intensity| intensity.0)),
        "bound": op.bound.word(),
        "seconds": number(op.seconds.0),
    })
}

fn bytes(bytes: Bytes) -> Value {
    Value::from(bytes.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn of(prediction: &Prediction) -> Value {
        report(&Report::of("a.yaml", prediction))
    }

    #[test]
    fn the_keys_are_the_contracts_in_its_order() {
        let value = of(&sample::two_stages());
        let top = "plan model gpu params memory stages terms timeline capacity flops traffic time decode roofline \
                   bottlenecks assumptions time_terms";
        assert_eq!(keys(&value).join(" "), top);
        assert_eq!(keys(&value["params"]), ["total", "trainable", "active_per_token"]);
        let memory = "components static peak_phase peak_cause peak_allocated peak_reserved device_used \
                      activations_end_of_forward";
        assert_eq!(keys(&value["memory"]).join(" "), memory);
        let components = "parameters gradients optimizer_states activations temporaries kv_cache \
                          communication_buffers overhead";
        assert_eq!(keys(&value["memory"]["components"]).join(" "), components);
        let stage = "stage layers static peak_allocated peak_reserved device_used";
        assert_eq!(keys(&value["stages"][0]).join(" "), stage);
        assert_eq!(keys(&value["terms"][0]), ["name", "component", "bytes", "formula", "source"]);
        assert_eq!(keys(&value["timeline"][0]), ["phase", "at", "allocated"]);
        assert_eq!(keys(&value["capacity"]), ["bytes", "headroom", "fits"]);
        assert_eq!(keys(&value["flops"]), ["forward", "backward", "recompute"]);
        assert_eq!(keys(&value["traffic"]["by"]), ["parameters", "gradients", "activations", "optimizer_states"]);
        let time = "step_s compute_s memory_bound_s communication_s bubble_s launch_s tokens_per_s tokens_per_s_per_gpu \
                    samples_per_s model_tflops_per_gpu mfu hfu bandwidth_gb_s mbu total_hours total_cost \
                    total_tokens total_gpu_hours total_energy_kwh power_w scaling_efficiency bottleneck total_steps";
        assert_eq!(keys(&value["time"]).join(" "), time);
        let op = "name count flops bytes intensity bound seconds";
        assert_eq!(keys(&value["roofline"]["ops"][0]).join(" "), op);
    }

    #[test]
    fn figures_are_those_of_the_stage_that_needs_most_and_unrounded() {
        let value = of(&sample::two_stages());
        assert_eq!(value["memory"]["device_used"], 9_663_676_417_u64);
        assert_eq!(value["capacity"]["headroom"], 10_737_418_240_i64 - 9_663_676_417);
        assert_eq!(value["flops"]["forward"].to_string(), "2000000000001");
        assert_eq!(value["time"]["total_cost"], Value::Null);
        let parts: u64 = value["memory"]["components"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(parts, 9_663_676_417);
    }

    #[test]
    fn what_json_cannot_say_is_null() {
        assert_eq!(number(f64::NAN), Value::Null);
        assert_eq!(number(f64::INFINITY), Value::Null);
        assert_eq!(number(None), Value::Null);
        assert_eq!(number(0.5).to_string(), "0.5");
    }

    #[test]
    fn a_plan_too_large_has_negative_headroom() {
        let mut prediction = sample::two_stages();
        prediction.capacity.bytes = Bytes(9_663_676_410);
        let value = of(&prediction);
        assert_eq!(value["capacity"]["headroom"], -7);
        assert_eq!(value["capacity"]["fits"], false);
    }
}
