//! `memwall roofline`.

use super::args::RooflineArgs;
use super::{Exit, Failure, Streams, output, picture, plans};
use crate::advise::operators;
use crate::catalog::Catalog;
use crate::predict::{Job, outline, predict};
use crate::report::roofline::RooflineChart;

/// Operators of which is said why they take so long and what would help.
const EXPLAINED: usize = 3;

pub fn run(args: &RooflineArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let file = args.output.as_deref();
    let drawn = picture::is_picture(file);
    if let Some(other) = file.and_then(std::path::Path::extension).filter(|ending| !drawn && *ending != "txt") {
        let other = other.to_string_lossy();
        let why = format!("--output: no chart is written as `{other}`: use .svg, .png, .pdf or .txt");
        return Err(Failure::usage(why));
    }
    let page = output::page(file);
    let Some(plan) = &args.plan else {
        let chart = of_gpu(args, catalog)?;
        return if drawn {
            picture::deliver(&[chart.plot()], file, streams)
        } else {
            Ok(streams.deliver(file, page.show(&chart.text(page.width))))
        };
    };
    let source = plans::only(plan, &args.set, streams)?;
    let job = Job::resolve(source.plan(), catalog).map_err(|faults| source.refused(faults))?;
    let prediction = predict(&job);
    let chart = RooflineChart::of(&source.name, &prediction, job.hardware.gpu.peaks.named(), &args.op);
    if drawn {
        return picture::deliver(&[chart.plot()], file, streams);
    }
    let names: Vec<&str> = prediction.roofline.ops.iter().take(EXPLAINED).map(|op| op.name.as_ref()).collect();
    let advice = operators(source.plan(), &job, &prediction, &names, catalog);
    Ok(streams.deliver(file, page.show(&chart.with_advice(advice, outline(&job)).text(page.width))))
}

/// The chart of the GPU that is named.
fn of_gpu(args: &RooflineArgs, catalog: &Catalog) -> Result<RooflineChart, Failure> {
    let name = args.gpu_type.as_deref().unwrap_or_default();
    let unknown = || Failure::usage(format!("--gpu-type: no GPU `{name}`; `memwall gpus` lists them"));
    let gpu = catalog.gpu(name).ok_or_else(unknown)?;
    let no_peak = || Failure::usage(format!("--gpu-type: no peak of {name} is known"));
    RooflineChart::of_gpu(gpu, &args.op).ok_or_else(no_peak)
}
