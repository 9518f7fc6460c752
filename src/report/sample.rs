//! A prediction made by hand, for tests of what is made from predictions.

use crate::predict::{
    Bound, Capacity, Component, Fragmentation, Layer, Params, Phase, Place, Prediction, Roofline, RooflineOp,
    StageMemory, StepFlops, StepTime, Term, TimelinePoint, Traffic,
};
use crate::units::{Bytes, BytesPerSec, Flops, FlopsPerSec, GIB, Intensity, Seconds};

fn term(name: &'static str, component: Component, bytes: u64, layer: Layer) -> Term {
    Term {
        name: name.into(),
        component,
        bytes: Bytes(bytes),
        formula: "a count x 4 bytes".into(),
        source: "by hand".into(),
        layer,
    }
}

fn stage(stage: u64, activations: u64) -> StageMemory {
    let terms = vec![
        term("weights", Component::Parameters, GIB, Layer::Allocated),
        term("gradients", Component::Gradients, GIB, Layer::Allocated),
        term("moments", Component::OptimizerStates, 2 * GIB, Layer::Allocated),
        term("saved by blocks", Component::Activations, activations, Layer::Allocated),
        term("rounding", Component::Overhead, GIB / 2, Layer::Reserved),
        term("CUDA context", Component::Overhead, GIB / 2, Layer::Device),
    ];
    let allocated = Bytes(4 * GIB + activations);
    StageMemory {
        stage,
        layers: 6,
        terms,
        static_bytes: Bytes(3 * GIB + stage),
        peak_allocated: allocated,
        peak_reserved: allocated + Bytes(GIB / 2),
        device_used: allocated + Bytes(GIB),
        activations_end_of_forward: Bytes(activations),
        peak_phase: Phase::Backward,
        peak_cause: "loss: 3 copies of the logits".into(),
        timeline: vec![
            TimelinePoint {
                phase: Phase::Forward,
                at: Place::Layer(0),
                allocated: Bytes(4 * GIB),
                parts: [Bytes::ZERO; 8],
            },
            TimelinePoint { phase: Phase::Backward, at: Place::Named("loss"), allocated, parts: [Bytes::ZERO; 8] },
        ],
    }
}

/// Two stages on four GPUs, the first the larger: 9 GiB and a byte of 10 GiB.
pub fn two_stages() -> Prediction {
    let stages = vec![stage(0, 4 * GIB + 1), stage(1, 2 * GIB)];
    Prediction {
        model: "gpt2 12 x 768".to_owned(),
        gpu: "NVIDIA H100".to_owned(),
        gpu_short: "H100".to_owned(),
        on_cpu: false,
        num_gpus: 4,
        params: Params { total: 124_439_808, trainable: 124_439_808, active_per_token: 124_439_808 },
        largest_stage: 0,
        layers: Vec::new(),
        fragmentation: Fragmentation::default(),
        capacity: Capacity { bytes: Bytes(10 * GIB), needed: stages[0].device_used },
        stages,
        flops: StepFlops { forward: Flops(2e12 + 1.0), backward: Flops(4e12), recompute: Flops(0.0) },
        traffic: Traffic {
            parameters: Bytes(10),
            gradients: Bytes(20),
            activations: Bytes(30),
            optimizer_states: Bytes(40),
        },
        time: StepTime {
            step: Seconds(0.5),
            compute: Seconds(0.25),
            memory_bound: Seconds(0.125),
            communication: Seconds(0.0625),
            bubble: Seconds(0.0625),
            launch: Seconds(0.0),
            tokens_per_s: Some(65_536.0),
            tokens_per_s_per_gpu: Some(16_384.0),
            samples_per_s: 64.0,
            model_flops_per_gpu: FlopsPerSec(12.5e12),
            mfu: Some(0.4),
            hfu: None,
            bandwidth: BytesPerSec(2e12),
            mbu: 0.6,
            total_hours: Some(30.0),
            total_cost: None,
            power: None,
        },
        time_terms: Vec::new(),
        decode: None,
        roofline: Roofline {
            bandwidth: BytesPerSec(3.35e12),
            peak: FlopsPerSec(989.4e12),
            peak_name: "bf16",
            ridge: Intensity(989.4 / 3.35),
            roofs: vec![("bf16", FlopsPerSec(989.4e12))],
            l2: None,
            ops: vec![RooflineOp {
                name: "mlp.up".into(),
                count: 12,
                flops: Flops(1e12),
                bytes: Bytes(1_000_000_000),
                intensity: Some(Intensity(1000.0)),
                bound: Bound::Compute,
                peak: FlopsPerSec(989.4e12),
                seconds: Seconds(0.1),
            }],
        },
        assumptions: ["training.precision: bf16-mixed".to_owned()].into(),
    }
}
