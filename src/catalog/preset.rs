//! Model presets. Their configurations are read when they are asked for: one plan needs one of hundreds.

use std::ops::Deref;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::files::CitedValue;

/// A model by name.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelPreset {
    /// Its name in plans.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// Where the configuration comes from.
    pub source: String,
    /// The exact parameter count that a test holds the model code against.
    pub params: u64,
    /// Its Hugging Face configuration; of one with a trace what lists of models show.
    pub hf_config: PresetConfig,
    /// What PyTorch ran of it (`memwall trace`, packed), where no rules are there for its kind.
    pub trace: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/traces.rs"));

/// A preset's Hugging Face configuration, the keys of a `config.json`. It is read on first use.
#[derive(Debug, Clone)]
pub struct PresetConfig {
    /// JSON inside the binary; empty where the keys came out of a user's file.
    text: &'static str,
    keys: OnceLock<Map<String, Value>>,
}

impl From<Map<String, Value>> for PresetConfig {
    fn from(keys: Map<String, Value>) -> Self {
        Self { text: "", keys: OnceLock::from(keys) }
    }
}

impl Deref for PresetConfig {
    type Target = Map<String, Value>;

    /// No keys where the text is none: a test predicts every preset in the binary.
    fn deref(&self) -> &Self::Target {
        self.keys.get_or_init(|| serde_json::from_str(self.text).unwrap_or_default())
    }
}

impl PartialEq for PresetConfig {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Serialize for PresetConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

/// The presets in the binary.
#[derive(Deserialize)]
pub(super) struct EmbeddedPresets<'a> {
    #[serde(borrow)]
    models: Vec<EmbeddedPreset<'a>>,
}

#[derive(Deserialize)]
struct EmbeddedPreset<'a> {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    source: String,
    params: CitedValue<u64>,
    #[serde(borrow)]
    hf_config: &'a RawValue,
    /// A file in configs/traced.
    trace: Option<&'a str>,
}

impl EmbeddedPresets<'static> {
    /// The presets in the order of the file.
    pub(super) fn into_presets(self) -> impl Iterator<Item = ModelPreset> {
        self.models.into_iter().map(|model| ModelPreset {
            name: model.name,
            aliases: model.aliases,
            source: model.source,
            params: model.params.value,
            hf_config: PresetConfig { text: model.hf_config.get(), keys: OnceLock::new() },
            trace: model.trace.and_then(|name| Some(TRACES.iter().find(|(known, _)| *known == name)?.1)),
        })
    }
}
