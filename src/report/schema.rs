//! JSON Schema of what is written and read beside plans: reports, recordings, measured cases.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::observe::Header;
use crate::plan::{DIALECT, json_schema};
use crate::reading::{DeviceSample, HostProcess, Moment, Sample, SourceInfo, SourceKind};

/// The keys of the JSON report: path, kind, meaning. `[]` is each entry of a list, `*` any key of a mapping. A kind is
/// number, text, flag, list or keys; `?` behind it: null where it is unknown or does not apply.
pub const REPORT_KEYS: &[(&str, &str, &str)] = &[
    ("plan", "text", "its file, or its number in a stream"),
    ("model", "text", "the model and its size"),
    ("gpu", "text", "the GPU"),
    ("params", "keys", "parameters"),
    ("params.total", "number", "all, tied weights once"),
    ("params.trainable", "number", "those that are trained"),
    ("params.active_per_token", "number", "those that a token passes through"),
    ("spread", "keys", "between which figures 95 of 100 measured runs like it stay, where it trains"),
    ("spread.step_s", "list", "least and most seconds of a step; null where what was measured here was disturbed"),
    ("spread.device_used", "list", "least and most bytes on the GPU that needs most"),
    ("spread.few_measured", "flag", "few runs like it were measured: a wider kind's"),
    ("setup", "keys", "what is predicted, with everything that the plan left open decided"),
    ("setup.batch", "keys", "samples and tokens of a step"),
    ("setup.batch.*", "number?", "samples, tokens or pixels; null where the model has none"),
    ("setup.*", "scalar", "a degree, a type, a link or its bytes a second"),
    ("memory", "keys", "bytes on the GPU that needs most"),
    ("memory.components", "keys", "device-used bytes by component"),
    ("memory.components.*", "number", "bytes"),
    ("memory.static", "number", "allocated between steps"),
    ("memory.peak_phase", "text", "forward, backward or optimizer"),
    ("memory.peak_cause", "text", "what makes the peak"),
    ("memory.peak_allocated", "number", "bytes in tensors at the peak"),
    ("memory.peak_reserved", "number", "bytes that the caching allocator has then"),
    ("memory.device_used", "number", "bytes that the driver charges to the process"),
    ("memory.activations_end_of_forward", "number", "saved activations at the end of the forward pass"),
    ("stages", "list", "the stages of a pipeline"),
    ("stages[]", "keys", "a stage"),
    ("stages[].stage", "number", "its index, from 0"),
    ("stages[].layers", "number", "its layers"),
    ("stages[].static", "number", "allocated between steps"),
    ("stages[].peak_allocated", "number", "bytes in tensors at the peak"),
    ("stages[].peak_reserved", "number", "bytes that the caching allocator has then"),
    ("stages[].device_used", "number", "bytes that the driver charges to the process"),
    ("terms", "list", "named terms, which sum to device_used"),
    ("terms[]", "keys", "a term"),
    ("terms[].name", "text", "its name"),
    ("terms[].component", "text", "the component that it is part of"),
    ("terms[].bytes", "number", "its bytes"),
    ("terms[].formula", "text", "how they come about"),
    ("terms[].source", "text", "who says so"),
    ("timeline", "list", "allocated bytes over the step"),
    ("timeline[]", "keys", "a point"),
    ("timeline[].phase", "text", "forward, backward or optimizer"),
    ("timeline[].at", "text", "where in the model"),
    ("timeline[].allocated", "number", "bytes in tensors"),
    ("capacity", "keys", "whether it fits"),
    ("capacity.bytes", "number", "memory of the GPU"),
    ("capacity.headroom", "number?", "what is left; negative: what is lacking"),
    ("capacity.fits", "flag", "device_used is not more than the GPU has"),
    ("layer", "keys", "of --layer: what the layer holds in the backward pass, and where it runs"),
    ("layer.tensors", "list", "tensors in the backward pass"),
    ("layer.tensors[]", "keys", "a tensor"),
    ("layer.tensors[].what", "text", "what it is"),
    ("layer.tensors[].elements", "number", "its elements"),
    ("layer.tensors[].bytes", "number", "its bytes"),
    ("layer.gpus", "list", "GPUs of the catalogue by memory"),
    ("layer.gpus[]", "keys", "a GPU"),
    ("layer.gpus[].gpu", "text", "its name"),
    ("layer.gpus[].bytes", "number", "its memory"),
    ("layer.gpus[].device_used", "number", "bytes that the plan needs there"),
    ("layer.gpus[].fits", "flag", "it runs there"),
    ("flops", "keys", "operations of a step on one GPU, a multiply-add as 2"),
    ("flops.*", "number", "operations"),
    ("traffic", "keys", "DRAM traffic of a step"),
    ("traffic.total", "number", "bytes"),
    ("traffic.by", "keys", "by what is moved"),
    ("traffic.by.*", "number", "bytes"),
    ("time", "keys", "a step, and what comes of it"),
    ("time.bottleneck", "text", "what takes the most of the step"),
    ("time.*", "number?", "seconds, or the unit in the name"),
    ("time_terms", "list", "what the step's time is made of: kernels, collectives, bubble, host"),
    ("time_terms[]", "keys", "a term"),
    ("time_terms[].name", "text", "its name"),
    ("time_terms[].part", "text", "what it is part of"),
    ("time_terms[].seconds", "number", "time that the step waits for it"),
    ("time_terms[].hidden_s", "number", "time of it that runs behind something else"),
    ("time_terms[].efficiency", "number?", "share of the peak that long ones reach"),
    ("time_terms[].bytes", "number?", "bytes that one moves"),
    ("time_terms[].count", "number?", "how many there are"),
    ("time_terms[].ranks", "number?", "GPUs that take part"),
    ("time_terms[].link", "text?", "the link that it runs over"),
    ("time_terms[].formula", "text", "how it comes about"),
    ("time_terms[].source", "text", "who says so"),
    ("decode", "keys", "one more token for each request; null throughout for training"),
    ("decode.*", "number?", "seconds, or the unit in the name"),
    ("roofline", "keys", "operators against the limits of the GPU"),
    ("roofline.ridge", "number", "FLOP/B from which matrix operations are compute-bound"),
    ("roofline.roofs", "keys", "peaks in operations a second, hbm and l2 in bytes a second"),
    ("roofline.roofs.*", "number?", "a peak"),
    ("roofline.ops", "list", "operators by time"),
    ("roofline.ops[]", "keys", "an operator"),
    ("roofline.ops[].name", "text", "its name"),
    ("roofline.ops[].count", "number", "how often it runs in a step"),
    ("roofline.ops[].flops", "number", "its operations"),
    ("roofline.ops[].bytes", "number", "its DRAM traffic"),
    ("roofline.ops[].intensity", "number?", "FLOP/B"),
    ("roofline.ops[].bound", "text", "memory or compute"),
    ("roofline.ops[].seconds", "number", "its time"),
    ("bottlenecks", "list", "what limits the plan, where it was asked for"),
    ("bottlenecks[]", "keys", "a finding"),
    ("bottlenecks[].severity", "text", "critical, high, medium or low"),
    ("bottlenecks[].kind", "text", "what it is"),
    ("bottlenecks[].message", "text", "what was found"),
    ("bottlenecks[].fixes", "list", "what would help, cheapest first"),
    ("bottlenecks[].fixes[]", "text", "a change with its effect"),
    ("assumptions", "list", "what the plan left open"),
    ("assumptions[]", "text", "a key and what was assumed"),
];

