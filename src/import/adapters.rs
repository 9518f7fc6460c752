//! Low-rank adapters by the names that frameworks have for them.

use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use crate::plan::keys;

/// Where adapters go, in a plan's words: one for all linear layers, else the modules.
pub fn set_targets(imported: &mut ImportedPlan, found: Option<Setting<Vec<String>>>) {
    let Some(found) = found.filter(|found| !found.value.is_empty()) else { return };
    let all = |name: &String| matches!(name.as_str(), "all" | "all-linear" | "all_linear");
    let names = found.map(|names| if names.iter().any(all) { vec!["all-linear".to_owned()] } else { names });
    let names = names.map(|names| names.iter().flat_map(|name| alternatives(name)).collect::<Vec<_>>());
    let of_qwen = imported
        .get(keys::model::preset)
        .is_some_and(|found| found.value.as_str().is_some_and(|preset| preset.starts_with("qwen")));
    // Qwen's first models call their layers as they were in GPT-2; those that stand for them here do not, and later ones
    // have none of these names.
    let names = match (of_qwen, is_named(imported, &FIRST_QWEN)) {
        (true, true) => names.map(|names| names.iter().flat_map(|name| now(name)).collect()),
        (true, false) if names.value.iter().any(|name| is_of_now(name)) => {
            names.map(|names| names.into_iter().filter(|name| is_of_now(name)).collect())
        }
        _ => names,
    };
    let names = names.map(|names| names.iter().flat_map(|name| joined(imported, name)).collect::<Vec<_>>());
    imported.set(keys::lora::targets, Some(names));
}

