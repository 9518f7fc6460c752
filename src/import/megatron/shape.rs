//! The architecture that Megatron's arguments spell.

use super::{Job, engine_experts};
use crate::imported::ImportedPlan;
use crate::launch::base;
use crate::model;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::rows::not_modelled;

/// Tokenizers whose vocabulary everyone knows: the files that they come with are fixed.
const VOCABULARIES: [(&str, u64); 2] = [("GPT2BPETokenizer", 50_257), ("Llama2Tokenizer", 32_000)];

/// Files of words that are published under these names, with the number of their lines.
const FILES: [(&str, u64); 6] = [
    ("bert-base-uncased", 30_522),
    ("bert-large-uncased", 30_522),
    ("bert-base-cased", 28_996),
    ("bert-large-cased", 28_996),
    ("bert-base-chinese", 21_128),
    ("bert-base-multilingual-cased", 119_547),
];

/// Sets `model.architecture` and the kind of model.
pub fn set(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    let script = job.context.program.name().to_owned();
    let kind = match script.as_str() {
        name if name.contains("bert") || name.contains("pretrain_ict") => Some("transformer_encoder"),
        name if name.contains("t5") => Some("transformer_encoder_decoder"),
        _ => None,
    };
    imported.set(keys::model::model_type, kind.map(|kind| Setting::new(kind, Origin::Program(script.clone()))));
    // `pretrain_ict.py`, `pretrain_ict_model_provider`: a BERT for queries and one for blocks.
    if script.contains("pretrain_ict") && !settings.is("biencoder_shared_query_context_model") {
        not_modelled(imported, &format!("{script}: two encoders, one for queries and one for blocks: one is counted"));
    }
    let pattern = settings.first_text(&["hybrid_layer_pattern", "hybrid_override_pattern"]);
    if pattern.is_some() || script.contains("mamba") {
        imported.note("layers of Mamba have no word in a plan: all are counted as attention and MLP");
    }
    // A letter or sign of the pattern is a layer: `M-M*-`; `|` parts stages, `/` what predicts further tokens.
    let signs = |text: String| text.split('/').next().unwrap_or("").chars().filter(|sign| *sign != '|').count() as u64;
    let layers = settings.first_whole(&["num_layers", "decoder_num_layers", "encoder_num_layers"]);
    imported.set(keys::architecture::num_layers, layers.or_else(|| Some(pattern?.map(signs))));
    if settings.get("decoder_num_layers").is_some() {
        imported.set(keys::architecture::num_encoder_layers, settings.whole("encoder_num_layers"));
    }
    imported.set(keys::architecture::hidden_size, settings.whole("hidden_size"));
    imported.set(keys::architecture::intermediate_size, feed_forward(job));
    heads(imported, job);
    vocabulary(imported, job);
    imported.set(keys::architecture::max_position_embeddings, settings.whole("max_position_embeddings"));
    let untied = job.unless("untie_embeddings_and_output_weights");
    imported.set(
        keys::architecture::tie_embeddings,
        untied.or_else(|| Some(Setting::new(true, Job::default("embeddings tied")))),
    );
    imported.set(keys::architecture::position, position(job));
    imported.set(keys::architecture::activation, Some(activation(job)));
    // Megatron-LLaMA's switch (`alibaba/Megatron-LLaMA`).
    let switch = settings.on("RMSNorm").map(|found| found.map(|_| "RMSNorm".to_owned()));
    let norm = switch.or_else(|| settings.text("normalization"));
    imported.set(
        keys::architecture::norm,
        norm.map(|found| found.map(|name| if name.eq_ignore_ascii_case("rmsnorm") { "rmsnorm" } else { "layernorm" })),
    );
    let bias = job.unless("disable_bias_linear");
    imported.set(
        keys::architecture::linear_bias,
        bias.or_else(|| Some(Setting::new(true, Job::default("biases in linear layers")))),
    );
    imported.set(keys::architecture::mtp_layers, settings.whole("mtp_num_layers"));
    experts(imported, job);
    latent(imported, job);
    if imported.get(keys::architecture::hidden_size).is_none() {
        imported.miss(keys::model::architecture, "no --hidden-size");
    }
}

