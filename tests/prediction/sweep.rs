//! `memwall sweep`: grids, walls, and what is refused.

use crate::support::catalog;
use std::path::Path;

use memwall::advise::{Axis, BandwidthWall, CapacityWall, Sweep, sweep, throughput};
use memwall::plan::{Document, Plan};
use memwall::predict;
use memwall::report::sweep as report;

const EIGHT_B: &str = include_str!("../../configs/plans/8b_single_gpu.yaml");
const SEVENTY_B: &str = include_str!("../../configs/plans/70b_hybrid_training.yaml");

fn plan(text: &str) -> Plan {
    Document::parse(text).unwrap().plan().unwrap()
}

fn swept(text: &str, vary: &[&str]) -> Result<Sweep, String> {
    let catalog = catalog();
    let axes: Result<Vec<Axis>, _> = vary.iter().map(|text| Axis::parse(text, Path::new(""))).collect();
    axes.and_then(|axes| sweep(&plan(text), axes, catalog)).map_err(|fault| fault.to_string())
}

/// The plan with these keys in its text, predicted the plain way.
fn by_text(text: &str, keys: &[(&str, &str)]) -> predict::Prediction {
    let mut document = Document::parse(text).unwrap();
    for (key, value) in keys {
        document = document.with_value(key, value).unwrap();
    }
    predict::of(&document.plan().unwrap(), catalog()).unwrap()
}

#[test]
fn every_row_is_what_predict_says_of_the_edited_text() {
    let sweep = swept(EIGHT_B, &["sequence_length=1024,4096", "precision=bf16,bf16-mixed"]).unwrap();
    assert_eq!(sweep.points.len(), 4);
    for point in &sweep.points {
        let (sequence, precision) = (sweep.value(point, 0), sweep.value(point, 1));
        let plain = by_text(EIGHT_B, &[("model.sequence_length", sequence), ("training.precision", precision)]);
        let outline = point.outcome.as_ref().unwrap();
        assert_eq!(outline.capacity, plain.capacity, "{sequence} {precision}");
        assert_eq!(outline.time, plain.time, "{sequence} {precision}");
    }
    let order: Vec<_> = sweep.points.iter().map(|point| (sweep.value(point, 0), sweep.value(point, 1))).collect();
    let by_hand = [("1024", "bf16"), ("1024", "bf16-mixed"), ("4096", "bf16"), ("4096", "bf16-mixed")];
    assert_eq!(order, by_hand);
}

/// Plans of a sweep share walks over operators, their times and replays of the allocator: each is what it is alone.
#[test]
fn rows_that_share_walks_are_what_they_are_alone() {
    const SMALL: &str = "model: {preset: gpt2, framework: pytorch, sequence_length: 512}\n\
                         training: {precision: bf16, micro_batch_size: 1}\nhardware: {gpu_type: NVIDIA H100}\n";
    const MIXTURE: &str = include_str!("../../configs/plans/moe_expert_parallel.yaml");
    const SEEING: &str = "model: {preset: qwen2-vl-2b, sequence_length: 1024}\n\
                          training: {precision: bf16, micro_batch_size: 1}\nhardware: {gpu_type: NVIDIA H100}\n";
    let kinds: [(&str, &[&str]); 6] = [
        (SEEING, &["images=0,1,2", "image_size=224,448", "micro_batch_size=1,2", "frozen=[],[vision_tower]"]),
        (SMALL, &["cluster.num_gpus=1", "gradient_accumulation_steps=1,2,3", "gpu_type=NVIDIA H100,NVIDIA T4"]),
        (SMALL, &["num_gpus=1,4", "sharding=none,zero1,zero2,zero3", "cpu_offload=none,optimizer", "dropout=0,0.1"]),
        (SMALL, &["num_gpus=1,16", "interconnect=pcie_4,nvlink_4", "loss=hf,fused", "price_per_gpu_hour=1,2"]),
        (SEVENTY_B, &["pipeline_parallel=1,2,4", "sharding=none,zero1,zero3", "activation_checkpointing=none,full"]),
        (MIXTURE, &["expert_parallel=1,2,8", "tensor_parallel=1,2", "context_parallel=1,2", "micro_batch_size=1,2"]),
    ];
    for (text, vary) in kinds {
        let sweep = swept(text, vary).unwrap();
        let mut told = 0;
        for point in &sweep.points {
            let one: Vec<String> = (0..vary.len())
                .map(|axis| format!("{}={}", sweep.axes[axis].key.path, sweep.value(point, axis)))
                .collect();
            let alone = swept(text, &one.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
            assert_eq!(point.outcome, alone.points[0].outcome, "{one:?}");
            told += usize::from(point.outcome.is_ok());
        }
        assert!(told > sweep.points.len() / 4, "{vary:?}: {told} of {} say anything", sweep.points.len());
    }
}

#[test]
fn the_capacity_wall_lies_between_what_fits_and_what_does_not() {
    let sweep = swept(EIGHT_B, &["sequence_length=1024..=262144x2"]).unwrap();
    let [wall] = sweep.walls.as_slice() else { panic!("{:?}", sweep.walls) };
    let CapacityWall::Between { fits, too_large } = wall.capacity else { panic!("{wall:?}") };
    assert_eq!(too_large, fits + 1);
    for (at, point) in sweep.points.iter().enumerate() {
        let capacity = point.outcome.as_ref().unwrap().capacity;
        assert_eq!(capacity.needed <= capacity.bytes, at <= fits, "{}", sweep.value(point, 0));
    }
}

/// What the allocator keeps comes in steps: of 96 GB a batch of 19 fails where 20 fits. The wall is before the first that fails.
#[test]
fn nothing_below_the_capacity_wall_is_too_large() {
    let text = "{model: {preset: llama-3.2-1b, batch_size: 1, sequence_length: 1024},
        hardware: {gpu_type: NVIDIA H200, memory_limit_gb: 96}}";
    let sweep = swept(text, &["batch_size=15..24"]).unwrap();
    let fits: Vec<bool> = sweep
        .points
        .iter()
        .map(|point| point.outcome.as_ref().unwrap().capacity)
        .map(|capacity| capacity.needed <= capacity.bytes)
        .collect();
    assert!(!fits.is_sorted_by(|before, after| before >= after), "no luck is left to test with: {fits:?}");
    let CapacityWall::Between { fits: last, too_large } = sweep.walls[0].capacity else { panic!("{:?}", sweep.walls) };
    assert!(fits[..=last].iter().all(|fits| *fits) && !fits[too_large], "{last} {too_large} {fits:?}");
}

