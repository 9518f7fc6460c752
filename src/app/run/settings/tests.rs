use std::sync::Arc;

use super::*;
use crate::catalog::{Catalog, MeasuredOn};
use crate::plan::{Document, plan_of};
use crate::reading::{HookMemory, HookStep, ModuleKind, Moment, Reading};
use crate::units::{Bytes, SignedBytes};

fn job(training: &str) -> Job {
    let text = format!("model: {{preset: gpt2, batch_size: 8, sequence_length: 256}}\ntraining: {{{training}}}");
    let plan = plan_of(&Document::parse(&text).unwrap(), std::path::Path::new("")).unwrap();
    Job::resolve(&plan, &Catalog::embedded().unwrap()).unwrap()
}

fn kind(name: &str, class: &str, params: u64, shape: &[u64], dtype: &str) -> ModuleKind {
    ModuleKind {
        name: name.to_owned(),
        class: class.to_owned(),
        count: 1,
        leaf: true,
        saved: Bytes::ZERO,
        forward: SignedBytes(0),
        backward: Bytes::ZERO,
        params,
        param_bytes: Bytes(4 * params),
        shape: shape.to_vec(),
        dtype: Some(dtype.to_owned()),
    }
}

/// GPT-2 as its hook sees it: 4 samples of 128 ids; positions are the same of all samples.
fn run(dtype: &str, tokens: u64) -> HookedRun {
    let about = HookAbout {
        params: 124_439_808,
        trainable: 124_439_808,
        params_are_all: true,
        optimizer: "AdamW".to_owned(),
        dtypes: vec![("float32".to_owned(), 124_439_808)],
        checkpointed: Some(false),
        ..HookAbout::default()
    };
    let kinds = vec![
        kind("transformer.wpe", "Embedding", 786_432, &[1, 128], "float32"),
        kind("encoder.block.*.relative_attention_bias", "Embedding", 256, &[128, 128], "float32"),
        kind("transformer.wte", "Embedding", 38_597_376, &[4, 128], "float32"),
        kind("transformer.h.*.mlp.c_fc", "Conv1D", 28_348_416, &[4, 128, 768], dtype),
    ];
    let modules = HookModules { step: 1, kinds, ..HookModules::default() };
    let step = HookStep {
        step: 3,
        step_time: Reading::not_read(),
        memory: HookMemory::Resident,
        tokens: Some(tokens),
        ..HookStep::default()
    };
    HookedRun {
        about: Some(about),
        step: Some(step),
        tokens: TokensSeen::Alike,
        modules: Some(modules),
        ..HookedRun::new(7, Moment(0))
    }
}

#[test]
fn batches_padded_to_their_longest_sample_are_no_other_settings() {
    // 4 samples of 128 ids now and of other lengths before: nobody planned those.
    let mut run = run("float32", 512);
    run.tokens = TokensSeen::Once.then(Some(480), Some(512));
    assert_eq!(run.tokens, TokensSeen::Varying);
    run.tokens = run.tokens.then(Some(512), Some(512));
    let plan = "precision: fp32, micro_batch_size: 4, gradient_accumulation_steps: 2";
    assert_eq!(ToldSettings::of(&run, &job(plan)).words(), Vec::<String>::new());
}

#[test]
fn a_run_of_its_plan_tells_nothing_else_and_no_cause_may() {
    let plan = "precision: fp32, micro_batch_size: 4, gradient_accumulation_steps: 2";
    let mut run = run("float32", 1024);
    if let Some(modules) = &mut run.modules {
        modules.kinds.iter_mut().for_each(|kind| kind.shape[1] = if kind.shape[1] == 128 { 256 } else { 768 });
    }
    run.step.as_mut().unwrap().tokens = Some(2048);
    let told = ToldSettings::of(&run, &job(plan));
    assert_eq!(told.words(), Vec::<String>::new());
    let stated = told.as_planned();
    for (key, values) in [
        ("training.precision", &["fp32", "tf32"][..]),
        ("training.micro_batch_size", &["4"]),
        ("model.sequence_length", &["256"]),
        ("training.gradient_accumulation_steps", &["2"]),
        ("training.activation_checkpointing", &["none", "selective", "selective-op"]),
        ("training.optimizer", &["adamw", "adamw-fused", "adamw-loop"]),
    ] {
        let all: Vec<&str> = stated.iter().filter(|(told, _)| *told == key).map(|(_, value)| value.as_str()).collect();
        assert_eq!(all, values, "{key}");
    }
    assert!(told.agree_with(&Change::default()));
    assert!(!told.agree_with(&Change::to("training.precision", "bf16")));
}

