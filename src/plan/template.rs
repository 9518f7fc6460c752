//! The first text of a new plan.

/// A plan of a model of the catalogue on so many of a GPU, each with one sample a step: the least that says what is
/// trained on what. Everything else has a default, which the form shows as such.
///
/// ```
/// # use memwall_core as memwall;
/// use memwall::plan::{Document, text_of_model};
///
/// let text = text_of_model("llama-3-8b", "NVIDIA H100 SXM 80GB", 8);
/// let plan = Document::parse(&text).unwrap().plan().unwrap();
/// assert_eq!((plan.model.batch_size, plan.cluster.num_gpus), (Some(8), Some(8)));
/// ```
#[must_use]
pub fn text_of_model(model: &str, gpu: &str, gpus: u64) -> String {
    format!(
        "# {model} on {gpus} x {gpu}. What is not said here has a default.\nmodel:\n  preset: {model}\n  \
         batch_size: {gpus}    # samples a step, over all GPUs\n\nhardware:\n  gpu_type: {gpu}\n\ncluster:\n  num_gpus: {gpus}\n"
    )
}

/// A plan that says nothing yet: where to begin, in comments.
pub const EMPTY_TEXT: &str = "\
# A new plan. Only the model is needed; what is not said has a default.
# Tab offers what may stand at the cursor.
model:
  preset:             # a name that `memwall models` lists, or hf_config: config.json
  batch_size: 8       # samples a step, over all GPUs

training:
  precision: bf16-mixed

hardware:
  gpu_type: NVIDIA H100

cluster:
  num_gpus: 1
";
