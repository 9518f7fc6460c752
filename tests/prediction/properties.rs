//! What must hold of every plan that the schema lets through, however odd: nothing panics,
//! faults name a key, and a prediction agrees with itself to the byte.

use crate::support::catalog;
use memwall::plan::schema::{self, PlanKey, ValueKind};
use memwall::plan::{Document, Fault};
use memwall::predict::{self, Job, Layer, Prediction};
use memwall::report::{Report, json, text};
use memwall::units::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A whole number, as likely small as large: even over its digits.
fn whole(min: u64, max: u64) -> BoxedStrategy<Value> {
    let bits = 64 - max.leading_zeros();
    let any = (0..=bits, any::<u64>()).prop_map(move |(bits, number)| {
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        json!((number & mask).clamp(min, max))
    });
    prop_oneof![3 => any, 1 => Just(json!(min)), 1 => Just(json!(max))].boxed()
}

fn number(max: f64) -> BoxedStrategy<Value> {
    prop_oneof![(-9.0..max.log10()).prop_map(|digits: f64| json!(10_f64.powf(digits))), Just(json!(max))].boxed()
}

/// Any value that the schema allows for a key.
fn value(key: &'static PlanKey) -> Option<BoxedStrategy<Value>> {
    let words = key.kind.words().iter().map(|word| word.name).collect::<Vec<_>>();
    Some(match key.kind {
        ValueKind::Word(_) | ValueKind::WordOrSection(_) => {
            proptest::sample::select(words).prop_map(Value::from).boxed()
        }
        ValueKind::Words(_) => {
            let most = words.len();
            proptest::sample::subsequence(words, 0..=most).prop_map(Value::from).boxed()
        }
        ValueKind::Whole { min, max } => whole(min, max),
        ValueKind::Choice(choices) => proptest::sample::select(choices).prop_map(Value::from).boxed(),
        ValueKind::Wholes { min, max } => {
            proptest::collection::vec(whole(min, max), 1..5).prop_map(Value::from).boxed()
        }
        ValueKind::Positive { max } | ValueKind::Amount { max } => number(max),
        ValueKind::Share => (0.0..1.0).prop_map(|share: f64| json!(share)).boxed(),
        ValueKind::Flag | ValueKind::FlagOrAmount => any::<bool>().prop_map(Value::from).boxed(),
        ValueKind::Text if key.path == "distribution.pipeline_layout" => {
            "(Et|t|tt|\\(t\\||\\)\\*[0-9]|\\*[0-9]{1,3}|\\||m|L){1,6}".prop_map(Value::from).boxed()
        }
        ValueKind::Texts => {
            let texts = ["q_proj", "all-linear", "embeddings", "o_proj", "ghost"];
            proptest::sample::subsequence(texts.to_vec(), 0..=3).prop_map(Value::from).boxed()
        }
        ValueKind::Text | ValueKind::Section | ValueKind::PathOrKeys => return None,
    })
}

/// Any key of the schema with any value that it allows.
fn any_key() -> impl Strategy<Value = (&'static str, Value)> {
    let choices: Vec<_> = schema::keys().iter().filter_map(|key| Some((key.path, value(key)?))).collect();
    proptest::sample::select((0..choices.len()).collect::<Vec<_>>())
        .prop_flat_map(move |at| (Just(choices[at].0), choices[at].1.clone()))
}

/// A model: by name, by size, by fields.
fn model() -> BoxedStrategy<Value> {
    let names: Vec<String> = catalog().models.iter().map(|model| model.name.clone()).collect();
    let preset = proptest::sample::select(names).prop_map(|name| json!({"preset": name}));
    let size = (-2.0..3.5).prop_map(|digits: f64| json!({"size_billions": 10_f64.powf(digits)}));
    let fields = (1..130_u64, 0..4_u32, 1..40_u64, 1..200_u64, proptest::option::of(1..70_u64), 0..4_u8).prop_map(
        |(heads, share, layers, dim, experts, acts)| {
            let kv_heads = if heads % (1 << share) == 0 { heads >> share } else { heads };
            let activation = ["gelu", "swiglu", "geglu", "relu2"][usize::from(acts)];
            let mut architecture = json!({
                "hidden_size": heads * dim, "num_layers": layers, "num_attention_heads": heads,
                "num_kv_heads": kv_heads, "activation": activation,
            });
            if acts == 1 && dim > 8 {
                architecture["mla"] = json!({"kv_lora_rank": dim, "qk_rope_head_dim": 8, "v_head_dim": dim});
            }
            if acts == 2 {
                architecture["sliding_window"] = json!(dim * 3);
            }
            if let Some(experts) = experts {
                architecture["moe"] = json!({"num_experts": experts, "experts_per_token": experts.min(3)});
            }
            json!({"architecture": architecture})
        },
    );
    prop_oneof![preset, size, fields].boxed()
}