/// The quantities of a measured case that are predicted: name and kind, in the order of the manual.
const QUANTITIES: &[(&str, &str)] = &[
    ("params", "number"),
    ("trainable_params", "number"),
    ("peak_allocated_bytes", "number"),
    ("peak_reserved_bytes", "number"),
    ("device_used_bytes", "number"),
    ("static_bytes", "number"),
    ("activation_bytes", "number"),
    ("fits", "boolean"),
    ("flops_forward", "number"),
    ("flops_backward", "number"),
    ("step_time_s", "number"),
    ("tokens_per_s_per_gpu", "number"),
    ("samples_per_s_per_gpu", "number"),
    ("model_tflops_per_gpu", "number"),
    ("mfu", "number"),
    ("hfu", "number"),
];

/// The schema of the object that `memwall predict --format json` writes for a plan. Further keys may come.
#[must_use]
pub fn report() -> Value {
    let mut schema = with_head("A report of MemWall", keys_below(""));
    let required: Vec<String> =
        schema["properties"].as_object().map_or_else(Vec::new, |keys| keys.keys().cloned().collect());
    // Only --layer asks for the one, and only plans that train have the other.
    let required: Vec<String> =
        required.into_iter().filter(|key| !["layer", "spread"].contains(&key.as_str())).collect();
    schema["required"] = Value::from(required);
    schema
}

/// The schema of a file of measured cases: a list of them, or one.
#[must_use]
pub fn cases() -> Value {
    let quantities: Map<String, Value> =
        QUANTITIES.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
    let case = json!({
        "type": "object",
        "required": ["plan", "measured"],
        "properties": {
            "id": {"type": ["string", "number"], "description": "its name"},
            "group": {"type": "string", "description": "what it is counted with"},
            "source": {"type": "string", "description": "where the measurement comes from"},
            "notes": {"type": "string"},
            "plan": plan_alone(),
            "measured": {
                "type": "object",
                "description": "only what was measured",
                "properties": quantities,
                "patternProperties": {
                    "_by_rank$": {"type": "array", "items": {"type": "number"}},
                    "_last_rank$": {"type": "number"},
                },
            },
        },
    });
    with_head("Measured cases for MemWall", json!({"anyOf": [{"type": "array", "items": case}, case]}))
}

