//! The training scripts of diffusers (`examples/*/train_*.py` at 58eb52c0).

mod own_adapters;
pub mod tools;

use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::launch::base;
use super::origin::{Origin, Setting};
use super::python::ScriptReader;
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::script_defaults;
use super::script_effects;
use super::settings::Settings;
use super::unread::account_for;
use super::{accelerate, adapters, arguments, model};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "diffusers 0.37";

/// Under which all those scripts run a micro-batch, and accelerate all but the last without reducing gradients
/// (accelerator.py, `accumulate` and `no_sync`).
const ACCUMULATES: &str = "accelerator.accumulate(";

const ROWS: &[SettingRow] = &[
    (&["train_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["gradient_accumulation_steps"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["max_grad_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["adam_weight_decay"], keys::training::weight_decay, SettingKind::Share),
];

/// Starts of the names of those scripts.
const SCRIPTS: [&str; 12] = [
    "train_text_to_image",
    "train_dreambooth",
    "train_controlnet",
    "train_instruct_pix2pix",
    "train_unconditional",
    "textual_inversion",
    "train_custom_diffusion",
    "train_t2i_adapter",
    "train_lcm_distill",
    "train_cogvideox",
    "train_control_",
    "train_vqgan",
];

/// Those whose defaults are known where the script is not at hand.
const KNOWN: [&str; 5] =
    ["train_text_to_image", "train_dreambooth", "train_controlnet", "train_instruct_pix2pix", "textual_inversion"];

/// The denoiser of FLUX.1 [dev], a transformer of latents that sees 16 x 16 pixels as a token.
const FLUX: &str = "flux.1-dev";

/// What its scripts adapt (`examples/dreambooth/train_dreambooth_lora_flux.py`, `target_modules`).
const FLUX_TARGETS: [&str; 12] = [
    "attn.to_k",
    "attn.to_q",
    "attn.to_v",
    "attn.to_out.0",
    "attn.add_k_proj",
    "attn.add_q_proj",
    "attn.add_v_proj",
    "attn.to_add_out",
    "ff.net.0.proj",
    "ff.net.2",
    "ff_context.net.0.proj",
    "ff_context.net.2",
];

fn is_flux(imported: &ImportedPlan) -> bool {
    imported.get(keys::model::preset).is_some_and(|found| found.value == FLUX)
}

fn stem<'a>(context: &'a ImportContext<'a>) -> &'a str {
    let name = base(&context.program.path);
    name.strip_suffix(".py").unwrap_or(name)
}

/// Whether the program is one of them.
pub fn runs(context: &ImportContext) -> bool {
    let options = arguments::read(&context.program.words).options;
    let named = SCRIPTS.iter().any(|name| stem(context).starts_with(name));
    (named && (options.holds("resolution") || options.holds("train_batch_size")))
        || (options.holds("pretrained_model_name_or_path") && options.holds("train_batch_size"))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("diffusers");
    let own = script_defaults::script_of(context).map(|(path, text)| script_defaults::read(&path, &text));
    let given = arguments::read(&context.program.words).options;
    let settings = own.clone().unwrap_or_default().with(given);
    let script = stem(context).to_owned();
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    match settings.first_text(&["pretrained_model_name_or_path", "model_config_name_or_path"]) {
        Some(_) if let Some(other) = denoiser(&settings) => imported.miss(keys::model::preset, other),
        Some(found) => unet(&mut imported, context, found),
        None => imported.miss(keys::model::preset, "no --pretrained_model_name_or_path"),
    }
    if let Some(known) = KNOWN.iter().find(|known| script.starts_with(*known)) {
        let micro = if known.contains("dreambooth") || known.contains("controlnet") { 4 } else { 16 };
        imported.say(keys::training::micro_batch_size, micro, default(&format!("--train_batch_size {micro}")));
        imported.say(keys::training::gradient_accumulation_steps, 1, default("--gradient_accumulation_steps 1"));
        imported.say(keys::training::weight_decay, 0.01, default("--adam_weight_decay 1e-2"));
        imported.say(keys::training::gradient_clipping, true, default("--max_grad_norm 1.0"));
    } else if own.is_none() {
        imported.note(format!("{}: not read, the defaults of its arguments are not known", context.program.shown()));
        imported.unread = Some(context.program.shown());
    }
    take(&mut imported, &settings, ROWS);
    resolution(&mut imported, &settings, &script);
    let lora = script.contains("lora");
    low_rank(&mut imported, &settings, lora);
    precision(&mut imported, &settings, context, lora);
    optimizer(&mut imported, &settings);
    let recompute = settings.on("gradient_checkpointing").map(|found| found.map(|_| "full"));
    let none = Setting::new("none", default("no --gradient_checkpointing"));
    imported.set(keys::training::activation_checkpointing, Some(recompute.unwrap_or(none)));
    imported.say(keys::training::attention, "sdpa", default("AttnProcessor2_0"));
    beside(&mut imported, &settings, &script);
    own_script(&mut imported, &settings, context, &script);
    let text = script_defaults::script_of(context).map(|(_, text)| text);
    if accelerate::reduces_by_unit(&imported) && text.is_none_or(|text| text.contains(ACCUMULATES)) {
        imported.say(keys::distribution::sync_each_micro_batch, false, default(ACCUMULATES));
    }
    account_for(&mut imported, &settings);
    imported
}

/// What a script of one's own with these options may hold besides: a reference or teacher of the denoiser, adapters by
/// another name (`kohya-ss/sd-scripts`, `train_network.py`).
fn own_script(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, script: &str) {
    if let Some(found) = settings.first_text(&["network_module", "network_dim"]) {
        not_modelled(
            imported,
            &format!("{}: adapters of sd-scripts; the plan trains the whole denoiser", found.origin),
        );
        for key in ["training.attention", "training.precision", "training.weight_decay", "training.gradient_clipping"] {
            imported.doubt_default(key, "sd-scripts have other defaults");
        }
    }
    let Some((path, text)) = script_defaults::script_of(context) else { return };
    let held =
        ["ref_unet", "teacher_unet", "ref_transformer", "reference_unet"].iter().find(|name| text.contains(**name));
    if let (Some(name), false) = (held, script.starts_with("train_lcm_distill")) {
        not_modelled(imported, &format!("{path}: {name}: a second denoiser beside, and pairs of images"));
    }
    let makes = || ScriptReader::new(&path, &text, settings.clone()).reached(&["get_peft_model"]) != Some(false);
    if imported.get(keys::lora::rank).is_none() && text.contains("get_peft_model(") && makes() {
        not_modelled(imported, &format!("{path}: adapters that peft makes; the plan trains the whole denoiser"));
    }
    own_adapters::set(imported, context, &path, &text);
    script_effects::say_engine(imported, &path, &text);
    if text.contains("Adafactor(") {
        imported.drop(keys::training::optimizer);
        imported.miss(
            keys::training::optimizer,
            format!("{path} makes Adafactor or AdamW, on a condition that is not followed"),
        );
    }
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// Why the pipeline's own denoiser is not the one that trains: a setting names another (`nota-ai/bk-sdm`,
/// `src/dreambooth_finetune.py`, `--unet_path`).
fn denoiser(settings: &Settings) -> Option<String> {
    const DENOISERS: [&str; 3] = ["unet", "transformer", "denoiser"];
    const PLACES: [&str; 4] = ["path", "config", "config_name", "checkpoint"];
    let mut told = settings.fates().filter(|(name, ..)| {
        let name = name.strip_prefix("pretrained_").unwrap_or(name);
        DENOISERS.iter().any(|part| name.starts_with(part)) && PLACES.iter().any(|end| name.ends_with(end))
    });
    let (name, found) = told.find_map(|(name, ..)| settings.text(name).map(|found| (name, found)))?;
    Some(format!("--{name} {}: the denoiser that trains is that one, which is not known here", found.value))
}

/// The pipeline's denoiser; a pipeline of another kind than Stable Diffusion's is not known here.
fn unet(imported: &mut ImportedPlan, context: &ImportContext, found: Setting<String>) {
    let script = stem(context);
    let name = base(found.value.trim_end_matches('/')).to_lowercase();
    let preset = match name.as_str() {
        "stable-diffusion-v1-5" | "stable-diffusion-v1-4" | "stable-diffusion-v1-3" => Some("stable-diffusion-1.5"),
        "stable-diffusion-2-1" | "stable-diffusion-2" | "stable-diffusion-2-base" | "stable-diffusion-2-1-base" => {
            Some("stable-diffusion-2.1")
        }
        "stable-diffusion-xl-base-1.0" | "stable-diffusion-xl-base-0.9" => Some("stable-diffusion-xl"),
        "flux.1-dev" if script.contains("dreambooth") => Some(FLUX),
        _ => None,
    };
    match preset {
        Some(preset) => imported.say(keys::model::preset, preset, found.origin),
        None if context.run.files.read(&format!("{}/unet/config.json", found.value)).is_ok() => {
            let folder = found.map(|path| format!("{path}/unet"));
            model::set(imported, context, folder);
        }
        None => imported.miss(keys::model::preset, format!("{}: its denoiser is not known here", found.value)),
    }
}

/// Pixels; the denoiser sees latents of an eighth.
fn resolution(imported: &mut ImportedPlan, settings: &Settings, script: &str) {
    // What a transformer of latents, or one that is not known here, sees is another size.
    if imported.get(keys::model::preset).is_none() && imported.get(keys::model::hf_config).is_none() {
        return imported.miss(keys::model::image_size, "follows from the denoiser");
    }
    let usual = if script.contains("sdxl") { 1024 } else { 512 };
    let pixels = settings.whole("resolution");
    let pixels = pixels.unwrap_or_else(|| Setting::new(usual, default(&format!("--resolution {usual}"))));
    if is_flux(imported) {
        let side = pixels.value / 16;
        let origin = Origin::Derived(format!("{}: ({} pixels / 16) squared", pixels.origin, pixels.value));
        return imported.say(keys::model::sequence_length, side.saturating_mul(side), origin);
    }
    let origin = Origin::Derived(format!("{}: {} pixels / 8", pixels.origin, pixels.value));
    imported.say(keys::model::image_size, pixels.value / 8, origin);
}

fn low_rank(imported: &mut ImportedPlan, settings: &Settings, lora: bool) {
    if !lora {
        return;
    }
    let rank = settings.first_whole(&["rank", "lora_rank"]).unwrap_or_else(|| Setting::new(4, default("--rank 4")));
    adapters::set(imported, Some(rank), (VERSION, 4), None);
    if is_flux(imported) {
        let named = settings
            .text("lora_layers")
            .map(|found| found.map(|names| names.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()));
        let usual = || Setting::new(FLUX_TARGETS.map(str::to_owned).to_vec(), default("target_modules"));
        return adapters::set_targets(imported, Some(named.unwrap_or_else(usual)));
    }
    let targets = ["to_k", "to_q", "to_v", "to_out.0"].map(str::to_owned).to_vec();
    adapters::set_targets(imported, Some(Setting::new(targets, default("attention of the U-Net"))));
}

/// The base of adapters is cast, and run under accelerate's autocast. The adapters are made in its type (peft,
/// tuners/tuners_utils.py, `_move_adapter_to_device_of_base_layer`), and raised to fp32 beside fp16 alone
/// (`cast_training_params` where `mixed_precision == "fp16"`). DeepSpeed has no autocast.
fn adapters_under_autocast(imported: &mut ImportedPlan, found: &Setting<&'static str>) {
    let own = if found.value == "fp16" { "fp32" } else { found.value };
    imported.say(keys::lora::dtype, own, found.origin.clone());
    if imported.get(keys::distribution::engine).is_none_or(|engine| engine.value != "deepspeed") {
        imported.say(keys::training::autocast, true, found.origin.clone());
    }
}

/// Trained weights are kept in fp32 and autocast; under adapters the base is cast.
fn precision(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, lora: bool) {
    let launched = accelerate::settings(context, imported).unwrap_or_default();
    let found = settings.text("mixed_precision").or_else(|| launched.text("mixed_precision"));
    let word = found.map(|found| {
        found.map(|name| match (name.as_str(), lora) {
            ("fp16", false) => "fp16-mixed",
            ("bf16", false) => "bf16-mixed",
            ("fp16", true) => "fp16",
            ("bf16", true) => "bf16",
            _ => "fp32",
        })
    });
    let half = word.clone().filter(|found| lora && found.value != "fp32");
    imported
        .set("training.precision", Some(word.unwrap_or_else(|| Setting::new("fp32", default("no --mixed_precision")))));
    let mut sharded = ImportedPlan::default();
    accelerate::set(&mut sharded, &launched, context, false);
    accelerate::account_for_file(imported, &launched);
    for key in ["distribution.sharding", "distribution.engine", "training.cpu_offload", "training.compile"] {
        let inferred = sharded.get(key).cloned();
        imported.set(key, inferred.map(|inferred| Setting::new(inferred.value, inferred.origin)));
    }
    if let Some(found) = half {
        adapters_under_autocast(imported, &found);
    }
}

fn optimizer(imported: &mut ImportedPlan, settings: &Settings) {
    if let Some(found) = settings.on("use_8bit_adam") {
        return imported.set(keys::training::optimizer, Some(found.map(|_| "adamw-8bit")));
    }
    match settings.text("optimizer") {
        Some(found) if found.value.eq_ignore_ascii_case("prodigy") => {
            imported.miss(keys::training::optimizer, "prodigy has no word in a plan");
            not_modelled(imported, "prodigy: its states");
        }
        Some(found) => common::set_optimizer(imported, Some(found)),
        None => imported.say(keys::training::optimizer, "adamw", default("torch.optim.AdamW")),
    }
}

/// Parameters of `AutoencoderKL` and of `CLIPTextModel` as the pipelines of Stable Diffusion 1 (ViT-L/14) and 2 (OpenCLIP's
/// ViT-H/14 without its last layer) have them (`vae/config.json`, `text_encoder/config.json`; counted by diffusers 0.35).
const IMAGE_ENCODER: u64 = 83_653_863;
const TEXT_ENCODERS: [(&str, u64); 2] = [("stable-diffusion-1.5", 123_060_480), ("stable-diffusion-2.1", 340_387_840)];

/// Both of SDXL's (ViT-L/14 and OpenCLIP's ViT-bigG/14), which its scripts for adapters hold to the end: what they delete is
/// the list of them (`train_dreambooth_lora_sdxl.py`, `del tokenizers, text_encoders`).
const TEXT_ENCODERS_OF_XL: u64 = 123_060_480 + 694_659_840;

/// The same of SDXL, whose image encoder is in fp32 unless another stands in for it (`vae.to(…, dtype=torch.float32)`).
fn encoders_of_xl(imported: &mut ImportedPlan, settings: &Settings, script: &str) -> Option<()> {
    const OF_ADAPTERS: [&str; 2] = ["train_dreambooth_lora_sdxl", "train_text_to_image_lora_sdxl"];
    let preset = imported.get(keys::model::preset)?.value.as_str()?.to_owned();
    let is_xl = preset.starts_with("stable-diffusion-xl") && OF_ADAPTERS.iter().any(|name| script.starts_with(name));
    let half = imported.get(keys::training::precision)?.value.as_str().is_some_and(|word| word.contains("16"));
    let mixed = imported.get(keys::training::precision)?.value.as_str()?.ends_with("-mixed");
    // Adapters train beside frozen encoders, too (`text_encoder_one.add_adapter(text_lora_config)`).
    let text = TEXT_ENCODERS_OF_XL;
    let other = settings.holds("pretrained_vae_model_name_or_path") && script.starts_with("train_text_to_image");
    // In the bytes of the type that the plan's weights have.
    let image = if half && !mixed && !other { 2 * IMAGE_ENCODER } else { IMAGE_ENCODER };
    let text = if mixed { text / 2 } else { text };
    let millions = (IMAGE_ENCODER + TEXT_ENCODERS_OF_XL) as f64 / 1e6;
    if !is_xl {
        return None;
    }
    let origin = Origin::Derived(format!("the frozen encoders of {preset}"));
    imported.say(keys::training::frozen_models_billions, (image + text) as f64 / 1e9, origin);
    imported.note(format!(
        "the frozen encoders' weights, {millions:.0} M, are counted; their passes are not: steps take longer"
    ));
    Some(())
}

/// Counts the weights of the frozen encoders, where the script keeps them in the type that it computes in.
fn encoders(imported: &mut ImportedPlan, settings: &Settings, script: &str) -> Option<()> {
    KNOWN.iter().find(|known| script.starts_with(**known) && !settings.is("pre_compute_text_embeddings"))?;
    let preset = imported.get(keys::model::preset)?.value.as_str()?.to_owned();
    let (_, text) = TEXT_ENCODERS.into_iter().find(|(name, _)| *name == preset)?;
    let text = if settings.is("train_text_encoder") { 0 } else { text };
    let parameters = (IMAGE_ENCODER + text) as f64;
    // A plan counts them in the type of the weights that train: under autocast in twice as many bytes.
    let mixed = imported.get(keys::training::precision)?.value.as_str()?.ends_with("-mixed");
    let (counted, halved) = if mixed { (parameters / 2.0, ", in 16 bit half as many") } else { (parameters, "") };
    let origin = Origin::Derived(format!("the frozen encoders of {preset}{halved}"));
    imported.say(keys::training::frozen_models_billions, counted / 1e9, origin);
    let millions = parameters / 1e6;
    imported.note(format!(
        "the frozen encoders' weights, {millions:.0} M, are counted; their passes are not: steps take longer"
    ));
    Some(())
}

fn beside(imported: &mut ImportedPlan, settings: &Settings, script: &str) {
    let mut what = Vec::new();
    settings.accept("pretrained_vae_model_name_or_path");
    if encoders(imported, settings, script).or_else(|| encoders_of_xl(imported, settings, script)).is_none() {
        what.push("the image encoder and the text encoders beside the denoiser");
    }
    if settings.is("train_text_encoder") && script.contains("lora") {
        what.push("adapters in the text encoders, and their passes");
    } else if settings.is("train_text_encoder") {
        what.push("the text encoder's training");
    }
    if settings.is("with_prior_preservation") {
        preserved(imported, settings);
    }
    if settings.is("use_ema") {
        what.push("the moving average of the weights");
    }
    if script.contains("controlnet") || script.contains("adapter") {
        what.push("the trained copy of its encoder; the plan trains the denoiser itself");
    }
    if script.contains("textual_inversion") {
        what.push("that only an embedding is trained");
    }
    if settings.holds("snr_gamma") {
        settings.accept("snr_gamma");
    }
    for name in
        ["random_flip", "center_crop", "allow_tf32", "noise_offset", "enable_xformers_memory_efficient_attention"]
    {
        settings.accept(name);
    }
    for part in what {
        not_modelled(imported, part);
    }
}

/// With prior preservation as many images of the class run in each pass as of the instance (`train_dreambooth.py`,
/// `collate_fn`); what makes them before is gone when the training begins.
fn preserved(imported: &mut ImportedPlan, settings: &Settings) {
    const MICRO: &str = keys::training::micro_batch_size;
    if let Some((images, origin)) = imported.whole(MICRO).zip(imported.get(MICRO).map(|found| found.origin.clone())) {
        let origin = Origin::Derived(format!("{origin}: {images} of the instance, and as many of its class"));
        imported.say(MICRO, images.saturating_mul(2), origin);
    }
    for name in ["sample_batch_size", "prior_generation_precision"] {
        settings.accept(name);
    }
}
