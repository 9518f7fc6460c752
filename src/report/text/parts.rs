//! The parts of a step's time.

use crate::predict::{Prediction, StepTime};
use crate::report::table::{Align, Table};

/// Where the time of a step goes; a part of no time says why.
pub(super) fn parts(prediction: &Prediction, time: &StepTime) -> Table {
    let alone = prediction.num_gpus == 1;
    let communication = match (alone, prediction.on_cpu) {
        (true, true) => "one process exchanges nothing",
        (true, false) => "one GPU exchanges nothing",
        (false, _) => "all hidden beside the kernels",
    };
    let host = if prediction.on_cpu { "the CPU itself computes" } else { "the host stays ahead of the GPU" };
    let stages = if prediction.stages.len() > 1 { "no stage waits" } else { "no pipeline" };
    let rows = [
        ("compute-bound", time.compute, "no operator is"),
        ("memory-bound", time.memory_bound, "no operator is"),
        ("communication", time.communication, communication),
        ("bubble", time.bubble, stages),
        ("waiting for the host", time.launch, host),
    ];
    let mut table = Table::new([("", Align::Left), ("time", Align::Right), ("%", Align::Right), ("", Align::Left)]);
    for (name, seconds, why) in rows {
        let share =
            if time.step.0 > 0.0 { format!("{:.0}", 100.0 * seconds.0 / time.step.0) } else { "–".to_owned() };
        let why = match (name, seconds.0 == 0.0) {
            (_, true) => why.to_owned(),
            // The parts are those of the stage with most memory: another stage of the same step waits for less, or more.
            ("bubble", false) => stage_of(prediction),
            _ => String::new(),
        };
        table.row([name.to_owned(), seconds.to_string(), share, why]);
    }
    table
}

/// Whose bubble is told, and for what it is.
fn stage_of(prediction: &Prediction) -> String {
    let (at, stages) = (prediction.largest().stage, prediction.stages.len());
    format!("of stage {at} of {stages}, which fills, drains and waits for slower stages")
}
