//! xtuner: configurations in Python of mmengine's kind, and `xtuner train CONFIG.py --deepspeed deepspeed_zero2`
//! (`xtuner/entry_point.py`, `xtuner/tools/train.py`, `xtuner/model/sft.py` of 0.1 to 0.2). Read, never run.

use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::methods::TrainingMethod;
use super::origin::{Origin, Setting};
use super::python::ScriptReader;
use super::rows::not_modelled;
use super::settings::Settings;
use super::text;
use super::unread::{account_for, account_for_call};
use super::{adapters, model};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "xtuner 0.2";

/// Whether a Python file is such a configuration.
pub fn is_config(content: &str) -> bool {
    content.contains("from xtuner.") && content.contains("optim_wrapper") && content.contains("model = dict(")
}

fn config(context: &ImportContext) -> Option<String> {
    let read = arguments::read(&context.program.words);
    read.words.into_iter().find(|word| word != "train" && !word.contains('='))
}

/// Whether the program is its command.
pub fn runs(context: &ImportContext) -> bool {
    let program = context.program;
    let command = program.name() == "xtuner" && program.words.first().is_some_and(|word| word == "train");
    command || program.path.ends_with("xtuner/tools/train.py")
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("xtuner");
    let options = arguments::read(&context.program.words).options;
    let read = config(context).map(|path| (context.run.files.read(&path), path));
    match read {
        Some((Ok(content), path)) => set(&mut imported, &path, &content, context),
        Some((Err(why), path)) => {
            imported.note(format!("{path}: {why}"));
            imported.miss(keys::model::preset, "the configuration, which says it, was not read");
            imported.unread = Some(path);
        }
        None => imported.miss(keys::model::preset, "no configuration is named"),
    }
    launched(&mut imported, &options, context);
    account_for_call(&mut imported, &options, &["deepspeed", "launcher", "work_dir", "resume", "seed", "local_rank"]);
    imported
}

/// The plan of a file alone.
pub fn of_file(name: &str, content: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("xtuner");
    set(&mut imported, name, content, context);
    // `xtuner/tools/train.py`: DeepSpeed is the command's alone.
    launched(&mut imported, &Settings::default(), context);
    imported.note("read as started by `xtuner train CONFIG`; with --deepspeed NAME its states are sharded");
    imported
}

/// `NPROC_PER_NODE` and `NNODES` start torchrun (`entry_point.py`); `--deepspeed` names one of xtuner's own files.
fn launched(imported: &mut ImportedPlan, options: &Settings, context: &ImportContext) {
    let whole =
        |name: &str| context.variable(name).and_then(|found| found.and_then(|text| text.trim().parse::<u64>().ok()));
    if let Some(gpus) = whole("NPROC_PER_NODE") {
        let nodes = whole("NNODES").map_or(1, |found| found.value);
        imported.set(keys::cluster::num_gpus, gpus.value.checked_mul(nodes).map(|all| Setting::new(all, gpus.origin)));
    }
    let Some(found) = options.text("deepspeed") else {
        let none = || Origin::Default { framework: VERSION, option: "no --deepspeed".to_owned() };
        imported.say(keys::distribution::sharding, "none", none());
        imported.say(keys::distribution::engine, "ddp", none());
        return;
    };
    let stage = ["zero1", "zero2", "zero3"].into_iter().find(|word| found.value.contains(word));
    match stage {
        Some(word) => {
            imported.say(keys::distribution::engine, "deepspeed", found.origin.clone());
            imported.say(keys::distribution::sharding, word, found.origin.clone());
            if found.value.contains("offload") {
                let place = if word == "zero3" { "parameters" } else { "optimizer" };
                imported.say(keys::training::cpu_offload, place, found.origin.clone());
            }
            let half =
                imported.get(keys::training::precision).is_none_or(|told| !told.value.to_string().contains("fp16"));
            if imported.get(keys::lora::rank).is_none() {
                let word = if half { "bf16-fp32-master" } else { "fp16-fp32-master" };
                imported.say(keys::training::precision, word, found.origin);
            }
        }
        None => imported.miss(keys::distribution::sharding, format!("--deepspeed {}: not known here", found.value)),
    }
}

