//! Mamba-2 as Megatron has it: heads and groups split among ranks, the kernel without norm and output matrix, which stand behind
//! it (Megatron-LM, core/ssm/mamba_mixer.py, `MambaMixer._ssm_training`; mamba-ssm 2.3.2, ops/triton/layernorm_gated.py).

use super::DecoderContext;
use super::mamba::{Heads, Sizes, scan_weights, scanned};
use crate::model::architecture::{Scan, StateSpace};
use crate::model::builder::{Builder, Linear};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::weight::Part;
use crate::model::work::Work;

impl DecoderContext<'_> {
    pub(super) fn split_scan(&self, b: &mut Builder<'_>, x: TensorId, space: &StateSpace, heads: Heads) -> TensorId {
        let (batch, hidden, part) = (self.run.batch, self.d.hidden, Part::Attention);
        let (count, groups, chunk) = (self.split(heads.count), self.split(heads.groups), heads.chunk);
        let own = Heads { count, groups, chunk, normed: false };
        let scan = Scan::Heads { heads: count, groups, chunk, normed: false };
        let local = StateSpace { inner: self.split(space.inner), scan, ..space.clone() };
        let s = Sizes::of(&local, own, batch, self.run.local_sequence());
        let linear = |name, from, to| Linear { name, from, to, bias: false, part };
        let gathered = self.gathered_bytes(b, x, part);
        let all = b.linear(x, s.rows, linear("mamba.in_proj", hidden, local.projected()));
        self.gathered(b, gathered, false);
        // Samples before tokens: nothing to move where there is one.
        let all = if batch > 1 { b.copy("mamba.transpose", all) } else { all };
        let weights = scan_weights(b, &local, own);
        let (out, _) = scanned(b, all, (&weights, None), &local, (own, s));
        let out = if batch > 1 { b.copy("mamba.transpose", out) } else { out };
        let out = group_norm(b, out, (local.inner, own.groups));
        let out = b.linear(out, s.rows, linear("mamba.out_proj", local.inner, hidden));
        b.returns("attention.return");
        self.reduced(b, out)
    }
}

/// An RMS norm of each group: one kernel, which keeps what comes in (`LayerNormFn`).
fn group_norm(b: &mut Builder<'_>, x: TensorId, (width, groups): (u64, u64)) -> TensorId {
    let (numel, element) = (b.numel(x), b.element(x));
    b.group = Group::Norm;
    let weight = b.weight(Part::Norm, width, 1);
    let grad = b.needs_grad(x) || b.needs_grad(weight);
    let out = b.make(numel, element, grad);
    let deviation = b.make((numel / width.max(1)).saturating_mul(groups), Element::F32, false);
    let saved = [x, deviation];
    b.op(&Spec {
        name: "mamba.norm",
        inputs: &[(x, Flow::New), (weight, Flow::New)],
        outputs: &[out, deviation],
        saved: if grad { &saved } else { &[] },
        elementwise: true,
        work: Work::Rows,
        ..Spec::default()
    });
    b.group = Group::Attention;
    out
}
