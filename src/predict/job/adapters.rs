//! Where adapters stand: a plan's names of modules to operators of the walk.

use super::Notes;
use super::training::Lora;
use crate::framework::{Module, Profile};
use crate::model::{
    Architecture, DecoderOutput, EMBEDDING, Element, Family, HEAD, JOINT, MEANT_BY_ALL, ModelShape, default_targets,
    is_meant, is_traced_target, linear_layers, traced_linear_layers, traced_other_layers, untraced_backward,
    vocabulary_layers,
};
use crate::plan::Plan;
use crate::plan::keys;
use crate::plan::keywords::{Dtype, Loss};
use crate::plan::traced::{TracedModel, intern};
use crate::printable::printable;

const TARGETS: &str = "training.lora.targets";

/// Adapters as the plan has them, on the layers that the model has.
pub(super) fn resolve(plan: &Plan, profile: &Profile, architecture: &Architecture, notes: &mut Notes) -> Option<Lora> {
    let part = plan.training.lora.as_ref()?;
    if matches!(architecture.shape, ModelShape::ResidualNet(_) | ModelShape::Layers(_) | ModelShape::DiT(_)) {
        let name = &architecture.name;
        notes.fault(keys::training::lora, format!("adapters are for transformers and UNets, not for {name}"));
        return None;
    }
    let own = match &architecture.shape {
        ModelShape::Traced(model) => traced_linear_layers(model),
        _ => {
            let mut candidates = linear_layers(architecture.family, profile);
            if matches!(&architecture.shape, ModelShape::Decoder(decoder) if decoder.says == DecoderOutput::Tokens) {
                candidates.extend(vocabulary_layers(architecture.family, profile));
            }
            let operators = candidates.iter().map(|(operator, _)| *operator).collect();
            let there = architecture.linears(profile, operators);
            candidates.into_iter().filter(|(operator, _)| there.contains(operator)).collect()
        }
    };
    let in_tower =
        architecture.sight().filter(|_| part.vision_tower == Some(true)).map_or(&[][..], |sight| &sight.modules);
    let targets = match &part.targets {
        Some(names) => match &architecture.shape {
            ModelShape::Traced(model) => of_trace(model, names, &own, notes),
            _ => named(names, (&own, in_tower), notes),
        },
        None => by_default(architecture.family, profile, &own, notes),
    };
    // Where the projector stands, the language model's embedding does too.
    let seen = match &part.targets {
        Some(names) => of_tower(names, in_tower),
        None => of_tower(default_targets(architecture.family, profile), in_tower),
    };
    let (joint, tower): (Vec<_>, Vec<_>) = seen.into_iter().partition(|operator| operator.starts_with(JOINT));
    let targets: Vec<&'static str> = targets.into_iter().chain(joint).collect();
    let saved = part.modules_to_save.as_deref().unwrap_or_default();
    Some(Lora {
        rank: rank(part.rank, architecture, notes),
        tower,
        saved: trained_whole(saved, architecture, (&own, &targets), notes),
        kernels: in_kernels(part.kernels.as_deref().unwrap_or_default(), architecture, &targets, notes),
        targets,
        dropout: part.dropout.unwrap_or(0.0),
        base_bits: part.base_bits,
        double_quant: part.double_quant.unwrap_or(false),
        dtype: part.dtype.and_then(|dtype| weights(dtype, notes)),
    })
}

/// The adapters' rank. One beyond the model's width makes each adapter larger than what it adapts, and no product of its two
/// matrices has such a rank: it runs all the same.
fn rank(given: Option<u64>, architecture: &Architecture, notes: &mut Notes) -> u64 {
    let rank = notes.or(keys::lora::rank, given, 8);
    let width = architecture.block().map(|block| block.hidden.max(block.heads.saturating_mul(block.head_dim)));
    if let Some(width) = width.filter(|width| rank > *width) {
        notes.assume(
            keys::lora::rank,
            format!("{rank}, though no matrix of this model has a rank above {width}, the model's width"),
        );
    }
    rank
}

