//! Which model a plan names.

use super::{Notes, sized, traced};
use crate::catalog::{Catalog, ModelPreset};
use crate::framework::Profile;
use crate::model::{self, Architecture, LayerList, ModelShape};
use crate::plan::keys;
use crate::plan::keywords::{ModelHead, ModelType};
use crate::plan::traced::unpacked;
use crate::plan::{Fault, HfConfig, ModelPart, Plan};
use serde_json::{Map, Value};

/// What is said of a size that stands for a model of which a plan says nothing.
pub const NOTHING_GIVEN: &str = "no architecture is given";

/// Classes of a head where nobody says how many (transformers, `PretrainedConfig`: `num_labels`).
const TWO: u64 = 2;

/// The architecture, from the first key that has one.
pub fn of_plan(
    plan: &Plan,
    catalog: &Catalog,
    profile: &Profile,
    notes: &mut Notes,
) -> Result<Option<Architecture>, Fault> {
    let part = &plan.model;
    let (mut architecture, said) = if let Some(trace) = &part.trace {
        (traced::architecture(trace)?, Vec::new())
    } else if let Some(config) = &part.hf_config {
        match config {
            HfConfig::Inline(map) => of_config(map, part)?,
            HfConfig::Path(path) => {
                return Err(Fault::of(keys::model::hf_config, format!("{path}: the file has not been read")));
            }
        }
    } else if let Some(name) = &part.preset {
        let Some(preset) = catalog.model(name) else {
            return Err(Fault::of(keys::model::preset, catalog.no_model(name)));
        };
        if let Some(trace) = preset.trace {
            (of_traced_preset(preset, trace, part)?, Vec::new())
        } else {
            let (architecture, said) = of_config(&preset.hf_config, part)?;
            let words = head_words(part, Some(&preset.hf_config));
            (Architecture { name: format!("{}{words}", preset.name), ..architecture }, said)
        }
    } else if let Some(words) = &part.layers {
        (LayerList::read(words)?.into(), Vec::new())
    } else if let Some(fields) = &part.architecture {
        model::of_fields(fields, part.model_type, profile.modules.block.is)?
    } else {
        let size = part.size_billions.unwrap_or_else(|| {
            let (size, like) = sized::usual(part.model_type);
            notes.assume(keys::model::size_billions, format!("{size} ({like}; {NOTHING_GIVEN})"));
            size
        });
        match part.model_type {
            None | Some(ModelType::TransformerDecoder) => model::of_size(size)?,
            Some(ModelType::Mlp) => {
                let why = "is needed for an mlp: [linear:784x512, relu, linear:512x10]";
                return Err(Fault::of(keys::model::layers, why));
            }
            Some(kind) => sized::of_kind(catalog, kind, size)?,
        }
    };
    let kind = architecture.kind();
    if let Some(wanted) = part.model_type.filter(|wanted| *wanted != kind) {
        return Err(Fault::of(keys::model::model_type, format!("{wanted}: the model that is given is a {kind}")));
    }
    if part.preset.is_none() && part.hf_config.is_none() {
        architecture = with_own_head(architecture, part, None)?;
    }
    notes.assumptions.extend(said);
    place_layers(&mut architecture, part, notes);
    Ok(Some(architecture))
}

/// A preset of which the binary holds what PyTorch ran.
fn of_traced_preset(preset: &ModelPreset, trace: &[u8], part: &ModelPart) -> Result<Architecture, Fault> {
    for (key, given) in [(keys::model::head, part.head.is_some()), (keys::model::classes, part.classes.is_some())] {
        if given {
            let why =
                format!("{} was traced with the head that it has; `memwall trace --hf` takes another", preset.name);
            return Err(Fault::of(key, why));
        }
    }
    let read = unpacked(trace).map_err(|why| Fault::of(keys::model::preset, format!("{}: {why}", preset.name)))?;
    Ok(Architecture { name: preset.name.clone(), ..model::of_trace(&read) })
}

/// Whether the layers stand inside of a larger model; what is left out of them is said.
fn place_layers(architecture: &mut Architecture, part: &ModelPart, notes: &mut Notes) {
    let ModelShape::Layers(list) = &mut architecture.shape else { return };
    list.input_gradient = part.input_gradient == Some(true);
    let said = "the loss is left out; the gradient of the output is counted";
    notes.assume(if part.layers.is_some() { "model.layers" } else { "model.architecture" }, said);
}

/// The model of a configuration, with the head that the plan asks for.
fn of_config(config: &Map<String, Value>, part: &ModelPart) -> Result<(Architecture, Vec<String>), Fault> {
    let (architecture, said) = model::from_hf(config)?;
    if part.head.is_none() && part.classes.is_none() {
        return Ok((architecture, said));
    }
    if matches!(architecture.shape, ModelShape::Decoder(_)) && is_of_samples(part) {
        return Ok((with_own_head(architecture, part, Some(config))?, said));
    }
    let images = [ModelType::VisionTransformer, ModelType::Cnn].contains(&architecture.kind());
    let ending = match part.head {
        None if images => "ForImageClassification",
        None | Some(ModelHead::SequenceClassification) => "ForSequenceClassification",
        Some(ModelHead::TokenClassification) => "ForTokenClassification",
        Some(ModelHead::QuestionAnswering) => "ForQuestionAnswering",
        Some(ModelHead::MultipleChoice) => "ForMultipleChoice",
    };
    let (mut architecture, said) = model::from_hf(&model::with_head(config, ending, part.classes)?)?;
    architecture.name.push_str(&head_words(part, Some(config)));
    Ok((architecture, said))
}

/// Whether the head that a plan asks for is one for whole samples.
fn is_of_samples(part: &ModelPart) -> bool {
    matches!(part.head, None | Some(ModelHead::SequenceClassification))
}

/// How many classes the plan says, or the configuration; else those that one starts with.
fn classes(part: &ModelPart, config: Option<&Map<String, Value>>) -> u64 {
    let counted = |config: &Map<String, Value>| config.get("num_labels").and_then(Value::as_u64);
    let named = |config: &Map<String, Value>| u64::try_from(config.get("id2label")?.as_object()?.len()).ok();
    let own = || config.and_then(|config| counted(config).or_else(|| named(config))).filter(|count| *count > 0);
    part.classes.or_else(own).unwrap_or(TWO)
}

/// What is said of that head behind a model's name.
fn head_words(part: &ModelPart, config: Option<&Map<String, Value>>) -> String {
    match (part.head, part.classes) {
        (None, None) => String::new(),
        (Some(ModelHead::QuestionAnswering), _) => " for question answering".to_owned(),
        (Some(ModelHead::MultipleChoice), _) => " for multiple choice".to_owned(),
        _ => format!(" with a head of {}", classes(part, config)),
    }
}

/// A decoder with the head that the plan asks for, where it is one for whole samples.
fn with_own_head(
    architecture: Architecture,
    part: &ModelPart,
    config: Option<&Map<String, Value>>,
) -> Result<Architecture, Fault> {
    match (part.head, part.classes) {
        (None, None) => Ok(architecture),
        (None | Some(ModelHead::SequenceClassification), _) => architecture.with_classes(classes(part, config)),
        (Some(head), _) => {
            let why = "is for models of transformers, by model.preset or model.hf_config";
            Err(Fault::of(keys::model::head, format!("{head} {why}")))
        }
    }
}