fn set(imported: &mut ImportedPlan, name: &str, content: &str, context: &ImportContext) {
    let globals = text::python(name, content);
    let origin = || Origin::Program("the names of xtuner's configurations".to_owned());
    imported.say(keys::model::framework, "pytorch", origin());
    let named = ["pretrained_model_name_or_path", "llm_name_or_path"];
    match globals.first_text(&named) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no pretrained_model_name_or_path"),
    }
    let longest = globals.whole("max_length");
    // Pairs are packed into `max_packed_length` tokens: as many as the two samples of one pair that are counted.
    let packed = globals.get("max_packed_length").and_then(|found| found.value.as_u64());
    if longest.as_ref().is_some_and(|found| packed == found.value.checked_mul(2)) {
        globals.accept("max_packed_length");
    }
    imported.set(keys::model::sequence_length, longest);
    imported.set(keys::training::micro_batch_size, globals.whole("batch_size"));
    accumulation(imported, &globals);
    let optimizer = assigned(content, "optim_type").map(|word| {
        Setting::new(word.to_owned(), Origin::File { name: name.to_owned(), line: None, key: "optim_type".to_owned() })
    });
    common::set_optimizer(imported, optimizer);
    let decay = globals.number("weight_decay").filter(|found| (0.0..=1.0).contains(&found.value));
    imported.set(keys::training::weight_decay, decay);
    imported
        .set(keys::training::gradient_clipping, globals.number("max_norm").map(|found| found.map(|norm| norm > 0.0)));
    // `SupervisedFinetune(use_activation_checkpointing=True)` (`xtuner/model/sft.py`).
    let off = content.contains("use_activation_checkpointing=False");
    let word = if off { "none" } else { "full" };
    let default = Origin::Default { framework: VERSION, option: "use_activation_checkpointing True".to_owned() };
    imported.say(keys::training::activation_checkpointing, word, default);
    if content.contains("attn_implementation=\"flash_attention_2\"") || globals.is("use_varlen_attn") {
        imported.say(keys::training::attention, "flash", origin());
    } else {
        attention(imported, content);
    }
    low_rank(imported, name, content);
    precision(imported, content);
    beside(imported, content);
    for name in
        ["use_varlen_attn", "pack_to_max_length", "betas", "alpaca_en_path", "max_position_embeddings", "data_root"]
    {
        globals.accept(name);
    }
    account_for(imported, &globals);
}

/// `SupervisedFinetune._prepare_for_flash_attn`: flash-attn's where it is installed, else PyTorch's own, which keeps as much;
/// that of Baichuan (`modules/dispatch/baichuan.py`), ChatGLM (its own `CoreAttention`) and MiniCPM (transformers' default)
/// is PyTorch's own.
fn attention(imported: &mut ImportedPlan, content: &str) {
    let default = |option: &str| Origin::Default { framework: VERSION, option: option.to_owned() };
    let text = content.to_lowercase();
    if ["baichuan-inc/", "/chatglm", "/minicpm"].iter().any(|part| text.contains(part)) {
        return imported.say(keys::training::attention, "sdpa", default("scaled_dot_product_attention"));
    }
    imported.say(keys::training::attention, "flash", default("flash_attention_2"));
    imported.note("flash-attn is taken to be installed: without it PyTorch's own attention keeps as much");
}

/// What stands on the right of an assignment at the left margin.
fn assigned<'a>(content: &'a str, name: &str) -> Option<&'a str> {
    let line = content.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='))?;
    Some(line.split('#').next().unwrap_or(line).trim())
}