/// Attention by its own options.
fn heads(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    imported.set(keys::architecture::num_attention_heads, settings.whole("num_attention_heads"));
    // Megatron-DeepSpeed's name.
    imported.set(keys::architecture::num_kv_heads, settings.whole("num_key_value_heads"));
    if job.is("group_query_attention") {
        let groups = settings.whole("num_query_groups");
        imported.set(
            keys::architecture::num_kv_heads,
            groups.or_else(|| Some(Setting::new(1, Job::default("--num-query-groups 1")))),
        );
    }
    // The fork of BigCode (`bigcode-project/Megatron-LM`, `megatron/arguments.py`).
    let shared = settings.text("attention_head_type").filter(|found| found.value == "multiquery");
    imported.set(keys::architecture::num_kv_heads, shared.map(|found| found.map(|_| 1)));
    imported.set(keys::architecture::head_dim, settings.whole("kv_channels"));
    imported.set(keys::architecture::qkv_bias, settings.flag("add_qkv_bias"));
    imported.set(keys::architecture::qk_norm, settings.flag("qk_layernorm"));
    // `--window-size 127,0`: so many tokens before, and itself.
    let window =
        settings.texts("window_size").and_then(|found| found.and_then(|sizes| sizes.first()?.parse::<u64>().ok()));
    imported.set(keys::architecture::sliding_window, window.map(|found| found.map(|before| before.saturating_add(1))));
}

/// `ffn_hidden_size`; its default is four times the width, two thirds of that when gated.
fn feed_forward(job: &Job) -> Option<Setting<u64>> {
    let given = job.settings.whole("ffn_hidden_size");
    given.or_else(|| {
        let hidden = job.settings.whole("hidden_size")?.value;
        let wide = hidden.checked_mul(4)?;
        Some(if job.is("swiglu") {
            Setting::new(wide * 2 / 3 / 64 * 64, Job::default("--ffn-hidden-size 8/3 x hidden, to 64"))
        } else {
            Setting::new(wide, Job::default("--ffn-hidden-size 4 x hidden"))
        })
    })
}

/// The kind of tokenizer that a fork's arguments have where none is given: only one that is None is the script's to choose
/// (`megatron/arguments.py`, `_set_arg_defaults` and `pretrain_gpt.py`, `args_defaults`).
fn own_tokenizer(job: &Job) -> Option<Setting<String>> {
    let (path, text) = own_arguments(job)?;
    let (_, behind) = text.split_once("'--tokenizer-type'")?;
    let declared = behind.split("add_argument(").next()?;
    let name = declared.split_once("default='")?.1.split('\'').next()?;
    Some(Setting::new(name.to_owned(), Origin::Derived(format!("{path}: --tokenizer-type {name}"))))
}

/// The arguments that the sources around a job declare.
fn own_arguments(job: &Job) -> Option<(&'static str, String)> {
    const SOURCES: [&str; 2] = ["megatron/training/arguments.py", "megatron/arguments.py"];
    SOURCES.iter().find_map(|path| Some((*path, job.context.run.files.read(path).ok()?)))
}

fn vocabulary(imported: &mut ImportedPlan, job: &Job) {
    const KEY: &str = "model.architecture.vocab_size";
    let settings = job.settings;
    // A multiple that is not the usual 128 is final: times the tensor ranks, as the code pads.
    if let Some(multiple) = settings.whole("make_vocab_size_divisible_by").filter(|found| found.value != 128) {
        let tensor = job.value("tensor_model_parallel_size");
        imported.set(
            keys::architecture::vocab_padding_multiple,
            multiple.and_then(|multiple| multiple.checked_mul(tensor)),
        );
    }
    // `--pad-vocab-size-to` is Megatron-DeepSpeed's.
    if let Some(size) = settings.first_whole(&["padded_vocab_size", "pad_vocab_size_to", "vocab_size"]) {
        return imported.set(KEY, Some(size));
    }
    let tokenizer = settings.text("tokenizer_type").or_else(|| own_tokenizer(job));
    let known = tokenizer.clone().and_then(|found| {
        found.and_then(|name| VOCABULARIES.iter().find(|(known, _)| *known == name).map(|(_, size)| *size))
    });
    let named = settings.text("tokenizer_model").or_else(|| settings.text("tokenizer_name_or_path"));
    let model = named.and_then(|found| {
        let preset = model::preset(job.context, &found.value).or_else(|| {
            // A path to a tokenizer's file: its folder may be named like the model.
            let folder = found.value.rsplit_once('/')?.0;
            model::preset(job.context, base(folder))
        })?;
        let config = &job.context.catalog.model(&preset)?.hf_config;
        let text = || config.get("text_config")?.get("vocab_size");
        let size = config.get("vocab_size").or_else(text)?.as_u64()?;
        Some(Setting::new(size, Origin::Derived(format!("{}: the vocabulary of {preset}", found.origin))))
    });
    // A GPT without a word about its tokenizer comes with GPT-2's files.
    // A file of another name is another vocabulary.
    let own = settings.text("vocab_file").is_some_and(|found| !found.value.to_lowercase().contains("gpt"));
    let known = known.filter(|found| !(own && found.value == 50_257));
    let files = settings.text("vocab_file").filter(|_| tokenizer.is_none() && !own);
    let script = job.context.program.name();
    let others = ["t5", "bert", "ict"].iter().any(|part| script.contains(part));
    let gpt2 = files.filter(|_| !others).map(|found| found.map(|_| 50_257));
    let published = settings.text("vocab_file").and_then(|found| {
        let file = base(&found.value).to_lowercase();
        let size = FILES.iter().find(|(name, _)| file.starts_with(name))?.1;
        // Sentinels of T5's come beside.
        let further = settings.whole("vocab_extra_ids").map_or(0, |further| further.value);
        Some(found.map(|_| size.saturating_add(further)))
    });
    match published.or(model).or(known).or(gpt2).or_else(|| of_default_tokenizer(job)) {
        Some(size) => imported.set(KEY, Some(size)),
        None => imported.miss(KEY, "the tokenizer is not given, or its size is unknown"),
    }
}

