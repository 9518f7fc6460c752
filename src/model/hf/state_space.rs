//! Mamba, Mamba-2 and hybrids of them with attention (transformers 4.57.6, models/bamba, falcon_h1, falcon_mamba, granitemoehybrid,
//! jamba, mamba and mamba2, `configuration_*.py`; 5.3, models/nemotron_h).

use super::HELP;
use super::decoder::{moe, rotary};
use super::keys::{Keys, MAX_COUNT, MAX_WIDTH};
use crate::model::architecture::{Act, Decoder, Family, HybridLayer, Moe, Scan, ScanNorms, StateSpace};
use crate::model::rules::{ClassNorm, ClassRules};
use crate::plan::Fault;
use crate::plan::keywords::Position;

/// A layer of a state-space model alone.
const MIXING: HybridLayer = HybridLayer { state_space: true, attention: false, feed_forward: false };

/// What is particular to these families.
pub fn read(d: Decoder, keys: Keys<'_>, family: Family) -> Result<Decoder, Fault> {
    match family {
        Family::Mamba => mamba(d, keys),
        Family::Mamba2 => mamba2(d, keys),
        Family::Bamba => bamba(d, keys),
        Family::GraniteHybrid => granite(d, keys),
        Family::FalconH1 => falcon(d, keys),
        Family::NemotronH => nemotron(d, keys),
        Family::Jamba => jamba(d, keys),
        _ => Err(Keys::fault("model_type", format!("{family:?} has no checked rules"))),
    }
}

/// A number, or the class's where the key is absent or "auto".
fn or_auto(keys: Keys<'_>, name: &str, otherwise: u64) -> Result<u64, Fault> {
    if keys.text(&[name]) == Some("auto") {
        return Ok(otherwise);
    }
    Ok(keys.count(&[name], MAX_WIDTH)?.unwrap_or(otherwise))
}

/// The scan of the hybrids, whose keys begin with `mamba_`.
fn prefixed(d: &Decoder, keys: Keys<'_>, inner: u64, normed: bool) -> Result<StateSpace, Fault> {
    let count = |name, otherwise| Ok::<_, Fault>(keys.count(&[name], MAX_WIDTH)?.unwrap_or(otherwise));
    let heads = count("mamba_n_heads", 128)?;
    let each = or_auto(keys, "mamba_d_head", inner / heads)?;
    of_heads(
        StateSpace {
            layers: vec![HybridLayer { feed_forward: true, ..MIXING }; usize::try_from(d.layers).unwrap_or(0)],
            scan: Scan::Heads {
                heads,
                groups: count("mamba_n_groups", 1)?,
                chunk: count("mamba_chunk_size", 256)?,
                normed,
            },
            inner,
            state: count("mamba_d_state", 256)?,
            kernel: count("mamba_d_conv", 4)?,
            conv_bias: keys.flag("mamba_conv_bias", true)?,
            in_bias: keys.flag("mamba_proj_bias", false)?,
            out_bias: keys.flag("mamba_proj_bias", false)?,
            wide_stream: false,
            multiplied: false,
        },
        each,
        ("mamba_n_heads", "mamba_n_groups"),
    )
}

/// Refuses heads that do not fill the layer's width, and groups that do not divide them.
fn of_heads(space: StateSpace, each: u64, (heads_key, groups_key): (&str, &str)) -> Result<StateSpace, Fault> {
    let Scan::Heads { heads, groups, .. } = space.scan else { return Ok(space) };
    if heads.saturating_mul(each) != space.inner {
        let inner = space.inner;
        return Err(Keys::fault(
            heads_key,
            format!("{heads} heads of {each} channels are not the {inner} of the layer"),
        ));
    }
    if !heads.is_multiple_of(groups) {
        return Err(Keys::fault(groups_key, format!("{groups} do not divide {heads} heads")));
    }
    Ok(space)
}

