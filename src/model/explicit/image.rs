//! Image models from a plan's explicit fields.

use super::fault;
use crate::model::architecture::{Architecture, Decoder, Encoder, Ends, Family, ImageHead, ModelShape};
use crate::model::families::{DiT, ResidualNet};
use crate::plan::keywords::ModelType;
use crate::plan::{ArchitecturePart, Fault};

/// A vision transformer, a diffusion transformer or a residual network.
pub(super) fn of_fields(part: &ArchitecturePart, kind: ModelType) -> Result<(Architecture, Vec<String>), Fault> {
    let mut said = Vec::new();
    if kind == ModelType::Cnn {
        return Ok((residual_net(part, &mut said), said));
    }
    let block = block(part)?;
    let (layers, hidden) = (block.layers, block.hidden);
    let mut or = |key: &str, given: Option<u64>, otherwise: u64| {
        given.unwrap_or_else(|| {
            said.push(format!("model.architecture.{key}: {otherwise}"));
            otherwise
        })
    };
    let diffusion = kind == ModelType::DiffusionModel;
    let image = or("image_size", part.image_size, if diffusion { 32 } else { 224 });
    let patch = or("patch_size", part.patch_size, if diffusion { 2 } else { 16 });
    let channels = or("channels", part.channels, if diffusion { 4 } else { 3 });
    let classes = or("num_classes", part.num_classes, 1000);
    if patch > image {
        return Err(fault("patch_size", format!("{patch} is more than image_size {image}")));
    }
    let (name, family, shape) = if diffusion {
        let learn_sigma = part.learn_sigma.unwrap_or_else(|| {
            said.push("model.architecture.learn_sigma: true".to_owned());
            true
        });
        if let Some(other) = part.adaptive_norm.as_deref().filter(|name| *name != "adaln_zero") {
            return Err(fault("adaptive_norm", format!("{other}: adaln_zero is what is predicted")));
        }
        // One matrix for queries, keys and values (timm, layers/attention.py).
        let block = Decoder { fused_qkv: true, ..block };
        ("DiT", Family::Dit, ModelShape::DiT(DiT { block, image, patch, channels, classes, learn_sigma }))
    } else {
        let stack = Decoder { final_norm: true, ..block };
        let ends = Ends::Image { image, patch, channels, head: ImageHead::Classes(classes) };
        ("ViT", Family::Vit, ModelShape::Encoder(Encoder { stack, ends }))
    };
    Ok((Architecture { name: format!("{name} {layers} x {hidden}"), family, shape }, said))
}

fn block(part: &ArchitecturePart) -> Result<Decoder, Fault> {
    let need = |key: &str, value: Option<u64>| value.ok_or_else(|| fault(key, "is needed for a transformer"));
    let hidden = need("hidden_size", part.hidden_size)?;
    let layers = need("num_layers", part.num_layers)?;
    let heads = need("num_attention_heads", part.num_attention_heads)?;
    if heads == 0 || hidden % heads != 0 {
        return Err(fault("num_attention_heads", format!("{heads} heads do not divide hidden_size {hidden}")));
    }
    let plain = Decoder::plain(hidden, layers, heads);
    Ok(Decoder { intermediate: part.intermediate_size.unwrap_or(plain.intermediate), ..plain })
}

/// Stages of `ResNet`'s widths, four times wider than their inner convolutions.
fn residual_net(part: &ArchitecturePart, said: &mut Vec<String>) -> Architecture {
    let depths = part.stages.clone().filter(|stages| !stages.is_empty()).unwrap_or_else(|| {
        said.push("model.architecture.stages: 3, 4, 6, 3 (ResNet-50)".to_owned());
        vec![3, 4, 6, 3]
    });
    // Beyond sixteen stages an image has no pixels left.
    let depths: Vec<u64> = depths.into_iter().take(16).map(|depth| depth.max(1)).collect();
    let widths: Vec<u64> = (0..depths.len()).map(|stage| 256 << stage.min(8)).collect();
    said.push("model.architecture: bottleneck blocks of ResNet's widths".to_owned());
    let net = ResidualNet {
        embedding: 64,
        channels: part.channels.unwrap_or(3),
        bottleneck: true,
        halves_first: false,
        halves_in_first: false,
        labels: Some(part.num_classes.unwrap_or(1000)),
        depths,
        widths,
    };
    let name = format!("residual network of {} blocks", net.blocks());
    Architecture { name, family: Family::Resnet, shape: ModelShape::ResidualNet(net) }
}