/// A vocabulary file that is to be filled in, of a script whose default tokenizer comes with its own (`pretrain_gpt.py`,
/// `pretrain_bert.py`: `args_defaults`).
fn of_default_tokenizer(job: &Job) -> Option<Setting<u64>> {
    let settings = job.settings;
    let open = settings.is_set("vocab_file") && settings.text("vocab_file").is_none();
    let (tokenizer, size) = match job.context.program.name() {
        name if name.ends_with("pretrain_gpt.py") => ("GPT2BPETokenizer", 50_257),
        name if name.ends_with("pretrain_bert.py") => ("BertWordPieceLowerCase", 30_522),
        _ => return None,
    };
    (open && !settings.is_set("tokenizer_type")).then(|| {
        settings.answer("vocab_file");
        Setting::new(size, Job::default(&format!("{tokenizer}, whose own file stands for one that is to be filled in")))
    })
}

fn position(job: &Job) -> Option<Setting<&'static str>> {
    // It scales angles, of which there are as many.
    job.settings.accept("rotary_seq_len_interpolation_factor");
    let given = job.settings.text("position_embedding_type")?;
    let rope = ["use_rotary_position_embeddings", "use_llama2_rotary_position_embeddings"]
        .iter()
        .find_map(|name| job.settings.flag(name))
        .filter(|found| found.value);
    let word = |name: String| match name.as_str() {
        "rope" | "yarn" | "mrope" | "rotary" => "rope",
        "learned_absolute" => "learned",
        "alibi" => "alibi",
        "none" | "nope" => "none",
        _ => "",
    };
    let word = rope.map_or_else(|| given.map(word), |found| found.map(|_| "rope"));
    // None beside is what rotary ones mean (`megatron/training/arguments.py`, `validate_args`).
    if word.value == "rope" {
        job.settings.accept("no_position_embedding");
    }
    if word.value.is_empty() {
        job.settings.refuse("position_embedding_type");
        return None;
    }
    Some(word)
}

fn activation(job: &Job) -> Setting<&'static str> {
    for (option, word) in
        [("swiglu", "swiglu"), ("quick_geglu", "geglu"), ("geglu", "geglu"), ("squared_relu", "relu2")]
    {
        if let Some(found) = job.settings.on(option) {
            return found.map(|_| word);
        }
    }
    Setting::new("gelu", Job::default("GELU"))
}

/// How many experts a token visits where nobody says it: two, or one in sources whose arguments do not know how many: their
/// `SwitchMLP` routes to one (core 0.4, `core/transformer/switch_mlp.py`; `megatron/model/transformer.py` before).
fn routed(job: &Job) -> Option<Setting<u64>> {
    let switched =
        own_arguments(job).filter(|(_, text)| text.contains("--num-experts") && !text.contains("moe-router-topk"));
    let Some((path, text)) = switched else {
        return Some(Setting::new(2, Job::default("--moe-router-topk 2")));
    };
    let origin = |option: &str| Origin::Derived(format!("{path}: {option}"));
    // Zyphra's fork chooses by a word (`--routing-mode`, sinkhorn unless told).
    let by_word = job.settings.text("routing_mode").filter(|_| text.contains("--routing-mode"));
    Some(match by_word {
        Some(found) => found.map(|word| if word.ends_with("top2") { 2 } else { 1 }),
        None => Setting::new(1, origin("no --moe-router-topk, SwitchMLP routes to one")),
    })
}

