//! `memwall roofline`.

use super::args::RooflineArgs;
use super::{Exit, Streams, plans};
use crate::advise::operators;
use crate::catalog::Catalog;
use crate::predict::{Job, outline, predict};
use crate::report::roofline::RooflineChart;

/// Operators of which is said why they take so long and what would help.
const EXPLAINED: usize = 3;

pub fn run(args: &RooflineArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
    let extension =
        args.output.as_ref().map(|file| file.extension().unwrap_or_default().to_string_lossy().to_lowercase());
    if let Some(other) = extension.as_deref().filter(|extension| !matches!(*extension, "svg" | "png" | "txt")) {
        let message = format!("--output: no chart is written as `{other}`: use .svg, .png or .txt");
        return streams.fail(Exit::Usage, &message);
    }
    let source = match plans::only(&args.plan, &args.set, streams) {
        Ok(source) => source,
        Err(exit) => return exit,
    };
    let job = match Job::resolve(source.plan(), catalog) {
        Ok(job) => job,
        Err(faults) => return source.tell(faults, streams),
    };
    let peaks = &job.hardware.gpu.peaks;
    let roofs =
        [("fp32", peaks.fp32), ("tf32", peaks.tf32), ("fp16", peaks.fp16), ("bf16", peaks.bf16), ("fp8", peaks.fp8)];
    let roofs = roofs.into_iter().filter_map(|(name, peak)| Some((name, peak?))).collect();
    let prediction = predict(&job);
    let chart = RooflineChart::of(&source.name, &prediction, roofs, &args.op);
    match extension.as_deref() {
        Some("svg") => streams.deliver(args.output.as_deref(), chart.drawing().svg()),
        Some("png") => match chart.drawing().png() {
            Ok(picture) => streams.deliver(args.output.as_deref(), picture),
            Err(error) => streams.fail(Exit::Failed, &error.to_string()),
        },
        _ => {
            let names: Vec<&str> = prediction.roofline.ops.iter().take(EXPLAINED).map(|op| op.name.as_ref()).collect();
            let advice = operators(source.plan(), &job, &prediction, &names, catalog);
            streams.deliver(args.output.as_deref(), chart.with_advice(advice, outline(&job)).text())
        }
    }
}
