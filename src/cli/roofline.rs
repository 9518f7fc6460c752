//! `memwall roofline`.

use super::args::RooflineArgs;
use super::{Exit, Streams, output, picture, plans};
use crate::advise::operators;
use crate::catalog::Catalog;
use crate::predict::{Job, outline, predict};
use crate::report::roofline::RooflineChart;

/// Operators of which is said why they take so long and what would help.
const EXPLAINED: usize = 3;

pub fn run(args: &RooflineArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
    let file = args.output.as_deref();
    let drawn = picture::is_picture(file);
    if let Some(other) = file.and_then(std::path::Path::extension).filter(|ending| !drawn && *ending != "txt") {
        let other = other.to_string_lossy();
        let message = format!("--output: no chart is written as `{other}`: use .svg, .png, .pdf or .txt");
        return streams.fail(Exit::Usage, &message);
    }
    let page = output::page(file);
    let Some(plan) = &args.plan else {
        return match of_gpu(args, catalog) {
            Ok(chart) if drawn => picture::deliver(&[chart.plot()], file, streams),
            Ok(chart) => streams.deliver(file, page.show(&chart.text(page.width))),
            Err(message) => streams.fail(Exit::Usage, &message),
        };
    };
    let source = match plans::only(plan, &args.set, streams) {
        Ok(source) => source,
        Err(exit) => return exit,
    };
    let job = match Job::resolve(source.plan(), catalog) {
        Ok(job) => job,
        Err(faults) => return source.tell(faults, streams),
    };
    let prediction = predict(&job);
    let chart = RooflineChart::of(&source.name, &prediction, job.hardware.gpu.peaks.named(), &args.op);
    if drawn {
        return picture::deliver(&[chart.plot()], file, streams);
    }
    let names: Vec<&str> = prediction.roofline.ops.iter().take(EXPLAINED).map(|op| op.name.as_ref()).collect();
    let advice = operators(source.plan(), &job, &prediction, &names, catalog);
    streams.deliver(file, page.show(&chart.with_advice(advice, outline(&job)).text(page.width)))
}

/// The chart of the GPU that is named.
fn of_gpu(args: &RooflineArgs, catalog: &Catalog) -> Result<RooflineChart, String> {
    let name = args.gpu_type.as_deref().unwrap_or_default();
    let gpu = catalog.gpu(name).ok_or_else(|| format!("--gpu-type: no GPU `{name}`; `memwall gpus` lists them"))?;
    RooflineChart::of_gpu(gpu, &args.op).ok_or_else(|| format!("--gpu-type: no peak of {name} is known"))
}
