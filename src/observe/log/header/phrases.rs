//! Sentences of frameworks, each with one or two numbers.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{count_after, rounding, written_count};
use crate::reading::{StatedCheckpointing, StatedSettings, StatedType};

type Field = fn(&mut StatedSettings) -> &mut Option<u64>;

/// What stands before a number.
const NUMBERS: &[(&str, Field)] = &[
    // transformers, `trainer.py`, `_inner_training_loop`.
    ("Instantaneous batch size per device =", |stated| &mut stated.micro_batch),
    ("Total train batch size (w. parallel, distributed & accumulation) =", |stated| &mut stated.global_batch),
    ("Gradient Accumulation steps =", |stated| &mut stated.accumulation),
    ("Number of trainable parameters =", |stated| &mut stated.trainable),
    // examples/pytorch/language-modeling/run_clm.py: "Training new model from scratch - Total size=".
    ("from scratch - Total size=", |stated| &mut stated.params),
    // timm, `train.py`: `Model mobilenetv3_small_100 created, param count:2542856`.
    (" created, param count:", |stated| &mut stated.params),
    // nanoGPT, `model.py` and `train.py`. Its count leaves the position embeddings out.
    ("number of parameters: ", |stated| &mut stated.params),
    ("tokens per iteration will be: ", |stated| &mut stated.tokens),
    // karpathy/build-nanogpt and llm.c, `train_gpt2.py`.
    ("=> calculated gradient accumulation steps: ", |stated| &mut stated.accumulation),
    // Megatron-LM, `training/theoretical_memory_usage.py`.
    ("Total number of parameters in billions:", |stated| &mut stated.params),
    // torchtitan, `train.py`: with and without a colon.
    ("local batch size ", |stated| &mut stated.micro_batch),
    ("local batch size: ", |stated| &mut stated.micro_batch),
    ("global batch size ", |stated| &mut stated.global_batch),
    ("global batch size: ", |stated| &mut stated.global_batch),
    ("gradient accumulation steps ", |stated| &mut stated.accumulation),
    ("sequence length ", |stated| &mut stated.sequence),
    ("sequence length: ", |stated| &mut stated.sequence),
    // litgpt, `pretrain.py`; OLMo, `scripts/train.py`.
    ("Total parameters: ", |stated| &mut stated.params),
    ("Total number of parameters: ", |stated| &mut stated.params),
    ("Number of trainable parameters: ", |stated| &mut stated.trainable),
];

/// Phrases of sentences that are only whole together: torchtitan's of how training starts.
const WITHIN: &str = "Training starts at step";

/// A script's own sentence on the size of its model, and nothing of a part of it: `model has 5.47M params`,
/// `Number of parameters: 5,338,624`, `GPT with 124M parameters`.
static OWN_COUNT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)^ (?: .*\b(?:info|debug)\b (?: .*[:|\]-]\s* | [:\]]?\s+ ) | \[[^\]]*\d[^\]]*\] | [\d\s:,./-]+\s )? \s*
          (?: \# | (?: the|total|model|network|net|number|num|no|of|n|count|size|has|have|with|in|is|all|initiali[sz]ed|created|built
                 |trainable|params?|parameters? | [a-z0-9_]*(?:gpt|llama|bert|lm|net|former|mlp|vit)[a-z0-9_]* ) [\s:=_.\#-]+ )*
          (\d[\d,._]* \s* (?:k|m|b|million|billion)?) \s* (total|trainable|model)? \s* (params?|parameters?)? \s* [.!]? \s* $",
    )
    .ok()
});

/// How a script names the count of its model in a line of JSON.
const COUNTS: [&str; 6] =
    ["n_params", "num_params", "total_params", "num_parameters", "n_parameters", "total_parameters"];

fn own_count(line: &str) -> Option<u64> {
    let lower = line.to_ascii_lowercase();
    let is_json = line.trim_start().starts_with('{') && lower.contains("param") && !lower.contains("trainable");
    if let Some(Value::Object(told)) = is_json.then(|| serde_json::from_str(line).ok()).flatten() {
        let mut counts = COUNTS.iter().filter_map(|name| told.get(*name)?.as_u64());
        return counts.next().filter(|count| counts.next().is_none() && *count >= LEAST_PARAMETERS);
    }
    if line.len() > 200 || lower.matches("param").count() != 1 {
        return None;
    }
    let found = (*OWN_COUNT).as_ref()?.captures(line)?.get(1)?.as_str().trim();
    // A small number without a unit is one of tensors, or in a unit that the line does not name.
    written_count(found).filter(|count| *count >= LEAST_PARAMETERS)
}