/// What layers of `modeling_baichuan.py` and `modeling_internlm2.py` are called in Llama's keys, which the catalogue has.
fn joined(imported: &ImportedPlan, name: &str) -> Vec<String> {
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str()).unwrap_or_default();
    let of = |family: &str| preset.starts_with(family);
    let names: &[&str] = match name {
        "W_pack" if of("baichuan") => &["q_proj", "k_proj", "v_proj"],
        "wqkv" if of("internlm2") => &["q_proj", "k_proj", "v_proj"],
        "wo" if of("internlm2") => &["o_proj"],
        "w1" if of("internlm2") => &["gate_proj"],
        "w3" if of("internlm2") => &["up_proj"],
        "w2" if of("internlm2") => &["down_proj"],
        other => &[other],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The embedding and the output matrix, where copies of them train whole beside the adapters (peft's `modules_to_save`).
/// Returns whether the plan says it: other modules, copies above quantised weights, which peft's preparation has in fp32,
/// those that a tool casts with its adapters and those of unsloth, which keeps the originals on the host, have no word there.
pub fn set_saved(imported: &mut ImportedPlan, found: &Setting<Vec<String>>) -> bool {
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str()).unwrap_or_default();
    // Their embedding, or their output matrix, has another name.
    const OTHERS: [&str; 7] = ["gpt2", "gpt-", "pythia", "falcon", "bloom", "mpt", "dbrx"];
    let otherwise = OTHERS.iter().any(|name| preset.starts_with(name));
    let first_qwen = is_named(imported, &FIRST_QWEN);
    let known = |name: &String| match name.as_str() {
        "embed_tokens" | "model.embed_tokens" if !first_qwen => Some("embed_tokens"),
        "wte" | "transformer.wte" if first_qwen => Some("embed_tokens"),
        "lm_head" => Some("lm_head"),
        _ => None,
    };
    let names: Option<Vec<&str>> = found.value.iter().map(known).collect();
    let adapted = imported.get(keys::lora::targets).map(|found| found.value.to_string()).unwrap_or_default();
    let twice = ["embed_tokens", "lm_head", "wte"].iter().any(|name| adapted.contains(name));
    let quantised = imported.get(keys::lora::base_bits).is_some() || imported.quantised.is_some();
    let apart = quantised || imported.tool == "unsloth" || imported.get(keys::lora::dtype).is_some();
    let followed = !otherwise && !twice && !apart && imported.tower.is_none();
    let Some(mut names) = names.filter(|names| followed && !names.is_empty()) else { return false };
    names.dedup();
    imported.say(keys::lora::modules_to_save, names, found.origin.clone());
    true
}

/// Takes over what trains whole beside the adapters, or says that the plan does not count it.
pub fn take_saved(imported: &mut ImportedPlan, found: Option<Setting<Vec<String>>>) {
    let Some(found) = found.filter(|found| !found.value.is_empty()) else { return };
    if !set_saved(imported, &found) {
        let names = found.value.join(", ");
        not_modelled(imported, &format!("{}: {names}: modules that train whole beside the adapters", found.origin));
    }
}

/// The first models of Qwen, as their names are written.
const FIRST_QWEN: [&str; 5] = ["qwen-1-8b", "qwen-7b", "qwen-14b", "qwen-72b", "qwen-vl"];

/// Whether a layer has a name that is none of the first Qwen's alone.
fn is_of_now(name: &str) -> bool {
    !matches!(name, "c_attn" | "attn.c_proj" | "c_proj" | "w1" | "w2")
}

/// Whether the preset, or what names it, has one of these names.
fn is_named(imported: &ImportedPlan, names: &[&str]) -> bool {
    let named = imported.get(keys::model::preset).map(|found| format!("{} {}", found.origin, found.value));
    let plain = named.unwrap_or_default().to_lowercase().replace('_', "-");
    let whole = |name: &str| {
        plain.match_indices(name).any(|(at, _)| {
            let letter = plain.get(..at).and_then(|before| before.chars().next_back());
            !letter.is_some_and(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.'))
        })
    };
    names.iter().any(|name| whole(name))
}

/// What a layer of `modeling_qwen.py` (`Qwen/Qwen-7B`) is called in transformers' Qwen2: one `c_proj` closes attention,
/// another the MLP.
fn now(name: &str) -> Vec<String> {
    let names: &[&str] = match name {
        "c_attn" => &["q_proj", "k_proj", "v_proj"],
        "c_proj" => &["o_proj", "down_proj"],
        "w1" => &["up_proj"],
        "w2" => &["gate_proj"],
        other => &[other],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Says of adapters in every linear layer that a model has one layer for queries, keys and values where the plan's has
/// three: `modeling_qwen.py`, `modeling_baichuan.py`, `modeling_internlm2.py`.
pub fn settle(imported: &mut ImportedPlan) {
    pass_over(imported);
    // One adapter for all experts of a rank, or one each (Megatron-Bridge, `peft/lora.py`, `share_expert_adapters`).
    let core = imported.get(keys::model::framework).is_some_and(|found| found.value == "megatron");
    if core && reach_experts(imported, &[&OF_LAYERS[..], &OF_GROUPS].concat()) {
        not_modelled(
            imported,
            "adapters on experts, which Megatron's linear layers have as well: none are counted there",
        );
    }
    // `register_buffer("qweight", …)` of AutoGPTQ, GPTQModel and AutoAWQ: FSDP and ZeRO share out parameters alone.
    let shared = imported.get(keys::distribution::sharding).is_some_and(|found| found.value == "zero3");
    let named = imported.quantised.as_ref().map(|found| found.origin.to_string().to_lowercase()).unwrap_or_default();
    let in_buffers = ["gptq", "awq"].iter().any(|part| named.contains(part));
    if shared && in_buffers && imported.get(keys::lora::base_bits).is_some() {
        not_modelled(
            imported,
            "quantised weights of GPTQ or AWQ are buffers, whole on each rank: they are counted as shared out",
        );
    }
    if imported.get(keys::lora::rank).is_none() {
        imported.drop(keys::lora::modules_to_save);
    }
    const OTHERS: [&str; 2] = ["baichuan", "internlm2"];
    let all = imported.get(keys::lora::targets).is_some_and(|found| found.value.to_string().contains("all-linear"));
    let three = imported.get(keys::lora::targets).is_some_and(|found| found.value.to_string().contains("q_proj"));
    let first_qwen = is_named(imported, &FIRST_QWEN);
    if (all || three) && (first_qwen || is_named(imported, &OTHERS)) {
        imported.note(
            "adapters: the model's one layer for queries, keys and values has one adapter; three are counted, which are larger",
        );
    }
}

/// Parts of the names of models whose experts are linear layers each in transformers before its fifth version.
pub const OF_LAYERS: [&str; 4] = ["moe", "mixtral", "deepseek-v2", "deepseek-v3"];

/// Parts of the names of models whose experts are one tensor there.
const OF_GROUPS: [&str; 5] = ["gpt-oss", "llama-4", "kimi-k", "dbrx", "minimax-m"];

/// Whether the model has experts, by its name.
fn mixes(imported: &ImportedPlan, mixtures: &[&str]) -> bool {
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str()).unwrap_or("");
    let active = |part: &str| {
        part.strip_prefix('a').is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    mixtures.iter().any(|part| preset.contains(part)) || preset.split('-').any(active)
}

/// Whether adapters are asked for in layers that experts have, of a model that has some.
pub fn reach_experts(imported: &ImportedPlan, mixtures: &[&str]) -> bool {
    const OF_EXPERTS: [&str; 5] = ["all-linear", "gate_proj", "up_proj", "down_proj", "all"];
    let targets = imported.get(keys::lora::targets).map(|found| found.value.clone()).unwrap_or_default();
    let reaches = |name: &serde_json::Value| OF_EXPERTS.iter().any(|known| name == known);
    mixes(imported, mixtures) && targets.as_array().is_some_and(|all| all.iter().any(reaches))
}

/// Takes adapters out of experts that are no linear layers, of models whose layers have no other MLP: attention's stay
/// (`models/qwen3_moe/modeling_qwen3_moe.py` of transformers 5: the router is a parameter as well).
pub fn leave_experts(imported: &mut ImportedPlan) {
    const OF_ATTENTION: [&str; 4] = ["q_proj", "k_proj", "v_proj", "o_proj"];
    const WITHOUT_OTHER_MLPS: [&str; 4] = ["mixtral-", "qwen3-30b-a3b", "qwen3-235b-a22b", "qwen3-coder-"];
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str()).unwrap_or("");
    let plain = WITHOUT_OTHER_MLPS.iter().any(|start| preset.starts_with(start));
    let Some(found) = imported.get(keys::lora::targets).cloned().filter(|_| plain) else { return };
    let asked: Vec<&str> =
        found.value.as_array().map(|all| all.iter().filter_map(|name| name.as_str()).collect()).unwrap_or_default();
    let all = ["all-linear", "all"].iter().any(|word| asked.contains(word));
    let left: Vec<&str> = OF_ATTENTION.into_iter().filter(|name| all || asked.contains(name)).collect();
    let others = asked.iter().any(|name| !OF_ATTENTION.contains(name));
    if others && !left.is_empty() {
        imported.say(keys::lora::targets, left, found.origin);
        imported
            .note("transformers 5 keeps experts in parameters that adapters of linear layers do not reach: none there");
    }
}

/// Where adapters go on Megatron's layers (Megatron-Bridge, `peft/lora.py`), of which experts have the two of the MLP: a
/// plan has those adapters only as every linear layer's.
pub fn set_core_targets(imported: &mut ImportedPlan, found: Setting<Vec<String>>) {
    let reaches = found.value.iter().any(|name| matches!(name.as_str(), "linear_fc1" | "linear_fc2"));
    let all = reaches && mixes(imported, &[&OF_LAYERS[..], &OF_GROUPS].concat());
    set_targets(imported, Some(if all { found.map(|_| vec!["all-linear".to_owned()]) } else { found }));
}

/// Takes out targets that transformers' Phi-3 has not: its queries, keys and values are one layer, and so are gate and up
/// (`modeling_phi3.py`). PEFT passes names without a layer over where another has one (`tuners_utils.py`, `inject_adapter`).
fn pass_over(imported: &mut ImportedPlan) {
    const JOINED: [&str; 5] = ["q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"];
    let preset =
        imported.get(keys::model::preset).and_then(|found| found.value.as_str()).unwrap_or_default().to_owned();
    let joined = preset.starts_with("phi-3") || preset.starts_with("phi-4");
    let loaded = imported.get(keys::model::framework).is_some_and(|found| found.value == "pytorch");
    // unsloth takes checkpoints whose layers are apart.
    if !joined || !loaded || imported.tool == "unsloth" {
        return;
    }
    let Some(found) = imported.get(keys::lora::targets).cloned() else { return };
    let names: Vec<String> =
        found.value.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    let (out, kept): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| JOINED.contains(&name.as_str()));
    if out.is_empty() || kept.is_empty() {
        return;
    }
    imported.note(format!("{}: no layers of {preset}, so no adapters: {}", found.origin, out.join(", ")));
    imported.say(keys::lora::targets, kept, found.origin);
}

/// The modules that a pattern names in its last part: `layers.[\d]+.(mlp|self_attn).(up|q)_proj` gives `up_proj` and
/// `q_proj`.
fn alternatives(name: &str) -> Vec<String> {
    let last = name.rsplit('.').next().unwrap_or(name).trim_end_matches('$');
    let parts = last.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    match parts {
        Some((words, ending)) if !words.contains(['(', '[', '*']) && !ending.contains(['(', '*', '|', '[']) => {
            words.split('|').map(|word| format!("{}{ending}", word.trim_start_matches("?:"))).collect()
        }
        _ => vec![name.to_owned()],
    }
}

/// Adapters of `rank`, with the base weights in 16 bits or `bits`.
pub fn set(
    imported: &mut ImportedPlan,
    rank: Option<Setting<u64>>,
    default: (&'static str, u64),
    bits: Option<Setting<u64>>,
) {
    let (framework, usual) = default;
    let stood_in = || Setting::new(usual, Origin::Default { framework, option: format!("rank {usual}") });
    imported.set(keys::lora::rank, Some(rank.unwrap_or_else(stood_in)));
    let bits = bits.or_else(|| imported.quantised.clone());
    imported.set(keys::lora::base_bits, bits);
}

/// bitsandbytes' scales of 4 bits quantised too, as a tool's own configuration has it where nobody says otherwise.
/// `other` is a setting that has another library quantise.
pub fn set_double_quant(
    imported: &mut ImportedPlan,
    told: Option<Setting<bool>>,
    framework: &'static str,
    other: Option<Setting<String>>,
) {
    let bitsandbytes = other.is_none() && imported.quantised.is_none();
    if bitsandbytes && imported.whole(keys::lora::base_bits) == Some(4) {
        let option = "bnb_4bit_use_double_quant true".to_owned();
        let usual = || Setting::new(true, Origin::Default { framework, option });
        imported.set(keys::lora::double_quant, Some(told.unwrap_or_else(usual)));
    }
}

#[cfg(test)]
mod tests {
    use super::alternatives;

    #[test]
    fn patterns_name_their_modules() {
        for (pattern, told) in [
            (r"model.language_model.layers.[\d]+.(mlp|cross_attn|self_attn).(up|q)_proj", vec!["up_proj", "q_proj"]),
            ("(?:q_proj|v_proj)", vec!["q_proj", "v_proj"]),
            ("q_proj", vec!["q_proj"]),
            (".*attn.*", vec![".*attn.*"]),
        ] {
            assert_eq!(alternatives(pattern), told, "{pattern}");
        }
    }
}
