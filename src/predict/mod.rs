//! From a plan to memory, flops, traffic, roofline and time: one walk over the
//! model's operators gives them all.

mod prediction;

pub use prediction::{
    Bound, Capacity, Component, Layer, Params, Phase, Prediction, Roofline, RooflineOp, StageMemory, StepFlops,
    StepTime, Term, TimelinePoint, Traffic, Verdict,
};