/// The targets on a traced model, as the plan names them: where each layer stands the walk knows. Refuses adapters whose work a trace
/// does not have.
fn of_trace(model: &TracedModel, names: &[String], own: &[Module], notes: &mut Notes) -> Vec<&'static str> {
    let mut targets = Vec::new();
    let others = traced_other_layers(model);
    for name in names {
        let all = MEANT_BY_ALL.contains(&name.as_str());
        if (!all || own.is_empty()) && !is_traced_target(model, name) {
            let why = format!("`{name}` is no linear layer of this model that takes an adapter; {}", known(own));
            notes.fault(TARGETS, why);
        }
        if let Some(path) = others.iter().find(|path| !all && is_meant(path, name)) {
            let why = "a convolution or an embedding, whose adapter no trace has; name the linear layers with more of their paths";
            notes.fault(TARGETS, format!("`{name}` is {} as well, {why}", printable(path)));
        }
        if !targets.contains(&intern(name)) {
            targets.push(intern(name));
        }
    }
    if names.is_empty() {
        notes.fault(TARGETS, format!("names no module; {}", known(own)));
    }
    if let Some(path) = untraced_backward(model, &targets) {
        let why = "it and all before it were frozen when the model was traced, so the trace has no backward pass of it";
        notes.fault(TARGETS, format!("{}: {why}; trace the model with its weights trained", printable(&path)));
    }
    targets
}

/// Layers of axolotl's functions that run adapters with their weights, by their names in a plan: those of which every layer
/// has an adapter (`monkeypatch/lora_kernels.py`, `apply_lora_kernel_patches`).
fn in_kernels(
    names: &[String],
    architecture: &Architecture,
    targets: &[&'static str],
    notes: &mut Notes,
) -> Vec<&'static str> {
    const KERNELS: [(&str, &[&str]); 3] = [
        ("mlp", &["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]),
        ("qkv", &["attention.q_proj", "attention.k_proj", "attention.v_proj"]),
        ("o", &["attention.o_proj"]),
    ];
    if !names.is_empty() && matches!(architecture.shape, ModelShape::Traced(_)) {
        notes.assume(keys::lora::kernels, "none (a traced model's layers run as they were traced)");
        return Vec::new();
    }
    if !names.is_empty() && !matches!(architecture.shape, ModelShape::Decoder(_)) {
        let kind = architecture.kind();
        notes.fault(keys::lora::kernels, format!("is for decoders only, not for a {kind}"));
        return Vec::new();
    }
    let mut layers = Vec::new();
    for name in names {
        match KERNELS.iter().find(|(known, _)| known == name) {
            Some((_, of)) if of.iter().all(|layer| targets.contains(layer)) => layers.extend(of.iter().copied()),
            Some((_, of)) => notes
                .assume(keys::lora::kernels, format!("{name} is off: not all of {} have an adapter", of.join(", "))),
            None => notes.fault(keys::lora::kernels, format!("`{name}` is none; known: mlp, qkv, o")),
        }
    }
    layers
}

/// The type of adapters; what trains is held in 16 bits or 32.
fn weights(dtype: Dtype, notes: &mut Notes) -> Option<Element> {
    match dtype {
        Dtype::Fp32 => Some(Element::F32),
        Dtype::Bf16 => Some(Element::Bf16),
        Dtype::Fp16 => Some(Element::F16),
        Dtype::Fp8 | Dtype::Int8 => {
            notes.fault(keys::lora::dtype, "adapters are trained in fp32, bf16 or fp16");
            None
        }
    }
}

/// Operators of a tower's modules that have those names; all of them, where adapters stand on every linear layer.
fn of_tower<T: AsRef<str>>(names: &[T], modules: &[Module]) -> Vec<&'static str> {
    let names = names.iter().map(AsRef::as_ref);
    let meant = |path: &str| names.clone().any(|name| MEANT_BY_ALL.contains(&name) || is_meant(path, name));
    modules.iter().filter(|(_, path)| meant(path)).map(|(operator, _)| *operator).collect()
}

/// Operators of the modules that a plan names; a name that no module has, nor one of the tower, is a fault.
fn named(names: &[String], (own, tower): (&[Module], &[Module]), notes: &mut Notes) -> Vec<&'static str> {
    let mut operators = Vec::new();
    for name in names {
        let meant = |(operator, path): &&Module| match MEANT_BY_ALL.contains(&name.as_str()) {
            // An encoder's classifier has the output matrix's operator, and is a linear layer like the others.
            true => ![EMBEDDING, HEAD].contains(operator) || !on_vocabulary(own),
            false => is_meant(path, name),
        };
        let before = operators.len();
        operators.extend(own.iter().filter(meant).map(|(operator, _)| *operator));
        let stands = tower.iter().any(|(_, path)| is_meant(path, name));
        if operators.len() == before && !stands {
            notes.fault(
                TARGETS,
                format!("`{name}` is no linear layer of this model that takes an adapter; {}", known(own)),
            );
        }
    }
    if names.is_empty() {
        notes.fault(TARGETS, format!("names no module; {}", known(own)));
    }
    operators
}

