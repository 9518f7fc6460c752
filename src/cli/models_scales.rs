//! `memwall models --scales GPU`: how many GPUs of one kind models of 7B to 671B need to answer requests, at 16, 8 and 4 bits
//! a weight, and what makes each jump.

use rayon::prelude::*;
use serde_json::{Value, json};

use super::args::{ListFormat, ModelsArgs, WeightBits};
use super::{Exit, Failure, Streams, output};
use crate::catalog::{Catalog, Gpu};
use crate::plan::Document;
use crate::predict::{Component, Job, predict};
use crate::report::page::prose;
use crate::report::table::{Align, Table};
use crate::units::Bytes;

/// One model of each scale.
const MODELS: [&str; 7] =
    ["llama-2-7b", "llama-2-13b", "code-llama-34b", "llama-3-70b", "gpt-3-175b", "llama-3.1-405b", "deepseek-v3"];

const WIDTHS: [(u64, WeightBits); 3] = [(16, WeightBits::Sixteen), (8, WeightBits::Eight), (4, WeightBits::Four)];

/// GPUs that are tried: the tensors of a layer are split within a node, layers go to further nodes.
const COUNTS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// GPUs of a node.
const NODE: u64 = 8;

/// What is answered at once.
#[derive(Clone, Copy)]
struct Load {
    requests: u64,
    tokens: u64,
}

/// Who tries the model, and who serves it.
const LEAST: Load = Load { requests: 1, tokens: 2048 };
const SERVED: Load = Load { requests: 16, tokens: 8192 };

/// What one GPU of several holds.
struct Share {
    needed: Bytes,
    weights: Bytes,
    cache: Bytes,
}

/// A model at one width of its weights.
struct Scale {
    model: &'static str,
    bits: u64,
    /// All GPUs' weights.
    weights: Option<Bytes>,
    least: Option<u64>,
    served: Option<u64>,
    why: String,
}