/// The schema of a line of a recording: the header, or a sample. Its keys are those of the types that are written.
#[must_use]
pub fn recording() -> Value {
    let written = |value: Result<Value, serde_json::Error>| value.map_or(Value::Null, |value| fields(&value));
    let mut sample = written(serde_json::to_value(Sample::default()));
    let device = written(serde_json::to_value(DeviceSample::default()));
    let process = written(serde_json::to_value(HostProcess::default()));
    if let Some(keys) = sample.get_mut("properties") {
        keys["devices"] = json!({"type": "array", "items": device});
        keys["processes"] = json!({"type": "array", "items": process});
        keys["children"] = json!({"type": "array", "items": process});
    }
    sample["required"] = json!(["at"]);
    let mut header = written(serde_json::to_value(example()));
    header["required"] = json!(["memwall_recording", "started", "source"]);
    let mut schema = with_head("A line of a recording of MemWall", json!({"anyOf": [header, sample]}));
    schema["definitions"] = json!({
        "reading": {
            "type": "object",
            "description": "a value with its time, or the reason why there is none; missing: not read",
            "properties": {
                "value": {},
                "at": {"type": "number", "description": "ms since the Unix epoch; missing: the sample's"},
                "kind": {"type": "string", "description": "missing: measured"},
                "absent": {},
            },
        },
    });
    schema
}

/// A header, for its keys.
fn example() -> Header {
    let source = SourceInfo { kind: SourceKind::Nvml, detail: String::new() };
    Header::new(Moment::default(), Duration::from_secs(1), source)
}

/// What a value of a type looks like: keys of a mapping, a reading, or the kind of a scalar. What may be missing has
/// no kind.
fn fields(value: &Value) -> Value {
    match value {
        Value::Object(keys) if keys.contains_key("absent") || keys.contains_key("value") => {
            json!({"$ref": "#/definitions/reading"})
        }
        Value::Object(keys) => {
            let properties: Map<String, Value> = keys.iter().map(|(key, value)| (key.clone(), fields(value))).collect();
            json!({"type": "object", "properties": properties})
        }
        Value::Array(_) => json!({"type": "array"}),
        Value::Number(_) => json!({"type": "number"}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::String(_) => json!({"type": "string"}),
        Value::Null => json!({}),
    }
}

fn with_head(title: &str, body: Value) -> Value {
    let mut schema = json!({"$schema": DIALECT, "title": title});
    if let (Some(schema), Value::Object(body)) = (schema.as_object_mut(), body) {
        schema.extend(body);
    }
    schema
}

/// A plan within another schema.
fn plan_alone() -> Value {
    let mut plan = json_schema();
    if let Some(keys) = plan.as_object_mut() {
        keys.shift_remove("$schema");
    }
    plan
}

/// The rule of the key at a path.
fn rule(path: &str, kind: &str, line: &str) -> Value {
    let (plain, unknown) = kind.strip_suffix('?').map_or((kind, false), |plain| (plain, true));
    let mut rule = match plain {
        "keys" => keys_below(path),
        "list" => {
            let each = format!("{path}[]");
            let entry = REPORT_KEYS.iter().find(|(known, ..)| *known == each);
            json!({"type": "array", "items": entry.map_or(json!({}), |(path, kind, line)| rule(path, kind, line))})
        }
        "flag" => json!({"type": "boolean"}),
        "text" if unknown => json!({"type": ["string", "null"]}),
        "text" => json!({"type": "string"}),
        "scalar" => json!({"type": ["boolean", "number", "string", "null"]}),
        _ if unknown => json!({"type": ["number", "null"]}),
        _ => json!({"type": "number"}),
    };
    rule["description"] = Value::from(line);
    rule
}

/// The mapping of the keys that stand directly below a path.
fn keys_below(path: &str) -> Value {
    let name = |key: &'static str| {
        let below = if path.is_empty() { Some(key) } else { key.strip_prefix(path)?.strip_prefix('.') };
        below.filter(|name| !name.contains(['.', '[']))
    };
    let mut properties = Map::new();
    let mut others = None;
    for (key, kind, line) in REPORT_KEYS {
        match name(key) {
            Some("*") => others = Some(rule(key, kind, line)),
            Some(name) => {
                properties.insert(name.to_owned(), rule(key, kind, line));
            }
            None => {}
        }
    }
    let mut rule = json!({"type": "object", "properties": properties});
    if let Some(others) = others {
        rule["additionalProperties"] = others;
    }
    rule
}
