//! Models that are a list of layers: every expected number is arithmetic that is written out.

use crate::support::catalog;
use memwall::plan::{Document, Fault};
use memwall::predict::{Component, Job, Phase, Prediction, backward_tensors, predict};

const GIB: u64 = 1 << 30;

fn job(plan: &str) -> Result<Job, Vec<Fault>> {
    let plan = Document::parse(plan)?.plan()?;
    Job::resolve(&plan, catalog())
}

fn predicted(plan: &str) -> Prediction {
    predict(&job(plan).unwrap())
}

fn one_layer(precision: &str, gpu: &str) -> String {
    format!(
        "model: {{layers: [\"linear:16384x16384:nobias\"], input_gradient: true, batch_size: 32, sequence_length: 4096}}\n\
         training: {{precision: {precision}, optimizer: sgd}}\nhardware: {{gpu_type: {gpu}}}\n"
    )
}

/// 32 x 4096 x 16384 elements of 4 bytes are 8 GiB, 16384 x 16384 are 1 GiB. Input, gradient of the output and gradient
/// of the input, weight and its gradient: 3 x 8 + 2 x 1 = 26 GiB.
#[test]
fn a_large_linear_layer_holds_five_tensors_in_its_backward_pass() {
    let job = job(&one_layer("fp32", "NVIDIA RTX 4090")).unwrap();
    let held: Vec<(&str, u64, u64)> = backward_tensors(&job)
        .unwrap()
        .into_iter()
        .map(|tensor| (tensor.what, tensor.elements, tensor.bytes.0))
        .collect();
    assert_eq!(
        held,
        [
            ("weight", 268_435_456, GIB),
            ("input, saved by the forward pass", 2_147_483_648, 8 * GIB),
            ("gradient of the output", 2_147_483_648, 8 * GIB),
            ("gradient of the input", 2_147_483_648, 8 * GIB),
            ("gradient of the weight", 268_435_456, GIB),
        ]
    );
    let prediction = predict(&job);
    let peak = prediction.largest();
    assert_eq!(peak.peak_phase, Phase::Backward);
    // Beside the five tensors: cuBLAS's workspaces, some MiB.
    let rest = peak.peak_allocated.0.checked_sub(26 * GIB).unwrap();
    assert!(rest < 64 << 20, "{rest}");
    assert_eq!(peak.component(Component::Parameters).0, GIB);
    assert_eq!(peak.component(Component::Gradients).0, GIB);
    assert_eq!(peak.component(Component::Activations).0, 8 * GIB);
    assert_eq!(peak.component(Component::Temporaries).0, 16 * GIB);
}

/// 26 GiB are more than 24 GB, and less than 32 GB; in bf16 it is half, 13 GiB.
#[test]
fn a_large_linear_layer_fails_on_24_gb_and_runs_on_32() {
    let fits = |precision, gpu| {
        let prediction = predicted(&one_layer(precision, gpu));
        prediction.capacity.needed <= prediction.capacity.bytes
    };
    assert!(!fits("fp32", "NVIDIA A10G"));
    assert!(!fits("fp32", "NVIDIA RTX 4090"));
    assert!(fits("fp32", "V100 32GB"));
    assert!(fits("bf16", "NVIDIA A10G"));
    let half = predicted(&one_layer("bf16", "NVIDIA A10G")).largest().peak_allocated.0;
    assert!((13 * GIB..13 * GIB + (64 << 20)).contains(&half), "{half}");
}

/// A matmul of m x k and k x n is 2 m k n operations, and its backward pass two such: 2 x 131072 x 16384 x 16384.
#[test]
fn a_linear_layer_computes_three_products() {
    let flops = predicted(&one_layer("fp32", "NVIDIA RTX 4090")).flops;
    let product = 2.0 * 131_072.0 * 16_384.0 * 16_384.0;
    assert_eq!((flops.forward.0, flops.backward.0), (product, 2.0 * product));
}

/// 784 x 512 + 512 + 512 x 10 + 10 = 407 050 parameters. The first layer's input is the batch: no gradient is made for
/// it, and its backward pass is one product.
#[test]
fn a_perceptron_is_its_layers() {
    let plan = "model: {type: mlp, layers: [\"linear:784x512\", relu, \"linear:512x10\"], batch_size: 128}\n\
                training: {precision: fp32}\n";
    let prediction = predicted(plan);
    assert_eq!(prediction.params.total, 407_050);
    assert_eq!(prediction.params.trainable, 407_050);
    let (first, last) = (2.0 * 128.0 * 784.0 * 512.0, 2.0 * 128.0 * 512.0 * 10.0);
    let matmuls = prediction.roofline.ops.iter().find(|op| op.name == "linear").unwrap();
    assert_eq!(matmuls.flops.0, first + last + first + 2.0 * last);
    // What is saved: ReLU's output (512), which the last layer reads. The batch is the training loop's. Beside them the
    // loss, a number in a block of the allocator's.
    let saved = prediction.largest().activations_end_of_forward.0;
    assert_eq!(saved, 128 * 512 * 4 + 512);
}

/// Four blocks of 1024 -> 4096 -> 1024 with biases: 4 x (2 x 1024 x 4096 + 4096 + 1024).
#[test]
fn a_perceptron_of_sizes_is_blocks_of_two_linear_layers() {
    let plan = "model: {type: mlp, architecture: {hidden_size: 1024, num_layers: 4, activation: relu}, batch_size: 64}";
    let prediction = predicted(plan);
    assert_eq!(prediction.params.total, 4 * (2 * 1024 * 4096 + 4096 + 1024));
    assert!(prediction.assumptions.iter().any(|said| said == "model.architecture.intermediate_size: 4096"));
}

#[test]
fn what_is_no_layer_is_refused() {
    for (model, said) in [
        ("layers: [relu]", "model.layers: needs a linear layer"),
        ("layers: []", "model.layers: needs a linear layer"),
        ("layers: [\"linear:0x4\"]", "`linear:0x4`: 0 is no width from 1 to 1048576"),
        ("layers: [\"linear:4\"]", "`linear:4` is no layer; known are linear:INxOUT"),
        ("layers: [\"conv:3x3\"]", "`conv:3x3` is no layer; known are"),
        ("layers: [\"linear:4x4\", \"dropout:2\"]", "`dropout:2`: must be a share from 0 up to 1"),
        ("layers: [\"linear:4x8\", \"linear:4x8\"]", "takes 4 columns, the layer before it gives 8"),
        ("type: mlp", "model.layers: is needed for an mlp"),
        ("type: mlp, architecture: {num_layers: 2}", "model.architecture.hidden_size: is needed for an mlp"),
        ("type: cnn, layers: [\"linear:4x4\"]", "model.type: cnn: the model that is given is a mlp"),
    ] {
        let faults = job(&format!("model: {{{model}}}")).unwrap_err();
        let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(all.iter().any(|fault| fault.contains(said)), "{model}: {all:?}");
    }
    for key in ["distribution: {tensor_parallel: 2}", "training: {lora: {rank: 8}}"] {
        let plan = format!("model: {{layers: [\"linear:64x64\"], batch_size: 2}}\ncluster: {{num_gpus: 2}}\n{key}\n");
        assert!(job(&plan).is_err(), "{key}");
    }
}
