//! Headers as frameworks write them, with what a person reads in them.

use super::HeaderReader;
use crate::reading::{StatedCheckpointing, StatedSettings, StatedType};

fn read(text: &str) -> StatedSettings {
    let mut reader = HeaderReader::default();
    for line in text.lines() {
        reader.read(line);
    }
    reader.stated().clone()
}

/// transformers 4.57, `trainer.py`, `_inner_training_loop`, after `examples/pytorch/language-modeling/run_clm.py`'s
/// arguments; the evaluation after it states a batch of its own.
#[test]
fn the_trainers_header() {
    let text = "\
INFO:__main__:Training/evaluation parameters TrainingArguments(
_n_gpu=1,
bf16=True,
eval_accumulation_steps=None,
fp16=False,
gradient_accumulation_steps=4,
gradient_checkpointing=False,
per_device_eval_batch_size=16,
per_device_train_batch_size=8,
)
[INFO|trainer.py:2409] 2025-10-01 10:00:00,001 >> ***** Running training *****
[INFO|trainer.py:2410] 2025-10-01 10:00:00,001 >>   Num examples = 36,718
[INFO|trainer.py:2412] 2025-10-01 10:00:00,001 >>   Instantaneous batch size per device = 8
[INFO|trainer.py:2415] 2025-10-01 10:00:00,001 >>   Total train batch size (w. parallel, distributed & accumulation) = 64
[INFO|trainer.py:2416] 2025-10-01 10:00:00,001 >>   Gradient Accumulation steps = 4
[INFO|trainer.py:2418] 2025-10-01 10:00:00,001 >>   Number of trainable parameters = 124,439,808
[WARNING|logging.py:328] 2025-10-01 10:00:01,001 >> `use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.
[INFO|trainer.py:4643] 2025-10-01 10:10:00,001 >> ***** Running Evaluation *****
[INFO|trainer.py:4645] 2025-10-01 10:10:00,001 >>   Batch size = 16
";
    let expected = StatedSettings {
        trainable: Some(124_439_808),
        compute: Some(StatedType::Bf16),
        micro_batch: Some(8),
        accumulation: Some(4),
        global_batch: Some(64),
        // The model's own warning comes later than its arguments.
        checkpointing: Some(StatedCheckpointing::Full),
        ..StatedSettings::default()
    };
    assert_eq!(read(text), expected);
}

/// peft, `peft_model.py`, `print_trainable_parameters`.
#[test]
fn adapters() {
    let stated = read("trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622");
    assert_eq!((stated.trainable, stated.params), (Some(4_194_304), Some(6_742_609_920)));
}

/// nanoGPT, `configurator.py`, `train.py`, `model.py`.
#[test]
fn nanogpt() {
    let text = "\
Overriding config with config/train_shakespeare_char.py:
# with gradient_accumulation_steps = 1
batch_size = 64
block_size = 256 # context of up to 256 previous characters
dropout = 0.2

Overriding: dtype = float16
tokens per iteration will be: 16,384
number of parameters: 10.65M
num decayed parameter tensors: 26, with 10,740,096 parameters
";
    let stated = read(text);
    assert_eq!((stated.micro_batch, stated.sequence, stated.tokens), (Some(64), Some(256), Some(16_384)));
    assert_eq!((stated.compute, stated.params), (Some(StatedType::Fp16), Some(10_650_000)));
    // Two decimals of a million.
    assert_eq!(stated.params_within, 5_000);
}

/// karpathy/build-nanogpt and llm.c, `train_gpt2.py`.
#[test]
fn build_nanogpt_and_llm_c() {
    let text = "\
total desired batch size: 524288
=> calculated gradient accumulation steps: 32
DataLoader: total number of tokens: 338,025 across 1 files
";
    assert_eq!(read(text), StatedSettings { accumulation: Some(32), ..StatedSettings::default() });
}

/// Scripts of nobody's write the size of their model in words of their own; of a part of it they write it too.
#[test]
fn a_scripts_own_count_of_its_model() {
    for (line, params) in [
        ("model has 5.47M params", 5_470_000),
        ("Number of parameters: 5,338,624", 5_338_624),
        ("2026-03-01 10:00:00,123 - train - INFO - Total params: 12.3 million", 12_300_000),
        ("2026-03-01 10:00:00.123 | INFO     | __main__:main:33 - TinyGPT with 124M parameters", 124_000_000),
        ("INFO:__main__:n_params=8030261248", 8_030_261_248),
        ("[rank0] #params: 7.5B", 7_500_000_000),
        (r#"{"config": {"n_layer": 6}, "n_params": 3840000}"#, 3_840_000),
        ("Model mobilenetv3_small_100 created, param count:2542856", 2_542_856),
    ] {
        let stated = read(line);
        assert_eq!((stated.params, stated.trainable), (Some(params), None), "{line}");
    }
    assert_eq!(read("Trainable parameters: 1,234,567").trainable, Some(1_234_567));
    // Half a step of the last digit that is written.
    assert_eq!(read("model has 5.47M params").params_within, 5_000);
    for line in [
        "encoder parameters: 3M",
        "[encoder] parameters: 3M",
        "embedding params: 2,048,000",
        "num decayed parameter tensors: 26, with 10,740,096 parameters",
        "parameters: 26",
        "model parameters on rank 0: 5M of 10M",
        "params 5.47M loss 2.0",
        r#"{"step": 5, "n_params": 12, "loss": 2.0}"#,
        r#"{"total_params": 5000000, "trainable_params": 3000}"#,
        "generator parameters: 5,000,000, discriminator parameters: 3,000,000",
    ] {
        assert_eq!(read(line).params, None, "{line}");
    }
    // Two models, of which nobody says which is the plan's.
    assert_eq!(
        read("model parameters: 5,000,000\nmodel parameters: 3,000,000\nmodel parameters: 3,000,000").params,
        None
    );
    assert_eq!(read("model parameters: 5,000,000\nmodel parameters: 5,000,000").params, Some(5_000_000));
}

const STAGES: &str = "\
pipeline_model_parallel_size .................... 4
[default0]:  num_layers ...................................... 32
[default0]:  hidden_size ..................................... 4096
[default0]:  use_distributed_optimizer ....................... True";

/// Megatron-LM, `training/arguments.py`, `_print_args`, and `training/training.py`, `get_model`.
#[test]
fn megatron() {
    let arguments = |tensor: u64| {
        format!(
            "\
[default0]:------------------------ arguments ------------------------
[default0]:  bf16 ............................................ True
[default0]:  fp16 ............................................ False
[default0]:  global_batch_size ............................... 1024
[default0]:  micro_batch_size ................................ 2
[default0]:  params_dtype .................................... torch.bfloat16
[default0]:  pipeline_model_parallel_size .................... 1
[default0]:  recompute_granularity ........................... selective
[default0]:  seq_length ...................................... 4096
[default0]:  tensor_model_parallel_size ...................... {tensor}
[default0]:  world_size ...................................... 64
[default0]: > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 844193792
"
        )
    };
    let stated = read(&arguments(1));
    assert_eq!((stated.micro_batch, stated.global_batch, stated.sequence), (Some(2), Some(1024), Some(4096)));
    assert_eq!((stated.compute, stated.weights), (Some(StatedType::Bf16), Some(StatedType::Bf16)));
    assert_eq!((stated.checkpointing, stated.world), (Some(StatedCheckpointing::Selective), Some(64)));
    assert_eq!(stated.params, Some(844_193_792));
    assert_eq!((stated.tensor, stated.pipeline), (Some(1), Some(1)));
    // A rank of two holds half of each matrix.
    let halves = read(&arguments(2));
    assert_eq!((halves.params, stated.params_within), (Some(2 * 844_193_792), 0));
    // GPT-2 medium, 354 823 168 parameters: each of eight ranks holds 45 521 920, among them all 1024 x 1024 of the positions.
    assert!(halves.params_within * 354_823_168 > (8 * 45_521_920 - 354_823_168) * 2 * 844_193_792);
    // One stage tells nothing of the others; its width and the number of all layers do.
    let stage = arguments(2).replace("pipeline_model_parallel_size .................... 1", STAGES);
    let stated = read(&stage);
    assert_eq!((stated.params, stated.tensor, stated.pipeline), (None, Some(2), Some(4)));
    assert_eq!((stated.layers, stated.hidden, stated.distributed_optimizer), (Some(32), Some(4096), Some(true)));
}

/// GPT-NeoX marks what is not its default; DeepSpeed prints its own configuration behind it.
#[test]
fn deepspeed_and_neox() {
    let text = "\
  train_batch_size ................ 32..........................updated
  train_micro_batch_size_per_gpu .. 4...........................updated
  checkpoint_activations .......... True........................updated
  precision ....................... fp16........................default
[2023-07-25 21:00:00,000] [INFO] [config.py:983:print]   gradient_accumulation_steps .. 2
[2023-07-25 21:00:00,000] [INFO] [config.py:983:print]   fp16_enabled ................. auto
";
    let stated = read(text);
    assert_eq!((stated.global_batch, stated.micro_batch, stated.accumulation), (Some(32), Some(4), Some(2)));
    assert_eq!((stated.checkpointing, stated.compute), (Some(StatedCheckpointing::Full), Some(StatedType::Fp16)));
}

/// torchtitan, `train.py` and `distributed/activation_checkpoint.py`.
#[test]
fn torchtitan() {
    let text = "\
[rank0]:[titan] 2025-10-01 10:00:00,001 - root - INFO - Model llama3 8B size: 8,030,261,248 total parameters
[rank0]:[titan] 2025-10-01 10:00:00,001 - root - INFO - Applied selective activation checkpointing to the model
[rank0]:[titan] 2025-10-01 10:00:00,001 - root - INFO - Training starts at step 1, with local batch size 2, global batch size 16, sequence length 8192, total steps 1000 (warmup 200)
";
    let stated = read(text);
    assert_eq!((stated.params, stated.params_within), (Some(8_030_261_248), 0));
    assert_eq!((stated.micro_batch, stated.global_batch, stated.sequence), (Some(2), Some(16), Some(8192)));
    assert_eq!(stated.checkpointing, Some(StatedCheckpointing::Selective));
}

/// torchtune, `config/_utils.py`, `log_config`, and `recipes/full_finetune_single_device.py`.
#[test]
fn torchtune() {
    let text = "\
INFO:torchtune.utils._logging:Running FullFinetuneRecipeSingleDevice with resolved config:

batch_size: 2
compile: false
dtype: bf16
enable_activation_checkpointing: true
gradient_accumulation_steps: 8
model:
  _component_: torchtune.models.llama3_2.llama3_2_1b

INFO:torchtune.utils._logging:Model is initialized with precision torch.bfloat16.
";
    let stated = read(text);
    assert_eq!((stated.micro_batch, stated.accumulation), (Some(2), Some(8)));
    assert_eq!((stated.weights, stated.checkpointing), (Some(StatedType::Bf16), Some(StatedCheckpointing::Full)));
}

/// Lightning, `utilities/model_summary/model_summary.py`; litgpt, `finetune/lora.py` and `pretrain.py`.
#[test]
fn lightning_and_litgpt() {
    let text = "Using bfloat16 Automatic Mixed Precision (AMP)\n124 M     Trainable params\n0         Non-trainable params\n124 M     Total params\n497.759   Total estimated model params size (MB)\n";
    let stated = read(text);
    assert_eq!((stated.params, stated.compute), (Some(124_000_000), Some(StatedType::Bf16)));
    assert_eq!(stated.params_within, 500_000);
    let text = "Number of trainable parameters: 4,194,304\nNumber of non-trainable parameters: 2,779,683,840\n";
    assert_eq!(read(text).params, Some(2_783_878_144));
    assert_eq!(read("Total parameters: 1,100,048,384").params, Some(1_100_048_384));
}

/// llm-foundry, `command_utils/train.py`.
#[test]
fn llm_foundry() {
    let text = "\
device_train_microbatch_size: 8
fsdp_config:
  activation_checkpointing: true
  mixed_precision: PURE
global_train_batch_size: 256
max_seq_len: 2048
n_params: 125311488
precision: amp_bf16
";
    let stated = read(text);
    assert_eq!((stated.micro_batch, stated.global_batch, stated.sequence), (Some(8), Some(256), Some(2048)));
    assert_eq!((stated.params, stated.compute), (Some(125_311_488), Some(StatedType::Bf16)));
    assert_eq!(stated.checkpointing, Some(StatedCheckpointing::Full));
}

/// Lines of training and what a person writes state nothing.
#[test]
fn lines_of_steps_state_nothing() {
    for line in [
        "iter 10: loss 3.2202, time 893.76ms, mfu 16.68%",
        "{'loss': 2.119, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.03}",
        " iteration       34/   10000 | elapsed time per iteration (ms): 4103.1 | global batch size:    16 |",
        "[titan] - root - INFO - step: 14  loss:  3.24405  memory:  9.46GiB(64.99%)  tps: 7,282  sequence length 3",
        "Loading checkpoint shards: 100% 4/4 ... 5",
        "batch_size: 3",
        "Validation: sequence length: 4",
    ] {
        assert!(read(line).is_empty(), "{line}: {:?}", read(line));
    }
}
