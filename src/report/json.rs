//! The report as the JSON object that the contract fixes: names stay, figures are
//! unrounded, what is unknown is null. It is written as it is walked: a stream of plans builds no tree for each.

use std::fmt::Display;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{MaxSequence, MeasuredSpread, Report};
use crate::advise::{Advice, Finding};
use crate::predict::{
    Capacity, Component, Params, Roofline, RooflineOp, StageMemory, StepFlops, StepTime, Term, TimeTerm, TimelinePoint,
    Traffic,
};

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

/// An object of JSON: how it is written of what it is about, key by key.
macro_rules! object {
    ($name:ident($about:ty), |$it:pat_param| { $($key:literal: $value:expr,)* }) => {
        struct $name<'a>(&'a $about);

        impl Serialize for $name<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $it = self.0;
                let mut object = serializer.serialize_map(None)?;
                $( object.serialize_entry($key, &$value)?; )*
                object.end()
            }
        }
    };
}

/// A list of JSON: of each item, what is written of it.
struct List<'a, T, R>(&'a [T], fn(&'a T) -> R);

impl<'a, T, R: Serialize> Serialize for List<'a, T, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

/// What says itself in words.
struct Words<'a, T>(&'a T);

impl<T: Display> Serialize for Words<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

struct ReportJson<'a>(&'a Report<'a>);

impl Serialize for ReportJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let prediction = report.prediction;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("plan", report.plan)?;
        object.serialize_entry("model", &prediction.model)?;
        object.serialize_entry("gpu", &prediction.gpu)?;
        object.serialize_entry("params", &ParamsJson(&prediction.params))?;
        object.serialize_entry("memory", &MemoryJson(prediction.largest()))?;
        object.serialize_entry("stages", &List(&prediction.stages, StageJson))?;
        object.serialize_entry("terms", &List(&prediction.largest().terms, TermJson))?;
        object.serialize_entry("timeline", &List(&prediction.largest().timeline, TimelineJson))?;
        object.serialize_entry("capacity", &CapacityJson(&prediction.capacity))?;
        object.serialize_entry("flops", &FlopsJson(&prediction.flops))?;
        object.serialize_entry("traffic", &TrafficJson(&prediction.traffic))?;
        object.serialize_entry("time", &TimeJson(report))?;
        object.serialize_entry("decode", &DecodeJson(&prediction.decode))?;
        object.serialize_entry("roofline", &RooflineJson(&prediction.roofline))?;
        object.serialize_entry("bottlenecks", &Bottlenecks(report.advice))?;
        object.serialize_entry("assumptions", &prediction.assumptions)?;
        object.serialize_entry("time_terms", &List(&prediction.time_terms, TimeTermJson))?;
        if let Some(setup) = report.setup {
            object.serialize_entry("setup", &setup.value)?;
        }
        if let Some(spread) = &report.spread {
            object.serialize_entry("spread", &SpreadJson(spread))?;
        }
        if let Some(found) = report.max_batch {
            object.serialize_entry("max_batch_size", &found.json())?;
            object.serialize_entry("max_sequence_length", &MaxSequence::json(report.max_sequence))?;
        }
        if let Some(layer) = report.layer {
            object.serialize_entry("layer", &layer.json())?;
        }
        object.end()
    }
}

/// The report of one plan as a value.
#[must_use]
pub fn report(report: &Report) -> Value {
    // Only a key that is no text could fail.
    serde_json::to_value(ReportJson(report)).unwrap_or_default()
}

/// The report of one plan as a line of text.
#[must_use]
pub fn line(report: &Report) -> String {
    let mut line = serde_json::to_string(&ReportJson(report)).unwrap_or_default();
    line.push('\n');
    line
}

object!(ParamsJson(Params), |params| {
    "total": params.total,
    "trainable": params.trainable,
    "active_per_token": params.active_per_token,
});

struct Components<'a>(&'a StageMemory);

impl Serialize for Components<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Component::ALL.map(|component| (component.key(), self.0.component(component).0)))
    }
}

object!(MemoryJson(StageMemory), |stage| {
    "components": Components(stage),
    "static": stage.static_bytes.0,
    "peak_phase": stage.peak_phase.word(),
    "peak_cause": stage.peak_cause,
    "peak_allocated": stage.peak_allocated.0,
    "peak_reserved": stage.peak_reserved.0,
    "device_used": stage.device_used.0,
    "activations_end_of_forward": stage.activations_end_of_forward.0,
});

object!(StageJson(StageMemory), |stage| {
    "stage": stage.stage,
    "layers": stage.layers,
    "static": stage.static_bytes.0,
    "peak_allocated": stage.peak_allocated.0,
    "peak_reserved": stage.peak_reserved.0,
    "device_used": stage.device_used.0,
});

object!(TermJson(Term), |term| {
    "name": term.name,
    "component": term.component.key(),
    "bytes": term.bytes.0,
    "formula": Words(&term.formula),
    "source": term.source,
});

object!(TimeTermJson(TimeTerm), |term| {
    "name": term.name,
    "part": term.part.word(),
    "seconds": number(term.seconds.0),
    "hidden_s": number(term.hidden.0),
    "efficiency": number(term.efficiency),
    "bytes": term.transfer.as_ref().map(|moved| moved.bytes.0),
    "count": number(term.transfer.as_ref().map(|moved| moved.count)),
    "ranks": term.transfer.as_ref().map(|moved| moved.ranks),
    "link": term.transfer.as_ref().map(|moved| &moved.link),
    "formula": Words(&term.formula),
    "source": Words(&term.source),
});

object!(TimelineJson(TimelinePoint), |point| {
    "phase": point.phase.word(),
    "at": Words(&point.at),
    "allocated": point.allocated.0,
});

