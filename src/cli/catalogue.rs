//! `memwall gpus` and `memwall models`: what plans can name.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::args::{CatalogueArgs, ListFormat, ModelsArgs};
use super::{Exit, Failure, Streams, models_fit, models_scales, output};
use crate::catalog::{Catalog, Gpu, ModelPreset};
use crate::report::json::number;
use crate::report::page::{Page, prose};
use crate::report::table::{Align, Table};
use crate::report::text::count;
use crate::units::{FlopsPerSec, three_figures};

pub fn gpus(args: &CatalogueArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let page = output::page(None);
    let asked = args.name.as_deref().unwrap_or_default();
    let gpus = catalog.gpus_like(asked);
    if gpus.is_empty() {
        return Err(Failure::failed(catalog.no_gpu(asked)));
    }
    let text = match args.format {
        ListFormat::Json => lines(gpus.iter().map(|gpu| gpu_json(gpu, catalog, args.verbose))),
        ListFormat::Text if args.verbose => {
            gpus.iter().fold(gpu_table(&gpus, &page), |text, gpu| text + &sources(gpu, catalog, page.width))
        }
        ListFormat::Text => gpu_table(&gpus, &page),
    };
    Ok(streams.print(if args.format == ListFormat::Text { page.show(&text) } else { text }))
}

fn gpu_table(gpus: &[&Gpu], page: &Page) -> String {
    let mut table = Table::new([
        ("GPU", Align::Left),
        ("GiB", Align::Right),
        ("GB/s", Align::Right),
        ("fp32", Align::Right),
        ("tf32", Align::Right),
        ("bf16", Align::Right),
        ("fp16", Align::Right),
        ("fp8", Align::Right),
        ("W", Align::Right),
        ("link", Align::Left),
    ]);
    let tera = |peak: Option<FlopsPerSec>| known(peak.map(|peak| peak.0 / 1e12));
    for gpu in gpus {
        table.row([
            gpu.name.clone(),
            gpu.memory.in_gib(),
            three_figures(gpu.bandwidth.0 / 1e9),
            tera(gpu.peaks.fp32),
            tera(gpu.peaks.tf32),
            tera(gpu.peaks.bf16),
            tera(gpu.peaks.fp16),
            tera(gpu.peaks.fp8),
            known(gpu.tdp.map(|watts| watts.0)),
            gpu.link.clone(),
        ]);
    }
    let note = "peaks in TFLOP/s, dense; memory is what the driver reports as total";
    format!("{}\n{}", table.render("", output::row_width(page)), prose(note, page.width))
}

fn known(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), three_figures)
}

fn sources(gpu: &Gpu, catalog: &Catalog, width: usize) -> String {
    let mut text = format!("\n{}\n", gpu.name);
    text += &prose(&format!("  also: {}", gpu.aliases.join(", ")), width);
    for citation in catalog.citations.iter().filter(|citation| citation.entry == gpu.name) {
        text += &prose(&format!("  {}: {}", citation.figure, citation.source), width);
    }
    text
}

fn gpu_json(gpu: &Gpu, catalog: &Catalog, verbose: bool) -> Value {
    let tera = |peak: Option<FlopsPerSec>| number(peak.map(|peak| peak.0 / 1e12));
    let mut object = json!({
        "name": gpu.name,
        "aliases": gpu.aliases,
        "memory_bytes": gpu.memory.0,
        "bandwidth_gb_s": number(gpu.bandwidth.0 / 1e9),
        "peak_tflops": {
            "fp32": tera(gpu.peaks.fp32),
            "tf32": tera(gpu.peaks.tf32),
            "fp16": tera(gpu.peaks.fp16),
            "bf16": tera(gpu.peaks.bf16),
            "fp8": tera(gpu.peaks.fp8),
            "int8": tera(gpu.peaks.int8),
            "fp4": tera(gpu.peaks.fp4),
        },
        "l2_bytes": gpu.l2.map(|l2| l2.0),
        "sm_count": gpu.sm_count,
        "tdp_w": number(gpu.tdp.map(|watts| watts.0)),
        "max_sm_clock_mhz": number(gpu.max_sm_clock.map(|clock| clock.0)),
        "boost_clock_mhz": number(gpu.boost_clock.map(|clock| clock.0)),
        "link": gpu.link,
        "host_gb_s_each_way": number(gpu.host_link.0 / 1e9),
    });
    if verbose {
        let cited = catalog.citations.iter().filter(|citation| citation.entry == gpu.name);
        object["sources"] =
            cited.map(|citation| json!({"figure": citation.figure, "source": citation.source})).collect();
    }
    object
}

pub fn models(args: &ModelsArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let page = output::page(None);
    let asked = args.list.name.as_deref().unwrap_or_default();
    let models = catalog.models_like(asked);
    if models.is_empty() {
        return Err(Failure::failed(catalog.no_model(asked)));
    }
    if let Some(gpu) = &args.fit {
        return models_fit::run(gpu, args, &models, catalog, streams);
    }
    if let Some(gpu) = &args.scales {
        return models_scales::run(gpu, args, catalog, streams);
    }
    let args = &args.list;
    let text = match args.format {
        ListFormat::Json => lines(models.iter().map(|model| model_json(model, args.verbose))),
        ListFormat::Text if args.verbose => models.iter().fold(model_table(&models, &page), |mut text, model| {
            let _ = writeln!(text, "\n{}", model.name);
            text += &prose(&format!("  also: {}", model.aliases.join(", ")), page.width);
            text += &prose(&format!("  {}", model.source), page.width);
            text
        }),
        ListFormat::Text => model_table(&models, &page),
    };
    Ok(streams.print(if args.format == ListFormat::Text { page.show(&text) } else { text }))
}

fn model_table(models: &[&ModelPreset], page: &Page) -> String {
    let mut table = Table::new([
        ("model", Align::Left),
        ("parameters", Align::Right),
        ("kind", Align::Left),
        ("layers", Align::Right),
        ("hidden", Align::Right),
        ("vocabulary", Align::Right),
    ]);
    for model in models {
        // Configurations name the same fact differently from family to family.
        let fact = |keys: &[&str]| {
            let found = keys.iter().find_map(|key| model.hf_config.get(*key)).and_then(Value::as_u64);
            found.map_or_else(|| "–".to_owned(), |value| value.to_string())
        };
        let kind = ["model_type", "_class_name"].iter().find_map(|key| model.hf_config.get(*key)?.as_str());
        table.row([
            model.name.clone(),
            count(model.params),
            kind.unwrap_or("–").to_owned(),
            fact(&["num_hidden_layers", "n_layer", "n_layers", "num_layers"]),
            fact(&["hidden_size", "n_embd", "d_model"]),
            fact(&["vocab_size"]),
        ]);
    }
    table.render("", output::row_width(page))
}

fn model_json(model: &ModelPreset, verbose: bool) -> Value {
    let mut object = json!({
        "name": model.name,
        "aliases": model.aliases,
        "params": model.params,
        "hf_config": model.hf_config,
    });
    if verbose {
        object["source"] = Value::from(model.source.clone());
    }
    object
}

/// A JSON array with one entry a line.
fn lines(entries: impl Iterator<Item = Value>) -> String {
    let entries: Vec<String> = entries.map(|entry| entry.to_string()).collect();
    format!("[\n{}\n]\n", entries.join(",\n"))
}