/// Prints the table for the GPU of that name.
pub fn run(name: &str, args: &ModelsArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let unknown = || Failure::usage(format!("--scales: no GPU `{name}`; `memwall gpus` lists them"));
    let gpu = catalog.gpu(name).ok_or_else(unknown)?;
    let each: Vec<(&'static str, (u64, WeightBits))> =
        MODELS.iter().flat_map(|model| WIDTHS.map(|width| (*model, width))).collect();
    let scales: Vec<Scale> = each.par_iter().map(|(model, width)| scale(model, *width, gpu, catalog)).collect();
    Ok(streams.print(match args.list.format {
        ListFormat::Json => {
            let rows: Vec<String> = scales.iter().map(|one| row(one).to_string()).collect();
            format!("[\n{}\n]\n", rows.join(",\n"))
        }
        ListFormat::Text => {
            let page = output::page(None);
            page.show(&table(&scales, gpu, page.width))
        }
    }))
}

fn scale(model: &'static str, (bits, width): (u64, WeightBits), gpu: &Gpu, catalog: &Catalog) -> Scale {
    let share = |count: u64, load: Load| share(&plan(model, width, gpu, count, load), catalog);
    // A model with shorter contexts answers shorter requests.
    let longest =
        [SERVED, Load { tokens: LEAST.tokens, ..SERVED }].into_iter().find(|load| share(NODE, *load).is_some());
    let load = longest.unwrap_or(SERVED);
    let fewest = |load: Load| {
        let fits = |count: &u64| share(*count, load).is_some_and(|share| share.needed <= gpu.memory);
        COUNTS.into_iter().find(fits)
    };
    let (least, served) = (fewest(LEAST), fewest(load));
    let weights = least.and_then(|count| Some(Bytes(share(count, LEAST)?.weights.0.saturating_mul(count))));
    let mut why = least_words(least, |count| share(count, LEAST));
    why += &served_words((least, served), |count| share(count, load));
    if load.tokens < SERVED.tokens {
        why += &format!("; its requests have {} tokens", load.tokens);
    }
    Scale { model, bits, weights, least, served, why }
}

fn plan(model: &str, width: WeightBits, gpu: &Gpu, count: u64, load: Load) -> Value {
    let (tensor, pipeline) = (count.min(NODE), count.div_ceil(NODE));
    let mut plan = json!({
        "model": {"preset": model, "batch_size": load.requests, "sequence_length": load.tokens},
        "training": {"mode": "inference", "precision": "bf16"},
        "hardware": {"gpu_type": gpu.name},
        "cluster": {"num_gpus": count},
        "distribution": {"tensor_parallel": tensor, "pipeline_parallel": pipeline},
    });
    if let Some((key, value)) = width.key() {
        plan["training"][key] = value;
    }
    plan
}

/// What the fullest GPU holds; none where the plan cannot be run so. A server reads one prompt after another and keeps the
/// keys and values of all, of multi-head latent attention the latents (vLLM, v1/attention/backends/mla; SGLang likewise):
/// what one request needs, and the others' caches beside it.
fn share(plan: &Value, catalog: &Catalog) -> Option<Share> {
    let held = |requests: u64| {
        let mut plan = plan.clone();
        plan["model"]["batch_size"] = requests.into();
        let mut plan = Document::parse(&plan.to_string()).ok()?.plan().ok()?;
        let job = Job::resolve(&plan, catalog).ok()?;
        plan.training.cache_latents = job.decoder().is_some_and(|decoder| decoder.mla.is_some()).then_some(true);
        let prediction = predict(&Job::resolve(&plan, catalog).ok()?);
        let fullest = prediction.largest();
        let (weights, cache) = (fullest.component(Component::Parameters), fullest.component(Component::KvCache));
        Some(Share { needed: prediction.capacity.needed, weights, cache })
    };
    let one = held(1)?;
    let cache = held(plan["model"]["batch_size"].as_u64()?)?.cache;
    let others = cache.saturating_sub(one.cache);
    Some(Share { needed: one.needed + others, cache, ..one })
}

/// The next smaller number of GPUs that the model can be laid over, and what each would hold.
fn fewer(count: u64, share: impl Fn(u64) -> Option<Share>) -> Option<(String, Share)> {
    let (one, share) = COUNTS.into_iter().rev().filter(|one| *one < count).find_map(|one| Some((one, share(one)?)))?;
    Some((if one == 1 { "one GPU".to_owned() } else { format!("each of {one}") }, share))
}

/// What makes the least number.
fn least_words(least: Option<u64>, share: impl Fn(u64) -> Option<Share>) -> String {
    let Some(least) = least else { return format!("more than {}", COUNTS[COUNTS.len() - 1]) };
    match fewer(least, share) {
        None => "one GPU holds it".to_owned(),
        Some((gpus, share)) if least > NODE => {
            format!("{gpus} would need {}: layers go to {} nodes", share.needed, least.div_ceil(NODE))
        }
        Some((gpus, share)) => format!("{gpus} would need {}: each layer is split", share.needed),
    }
}

/// What makes it more to serve; nothing where it is not.
fn served_words((least, served): (Option<u64>, Option<u64>), share: impl Fn(u64) -> Option<Share>) -> String {
    match (least, served) {
        (None, _) => String::new(),
        (_, None) => format!("; serving, more than {}", COUNTS[COUNTS.len() - 1]),
        (Some(least), Some(served)) if served > least => fewer(served, share)
            .map_or_else(String::new, |(gpus, share)| format!("; serving, {gpus} would hold {} of cache", share.cache)),
        _ => String::new(),
    }
}

fn table(scales: &[Scale], gpu: &Gpu, width: usize) -> String {
    let mut table = Table::new([
        ("model", Align::Left),
        ("bits", Align::Right),
        ("GiB of weights", Align::Right),
        ("at least", Align::Right),
        ("to serve", Align::Right),
        ("what makes it so many", Align::Left),
    ]);
    let number = |count: Option<u64>| count.map_or_else(|| "–".to_owned(), |count| count.to_string());
    for one in scales {
        let weights = one.weights.map_or_else(|| "–".to_owned(), Bytes::in_gib);
        let cells = [one.bits.to_string(), weights, number(one.least), number(one.served), one.why.clone()];
        let [bits, weights, least, served, why] = cells;
        table.row([one.model.to_owned(), bits, weights, least, served, why]);
    }
    let note = format!(
        "GPUs of {} ({}), up to {NODE} of a node splitting each layer and further nodes taking layers. At least: one request of {} \
         tokens. To serve: {} requests of {}, which a KV cache of 16 bits holds (DeepSeek's latents, whole on each GPU of a \
         node); each prompt is read by itself, in one pass. 8 bits are FP8 matrices of the blocks, 4 bits \
         int4 ones with scales; the rest stays in bf16.",
        gpu.name, gpu.memory, LEAST.tokens, SERVED.requests, SERVED.tokens
    );
    format!("{}\n{}", table.render("", width), prose(&note, width))
}

fn row(one: &Scale) -> Value {
    json!({
        "name": one.model,
        "bits": one.bits,
        "weight_bytes": one.weights.map(|bytes| bytes.0),
        "gpus_at_least": one.least,
        "gpus_to_serve": one.served,
        "why": one.why,
    })
}
