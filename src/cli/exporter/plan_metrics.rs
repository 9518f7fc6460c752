//! What the plan predicts.

use super::families as f;
use crate::app::Editor;
use crate::predict::{Component, Prediction};
use crate::report::metrics::{MetricFamily, MetricsPage};

/// Adds the prediction of `plan`, stage by stage.
pub fn put(page: &mut MetricsPage, plan: &Editor, run: &str) {
    let Some(prediction) = plan.prediction() else { return };
    let gpus = prediction.num_gpus.to_string();
    let about = [
        ("run", run),
        ("plan", plan.name()),
        ("model", &prediction.model),
        ("gpu_type", &prediction.gpu),
        ("gpus", &gpus),
    ];
    page.put(&f::PLAN_INFO, &about, 1.0);
    put_stages(page, prediction, run);
    let mut put = |family: &MetricFamily, value: Option<f64>| {
        if let Some(value) = value {
            page.put(family, &[("run", run)], value);
        }
    };
    let time = &prediction.time;
    put(&f::PREDICTED_CAPACITY, Some(prediction.capacity.bytes.as_f64()));
    put(&f::PREDICTED_STEP, Some(time.step.0));
    put(&f::PREDICTED_TOKENS, time.tokens_per_s);
    put(&f::PREDICTED_DRAM, Some(time.bandwidth.0));
    put(&f::PREDICTED_MFU, time.mfu);
    put(&f::PREDICTED_POWER, time.power.map(|power| power.0));
}

fn put_stages(page: &mut MetricsPage, prediction: &Prediction, run: &str) {
    for stage in &prediction.stages {
        let number = stage.stage.to_string();
        let labels = [("run", run), ("stage", number.as_str())];
        for component in Component::ALL {
            let labels = [labels[0], labels[1], ("component", component.key())];
            page.put(&f::PREDICTED_COMPONENT, &labels, stage.component(component).as_f64());
        }
        page.put(&f::PREDICTED_ALLOCATED, &labels, stage.peak_allocated.as_f64());
        page.put(&f::PREDICTED_RESERVED, &labels, stage.peak_reserved.as_f64());
        page.put(&f::PREDICTED_DEVICE, &labels, stage.device_used.as_f64());
    }
}
