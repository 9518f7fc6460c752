//! Headers of logs as frameworks write them, from a run's job.

use std::fmt::Write;

use memwall::plan::Checkpointing;
use memwall::plan::keywords::Precision;
use memwall::predict::{Job, Prediction};

/// The header of the job's framework; of scripts that may or may not print their arguments, as the seed says.
pub fn of(job: &Job, prediction: &Prediction, seed: u64) -> String {
    match job.profile.name() {
        "megatron" => megatron(job, prediction),
        "torchtitan" => torchtitan(job, prediction),
        "nanogpt" => nanogpt(job, prediction),
        "llm-foundry" => foundry(job, prediction),
        // torchvision's references print a namespace in one line.
        "torchvision" => String::new(),
        _ => trainer(job, prediction, seed.is_multiple_of(2)),
    }
}

const fn computes_in(precision: Precision) -> &'static str {
    match precision {
        Precision::Fp32 | Precision::Tf32 => "float32",
        Precision::Fp16 | Precision::Fp16Mixed | Precision::Fp16Fp32Master => "float16",
        _ => "bfloat16",
    }
}

/// transformers, `trainer.py`, `_inner_training_loop`; `run_clm.py` prints `TrainingArguments` before it, other scripts do
/// not. A model that checkpoints says so in its first step.
fn trainer(job: &Job, prediction: &Prediction, with_arguments: bool) -> String {
    let (batch, params) = (&job.batch, &prediction.params);
    let on = |on: bool| if on { "True" } else { "False" };
    let kind = computes_in(job.storage.precision);
    let checkpointed = job.training.checkpointing != Checkpointing::None;
    let mut text = String::new();
    if with_arguments {
        write!(
            text,
            "INFO:__main__:Training/evaluation parameters TrainingArguments(\n_n_gpu=1,\nbf16={},\nfp16={},\n\
             gradient_accumulation_steps={},\ngradient_checkpointing={},\nper_device_eval_batch_size=8,\n\
             per_device_train_batch_size={},\n)\n",
            on(kind == "bfloat16"),
            on(kind == "float16"),
            batch.accumulation,
            on(checkpointed),
            batch.micro
        )
        .unwrap();
    }
    if job.training.lora.is_some() {
        writeln!(
            text,
            "trainable params: {} || all params: {} || trainable%: 0.06",
            with_commas(params.trainable),
            with_commas(params.total)
        )
        .unwrap();
    }
    write!(
        text,
        "***** Running training *****\n  Num examples = 36,718\n  Num Epochs = 3\n\
         \x20 Instantaneous batch size per device = {}\n\
         \x20 Total train batch size (w. parallel, distributed & accumulation) = {}\n\
         \x20 Gradient Accumulation steps = {}\n  Total optimization steps = 1,722\n\
         \x20 Number of trainable parameters = {}\n",
        batch.micro,
        batch.global,
        batch.accumulation,
        with_commas(params.trainable)
    )
    .unwrap();
    if checkpointed {
        text.push_str("`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.\n");
    }
    text
}

/// Megatron-LM, `training/arguments.py`, `_print_args`, and `training/training.py`, `get_model`.
fn megatron(job: &Job, prediction: &Prediction) -> String {
    let granularity = match job.training.checkpointing {
        Checkpointing::None => "None",
        Checkpointing::Full | Checkpointing::Every(_) => "full",
        _ => "selective",
    };
    let kind = computes_in(job.storage.precision);
    let degrees = &job.degrees;
    let rows = [
        ("bf16", (kind == "bfloat16").to_string()),
        ("expert_model_parallel_size", degrees.expert.to_string()),
        ("fp16", (kind == "float16").to_string()),
        ("global_batch_size", job.batch.global.to_string()),
        ("micro_batch_size", job.batch.micro.to_string()),
        ("params_dtype", format!("torch.{kind}")),
        ("pipeline_model_parallel_size", degrees.pipeline.to_string()),
        ("recompute_granularity", granularity.to_owned()),
        ("seq_length", job.batch.sequence.to_string()),
        ("tensor_model_parallel_size", degrees.tensor.to_string()),
        ("world_size", prediction.num_gpus.to_string()),
    ];
    let mut text = "------------------------ arguments ------------------------\n".to_owned();
    for (name, value) in rows {
        let value = match value.as_str() {
            "true" => "True",
            "false" => "False",
            other => other,
        };
        writeln!(text, "  {name} {} {value}", ".".repeat(48 - name.len())).unwrap();
    }
    let parts = degrees.tensor * degrees.pipeline * degrees.expert;
    let rank = prediction.params.total / parts;
    writeln!(text, " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): {rank}").unwrap();
    // `training/theoretical_memory_usage.py`, `compute_weight_and_optimizer_memory`, two decimals.
    writeln!(text, "Total number of parameters in billions: {:.2}", prediction.params.total as f64 / 1e9).unwrap();
    text
}

/// torchtitan, `train.py` and `distributed/activation_checkpoint.py`: it says nothing of a precision.
fn torchtitan(job: &Job, prediction: &Prediction) -> String {
    let applied = match job.training.checkpointing {
        Checkpointing::None => "",
        Checkpointing::Full => "[titan] - root - INFO - Applied full activation checkpointing to the model\n",
        _ => "[titan] - root - INFO - Applied selective activation checkpointing to the model\n",
    };
    let total = with_commas(prediction.params.total);
    let batch = &job.batch;
    format!(
        "[titan] - root - INFO - Model llama3 8B size: {total} total parameters\n{applied}[titan] - root - INFO - Training \
         starts at step 1, with local batch size {}, global batch size {}, sequence length {}, total steps 1000\n",
        batch.micro, batch.global, batch.sequence
    )
}

/// `8,030,261,248`, as Python's `:,` has it.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

/// nanoGPT, `configurator.py`, `train.py`, `model.py`.
fn nanogpt(job: &Job, prediction: &Prediction) -> String {
    let batch = &job.batch;
    format!(
        "Overriding: batch_size = {}\nOverriding: dtype = {}\ntokens per iteration will be: {}\nnumber of parameters: {:.2}M\n",
        batch.micro,
        computes_in(job.storage.precision),
        with_commas(batch.global * batch.sequence),
        prediction.params.total as f64 / 1e6
    )
}

/// llm-foundry, `command_utils/train.py`.
fn foundry(job: &Job, prediction: &Prediction) -> String {
    let precision = match computes_in(job.storage.precision) {
        "float32" => "fp32",
        "float16" => "amp_fp16",
        _ => "amp_bf16",
    };
    format!(
        "device_train_microbatch_size: {}\nfsdp_config:\n  activation_checkpointing: {}\nglobal_train_batch_size: {}\n\
         max_seq_len: {}\nn_params: {}\nprecision: {precision}\n",
        job.batch.micro,
        job.training.checkpointing != Checkpointing::None,
        job.batch.global,
        job.batch.sequence,
        prediction.params.total
    )
}