/// A plan that mostly can be predicted, with some keys of the schema put over it.
fn plans() -> impl Strategy<Value = Value> {
    let degree = || (0..4_u32).prop_map(|power| 1_u64 << power);
    let degrees = (degree(), degree(), degree(), degree(), any::<bool>());
    let batch = (1..9_u64, 1..5_u64, 1..5000_u64);
    let mode = prop_oneof![3 => Just("train"), 1 => Just("inference")];
    (model(), degrees, batch, mode, proptest::collection::vec(any_key(), 0..6)).prop_map(
        |(model, (data, tensor, pipeline, context, several), (micro, accumulation, sequence), mode, keys)| {
            let mut plan = json!({
                "model": model,
                "training": {"mode": mode, "micro_batch_size": micro, "gradient_accumulation_steps": accumulation},
                "distribution": {"data_parallel": data},
            });
            plan["model"]["sequence_length"] = json!(sequence);
            if several {
                plan["distribution"]["tensor_parallel"] = json!(tensor);
                plan["distribution"]["pipeline_parallel"] = json!(pipeline);
                plan["distribution"]["context_parallel"] = json!(context);
            }
            for (path, value) in keys {
                put(&mut plan, path, value);
            }
            plan
        },
    )
}

/// Sets the key of a dotted path.
fn put(plan: &mut Value, path: &str, value: Value) {
    let mut at = plan;
    for name in path.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[name];
    }
    *at = value;
}

fn resolved(plan: &Value) -> Result<Job, Vec<Fault>> {
    let plan = Document::parse(&plan.to_string())?.plan()?;
    Job::resolve(&plan, catalog())
}

fn predicted(plan: &Value) -> Result<(Job, Prediction), Vec<Fault>> {
    let job = resolved(plan)?;
    let prediction = predict::predict(&job);
    Ok((job, prediction))
}

/// Every fault names a key of the schema, or one below a configuration that others define.
fn named(faults: &[Fault]) -> Result<(), TestCaseError> {
    prop_assert!(!faults.is_empty(), "refused without a fault");
    for fault in faults {
        let known = schema::key(&fault.key).is_some() || schema::is_free(&fault.key);
        prop_assert!(known, "{fault} names no key");
        prop_assert!(!fault.message.is_empty() && !fault.message.contains('\n'), "{fault:?}");
    }
    Ok(())
}

fn agrees_with_itself(prediction: &Prediction) -> Result<(), TestCaseError> {
    let most = prediction.largest().device_used;
    prop_assert_eq!(prediction.capacity.needed, most);
    for stage in &prediction.stages {
        let sum = |layer: Layer| -> u64 {
            stage.terms.iter().filter(|term| term.layer <= layer).map(|term| term.bytes.0).sum()
        };
        prop_assert_eq!(sum(Layer::Allocated), stage.peak_allocated.0, "allocated of stage {}", stage.stage);
        prop_assert_eq!(sum(Layer::Reserved), stage.peak_reserved.0, "reserved of stage {}", stage.stage);
        prop_assert_eq!(sum(Layer::Device), stage.device_used.0, "device-used of stage {}", stage.stage);
        prop_assert!(stage.device_used <= most, "stage {} needs more than the headline", stage.stage);
        prop_assert!(stage.static_bytes <= stage.peak_allocated, "static of stage {}", stage.stage);
        let highest = stage.timeline.iter().map(|point| point.allocated).max();
        prop_assert_eq!(highest, Some(stage.peak_allocated), "timeline of stage {}", stage.stage);
    }
    Ok(())
}

/// No figure is infinite, not a number, or below zero.
fn countable(prediction: &Prediction) -> Result<(), TestCaseError> {
    let (time, flops) = (&prediction.time, prediction.flops);
    let mut figures = vec![
        ("forward", flops.forward.0),
        ("backward", flops.backward.0),
        ("recompute", flops.recompute.0),
        ("ridge", prediction.roofline.ridge.0),
    ];
    for (name, time) in [("step", time)].into_iter().chain(prediction.decode.iter().map(|token| ("decode", token))) {
        let parts = [time.step, time.compute, time.memory_bound, time.communication, time.bubble];
        figures.extend(parts.map(|part| (name, part.0)));
        figures.extend([(name, time.samples_per_s), (name, time.mbu), (name, time.bandwidth.0)]);
        figures.extend([(name, time.model_flops_per_gpu.0), (name, time.tokens_per_s.unwrap_or(0.0))]);
        let shares = [time.mfu, time.hfu, time.total_hours, time.total_cost, time.tokens_per_s_per_gpu];
        figures.extend(shares.map(|share| (name, share.unwrap_or(0.0))));
    }
    figures.extend(prediction.roofline.ops.iter().map(|op| ("operator", op.seconds.0)));
    for (name, figure) in figures {
        prop_assert!(figure.is_finite() && figure >= 0.0, "{name}: {figure}");
    }
    prop_assert!(time.step.0 > 0.0);
    Ok(())
}

