//! `memwall models --fit GPU`: which models of the catalogue fit one GPU, and how large a batch.

use rayon::prelude::*;
use serde_json::{Value, json};

use super::args::{FitPurpose, ListFormat, ModelsArgs};
use super::{Exit, Failure, Streams, limits, output, progress};
use crate::advise::ProgressCounter;
use crate::catalog::{Catalog, Gpu, ModelPreset};
use crate::plan::{Document, Plan};
use crate::predict::{Job, predict};
use crate::report::MaxBatch;
use crate::report::page::prose;
use crate::report::table::{Align, Table};
use crate::report::text::count;
use crate::units::Bytes;

/// Tokens of a sample or request, where a model takes as many.
const TOKENS: u64 = 2048;

/// A model that was tried.
struct TriedModel<'a> {
    model: &'a ModelPreset,
    /// What one sample needs.
    needed: Bytes,
    largest: MaxBatch,
}

/// Lists the models that fit the GPU of that name.
pub fn run(
    name: &str,
    args: &ModelsArgs,
    models: &[&ModelPreset],
    catalog: &Catalog,
    streams: &mut Streams,
) -> Result<Exit, Failure> {
    let unknown = || Failure::usage(format!("--fit: no GPU `{name}`; `memwall gpus` lists them"));
    let gpu = catalog.gpu(name).ok_or_else(unknown)?;
    let try_all = |counter: &ProgressCounter| -> Vec<TriedModel> {
        counter.begin(models.len());
        let tried = models.par_iter().filter_map(|model| {
            let tried = tried(model, gpu, args.purpose, catalog);
            counter.advance();
            tried
        });
        tried.collect()
    };
    let tried = progress::watched("models", try_all, streams)?;
    let fits = |one: &&TriedModel| one.needed <= gpu.memory;
    let fitting: Vec<&TriedModel> = tried.iter().filter(fits).collect();
    let text = match args.list.format {
        ListFormat::Json => {
            let rows: Vec<String> = tried.iter().map(|one| row(one, gpu).to_string()).collect();
            format!("[\n{}\n]\n", rows.join(",\n"))
        }
        ListFormat::Text => table(&fitting, gpu, args.purpose, (tried.len(), models.len())),
    };
    Ok(streams.print(text))
}

/// A model with one sample; none where its kind cannot be used so.
fn tried<'a>(model: &'a ModelPreset, gpu: &Gpu, purpose: FitPurpose, catalog: &Catalog) -> Option<TriedModel<'a>> {
    let plan = |sized: bool| {
        let text = plan_of(&model.name, &gpu.name, purpose, sized).to_string();
        let plan = Document::parse(&text).ok()?.plan().ok()?;
        let job = Job::resolve(&plan, catalog).ok()?;
        Some((plan, job))
    };
    // Without a length a model takes its own: images, and contexts below the usual.
    let (plan, job) = plan(true).or_else(|| plan(false))?;
    let needed = predict(&job).capacity.needed;
    let again = |plan: &Plan| Job::resolve(plan, catalog).ok().map(|job| predict(&job));
    let largest = if needed <= gpu.memory { limits::batch(&plan, 1, again) } else { MaxBatch::NothingFits };
    Some(TriedModel { model, needed, largest })
}

fn plan_of(model: &str, gpu: &str, purpose: FitPurpose, sized: bool) -> Value {
    let mut plan = json!({
        "model": {"preset": model, "batch_size": 1},
        "training": {"precision": "bf16", "micro_batch_size": 1},
        "hardware": {"gpu_type": gpu},
        "cluster": {"num_gpus": 1},
    });
    if sized {
        plan["model"]["sequence_length"] = Value::from(TOKENS);
    }
    match purpose {
        FitPurpose::Inference => plan["training"]["mode"] = Value::from("inference"),
        FitPurpose::Full => plan["training"]["activation_checkpointing"] = Value::from("full"),
        FitPurpose::Lora => {
            plan["training"]["activation_checkpointing"] = Value::from("full");
            plan["training"]["lora"] = json!({"rank": 16, "targets": ["q_proj", "v_proj"]});
        }
    }
    plan
}

fn table(fitting: &[&TriedModel], gpu: &Gpu, purpose: FitPurpose, (tried, all): (usize, usize)) -> String {
    let mut table = Table::new([
        ("model", Align::Left),
        ("parameters", Align::Right),
        ("GiB", Align::Right),
        ("largest batch", Align::Right),
    ]);
    for one in fitting {
        let largest = match one.largest {
            MaxBatch::Fits { micro_batch_size, .. } => micro_batch_size.to_string(),
            MaxBatch::NothingFits => "0".to_owned(),
        };
        table.row([one.model.name.clone(), count(one.model.params), one.needed.in_gib(), largest]);
    }
    let purpose = match purpose {
        FitPurpose::Lora => "adapters of rank 16 on q_proj and v_proj, bf16 weights, AdamW, blocks recomputed",
        FitPurpose::Full => "all weights and AdamW's states in bf16, blocks recomputed",
        FitPurpose::Inference => "bf16 weights and KV cache",
    };
    let others = all - tried;
    let others = if others > 0 { format!("; {others} are of kinds that cannot be used so") } else { String::new() };
    let page = output::page(None);
    let width = page.width;
    let counted = format!("{} of {tried} models fit {} ({}){others}", fitting.len(), gpu.name, gpu.memory);
    let sized = format!("{purpose}; GiB with one sample of {TOKENS} tokens, or the model's own size");
    let rows = table.render("", output::row_width(&page));
    page.show(&format!("{rows}\n{}{}", prose(&counted, width), prose(&sized, width)))
}

fn row(one: &TriedModel, gpu: &Gpu) -> Value {
    json!({
        "name": one.model.name,
        "params": one.model.params,
        "device_used": one.needed.0,
        "fits": one.needed <= gpu.memory,
        "largest_batch": match one.largest {
            MaxBatch::Fits { micro_batch_size, .. } => micro_batch_size,
            MaxBatch::NothingFits => 0,
        },
    })
}