fn experts(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    let of_deepspeed = engine_experts::are_meant(job);
    let experts = if of_deepspeed { engine_experts::count(imported, job) } else { settings.whole("num_experts") };
    let Some(experts) = experts.filter(|found| found.value > 1) else { return };
    imported.set(keys::moe::num_experts, Some(experts));
    let top = settings.whole("moe_router_topk").or_else(|| routed(job));
    imported.set(keys::moe::experts_per_token, top);
    let width = settings.whole("moe_ffn_hidden_size");
    imported.set(
        keys::moe::intermediate_size,
        width.or_else(|| {
            let origin = Job::default("--moe-ffn-hidden-size as --ffn-hidden-size");
            feed_forward(job).map(|found| Setting::new(found.value, origin))
        }),
    );
    if of_deepspeed {
        return engine_experts::shape(imported, job);
    }
    imported
        .set("model.architecture.moe.shared_intermediate_size", settings.whole("moe_shared_expert_intermediate_size"));
    let Some(frequency) = settings.text("moe_layer_freq") else { return };
    match pattern(&frequency.value) {
        Some((dense, every)) => {
            imported.set(
                keys::moe::first_dense_layers,
                Some(Setting::new(dense, frequency.origin.clone())).filter(|found| found.value > 0),
            );
            imported.set(
                keys::moe::layer_frequency,
                Some(Setting::new(every, frequency.origin)).filter(|found| found.value > 1),
            );
        }
        None => imported.note(format!("--moe-layer-freq {}: a pattern that a plan has no word for", frequency.value)),
    }
}

/// `([0]*3+[1]*58)`: dense layers first, then experts in every one; `2`: in every second.
fn pattern(text: &str) -> Option<(u64, u64)> {
    // One that a shell's `eval` reads has quotes inside quotes: `"'([1]*4)'"`.
    let text: String = text.chars().filter(|letter| !letter.is_whitespace() && !['"', '\''].contains(letter)).collect();
    if let Ok(every) = text.parse() {
        return Some((0, every));
    }
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(&text);
    let mut dense = 0;
    let mut seen_experts = false;
    for part in inner.split('+') {
        let (list, times) = part.split_once('*').unwrap_or((part, "1"));
        let times: u64 = times.parse().ok()?;
        for layer in list.strip_prefix('[')?.strip_suffix(']')?.split(',') {
            match layer {
                "0" if !seen_experts => dense += times,
                "1" => seen_experts = true,
                _ => return None,
            }
        }
    }
    seen_experts.then_some((dense, 1))
}

fn latent(imported: &mut ImportedPlan, job: &Job) {
    if !job.is("multi_latent_attention") {
        return;
    }
    const RANKS: [(&str, &str, u64, &str); 4] = [
        ("kv_lora_rank", keys::mla::kv_lora_rank, 512, "--kv-lora-rank 512"),
        ("qk_head_dim", keys::mla::qk_nope_head_dim, 128, "--qk-head-dim 128"),
        ("qk_pos_emb_head_dim", keys::mla::qk_rope_head_dim, 64, "--qk-pos-emb-head-dim 64"),
        ("v_head_dim", keys::mla::v_head_dim, 128, "--v-head-dim 128"),
    ];
    for (option, key, default, said) in RANKS {
        let given = job.settings.whole(option);
        imported.set(key, given.or_else(|| Some(Setting::new(default, Job::default(said)))));
    }
    imported.set(keys::mla::q_lora_rank, job.settings.whole("q_lora_rank"));
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn patterns_of_dense_and_expert_layers() {
        for (text, meant) in [
            ("1", Some((0, 1))),
            ("2", Some((0, 2))),
            ("([0]*3+[1]*58)", Some((3, 1))),
            ("[0]+[1]*23", Some((1, 1))),
            ("[0,0]*1+[1]*3", Some((2, 1))),
            ("([1]*3+[0]*2)*2", None),
            ("[0]*3", None),
            ("", None),
        ] {
            assert_eq!(pattern(text), meant, "{text}");
        }
    }
}