#[test]
fn beyond_the_bandwidth_wall_nothing_brings_five_percent() {
    let text = include_str!("../../configs/plans/7b_inference.yaml");
    let sweep = swept(text, &["batch_size=1..=1024x2"]).unwrap();
    let BandwidthWall::Flat { from, gain, .. } = sweep.walls[0].throughput else { panic!("{:?}", sweep.walls) };
    let rates: Vec<f64> = sweep.points.iter().map(|point| throughput(point.outcome.as_ref().unwrap())).collect();
    let best = rates[from + 1..].iter().copied().fold(0.0, f64::max);
    assert!((best / rates[from] - 1.0 - gain).abs() < 1e-12 && gain <= 0.05, "{rates:?}");
    assert!(best.max(rates[from]) > 1.05 * rates[from - 1], "it flattens earlier: {rates:?}");
}

#[test]
fn throughput_that_falls_is_not_called_flat() {
    let rates = |sweep: &Sweep| -> Vec<f64> {
        sweep.points.iter().map(|point| throughput(point.outcome.as_ref().unwrap())).collect()
    };
    // Attention grows with the square of the sequence: beyond some length the tokens a second fall.
    let long = swept(EIGHT_B, &["sequence_length=1024..=262144x2"]).unwrap();
    let BandwidthWall::Flat { from, end, .. } = long.walls[0].throughput else { panic!("{:?}", long.walls) };
    let along = rates(&long);
    assert!((along[along.len() - 1] / along[from] - 1.0 - end).abs() < 1e-12);
    assert!(along[along.len() - 1] < 0.95 * along[from] && long.walls[0].throughput.falls(), "{along:?}");
    let text = report::text("a", &long, 400);
    assert!(text.contains("and the largest") && text.contains("% less"), "{text}");
    // A larger batch reads the weights once for more answers, until it computes all the time.
    let text = include_str!("../../configs/plans/7b_inference.yaml");
    let flat = swept(text, &["batch_size=1..=1024x2"]).unwrap();
    let along = rates(&flat);
    let falls = along[along.len() - 1] < 0.95 * along.iter().copied().fold(0.0, f64::max);
    assert_eq!(flat.walls[0].throughput.falls(), falls, "{along:?}");
}

