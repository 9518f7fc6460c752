//! Which units compute convolutions, and who turns their tensors round.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};

fn resnet(gpu: &str, precision: &str, keys: &str) -> Prediction {
    let text = format!(
        "model: {{preset: resnet-50, framework: torchvision, batch_size: 128}}\n\
         training: {{precision: {precision}, micro_batch_size: 128{keys}}}\nhardware: {{gpu_type: {gpu}}}"
    );
    predict::of(&Document::parse(&text).unwrap().plan().unwrap(), catalog()).unwrap()
}

/// Bytes that turning tensors from NCHW to NHWC and back moves.
fn turned(prediction: &Prediction) -> f64 {
    prediction.roofline.ops.iter().filter(|op| op.name == "convolution.transform").map(|op| op.bytes.as_f64()).sum()
}

/// PyTorch's `torch.backends.cudnn.allow_tf32` is true where nobody sets it, `torch.backends.cuda.matmul.allow_tf32` is not
/// (CUDA semantics, "TensorFloat-32"): of a ResNet only the head, 2048 x 1000 of 25.6 M parameters, is slower for it.
#[test]
fn convolutions_in_fp32_take_tf32_where_nobody_forbids_it() {
    for gpu in ["A100 80GB", "H100", "RTX 4090"] {
        let [fp32, tf32] = ["fp32", "tf32"].map(|precision| resnet(gpu, precision, "").time.step.0);
        assert!((fp32 / tf32 - 1.0).abs() < 0.02, "{gpu}: {fp32} {tf32}");
    }
    // It is said where the plan says otherwise, on GPUs that have it.
    let says = |gpu, precision| resnet(gpu, precision, "").assumptions.iter().any(|said| said.contains("allow_tf32"));
    assert!(says("A100 80GB", "fp32") && !says("A100 80GB", "tf32") && !says("V100", "fp32"));
}

/// A100 multiplies in TF32 eight times as fast as in FP32 (156 of 19.5 TFLOP/s), in NHWC; RTX 4090 as fast (82.6), where
/// FP32's kernels read NCHW as it is: hardly anything is turned round.
#[test]
fn tf32_is_left_alone_where_fp32_is_as_quick() {
    let all = turned(&resnet("RTX 4090", "fp16-mixed", ""));
    assert!(all > 0.0);
    // FP32 has twice the bytes; in 16 bit there is no other kernel.
    let of_a100 = turned(&resnet("A100 80GB", "tf32", ""));
    assert!((1.6 * all..=2.0 * all).contains(&of_a100), "{of_a100} {all}");
    assert!(turned(&resnet("RTX 4090", "tf32", "")) < 0.1 * of_a100);
    assert_eq!(turned(&resnet("A100 80GB", "tf32", ", channels_last: true")), 0.0);
}