/// No model that somebody waits for has fewer.
const LEAST_PARAMETERS: u64 = 1000;

/// Takes what a sentence states.
pub fn read(line: &str, stated: &mut StatedSettings) {
    // A line of an evaluation, or of a generation, states another batch.
    if line.contains("valuation") {
        return;
    }
    let before = stated.params;
    let starts = line.contains(WITHIN);
    for (key, field) in NUMBERS {
        let of_a_sentence = key.starts_with(char::is_lowercase) && key.contains("batch size")
            || key.starts_with("sequence length")
            || key.starts_with("gradient accumulation");
        if of_a_sentence && !starts {
            continue;
        }
        if let Some(number) = count_after(line, key) {
            *field(stated) = if key.contains("in billions") { billions(line, key) } else { Some(number) };
        }
    }
    sizes(line, stated);
    if stated.params != before {
        stated.params_within = if line.contains("in billions") { 5_000_000 } else { rounding(line, stated.params) };
    }
    types(line, stated);
    recomputation(line, stated);
}

fn billions(line: &str, key: &str) -> Option<u64> {
    let rest = line[line.find(key)? + key.len()..].trim();
    written_count(&format!("{}B", rest.split_whitespace().next()?))
}

/// Counts that stand before their words.
fn sizes(line: &str, stated: &mut StatedSettings) {
    // peft, `peft_model.py`, `print_trainable_parameters`.
    if let Some(all) = line.contains("trainable params: ").then(|| count_after(line, "all params: ")).flatten() {
        stated.params = Some(all);
        stated.trainable = count_after(line, "trainable params: ");
    }
    // litgpt, `finetune/*.py`: both make the whole.
    if let Some(frozen) = count_after(line, "Number of non-trainable parameters: ") {
        stated.params = stated.trainable.map(|trained| trained.saturating_add(frozen));
    }
    // torchtitan, `train.py`: `Model llama3 8B size: 8,030,261,248 total parameters`.
    if line.contains(" total parameters")
        && let Some(all) = count_after(line, " size: ")
    {
        stated.params = Some(all);
    }
    // Lightning, `utilities/model_summary`: `124 M     Total params`; with rich `Total params: 124 M`.
    let line = line.trim().trim_matches('│').trim();
    if line.ends_with("Total params")
        && let Some(all) = written_count(line)
    {
        stated.params = Some(all);
    }
    if line.starts_with("Total params:")
        && let Some(all) = count_after(line, "Total params:")
    {
        stated.params = Some(all);
    }
}

/// What a script of nobody's counts, where no framework's own phrase has: all that is trained, or the whole. Two counts
/// that differ are those of two models, and state nothing.
pub fn own(line: &str, stated: &mut StatedSettings, own: &mut Option<u64>) {
    let Some(count) = own_count(line).filter(|_| !line.contains("valuation")) else { return };
    let is_trained = line.to_ascii_lowercase().contains("trainable");
    let told = if is_trained { &mut stated.trainable } else { &mut stated.params };
    if is_trained && told.is_none() {
        *told = Some(count);
    } else if !is_trained && (told.is_none() || *told == *own) {
        let other = own.is_some_and(|before| before != count);
        *told = Some(count).filter(|_| !other);
        *own = Some(if other { 0 } else { count });
        stated.params_within = told.map_or(0, |all| rounding(line, Some(all)));
    }
}

fn types(line: &str, stated: &mut StatedSettings) {
    // Lightning, `trainer/connectors/accelerator_connector.py`, `_check_and_init_precision`.
    if line.contains("Automatic Mixed Precision (AMP)") {
        stated.compute = Some(if line.contains("bfloat16") { StatedType::Bf16 } else { StatedType::Fp16 });
    }
    // torchtune, `recipes/*.py`.
    if let Some((_, name)) = line.split_once("Model is initialized with precision torch.") {
        stated.weights = super::settings::number_type(name.trim_end_matches('.'));
    }
}

fn recomputation(line: &str, stated: &mut StatedSettings) {
    // torchtitan, `distributed/activation_checkpoint.py`, `apply_ac`.
    if line.contains("activation checkpointing to the model") {
        for (word, kind) in
            [("Applied full", StatedCheckpointing::Full), ("Applied selective", StatedCheckpointing::Selective)]
        {
            if line.contains(word) {
                stated.checkpointing = Some(kind);
            }
        }
    }
    // Every decoder of transformers says so in its first training step; LLaMA-Factory, `model/model_utils/checkpointing.py`.
    if line.contains("is incompatible with gradient checkpointing") || line.contains("Gradient checkpointing enabled.")
    {
        stated.checkpointing = Some(StatedCheckpointing::Full);
    }
}