/// Half the threads take up to twice the time, and no cause in the plan is to blame.
#[test]
fn other_threads_than_were_measured_are_told_and_blame_no_key() {
    let mut job = job("precision: fp32, micro_batch_size: 4, gradient_accumulation_steps: 2");
    let mut run = run("float32", 512);
    if let Some(about) = &mut run.about {
        (about.device, about.threads) = ("cpu".to_owned(), Some(1));
    }
    let before = ToldSettings::of(&run, &job);
    Arc::make_mut(&mut job.speed.curves).measured = Some(MeasuredOn {
        date: "2026-11-29".to_owned(),
        device: "cpu".to_owned(),
        versions: String::new(),
        threads: Some(2),
        clock_mhz: None,
        spread: 0.0,
        matmul_error: 0.0,
    });
    let told = ToldSettings::of(&run, &job);
    assert_eq!(told.machine(), Some("1 thread, memwall bench measured with 2 (OMP_NUM_THREADS)"));
    assert_eq!(told.words(), before.words());
    assert_eq!(told.as_planned(), before.as_planned());
    if let Some(about) = &mut run.about {
        about.threads = Some(2);
    }
    assert_eq!(ToldSettings::of(&run, &job), before);
}

/// TRL's packing puts the samples of a micro batch behind each other: 4 of 256 ids are one row of 1024.
#[test]
fn samples_in_one_row_are_the_micro_batch() {
    let told = |length: u64| {
        let mut run = run("float32", 2 * length);
        for kind in &mut run.modules.as_mut().unwrap().kinds {
            kind.shape = vec![1, length];
        }
        ToldSettings::of(&run, &job("precision: fp32, micro_batch_size: 4, gradient_accumulation_steps: 2")).words()
    };
    assert_eq!(told(1024), Vec::<String>::new());
    assert_eq!(
        told(2048).first().map(String::as_str),
        Some("a micro batch of 2 048 tokens in one row, the plan's is 4 samples of 256")
    );
}

#[test]
fn what_is_otherwise_is_told_key_by_key() {
    let told = |training: &str, run: &HookedRun| ToldSettings::of(run, &job(training)).words();
    let two = run("float32", 1024);
    assert_eq!(
        told("precision: fp32, micro_batch_size: 8", &two),
        [
            "micro batch 4, the plan's is 8",
            "sequences of 128 tokens, the plan's have 256",
            "2 passes a step, the plan 1"
        ]
    );
    // Both hold fp32 weights: what linear layers answer in tells them apart.
    let mixed = told("precision: bf16-mixed, micro_batch_size: 8", &two);
    assert_eq!(mixed[0], "matrices in fp32, the plan's precision is bf16-mixed");
    let autocast = told("precision: fp32, micro_batch_size: 8", &run("bfloat16", 1024));
    assert_eq!(autocast[0], "matrices in bf16, the plan's precision is fp32");
    let lora = told("precision: fp32, micro_batch_size: 8, lora: {rank: 8}", &two);
    assert_eq!(lora[0], "all 124 M parameters trained, the plan has LoRA");
}

#[test]
fn pixels_beside_a_denoiser_are_not_its_latents() {
    let text = "model: {preset: stable-diffusion-1.5, batch_size: 4}\ntraining: {micro_batch_size: 4}";
    let plan = plan_of(&Document::parse(text).unwrap(), std::path::Path::new("")).unwrap();
    let denoiser = Job::resolve(&plan, &Catalog::embedded().unwrap()).unwrap();
    let mut run = run("float32", 512);
    // What the image encoder takes of the same batch, in samples of its own.
    run.modules.as_mut().unwrap().kinds =
        vec![kind("vae.encoder.conv_in", "Conv2d", 3584, &[2, 3, 512, 512], "float32")];
    let told = ToldSettings::of(&run, &denoiser).words();
    assert!(told.iter().all(|words| !words.contains("images of") && !words.contains("micro batch")), "{told:?}");
}

