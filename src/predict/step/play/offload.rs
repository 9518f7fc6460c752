//! What named modules send to host memory between their forward and their backward pass
//! (megatron-core, core/pipeline_parallel/fine_grained_activation_offload.py).

use super::Groups;
use super::recompute::Uses;
use crate::model::{GROUPS, Home, Tape};

/// Smallest tensor that is sent (`min_offloaded_tensor_size`).
const LEAST_ELEMENTS: u64 = 1 << 20;

/// Modules whose saved tensors are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    attention_norm: bool,
    mlp_norm: bool,
    qkv: bool,
    core: bool,
    projection: bool,
    experts: bool,
    activation: bool,
}

impl Offload {
    /// By Megatron's names (`--offload-modules`).
    pub fn of(names: &[String]) -> Self {
        let has = |name: &str| names.iter().any(|one| one == name);
        Self {
            attention_norm: has("attn_norm"),
            mlp_norm: has("mlp_norm"),
            qkv: has("qkv_linear"),
            core: has("core_attn"),
            projection: has("attn_proj"),
            experts: has("expert_fc1"),
            activation: has("moe_act"),
        }
    }

    /// Bytes that leave with a tape's saved tensors, by group.
    pub fn sent(self, tape: &Tape, uses: &Uses) -> Groups {
        let mut sent = [0; GROUPS];
        if self == Self::default() {
            return sent;
        }
        let mut gone = vec![false; tape.tensors.len()];
        let mut first_experts = true;
        for op in &tape.ops {
            // The experts' first matmul stands before their activation.
            let experts = op.name == "moe.experts" && std::mem::take(&mut first_experts);
            if !self.holds(op.name, experts) {
                continue;
            }
            for id in tape.ids(op.saved) {
                let root = tape.storage(*id);
                let tensor = tape.get(root);
                let slot = root.0 as usize;
                let weight = matches!(tensor.home, Home::Weight(_) | Home::Elsewhere);
                let kept = uses.saves[slot] > 0 && !uses.dropped[slot];
                if !weight && kept && tensor.numel >= LEAST_ELEMENTS && !std::mem::replace(&mut gone[slot], true) {
                    sent[tensor.group as usize] += tensor.allocated();
                }
            }
        }
        sent
    }

    fn holds(self, name: &str, first_experts: bool) -> bool {
        match name {
            "input_norm" => self.attention_norm,
            "mlp_norm" => self.mlp_norm,
            "attention.o_proj" => self.projection,
            "attention.core" | "attention.scores" | "attention.softmax" | "attention.values" => self.core,
            "moe.act" => self.activation,
            "moe.experts" => self.experts && first_experts,
            _ => self.qkv && name.starts_with("attention.") && name.ends_with("_proj"),
        }
    }
}