/// Of the modules that train whole beside adapters: the embedding and the output matrix of a decoder that has rules.
fn trained_whole(
    names: &[String],
    architecture: &Architecture,
    (own, targets): (&[Module], &[&'static str]),
    notes: &mut Notes,
) -> Vec<&'static str> {
    let at = keys::lora::modules_to_save;
    let says_tokens =
        matches!(&architecture.shape, ModelShape::Decoder(decoder) if decoder.says == DecoderOutput::Tokens);
    if !names.is_empty() && !says_tokens {
        notes.fault(at, format!("is for decoders that say tokens, not for {}", architecture.name));
        return Vec::new();
    }
    let joint = architecture.sight().map(|_| (JOINT, "multi_modal_projector"));
    let ends = own.iter().filter(|(operator, _)| [EMBEDDING, HEAD].contains(operator));
    let ends: Vec<Module> = ends.copied().chain(joint).collect();
    let mut saved = Vec::new();
    for name in names {
        match ends.iter().find(|(_, path)| is_meant(path, name)) {
            Some((operator, _)) if targets.contains(operator) => {
                notes.fault(at, format!("`{name}` has an adapter already: it is among {TARGETS}"));
            }
            Some((operator, _)) if saved.contains(operator) => {}
            Some((operator, _)) => saved.push(*operator),
            None => {
                let known: Vec<&str> = ends.iter().map(|(_, path)| path.rsplit('.').next().unwrap_or(path)).collect();
                notes.fault(at, format!("`{name}` is not modelled beside adapters; known: {}", known.join(", ")));
            }
        }
    }
    saved
}

/// Whether the model's output matrix takes an adapter, which `all-linear` leaves out with the embedding.
fn on_vocabulary(own: &[Module]) -> bool {
    own.iter().any(|(operator, path)| *operator == HEAD && ["lm_head", "embed_out"].contains(path))
}

/// Adapters on the output matrix make logits: a loss that never has them all reads past the adapter (Liger's and the chunked
/// ones take `lm_head.weight` alone).
pub(super) fn check_loss(lora: Option<&Lora>, loss: Loss, notes: &mut Notes) {
    let on_head = lora.is_some_and(|lora| lora.targets.contains(&HEAD));
    if on_head && !matches!(loss, Loss::Plain | Loss::Hf) {
        let why = format!(
            "an adapter on the output matrix needs its logits, which training.loss: {} never makes",
            loss.name()
        );
        notes.fault(TARGETS, why);
    }
}

/// Operators of the modules that the framework's adapters stand on where none are named.
fn by_default(family: Family, profile: &Profile, own: &[Module], notes: &mut Notes) -> Vec<&'static str> {
    let targets = default_targets(family, profile);
    let meant = |(_, path): &&Module| targets.iter().any(|target| is_meant(path, target));
    let operators: Vec<_> = own.iter().filter(meant).map(|(operator, _)| *operator).collect();
    if operators.is_empty() {
        notes.fault(TARGETS, format!("needed: peft has no default for this kind of model; {}", known(own)));
    } else {
        notes.assume(TARGETS, targets.join(", "));
    }
    operators
}

/// The names that a model's modules have, without the paths that lead to them (but with what a place in a list is of).
fn known(own: &[Module]) -> String {
    let mut names: Vec<&str> = Vec::with_capacity(own.len());
    for (_, path) in own {
        let starts = path.match_indices('.').map(|(dot, _)| dot + 1).rev();
        let last = starts.map(|at| &path[at..]).find(|name| !name.starts_with(|c: char| c.is_ascii_digit()));
        let last = last.unwrap_or(path);
        if !names.contains(&last) {
            names.push(last);
        }
    }
    format!("known: {}, all-linear", names.join(", "))
}
