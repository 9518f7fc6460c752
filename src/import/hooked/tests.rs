//! Plans of commands, told otherwise by a run's own tensors.

use super::{other_model, tell};
use crate::imported::ImportedPlan;
use crate::origin::Origin;
use crate::reading::{Absence, HookAbout, HookMemory, HookModules, HookStep, HookedRun, ModuleKind, Moment, Reading};
use memwall_core::units::Bytes;

fn planned(keys: &[(&'static str, &str)]) -> ImportedPlan {
    let mut imported = ImportedPlan::of("transformers");
    for (key, word) in keys {
        imported.say(key, *word, Origin::Argument("--x".to_owned()));
    }
    imported
}

fn about(dtype: &str, state_bytes: u64) -> HookAbout {
    HookAbout {
        optimizer: "AdamW".to_owned(),
        params: 1000,
        trainable: 1000,
        params_are_all: true,
        optimizer_state_bytes: Bytes(state_bytes),
        dtypes: vec![(dtype.to_owned(), 1000)],
        ..HookAbout::default()
    }
}

fn run(about: HookAbout) -> HookedRun {
    HookedRun { about: Some(about), ..HookedRun::new(7, Moment(0)) }
}

/// AdamW has two moments: in bf16 4 bytes an element, in fp32 8, beside masters 12.
#[test]
fn tensors_say_what_is_stored() {
    for (before, dtype, states, after) in [
        ("bf16-mixed", "bfloat16", 4000, "bf16"),
        ("bf16-mixed", "bfloat16", 12_000, "bf16-fp32-master"),
        ("bf16-mixed", "float32", 8000, "bf16-mixed"),
        ("bf16", "float32", 8000, "bf16-mixed"),
        ("fp32", "float32", 8000, "fp32"),
        ("bf16-fp32-master", "bfloat16", 12_000, "bf16-fp32-master"),
        ("bf16", "bfloat16", 4000, "bf16"),
    ] {
        let mut imported = planned(&[("training.precision", before), ("training.optimizer", "adamw-fused")]);
        tell(&mut imported, &run(about(dtype, states)));
        let found = imported.get("training.precision").unwrap();
        assert_eq!(found.value, after, "{before} {dtype} {states}");
        assert_eq!(imported.get("training.optimizer").unwrap().value, "adamw-fused");
    }
}

/// What linear layers answer in tells autocast from fp32, whatever the command says or leaves open.
#[test]
fn linear_layers_tell_what_is_multiplied() {
    for (before, computed, after) in [
        (None, "float32", "fp32"),
        (None, "bfloat16", "bf16-mixed"),
        (Some("fp32"), "float16", "fp16-mixed"),
        (Some("bf16-mixed"), "float32", "fp32"),
        (Some("tf32"), "float32", "tf32"),
        (Some("bf16-mixed"), "bfloat16", "bf16-mixed"),
    ] {
        let mut imported = planned(&[]);
        if let Some(word) = before {
            imported.say("training.precision", word, Origin::Argument("--x".to_owned()));
        }
        let linear = ModuleKind {
            class: "Linear".to_owned(),
            leaf: true,
            dtype: Some(computed.to_owned()),
            ..ModuleKind::default()
        };
        let modules = HookModules { kinds: vec![linear], ..HookModules::default() };
        tell(&mut imported, &HookedRun { modules: Some(modules), ..run(about("float32", 8000)) });
        assert_eq!(imported.get("training.precision").unwrap().value, after, "{before:?} {computed}");
    }
}

/// `ZeRO` over two ranks leaves each 8 / 2 bytes of fp32 moments an element, as many as moments in bf16 take.
#[test]
fn a_share_of_the_states_tells_no_type() {
    const KEY: &str = "training.precision";
    let told = |mut imported: ImportedPlan| {
        tell(&mut imported, &run(HookAbout { world: Some(2), ..about("bfloat16", 4000) }));
        imported
    };
    let kept = told(planned(&[(KEY, "bf16-fp32-master"), ("distribution.sharding", "zero1")]));
    assert_eq!(kept.get(KEY).unwrap().value, "bf16-fp32-master");
    let open = told(planned(&[]));
    assert!(open.get(KEY).is_none());
    assert!(open.missing.iter().any(|missing| missing.key == KEY));
    // Whole on each rank they tell it.
    assert_eq!(
        told(planned(&[(KEY, "bf16-mixed"), ("distribution.sharding", "none")])).get(KEY).unwrap().value,
        "bf16"
    );
}

/// nanoGPT of 65 characters, 96 wide: 65 x 96 = 6240 parameters in the table that takes 6 samples of 64 ids, 64 x 96
/// in that of positions, which takes 64. What a command says itself stays.
#[test]
fn an_embedding_tells_a_vocabulary_that_nobody_states() {
    const KEY: &str = "model.architecture.vocab_size";
    let table = |name: &str, shape: &[u64], params| ModuleKind {
        name: name.to_owned(),
        class: "Embedding".to_owned(),
        leaf: true,
        count: 1,
        shape: shape.to_vec(),
        params,
        ..ModuleKind::default()
    };
    let kinds = vec![table("wte", &[6, 64], 6240), table("wpe", &[64], 6144)];
    let run =
        HookedRun { modules: Some(HookModules { kinds, ..HookModules::default() }), ..run(about("float32", 8000)) };
    let guessed = || Origin::Derived("data/tiny/meta.pkl may say otherwise".to_owned());
    for (said, expected) in [(guessed(), 65), (Origin::Argument("--vocab_size".to_owned()), 50_304)] {
        let mut imported = ImportedPlan::of("nanoGPT");
        imported.say("model.architecture.hidden_size", 96, Origin::Argument("--n_embd".to_owned()));
        imported.say(KEY, 50_304, said);
        tell(&mut imported, &run);
        assert_eq!(imported.whole(KEY), Some(expected));
    }
}

#[test]
fn classes_go_over_the_command() {
    let mut imported = planned(&[("training.optimizer", "adamw")]);
    tell(
        &mut imported,
        &run(HookAbout { optimizer: "SGD".to_owned(), checkpointed: Some(true), ..about("float32", 0) }),
    );
    assert_eq!(imported.get("training.optimizer").unwrap().value, "sgd");
    assert_eq!(imported.get("training.activation_checkpointing").unwrap().value, "full");
    // 4000 bytes of states for 1000 weights in fp32: a momentum of each.
    tell(&mut imported, &run(HookAbout { optimizer: "SGD".to_owned(), ..about("float32", 4000) }));
    assert_eq!(imported.get("training.optimizer").unwrap().value, "sgd-momentum");
    let rms = HookAbout { optimizer: "RMSprop".to_owned(), ..about("float32", 4000) };
    tell(&mut imported, &run(rms));
    assert_eq!(imported.get("training.optimizer").unwrap().value, "rmsprop");
    tell(&mut imported, &run(HookAbout { optimizer: "Adagrad".to_owned(), ..about("float32", 4000) }));
    assert!(imported.get("training.optimizer").is_none());
}

#[test]
fn another_model_is_told_by_its_parameters() {
    assert!(other_model(&about("float32", 0), 1010).is_none());
    let told = other_model(&about("float32", 0), 6_738_415_616).unwrap();
    assert!(told.contains("1 000 parameters") && told.contains("another model"), "{told}");
    assert!(other_model(&HookAbout { params_are_all: false, ..about("float32", 0) }, 1).is_none());
}

/// A pass of 4 samples of 32 ids, 256 tokens a step: two passes. What the command says stays; the batch follows.
#[test]
fn a_first_batch_fills_in_what_the_command_leaves_open() {
    let embedding =
        ModuleKind { class: "Embedding".to_owned(), leaf: true, shape: vec![4, 32], ..ModuleKind::default() };
    let modules = HookModules { kinds: vec![embedding], ..HookModules::default() };
    let none = || Reading::Absent(Absence::NotRead);
    let step = HookStep {
        step: 3,
        step_time: Reading::Absent(Absence::NotRead),
        memory: HookMemory::Resident,
        allocated: none(),
        reserved: none(),
        peak_allocated: none(),
        peak_reserved: none(),
        tokens: Some(256),
        ..HookStep::default()
    };
    let about = HookAbout { device: "cpu".to_owned(), ..about("float32", 8000) };
    let run =
        HookedRun { about: Some(about), modules: Some(modules), step: Some(step), ..HookedRun::new(7, Moment(0)) };
    let mut imported = ImportedPlan::of("transformers");
    tell(&mut imported, &run);
    assert_eq!(imported.whole("training.micro_batch_size"), Some(4));
    assert_eq!(imported.whole("training.gradient_accumulation_steps"), Some(2));
    assert_eq!(imported.whole("model.batch_size"), Some(8));
    assert_eq!(imported.get("hardware.gpu_type").unwrap().value, "cpu");
    let mut imported = planned(&[("training.precision", "fp32"), ("distribution.sharding", "none")]);
    tell(&mut imported, &run);
    // Found late, a key stands in its section, which a plan has once.
    let text = imported.yaml("");
    for section in ["training:", "model:", "hardware:", "cluster:", "distribution:"] {
        assert_eq!(text.lines().filter(|line| *line == section).count(), 1, "{section} in\n{text}");
    }
    let mut imported = planned(&[]);
    imported.say("training.micro_batch_size", 1, Origin::Argument("--batch".to_owned()));
    tell(&mut imported, &run);
    assert_eq!(imported.whole("training.micro_batch_size"), Some(1));
}
