//! A kind of model and a size alone: the nearest model of the catalogue, as deep or as wide as the size asks for.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::catalog::{Catalog, ModelPreset};
use crate::framework::Profile;
use crate::model::{self, Architecture};
use crate::plan::Fault;
use crate::plan::keywords::ModelType;

/// A published model's own shape is kept for sizes this near to it.
const NEAR: f64 = 0.06;
/// Sizes that the nearest shape misses by more than this are not answered.
const FAR: f64 = 1.5;
/// Keys that say how deep stacks of layers are.
const DEPTHS: [&str; 5] = ["num_hidden_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"];
/// Deeper than this many times the published model, a stand-in is wider too.
const STRETCH: f64 = 2.0;
/// Keys that say how wide those layers are, the stream between them first, and how many heads attend.
const LAYER_WIDTHS: [&str; 6] =
    ["hidden_size", "d_model", "intermediate_size", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim"];
const HEADS: [&str; 4] = ["num_attention_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"];
/// Keys that say how wide convolutions are.
const WIDTHS: [&str; 3] = ["hidden_sizes", "embedding_size", "block_out_channels"];

/// A model of that kind with about `billions` of parameters, and what it is.
///
/// # Errors
/// Where the size is not a positive number or beyond 100 000 billion, or the catalogue has no model of that kind.
pub(super) fn of_kind(catalog: &Catalog, kind: ModelType, billions: f64) -> Result<(Architecture, Vec<String>), Fault> {
    let key = "model.size_billions";
    if !(billions > 0.0 && billions <= 1e5) {
        return Err(Fault::of(key, format!("must be above 0 and at most 100000, is {billions}")));
    }
    let wanted = billions * 1e9;
    let distance = |params: u64| (params as f64 / wanted).ln().abs();
    // The nearest come first: reading them all would take longer than the prediction itself.
    let mut nearest: Vec<&ModelPreset> = catalog.models.iter().collect();
    nearest.sort_by(|a, b| distance(a.params).total_cmp(&distance(b.params)));
    let mut of_kind = nearest
        .into_iter()
        .filter_map(|preset| Some((preset, model::from_hf(&preset.hf_config).ok()?.0)))
        .filter(|(_, architecture)| architecture.kind() == kind);
    let Some((preset, published)) = of_kind.next() else {
        return Err(Fault::of(key, format!("{kind}: the catalogue has no model of this kind to take the shape of")));
    };
    let architecture = if (preset.params as f64 / wanted - 1.0).abs() < NEAR {
        published
    } else {
        resized(&preset.hf_config, wanted)?
    };
    let params = total(&architecture) as f64 / 1e9;
    if (params / billions).ln().abs() > FAR.ln() {
        let words = format!(
            "{billions}: of the {kind}s of the catalogue {} comes nearest, and its shape to {params:.3}; give model.architecture",
            preset.name
        );
        return Err(Fault::of(key, words));
    }
    let shape = if params * 1e9 == preset.params as f64 { "a" } else { "a deeper, wider or smaller" };
    let said = format!("{key}: {billions} stands for {shape} {}: {} ({params:.3} B)", preset.name, architecture.name);
    Ok((Architecture { name: format!("{}-like {billions}B", preset.name), ..architecture }, vec![said]))
}

/// Billions of parameters that stand for a kind of which nothing more is said, and whose they are.
pub(super) const fn usual(kind: Option<ModelType>) -> (f64, &'static str) {
    match kind {
        None | Some(ModelType::TransformerDecoder) => (7.0, "a 7B decoder"),
        Some(ModelType::TransformerEncoder) => (0.11, "BERT base"),
        Some(ModelType::TransformerEncoderDecoder) => (0.223, "T5 base"),
        Some(ModelType::VisionTransformer) => (0.0866, "ViT-B/16"),
        // Layers are listed, never assumed.
        Some(ModelType::Mlp) => (0.0, "no model"),
        Some(ModelType::Cnn) => (0.0256, "ResNet-50"),
        Some(ModelType::DiffusionModel) => (0.86, "the UNet of Stable Diffusion 1.5"),
    }
}

fn total(architecture: &Architecture) -> u64 {
    architecture.count(Profile::standard(), 1).total
}

/// The number under the first of the keys that `config` has.
fn first_of(config: &Map<String, Value>, keys: &[&str]) -> Option<f64> {
    keys.iter().find_map(|key| config.get(*key)?.as_f64())
}

/// The model of so many layers.
fn with_layers(config: &Map<String, Value>, layers: u64) -> Result<Architecture, Fault> {
    let mut config = config.clone();
    for key in DEPTHS.iter().filter(|key| config.contains_key(**key)).copied().collect::<Vec<_>>() {
        config.insert(key.to_owned(), layers.into());
    }
    Ok(model::from_hf(&config)?.0)
}

/// Parameters beside the layers, and in each of them.
fn by_layer(config: &Map<String, Value>) -> Result<(f64, f64), Fault> {
    let (one, two) = (total(&with_layers(config, 1)?) as f64, total(&with_layers(config, 2)?) as f64);
    Ok((2.0 * one - two, two - one))
}

/// The width that a model of `layers` is best given: measured, and 13 500 for the 80 layers of 175 billion parameters (Levine
/// et al., "The Depth-to-Width Interplay in Self-Attention", arXiv 2006.12467, section 5).
fn width_for(layers: f64) -> f64 {
    5.55e-2_f64.mul_add(layers, 5.039).exp()
}

/// Layers so wide that the best depth for that width has `wanted` parameters; heads as large as published ones, and divided by
/// what divides those.
fn widened(config: &Map<String, Value>, wanted: f64) -> Result<Map<String, Value>, Fault> {
    let (beside, each) = by_layer(config)?;
    let (Some(width), Some(heads)) = (first_of(config, &LAYER_WIDTHS), first_of(config, &HEADS)) else {
        return Ok(config.clone());
    };
    // A layer's parameters grow with the square of its width, those of its embeddings with the width.
    let params = |layers: f64| {
        let scale = width_for(layers) / width;
        beside * scale + layers * each * scale * scale
    };
    let best = (1..400_u32).map(f64::from).find(|layers| params(*layers) >= wanted).unwrap_or(400.0);
    let divisor = [8.0, 4.0, 2.0].into_iter().find(|divisor| heads % divisor == 0.0).unwrap_or(1.0);
    let more = (heads * width_for(best) / width / divisor).round().max(1.0) * divisor;
    let mut config = config.clone();
    for (key, value) in &mut config {
        let Some(published) = value.as_f64() else { continue };
        let scaled = published * more / heads;
        let scaled = match key.as_str() {
            key if HEADS.contains(&key) => scaled,
            // Whole heads, where the published width is made of them.
            key if LAYER_WIDTHS.contains(&key) && published % heads == 0.0 => scaled,
            key if LAYER_WIDTHS.contains(&key) => (scaled / 64.0).round().max(1.0) * 64.0,
            _ => continue,
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let scaled = scaled.round() as u64;
        *value = Value::from(scaled);
    }
    Ok(config)
}

/// As many layers as come nearest to `wanted` parameters, as a number that need not be whole.
fn layers_for(config: &Map<String, Value>, wanted: f64) -> Result<Option<f64>, Fault> {
    let (beside, each) = by_layer(config)?;
    Ok((each > 0.0).then(|| (wanted - beside) / each))
}

/// The model with as many layers as come nearest to `wanted` parameters, and wider ones where that would make it far
/// deeper; one without stacked layers is widened.
fn resized(config: &Map<String, Value>, wanted: f64) -> Result<Architecture, Fault> {
    if let Some(layers) = layers_for(config, wanted)? {
        let published = first_of(config, &DEPTHS).unwrap_or(layers);
        let config =
            if layers <= STRETCH * published { Cow::Borrowed(config) } else { Cow::Owned(widened(config, wanted)?) };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let layers = layers_for(&config, wanted)?.unwrap_or(layers).round().clamp(1.0, 10_000.0) as u64;
        return with_layers(&config, layers);
    }
    // Parameters of convolutions grow with the square of their width.
    let scale = (wanted / total(&model::from_hf(config)?.0) as f64).sqrt();
    // Norms' groups and attention heads divide it.
    let multiple = if config.get("attention_head_dim").is_some_and(Value::is_array) { 320.0 } else { 64.0 };
    let wider = |width: &Value| {
        let width = width.as_f64().unwrap_or(multiple) * scale;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let width = ((width / multiple).round().max(1.0) * multiple) as u64;
        Value::from(width)
    };
    let mut config = config.clone();
    for (_, value) in config.iter_mut().filter(|(key, _)| WIDTHS.contains(&key.as_str())) {
        *value = match &*value {
            Value::Array(widths) => widths.iter().map(wider).collect(),
            width => wider(width),
        };
    }
    Ok(model::from_hf(&config)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(kind: ModelType, billions: f64) -> f64 {
        let catalog = Catalog::embedded().unwrap();
        total(&of_kind(&catalog, kind, billions).unwrap().0) as f64 / 1e9
    }

    #[test]
    fn a_published_size_is_the_published_model() {
        // torchvision's counts of ResNet-50 and ViT-L/16, in billions.
        assert_eq!(params(ModelType::Cnn, 0.0256), 0.025_557_032);
        assert_eq!(params(ModelType::VisionTransformer, 0.3), 0.304_326_632);
    }

    /// torchvision's ResNet-50 has 25,557,032 parameters and its ViT-B/16 86,567,656.
    #[test]
    fn a_kind_without_a_size_is_its_usual_model() {
        for (kind, published) in [(ModelType::Cnn, 0.025_557_032), (ModelType::VisionTransformer, 0.086_567_656)] {
            let found = params(kind, usual(Some(kind)).0);
            assert!((found / published - 1.0).abs() < 0.01, "{kind}: {found}");
        }
    }

    #[test]
    fn other_sizes_come_near_by_depth_and_width() {
        for (kind, billions) in [
            (ModelType::Cnn, 0.2),
            (ModelType::VisionTransformer, 2.0),
            (ModelType::DiffusionModel, 0.4),
            (ModelType::TransformerEncoder, 1.0),
            (ModelType::TransformerEncoderDecoder, 3.0),
        ] {
            let found = params(kind, billions);
            assert!((found / billions - 1.0).abs() < 0.25, "{kind}: {found} for {billions}");
        }
    }

    /// A size far from any published one is no tower of narrow layers. Published shapes of such sizes: ViT-22B 48 x 6144
    /// (arXiv 2302.05442, table 1), XLM-R XXL 48 x 4096 (arXiv 2105.00572, section 2.1).
    #[test]
    fn far_sizes_grow_in_width_too() {
        let catalog = Catalog::embedded().unwrap();
        for (kind, billions) in [
            (ModelType::VisionTransformer, 22.0),
            (ModelType::TransformerEncoder, 10.7),
            (ModelType::TransformerEncoder, 175.0),
            (ModelType::TransformerEncoderDecoder, 70.0),
        ] {
            let architecture = of_kind(&catalog, kind, billions).unwrap().0;
            let found = total(&architecture) as f64 / 1e9;
            assert!((found / billions - 1.0).abs() < 0.05, "{kind}: {found} for {billions}");
            let layers = architecture.block().unwrap().layers;
            assert!((30..110).contains(&layers), "{kind} {billions}: {layers}");
        }
        // A little more than the published model is that model with a few layers more.
        let near = of_kind(&catalog, ModelType::VisionTransformer, 0.8).unwrap().1;
        assert!(near[0].contains("x 1280"), "{near:?}");
    }
}