#[test]
fn replicas_and_accumulation_follow() {
    let sweep = swept(SEVENTY_B, &["tensor_parallel=2,4,8"]).unwrap();
    for (point, replicas) in sweep.points.iter().zip([8, 4, 2]) {
        // 64 GPUs = replicas x tensor x 4 stages; 128 samples = 1 x accumulation x replicas.
        let keys = [
            ("distribution.tensor_parallel", sweep.value(point, 0)),
            ("distribution.data_parallel", &replicas.to_string()),
            ("training.gradient_accumulation_steps", &(128 / replicas).to_string()),
        ];
        assert_eq!(point.outcome.as_ref().unwrap().capacity, by_text(SEVENTY_B, &keys).capacity, "{keys:?}");
    }
}

#[test]
fn impossible_combinations_are_rows_with_their_reason() {
    let sweep = swept(SEVENTY_B, &["tensor_parallel=8,7,128", "num_gpus=64,128"]).unwrap();
    let outcomes: Vec<bool> = sweep.points.iter().map(|point| point.outcome.is_ok()).collect();
    assert_eq!(outcomes, [true, true, false, false, false, false]);
    let reason = sweep.points[2].outcome.as_ref().unwrap_err();
    assert!(reason.to_string().contains("tensor_parallel 7"), "{reason}");
    let text = report::text("a", &sweep, 400);
    assert!(text.contains("tensor_parallel 7"), "{text}");
    let json = report::json("a", &sweep);
    assert_eq!(json["rows"][2]["fits"], serde_json::Value::Null);
    assert!(json["rows"][2]["reason"].as_str().unwrap().contains("tensor_parallel 7"));
    assert_eq!(report::csv(&sweep).unwrap().lines().count(), 7);
}

#[test]
fn rows_that_cannot_be_predicted_are_no_ground_for_a_wall() {
    // 24 samples over 4 replicas: micro batches of 1, 2 and 3 share them out, 4 and 8 do not.
    let text = "model: {preset: gpt2, batch_size: 24, sequence_length: 1024}\ncluster: {num_gpus: 4}\n\
                training: {micro_batch_size: 1, gradient_accumulation_steps: 6}\nhardware: {gpu_type: NVIDIA H100}\n";
    let sweep = swept(text, &["micro_batch_size=1,2,3,4,8"]).unwrap();
    let predicted: Vec<bool> = sweep.points.iter().map(|point| point.outcome.is_ok()).collect();
    assert_eq!(predicted, [true, true, true, false, false]);
    let text = report::text("a", &sweep, 400);
    assert!(text.contains("capacity wall: unknown") && text.contains("2 cannot be predicted"), "{text}");
    let reason = sweep.points[3].outcome.as_ref().unwrap_err();
    assert!(
        reason
            .to_string()
            .ends_with("24 is no multiple of training.micro_batch_size 4 x distribution.data_parallel 4 = 16"),
        "{reason}"
    );
}

#[test]
fn what_cannot_be_swept_is_one_clear_fault() {
    for (vary, said) in [
        (&["colour=1"][..], "unknown key `colour`"),
        (&["batch_size=1..1000000000"], "model.batch_size: more than 100000 values"),
        (&["batch_size=1..1000", "sequence_length=1..1000"], "model.batch_size (1000) x model.sequence_length (1000)"),
        (&["batch_size=1", "model.batch_size=2"], "varies twice"),
        (&["model.architecture.num_layers=2,4"], "has no effect beside model.preset"),
    ] {
        let told = swept(EIGHT_B, vary).unwrap_err();
        assert!(told.contains(said), "{vary:?}: {told}");
    }
}

#[test]
fn each_card_is_held_to_its_own_capacity() {
    let sweep = swept(EIGHT_B, &["hardware.gpu_type=NVIDIA A100,NVIDIA H200"]).unwrap();
    let text = report::text("a", &sweep, 400);
    // NVML's totals: 80 GiB on an A100, 140.4 on an H200.
    let row = |card: &str| text.lines().find(|line| line.contains(card)).unwrap();
    assert!(row("NVIDIA A100").contains(" 80.0 "), "{text}");
    assert!(row("NVIDIA H200").contains(" 140 "), "{text}");
    assert!(!text.contains("of 80.0 GiB on each"), "{text}");
}

#[test]
fn reading_prompts_and_answering_stand_in_columns_of_their_own() {
    let sweep = swept(include_str!("../../configs/plans/7b_inference.yaml"), &["batch_size=1,8"]).unwrap();
    let text = report::text("a", &sweep, 400);
    let head = text.lines().find(|line| line.contains("prefill")).unwrap();
    let places = ["prefill", "prompt tokens/s", "a token each", "answer tokens/s"].map(|name| head.find(name));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{head}");
    assert!(!head.contains("step") && !head.contains("MFU"), "{head}");
}
