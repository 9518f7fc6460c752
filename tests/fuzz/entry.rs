//! What the fuzz targets feed bytes to. Nothing here may panic but for a broken promise.

use std::sync::OnceLock;

use memwall::catalog::Catalog;
use memwall::plan::{Document, Fault};
use memwall::predict::{Prediction, of};
use serde_json::{Value, json};

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().expect("the embedded catalogue is well-formed"))
}

fn predicted(text: &str) -> Result<Prediction, Vec<Fault>> {
    let prediction = of(&Document::parse(text)?.plan()?, catalog())?;
    for stage in &prediction.stages {
        let terms: u64 = stage.terms.iter().map(|term| term.bytes.0).sum();
        assert_eq!(terms, stage.device_used.0, "the terms of stage {} are not its total", stage.stage);
    }
    assert!(prediction.time.step.0.is_finite(), "a step takes {:?}", prediction.time.step);
    Ok(prediction)
}

/// The bytes of a plan file, whether it was predicted.
pub fn plan(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| predicted(text).is_ok())
}

/// The bytes of a `config.json`, whether it was predicted.
pub fn config(bytes: &[u8]) -> bool {
    let Ok(Value::Object(config)) = serde_json::from_slice(bytes) else { return false };
    let read = memwall::model::from_hf(&config);
    let plan = json!({"model": {"hf_config": config}});
    let found = predicted(&plan.to_string());
    assert!(read.is_ok() || found.is_err(), "predicted what could not be read");
    found.is_ok()
}

/// The bytes of a PyTorch memory snapshot, whether it was read.
pub fn snapshot(bytes: &[u8]) -> bool {
    let Ok(devices) = memwall::observe::snapshot::read(bytes, memwall::units::Bytes(64 << 20)) else { return false };
    for device in &devices {
        let terms = device.terms.iter().fold(0_u64, |sum, term| sum.saturating_add(term.bytes.0));
        assert_eq!(terms, device.allocated.0, "the terms of device {} are not its total", device.device);
    }
    true
}

/// The bytes of a text, whether it has an out-of-memory message with figures.
pub fn message(bytes: &[u8]) -> bool {
    let found = memwall::observe::out_of_memory::find(&String::from_utf8_lossy(bytes));
    found.is_some_and(|found| found.asked.is_some() && found.elsewhere().is_some())
}