#[test]
fn figures_stand_beside_it_only_where_they_agree() {
    let told = ToldSettings::of(&run("float32", 512), &job("precision: bf16, micro_batch_size: 8"));
    assert!(!told.agree_with(&Change::to("training.precision", "fp32")), "it has other samples too");
    let all = Change::to("training.precision", "fp32")
        .and("training.micro_batch_size", "4")
        .and("model.sequence_length", "128");
    assert!(told.agree_with(&all));
    assert!(!told.agree_with(&all.and("training.optimizer", "sgd")));
}

/// minGPT's script says samples of 100 000 tokens; the one pass that was looked into took 4 of 128.
#[test]
fn what_one_step_took_denies_what_a_script_is_read_to_take() {
    let mut run = run("float32", 512);
    run.tokens = TokensSeen::Once;
    let job = job("precision: fp32, micro_batch_size: 8");
    let told = ToldSettings::of(&run, &job);
    assert_eq!(told.words(), Vec::<String>::new(), "one step tells no other settings");
    let denied = |key, value| told.denies(key, value);
    assert!(denied(keys::model::sequence_length, "100000") && denied(keys::training::micro_batch_size, "8"));
    assert!(!denied(keys::model::sequence_length, "128") && !denied(keys::training::micro_batch_size, "4"));
    // Several that differ deny nothing: the script may tell their longest.
    run.tokens = TokensSeen::Varying;
    assert!(!ToldSettings::of(&run, &job).denies(keys::model::sequence_length, "100000"));
}

/// A tape of pictures has no side of its own: the samples of a pass are told all the same, where the model takes as many.
#[test]
fn pictures_beside_a_tape_tell_their_samples() {
    // One matrix between two empty ends, as `src/plan/traced/read.rs` tests it.
    const TAPE: &str = r#"{"memwall_tape":1,"name":"small","source":"","versions":{},"device":"cpu","differences":[],"notes":[],
        "parameters":{"total":6,"trainable":6},"axes":["B"],"points":[{"B":2}],"terms":[[0],[1]],"image":null,
        "image_varies":false,"longest":null,"fixed":false,"sizes":[[1,3],[1,0,1],[2,0,3]],"unfit":[],"inputs":[["x","f32",1,[1,0]]],
        "buffers":[],"traces":{"mixed":null,"half":null,"fp32":{"order":[0,1,2],"pending":[],"passing":[],"kinds":[
        {"name":"first","path":"","block":false,"borrows":false,"weights":[],"tensors":[],"ops":[],"output":null,"also":[]},
        {"name":"Block","path":"a","block":true,"borrows":false,"weights":[["w",[2,3],"f32","mlp",1,0,0]],
         "tensors":[[[1,0],"f32","mlp",1,1,0,null],[[1,0],"f32","mlp",0,1,0,null],[[0],"f32","mlp",3,1,0,null]],
         "ops":[["fc","Linear","mm","matrix:f32",["product",[0,1,0,0]],[[0,2],[2,2]],[1],[0],0,0,0,0,1,1]],"output":1,"also":[]},
        {"name":"last","path":"","block":false,"borrows":false,"weights":[],"tensors":[],"ops":[],"output":null,"also":[]}]}}}"#;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.json"), TAPE).unwrap();
    let text = "model: {trace: small.json}\ntraining: {precision: fp32, micro_batch_size: 8}";
    let plan = plan_of(&Document::parse(text).unwrap(), folder.path()).unwrap();
    let job = Job::resolve(&plan, &Catalog::embedded().unwrap()).unwrap();
    let mut run = HookedRun::new(7, Moment(0));
    let mut see = |images: u64, frames: u64| {
        let kinds = vec![
            kind("", "Net", 0, &[images, 3, 32, 32], "float32"),
            kind("c", "Conv2d", 9, &[frames, 3, 32, 32], "float32"),
        ];
        run.modules = Some(HookModules { kinds, ..HookModules::default() });
        ToldSettings::of(&run, &job).words()
    };
    assert_eq!(see(32, 32), ["micro batch 32, the plan's is 8"]);
    assert_eq!(see(8, 8), Vec::<String>::new());
    // Frames of 4 films of 8 each.
    assert_eq!(see(4, 32), Vec::<String>::new());
}