/// `accumulative_counts *= sequence_parallel_size` stands in each file.
fn accumulation(imported: &mut ImportedPlan, globals: &Settings) {
    let Some(found) = globals.whole("accumulative_counts") else { return };
    let parallel = globals.whole("sequence_parallel_size").map_or(1, |found| found.value.max(1));
    imported.set(keys::training::gradient_accumulation_steps, Some(found.map(|steps| steps.saturating_mul(parallel))));
    if parallel > 1 {
        imported.set(keys::distribution::context_parallel, globals.whole("sequence_parallel_size"));
        imported.say(keys::distribution::cp_comm, "a2a", Origin::Derived("sequence_parallel_size".to_owned()));
    }
}

/// InternVL's base in 4 bits.
const INTERNVL_4_BIT: &str = "quantization_llm=True";

fn low_rank(imported: &mut ImportedPlan, name: &str, content: &str) {
    if !content.contains("lora=dict(") {
        return;
    }
    let reader = ScriptReader::new(name, content, Settings::default());
    let model = reader.section("model");
    let of_language = model.below("model.llm_lora");
    let keywords = model.below("model.lora").with(of_language);
    // `quantization_llm`: NF4, scales quantised too (`xtuner/model/internvl.py`).
    let bits = [("load_in_4bit=True", 4_u64), ("load_in_8bit=True", 8), (INTERNVL_4_BIT, 4)]
        .into_iter()
        .find(|(part, _)| content.contains(part))
        .map(|(part, bits)| Setting::new(bits, Origin::Program(format!("{name}: {part}"))));
    adapters::set(imported, keywords.whole("r"), ("peft", 8), bits);
    // Without names every linear layer (`xtuner/model/utils.py`, `find_all_linear_names`).
    let all = || {
        let option = "every linear layer".to_owned();
        Setting::new(vec!["all-linear".to_owned()], Origin::Default { framework: VERSION, option })
    };
    adapters::set_targets(imported, Some(keywords.texts("target_modules").unwrap_or_else(all)));
    let dropout = keywords.number("lora_dropout").filter(|found| (0.0..1.0).contains(&found.value));
    imported.set(keys::lora::dropout, dropout);
    if let Some(part) = ["bnb_4bit_use_double_quant=True", INTERNVL_4_BIT].iter().find(|part| content.contains(**part))
    {
        imported.say(keys::lora::double_quant, true, Origin::Program(format!("{name}: {part}")));
    }
}

/// `torch_dtype` of the model under `AmpOptimWrapper`; adapters are in fp32.
fn precision(imported: &mut ImportedPlan, content: &str) {
    let half =
        ["torch_dtype=torch.bfloat16", "torch_dtype=torch.float16"].into_iter().find(|part| content.contains(part));
    // Its own class loads it in bf16 (`xtuner/model/internvl.py`, `InternVL_V1_5.__init__`).
    let half = half.or_else(|| content.contains("InternVL_V1_5").then_some("torch_dtype=torch.bfloat16"));
    let adapters = imported.get(keys::lora::rank).is_some();
    let word = match half {
        Some(part) if part.contains("bfloat16") => {
            if adapters {
                "bf16-mixed"
            } else {
                "bf16"
            }
        }
        Some(_) => {
            if adapters {
                "fp16-mixed"
            } else {
                "fp16"
            }
        }
        None => "fp16-mixed",
    };
    let origin = Origin::Program(half.unwrap_or("AmpOptimWrapper over fp32 weights").to_owned());
    imported.say(keys::training::precision, word, origin);
}

fn beside(imported: &mut ImportedPlan, content: &str) {
    for (part, what) in [
        ("type=LLaVAModel", "the vision tower and its projector"),
        ("freeze_llm=True", "a frozen language model: the plan trains it"),
    ] {
        // Frozen beside adapters it is what adapters stand on.
        let adapted = part == "freeze_llm=True" && imported.get(keys::lora::rank).is_some();
        if content.contains(part) && !adapted {
            not_modelled(imported, what);
        }
    }
    let methods = [
        ("type=DPO,", TrainingMethod::Dpo),
        ("type=ORPO,", TrainingMethod::Pairs),
        ("type=RewardModel,", TrainingMethod::Reward),
    ];
    if let Some((_, method)) = methods.iter().find(|(part, _)| content.contains(part)) {
        method.apply(imported);
    }
}
