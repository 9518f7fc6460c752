//! The walks of diffusion models: the UNet of Stable Diffusion and the diffusion transformer.

mod dit;
mod parts;
mod unet;

pub use dit::walk as walk_dit;
pub use unet::walk as walk_unet;

use super::builder::{Builder, Stash};
use super::element::{Element, Group};
use super::tape::{Flow, Spec, TensorId};

/// Mean squared error: keeps the prediction and the target, which is an input.
fn squared_error(b: &mut Builder<'_>, x: TensorId) -> TensorId {
    b.group = Group::Logits;
    // autocast lists mse_loss for fp32.
    let x = b.upper("loss.mse", x);
    let loss = b.make(1, Element::F32, true);
    b.op(&Spec { name: "loss.mse", inputs: &[(x, Flow::New)], outputs: &[loss], saved: &[x], ..Spec::default() });
    loss
}

/// `silu`: saves its input.
fn silu(b: &mut Builder<'_>, name: &'static str, x: TensorId) -> TensorId {
    b.pointwise(name, x, Stash::Input)
}