object!(CapacityJson(Capacity), |capacity| {
    "bytes": capacity.bytes.0,
    "headroom": i64::try_from((capacity.bytes - capacity.needed).0).ok(),
    "fits": capacity.needed <= capacity.bytes,
});

object!(FlopsJson(StepFlops), |flops| {
    "forward": number(flops.forward.0),
    "backward": number(flops.backward.0),
    "recompute": number(flops.recompute.0),
});

object!(TrafficJson(Traffic), |traffic| {
    "total": traffic.total().0,
    "by": TrafficByKind(traffic),
});

object!(TrafficByKind(Traffic), |traffic| {
    "parameters": traffic.parameters.0,
    "gradients": traffic.gradients.0,
    "activations": traffic.activations.0,
    "optimizer_states": traffic.optimizer_states.0,
});

// Between which figures 95 of 100 measured runs like the plan's lie.
object!(SpreadJson(MeasuredSpread), |spread| {
    "step_s": json!(spread.step.map(|ends| ends.map(|time| time.0))),
    "device_used": json!(spread.used.map(|bytes| bytes.0)),
    "few_measured": spread.few,
});

// One more token for each request: null throughout where none are generated, so that rows of a table agree.
object!(DecodeJson(Option<StepTime>), |token| {
    "step_s": figure(token, |time| time.step.0),
    "compute_s": figure(token, |time| time.compute.0),
    "memory_bound_s": figure(token, |time| time.memory_bound.0),
    "communication_s": figure(token, |time| time.communication.0),
    "bubble_s": figure(token, |time| time.bubble.0),
    "launch_s": figure(token, |time| time.launch.0),
    "tokens_per_s": number(token.as_ref().and_then(|time| time.tokens_per_s)),
    "tokens_per_s_per_gpu": number(token.as_ref().and_then(|time| time.tokens_per_s_per_gpu)),
    "bandwidth_gb_s": figure(token, |time| time.bandwidth.0 / 1e9),
    "mbu": figure(token, |time| time.mbu),
});

fn figure(token: &Option<StepTime>, of: fn(&StepTime) -> f64) -> Value {
    number(token.as_ref().map(of))
}

object!(TimeJson(Report<'a>), |report @ Report { prediction, .. }| {
    "step_s": number(prediction.time.step.0),
    "compute_s": number(prediction.time.compute.0),
    "memory_bound_s": number(prediction.time.memory_bound.0),
    "communication_s": number(prediction.time.communication.0),
    "bubble_s": number(prediction.time.bubble.0),
    "launch_s": number(prediction.time.launch.0),
    "tokens_per_s": number(prediction.time.tokens_per_s),
    "tokens_per_s_per_gpu": number(prediction.time.tokens_per_s_per_gpu),
    "samples_per_s": number(prediction.time.samples_per_s),
    "model_tflops_per_gpu": number(prediction.time.model_flops_per_gpu.0 / 1e12),
    "mfu": number(prediction.time.mfu),
    "hfu": number(prediction.time.hfu),
    "bandwidth_gb_s": number(prediction.time.bandwidth.0 / 1e9),
    "mbu": number(prediction.time.mbu),
    "total_hours": number(prediction.time.total_hours),
    "total_cost": number(prediction.time.total_cost),
    "total_tokens": number(prediction.time.total_tokens()),
    "total_gpu_hours": number(prediction.gpu_hours()),
    "total_energy_kwh": number(prediction.energy().map(|energy| energy.0 / 3.6e6)),
    "power_w": number(prediction.time.power.map(|power| power.0)),
    "scaling_efficiency": number(report.scaling.map(|share| share.0)),
    "bottleneck": prediction.time.bottleneck().word(),
    "total_steps": number(report.total_steps()),
});

object!(RooflineJson(Roofline), |roofline| {
    "ridge": number(roofline.ridge.0),
    "roofs": Roofs(roofline),
    "ops": List(&roofline.ops, OperatorJson),
});

/// Peaks by type in operations a second, and bandwidths in bytes a second.
struct Roofs<'a>(&'a Roofline);

impl Serialize for Roofs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let peaks = self.0.roofs.iter().map(|(name, peak)| (*name, number(peak.0)));
        let bandwidths = [("hbm", number(self.0.bandwidth.0)), ("l2", number(self.0.l2.map(|rate| rate.0)))];
        serializer.collect_map(peaks.chain(bandwidths))
    }
}

object!(OperatorJson(RooflineOp), |op| {
    "name": op.name,
    "count": op.count,
    "flops": number(op.flops.0),
    "bytes": op.bytes.0,
    "intensity": number(op.intensity.map(|intensity| intensity.0)),
    "bound": op.bound.word(),
    "seconds": number(op.seconds.0),
});

/// What holds the plan back; an empty list where that was not asked.
struct Bottlenecks<'a>(Option<&'a Advice>);

impl Serialize for Bottlenecks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let advised = self.0.into_iter().flat_map(|advice| advice.findings.iter().map(move |one| (advice, one)));
        serializer.collect_seq(advised.map(|(advice, finding)| BottleneckJson(advice, finding)))
    }
}

struct BottleneckJson<'a>(&'a Advice, &'a Finding);

impl Serialize for BottleneckJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(advice, finding) = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("severity", finding.severity.word())?;
        object.serialize_entry("kind", &finding.kind)?;
        object.serialize_entry("message", &finding.message)?;
        let fixes: Vec<_> = finding.fixes.iter().map(|fix| fix.line(&advice.outline)).collect();
        object.serialize_entry("fixes", &fixes)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::Prediction;
    use crate::report::sample;
    use crate::units::Bytes;

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
