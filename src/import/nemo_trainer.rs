//! The section of NeMo 1's YAML that Lightning's `Trainer` is made of.

use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::{Settings, text};
use super::unread::account_for;

/// NeMo's trainer clips, and only where it is told a norm (`megatron_base_model.py`, `configure_gradient_clipping`).
pub fn clipping(settings: &mut Settings, file: &Settings) {
    let none = || Setting::new(0.0, Origin::Default { framework: "NeMo 1", option: "no gradient_clip_val".to_owned() });
    let norm = file.number("trainer.gradient_clip_val").unwrap_or_else(none);
    settings.set("clip_grad", norm.value.into(), norm.origin);
}

/// Notes what of the section nobody reads: it runs on GPUs, and Megatron counts its own micro batches.
pub fn account(imported: &mut ImportedPlan, file: &Settings) {
    let trainer = file.below("trainer");
    trainer.accept("gradient_clip_val");
    for (name, usual) in [("accelerator", "gpu"), ("accelerator", "ddp"), ("accumulate_grad_batches", "1")] {
        if trainer.get(name).is_some_and(|found| text(&found.value).as_deref() == Some(usual)) {
            trainer.accept(name);
        }
    }
    account_for(imported, &trainer);
    // `nemo/collections/common/callbacks/ema.py`
    let section = "exp_manager.ema";
    let beside = file.on(&format!("{section}.enable")).filter(|_| !file.is(&format!("{section}.cpu_offload")));
    if let Some(found) = beside {
        not_modelled(imported, &format!("{}: averaged weights beside the trained ones", found.origin));
    }
}