fn expanded(keys: Keys<'_>, name: &str, hidden: u64) -> Result<u64, Fault> {
    let factor = keys.number(name)?.unwrap_or(2.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok((factor * hidden as f64) as u64)
}

fn mamba2(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let count = |name, otherwise| Ok::<_, Fault>(keys.count(&[name], MAX_WIDTH)?.unwrap_or(otherwise));
    let inner = expanded(keys, "expand", d.hidden)?;
    let bias = keys.flag("use_bias", false)?;
    let space = StateSpace {
        layers: vec![MIXING; usize::try_from(d.layers).unwrap_or(0)],
        scan: Scan::Heads {
            heads: count("num_heads", 128)?,
            groups: count("n_groups", 8)?,
            chunk: count("chunk_size", 256)?,
            normed: true,
        },
        inner,
        state: count("state_size", 128)?,
        kernel: count("conv_kernel", 4)?,
        conv_bias: keys.flag("use_conv_bias", true)?,
        in_bias: bias,
        out_bias: bias,
        wide_stream: keys.flag("residual_in_fp32", true)?,
        multiplied: false,
    };
    let space = of_heads(space, count("head_dim", 64)?, ("num_heads", "n_groups"))?;
    Ok(Decoder { position: Position::None, state_space: Some(space), ..d })
}

/// Mamba, and Falcon-Mamba with norms within the kernel.
fn mamba(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let inner = expanded(keys, "expand", d.hidden)?;
    let bias = keys.flag("use_bias", false)?;
    if bias {
        let said = "true: mamba-ssm's kernel gives an output bias no gradient of its size";
        return Err(Keys::fault("use_bias", said));
    }
    let falcon = keys.text(&["model_type"]) == Some("falcon_mamba");
    let space = StateSpace {
        layers: vec![MIXING; usize::try_from(d.layers).unwrap_or(0)],
        scan: Scan::Channels {
            rank: or_auto(keys, "time_step_rank", d.hidden.div_ceil(16))?,
            norms: if falcon { ScanNorms::Bare } else { ScanNorms::No },
        },
        inner,
        state: keys.count(&["state_size"], MAX_WIDTH)?.unwrap_or(16),
        kernel: keys.count(&["conv_kernel"], MAX_WIDTH)?.unwrap_or(4),
        conv_bias: keys.flag("use_conv_bias", true)?,
        in_bias: bias,
        out_bias: bias,
        wide_stream: keys.flag("residual_in_fp32", true)?,
        multiplied: false,
    };
    let class_rules = ClassRules { copies_logits: true, ..ClassRules::USUAL };
    Ok(Decoder { position: Position::None, class_rules, state_space: Some(space), ..d })
}

fn bamba(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let mut space = prefixed(&d, keys, expanded(keys, "mamba_expand", d.hidden)?, true)?;
    let attending = keys.counts("attn_layer_indices", 10_000)?.unwrap_or_default();
    for (index, layer) in (0..).zip(&mut space.layers) {
        let attends = attending.contains(&index);
        *layer = HybridLayer { state_space: !attends, attention: attends, feed_forward: true };
    }
    Ok(Decoder { rotary_dim: rotary(&d, 0.5), state_space: Some(space), ..d })
}

/// Granite 4: layers as listed (from transformers 5.20 on as `linear_attention` and `full_attention`), experts beside a shared one or that alone.
fn granite(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let mut space = prefixed(&d, keys, expanded(keys, "mamba_expand", d.hidden)?, true)?;
    let listed = keys.texts("layer_types").or_else(|| keys.texts("layers_block_type")).unwrap_or_default();
    for (index, layer) in space.layers.iter_mut().enumerate() {
        let attends = listed.get(index).is_some_and(|kind| matches!(*kind, "attention" | "full_attention"));
        *layer = HybridLayer { state_space: !attends, attention: attends, feed_forward: true };
    }
    let shared = keys.whole("shared_intermediate_size", MAX_WIDTH)?.unwrap_or(1024);
    let experts = keys.whole("num_local_experts", MAX_COUNT)?.unwrap_or(8);
    let routed = if experts == 0 { None } else { Some(moe(keys, d.intermediate, 8, 2)?) };
    let position =
        if keys.text(&["position_embedding_type"]) == Some("rope") { Position::Rope } else { Position::None };
    Ok(Decoder {
        position,
        intermediate: if experts == 0 { shared } else { d.intermediate },
        fused_gate_up: true,
        moe: routed.map(|moe| Moe { shared_intermediate: shared, ..moe }),
        class_rules: ClassRules { joined_experts: true, ..ClassRules::USUAL },
        state_space: Some(space),
        ..d
    })
}

/// Falcon-H1: both in every layer.
fn falcon(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let inner = if keys.is_null("mamba_d_ssm") {
        expanded(keys, "mamba_expand", d.hidden)?
    } else {
        keys.count(&["mamba_d_ssm"], MAX_WIDTH)?.unwrap_or(1024)
    };
    let space = prefixed(&d, keys, inner, keys.flag("mamba_rms_norm", false)?)?;
    let layer = HybridLayer { state_space: true, attention: true, feed_forward: true };
    let layers = vec![layer; space.layers.len()];
    let out_bias = keys.flag("projectors_bias", false)?;
    Ok(Decoder { state_space: Some(StateSpace { layers, out_bias, multiplied: true, ..space }), ..d })
}

/// Jamba: attention in every so many layers, experts in every so many.
fn jamba(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let every = |period, offset, otherwise: (u64, u64)| -> Result<(u64, u64), Fault> {
        Ok((
            keys.count(&[period], MAX_COUNT)?.unwrap_or(otherwise.0),
            keys.whole(offset, MAX_COUNT)?.unwrap_or(otherwise.1),
        ))
    };
    let (period, offset) = every("attn_layer_period", "attn_layer_offset", (8, 4))?;
    let bias = keys.flag("mamba_proj_bias", false)?;
    let layer = |index: u64| {
        let attention = index % period == offset;
        HybridLayer { state_space: !attention, attention, feed_forward: true }
    };
    let space = StateSpace {
        layers: (0..d.layers).map(layer).collect(),
        scan: Scan::Channels { rank: or_auto(keys, "mamba_dt_rank", d.hidden.div_ceil(16))?, norms: ScanNorms::Own },
        inner: expanded(keys, "mamba_expand", d.hidden)?,
        state: keys.count(&["mamba_d_state"], MAX_WIDTH)?.unwrap_or(16),
        kernel: keys.count(&["mamba_d_conv"], MAX_WIDTH)?.unwrap_or(4),
        conv_bias: keys.flag("mamba_conv_bias", true)?,
        in_bias: bias,
        out_bias: bias,
        wide_stream: false,
        multiplied: false,
    };
    let (frequency, first) = every("expert_layer_period", "expert_layer_offset", (2, 1))?;
    let experts = moe(keys, d.intermediate, 16, 2)?;
    // Layer `i` has experts where `i % period` is the offset.
    let offset = (frequency - first % frequency) % frequency;
    let routed = (experts.experts > 1 && first < frequency).then_some(Moe { frequency, offset, ..experts });
    let class_rules = ClassRules { repeats_kv: true, always_masked: true, ..ClassRules::USUAL };
    Ok(Decoder { position: Position::None, moe: routed, class_rules, state_space: Some(space), ..d })
}

/// Nemotron-H: one part a layer, as a letter each says (`hybrid_override_pattern`).
fn nemotron(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let count = |names: &[&str], otherwise| Ok::<_, Fault>(keys.count(names, MAX_WIDTH)?.unwrap_or(otherwise));
    let (layers, dense_layers) = lettered(keys)?;
    let heads = count(&["mamba_num_heads"], 128)?;
    let each = count(&["mamba_head_dim"], 64)?;
    let bias = keys.flag("use_bias", false)?;
    let space = StateSpace {
        layers,
        scan: Scan::Heads {
            heads,
            groups: count(&["n_groups", "mamba_n_groups"], 8)?,
            chunk: count(&["chunk_size", "mamba_chunk_size"], 128)?,
            normed: true,
        },
        inner: heads.saturating_mul(each),
        state: count(&["ssm_state_size"], 128)?,
        kernel: count(&["conv_kernel", "mamba_d_conv"], 4)?,
        conv_bias: keys.flag(if keys.has("use_conv_bias") { "use_conv_bias" } else { "mamba_conv_bias" }, true)?,
        in_bias: bias || keys.flag("mamba_proj_bias", false)?,
        out_bias: bias || keys.flag("mamba_proj_bias", false)?,
        wide_stream: keys.flag("residual_in_fp32", false)?,
        multiplied: false,
    };
    let space = of_heads(space, each, ("mamba_num_heads", "n_groups"))?;
    let has_experts =
        (0..).zip(&space.layers).any(|(layer, parts)| parts.feed_forward && !dense_layers.contains(&layer));
    let shared = keys.whole("moe_shared_expert_intermediate_size", MAX_WIDTH)?.unwrap_or(7688);
    let routed = if has_experts { Some(moe(keys, 7688, 8, 2)?) } else { None };
    let latent = keys.count(&["moe_latent_size"], MAX_WIDTH)?;
    Ok(Decoder {
        layers: space.layers.len() as u64,
        position: Position::None,
        class_rules: ClassRules { norm: ClassNorm::Wide, repeats_kv: true, copies_logits: true, ..ClassRules::USUAL },
        act: if keys.text(&["mlp_hidden_act"]).is_none_or(|act| act == "relu2") { Act::Relu2 } else { d.act },
        gated: false,
        moe: routed.map(|moe| Moe { latent, shared_intermediate: shared, dense_layers, ..moe }),
        state_space: Some(space),
        ..d
    })
}

/// The layers, and those of them without experts.
fn lettered(keys: Keys<'_>) -> Result<(Vec<HybridLayer>, Vec<u64>), Fault> {
    let listed = keys.texts("layers_block_type");
    let pattern = keys.text(&["hybrid_override_pattern"]);
    let kinds: Vec<&str> = match (pattern, listed) {
        (Some(pattern), _) => pattern.split("").filter(|letter| !letter.is_empty()).collect(),
        (None, Some(listed)) => listed,
        (None, None) => vec!["mamba", "moe", "attention", "moe"],
    };
    let mut layers = Vec::with_capacity(kinds.len());
    let mut dense = Vec::new();
    for (index, kind) in (0..).zip(kinds) {
        let of =
            |state_space, attention| HybridLayer { state_space, attention, feed_forward: !state_space && !attention };
        layers.push(match kind {
            "M" | "mamba" | "linear_attention" => of(true, false),
            "*" | "attention" | "full_attention" => of(false, true),
            "-" | "mlp" | "E" | "moe" => of(false, false),
            other => {
                let key = if pattern.is_some() { "hybrid_override_pattern" } else { "layers_block_type" };
                return Err(Keys::fault(key, format!("layers of {other} have no checked rules; {HELP}")));
            }
        });
        if !matches!(kind, "E" | "moe") {
            dense.push(index);
        }
    }
    Ok((layers, dense))
}
