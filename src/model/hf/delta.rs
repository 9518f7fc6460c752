//! Qwen3-Next and Qwen3.5: layers of the gated delta rule between layers of gated attention (transformers 4.57.6,
//! models/qwen3_next/configuration_qwen3_next.py; 5.3, models/qwen3_5 and qwen3_5_moe).

use super::HELP;
use super::decoder::{moe, rotary};
use super::keys::{Keys, MAX_COUNT, MAX_WIDTH};
use crate::model::architecture::{Decoder, DeltaNet, Family, Moe, QkNorm};
use crate::plan::Fault;

/// Layers from one of attention to the next (`full_attention_interval`).
const INTERVAL: u64 = 4;

/// What is particular to these families.
pub fn read(d: Decoder, keys: Keys<'_>, family: Family) -> Result<Decoder, Fault> {
    let share = keys.inner("rope_parameters").filter(|_| !keys.has("partial_rotary_factor")).unwrap_or(keys);
    let experts = match family {
        // `num_experts` of 0 is a model without any.
        _ if keys.whole("num_experts", MAX_COUNT)? == Some(0) => None,
        Family::Qwen3Next => Some(Moe {
            frequency: keys.count(&["decoder_sparse_step"], MAX_COUNT)?.unwrap_or(1),
            offset: 1,
            dense_layers: keys.counts("mlp_only_layers", 10_000)?.unwrap_or_default(),
            ..with_shared(keys, 512, 10)?
        }),
        Family::Qwen35Moe => Some(with_shared(keys, 256, 8)?),
        _ => None,
    };
    Ok(Decoder {
        rotary_dim: rotary(&d, share.share(&["partial_rotary_factor"], 0.25)?),
        qk_norm: QkNorm::PerHead,
        attention_gate: true,
        delta: Some(net(keys, family, d.layers)?),
        windowed_layers: None,
        moe: experts,
        ..d
    })
}

/// Routed experts, and one that all tokens pass behind a gate.
fn with_shared(keys: Keys<'_>, experts: u64, per_token: u64) -> Result<Moe, Fault> {
    let shared_intermediate = keys.count(&["shared_expert_intermediate_size"], MAX_WIDTH)?.unwrap_or(512);
    Ok(Moe { shared_intermediate, shared_gate: true, ..moe(keys, 512, experts, per_token)? })
}

fn net(keys: Keys<'_>, family: Family, layers: u64) -> Result<DeltaNet, Fault> {
    let interval = keys.count(&["full_attention_interval"], 10_000)?.unwrap_or(INTERVAL);
    let listed = keys.texts("layer_types").map(|kinds| kinds.iter().map(|kind| *kind == "linear_attention").collect());
    let count = |name, otherwise| Ok::<_, Fault>(keys.count(&[name], MAX_WIDTH)?.unwrap_or(otherwise));
    let net = DeltaNet {
        layers: listed.unwrap_or_else(|| (1..=layers).map(|layer| !layer.is_multiple_of(interval)).collect()),
        key_heads: count("linear_num_key_heads", 16)?,
        value_heads: count("linear_num_value_heads", 32)?,
        key_dim: count("linear_key_head_dim", 128)?,
        value_dim: count("linear_value_head_dim", 128)?,
        kernel: count("linear_conv_kernel_dim", 4)?,
        joined: family == Family::Qwen3Next,
    };
    if net.value_heads.is_multiple_of(net.key_heads) {
        return Ok(net);
    }
    let (keys, values) = (net.key_heads, net.value_heads);
    Err(Keys::fault("linear_num_key_heads", format!("{keys} do not divide linear_num_value_heads {values}")))
}

/// Refuses layers without attention in a family whose rules have none.
pub fn check(d: &Decoder, keys: Keys<'_>) -> Result<(), Fault> {
    let kinds = keys.texts("layer_types").unwrap_or_default();
    // Transformers 5 calls a layer of a state-space model `linear_attention` as well.
    for (kind, is_known) in [
        ("linear_attention", d.delta.is_some() || d.state_space.is_some()),
        ("conv", d.short_conv.is_some()),
        ("mamba", d.state_space.is_some()),
    ] {
        if kinds.contains(&kind) && !is_known {
            return Err(Keys::fault("layer_types", format!("layers of {kind} have no checked rules; {HELP}")));
        }
    }
    Ok(())
}