/// Two passes of 4 images make a step: the plan has one, or the two that it does.
#[test]
fn passes_of_a_model_without_tokens_are_those_that_the_hook_has_counted() {
    let planned = |training: &str| {
        let text = format!(
            "model: {{preset: resnet-50, batch_size: 8}}\ntraining: {{precision: fp32, optimizer: adamw, {training}}}"
        );
        let plan = plan_of(&Document::parse(&text).unwrap(), std::path::Path::new("")).unwrap();
        Job::resolve(&plan, &Catalog::embedded().unwrap()).unwrap()
    };
    let kinds = vec![kind("conv1", "Conv2d", 9_408, &[4, 3, 224, 224], "float32")];
    let mut run = run("float32", 512);
    run.modules = Some(HookModules { step: 3, kinds, passes: Some(2), ..HookModules::default() });
    run.step.as_mut().unwrap().tokens = None;
    let words = |run: &HookedRun, training: &str| ToldSettings::of(run, &planned(training)).words();
    let two = "micro_batch_size: 4, gradient_accumulation_steps: 2";
    assert_eq!(words(&run, two), Vec::<String>::new());
    run.modules.as_mut().unwrap().passes = Some(1);
    assert_eq!(words(&run, two), ["1 pass a step, the plan 2"]);
    run.modules.as_mut().unwrap().passes = None;
    assert_eq!(words(&run, two), Vec::<String>::new());
}

/// Adadelta holds two states of each parameter, as AdamW does; a generator's optimizer trains beside its critic's.
#[test]
fn optimizers_that_no_plan_has_and_a_second_one_are_told() {
    let batch = "precision: fp32, micro_batch_size: 4, gradient_accumulation_steps: 2";
    let mut run = run("float32", 512);
    run.modules = None;
    run.step = None;
    let words = |run: &HookedRun, optimizer: &str| {
        ToldSettings::of(run, &job(&format!("{batch}, optimizer: {optimizer}"))).words()
    };
    let trains = |run: &mut HookedRun, class: &str| class.clone_into(&mut run.about.as_mut().unwrap().optimizer);
    trains(&mut run, "Adadelta");
    assert_eq!(words(&run, "sgd"), ["optimizer Adadelta, the plan's is sgd"]);
    assert_eq!(words(&run, "adamw"), Vec::<String>::new());
    trains(&mut run, "Adagrad");
    assert_eq!(words(&run, "rmsprop"), Vec::<String>::new());
    assert_eq!(words(&run, "sgd"), ["optimizer Adagrad, the plan's is sgd"]);
    trains(&mut run, "AdamW");
    run.about.as_mut().unwrap().beside = Some(("Adam".to_owned(), 3_576_704));
    let told = ToldSettings::of(&run, &job(&format!("{batch}, optimizer: adamw")));
    assert_eq!(told.words(), ["a second optimizer (Adam) for 3 576 704 parameters beside its model's"]);
    assert!(!told.agree_with(&Change::to("training.gradient_accumulation_steps", "4")));
}

/// `torch.nn.LSTM` takes the length first by itself (`batch_first=False`): of 128 x 4 ids only the product is known.
#[test]
fn samples_that_may_lie_behind_their_length_are_not_told() {
    let mut run = run("float32", 512);
    let modules = run.modules.as_mut().unwrap();
    modules.kinds = vec![kind("encoder", "Embedding", 38_597_376, &[128, 4], "float32")];
    let plan = job("precision: fp32, micro_batch_size: 8, gradient_accumulation_steps: 1");
    let told = |run: &HookedRun| ToldSettings::of(run, &plan).words();
    assert!(told(&run).contains(&"micro batch 128, the plan's is 8".to_owned()));
    run.modules.as_mut().unwrap().length_first = Some((128, 4));
    assert_eq!(told(&run), ["512 tokens a step and GPU, the plan 2 048"]);
}