/// PROPTEST_CASES asks for more.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(1000), failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn plans_are_refused_by_key_or_predicted_to_the_byte(plan in plans()) {
        match predicted(&plan) {
            Err(faults) => named(&faults)?,
            Ok((job, prediction)) => {
                agrees_with_itself(&prediction)?;
                let outline = predict::outline(&job);
                prop_assert_eq!(outline.capacity, prediction.capacity);
                // Beside itself a plan is what it is alone.
                let beside = predict::outline_as(&job, prediction.fragmentation);
                prop_assert_eq!(beside.capacity, prediction.capacity);
                prop_assert_eq!(outline.peak_allocated, prediction.largest().peak_allocated);
                prop_assert_eq!(outline.static_bytes, prediction.largest().static_bytes);
                prop_assert_eq!(&outline.time, &prediction.time);
                prop_assert_eq!(&outline.decode, &prediction.decode);
                countable(&prediction)?;
                let report = Report::of("a", &prediction);
                prop_assert!(!text::report(&report, true, 80).is_empty());
                prop_assert!(json::report(&report).is_object());
            }
        }
    }

    #[test]
    fn a_larger_micro_batch_never_needs_less(plan in plans()) {
        // Holes between tensors come and go with their sizes: what a replay reserves follows no law, what is allocated
        // does, and so does what plans beside each other are compared by.
        let mut beside = None;
        let mut used = |micro: u64| -> Option<(Bytes, Bytes)> {
            let mut plan = plan.clone();
            put(&mut plan, "training.micro_batch_size", json!(micro));
            if let Some(model) = plan["model"].as_object_mut() {
                model.remove("batch_size");
            }
            let job = resolved(&plan).ok()?;
            let prediction = match beside {
                None => predict::predict(&job),
                Some(beside) => predict::predict_as(&job, beside),
            };
            let beside = *beside.get_or_insert(prediction.fragmentation);
            // One stage may hold less than another with more in tensors.
            let most = prediction.stages.iter().map(|stage| stage.peak_allocated).max()?;
            Some((most, predict::outline_as(&job, beside).capacity.needed))
        };
        let sizes: Vec<_> = [1, 2, 3, 4, 8].into_iter().filter_map(&mut used).collect();
        prop_assert!(sizes.is_sorted_by_key(|(allocated, _)| *allocated), "allocated {sizes:?}");
        prop_assert!(sizes.is_sorted_by_key(|(_, needed)| *needed), "needed {sizes:?}");
    }
}

#[test]
fn most_of_these_plans_are_predicted() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let kept = (0..200).filter(|_| predicted(&plans().new_tree(&mut runner).unwrap().current()).is_ok()).count();
    assert!(kept > 40, "{kept} of 200: the tests above say little");
}

/// A cache for 2^24 waiting batches of 2^24 requests, and the activations of as many micro batches between GPipe's
/// passes: 2^48 samples of 21 tokens at 768 x 4 bytes in one tensor are 1.8 x 10^19, as many as 64 bits count.
#[test]
fn micro_batches_that_nobody_could_hold_at_once_are_refused() {
    let most = 1_u64 << 24;
    let training = |mode| json!({"mode": mode, "micro_batch_size": most, "gradient_accumulation_steps": most});
    let model = json!({"preset": "gpt2", "sequence_length": 21});
    let pipeline = json!({"pipeline_parallel": 2, "data_parallel": 1, "pipeline_schedule": "gpipe"});
    let asked = json!({"model": model, "training": training("inference"), "distribution": {"data_parallel": 1}});
    let trained = json!({"model": model, "training": training("train"), "distribution": pipeline});
    for plan in [asked, trained] {
        let keys: Vec<String> = predicted(&plan).unwrap_err().into_iter().map(|fault| fault.key.to_string()).collect();
        assert_eq!(keys, ["training.gradient_accumulation_steps"]);
    }
}
