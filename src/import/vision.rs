//! Models that see: their language model of the catalogue, and the tower before it.

use std::num::IntErrorKind;

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::base;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::Settings;
use super::vision_parts::{PROJECTOR, WholeModel, are_all, llava_like, stated_parts};
use crate::plan::keys;

/// Parameters of a tower and of what joins it to a language model, and whether they are trained.
#[derive(Debug, Clone, PartialEq)]
pub struct Tower {
    pub parameters: u64,
    pub origin: Origin,
    pub frozen: bool,
    /// Somebody says that it trains, whatever adapters stand beside.
    pub trained: bool,
    /// The whole model, where the catalogue has it.
    pub whole: Option<WholeModel>,
    /// Pixels of the largest image that is shown.
    pub pixels: Option<Setting<u64>>,
}

/// A vision model's name without the words for how it was tuned, its language model, and the parameters of its tower
/// with its merger, each the sum of the shapes of `modeling_*.py` of transformers 4.57: `visual`, or of the hub's
/// `modeling_internvl_chat.py` (`InternViT-300M` of 304 012 288, `InternViT-6B` of 5 537 553 408 beside its projector; the
/// language models of `InternVL2_5` as its README names them). LLaVA 1.6 has `image_newline` besides
/// (`llava/model/llava_arch.py`).
const COMPOSED: &[(&str, &str, u64)] = &[
    ("qwen2-vl-2b", "qwen2-1.5b", 665_271_296),
    ("qwen2-vl-7b", "qwen2-7b", 675_759_104),
    ("qwen2-vl-72b", "qwen2-72b", 699_356_672),
    ("qwen2.5-vl-3b", "qwen2.5-3b", 668_684_288),
    ("qwen2.5-vl-7b", "qwen2.5-7b", 676_550_144),
    ("qwen2.5-vl-32b", "qwen2.5-32b", 688_841_984),
    ("qwen2.5-vl-72b", "qwen2.5-72b", 704_573_696),
    ("qwen3-vl-2b", "qwen3-1.7b", 406_957_056),
    ("qwen3-vl-4b", "qwen3-4b", 415_347_712),
    ("qwen3-vl-8b", "qwen3-8b", 576_388_336),
    ("qwen3-vl-32b", "qwen3-32b", 595_266_800),
    ("qwen3-vl-30b-a3b", "qwen3-30b-a3b", 538_631_408),
    ("qwen3-vl-235b-a22b", "qwen3-235b-a22b", 576_388_336),
    ("internvl2.5-1b", "qwen2.5-0.5b", 308_495_104),
    ("internvl2.5-2b", "internlm2-1.8b", 316_607_488),
    ("internvl2.5-4b", "qwen2.5-3b", 316_607_488),
    ("internvl2.5-8b", "internlm2-7b", 337_583_104),
    ("internvl3-1b", "qwen2.5-0.5b", 308_495_104),
    ("internvl3-2b", "qwen2.5-1.5b", 312_674_304),
    ("internvl3-8b", "qwen2.5-7b", 331_552_768),
    ("internvl3-14b", "qwen2.5-14b", 351_216_640),
    ("internvl3.5-1b", "qwen3-0.6b", 309_265_408),
    ("internvl3.5-2b", "qwen3-1.7b", 316_607_488),
    ("internvl3.5-4b", "qwen3-4b", 321_064_960),
    ("internvl3.5-8b", "qwen3-8b", 337_583_104),
    ("internvl3.5-14b", "qwen3-14b", 351_216_640),
    ("internvl3.5-30b-a3b", "qwen3-30b-a3b", 316_607_488),
    ("llava-1.5-7b", "llama-2-7b", 324_487_168),
    ("llava-v1.5-7b", "llama-2-7b", 324_487_168),
    ("llava-v1.6-vicuna-7b", "llama-2-7b", 324_491_264),
    ("llava-v1.6-vicuna-13b", "llama-2-13b", 334_980_096),
    ("llava-v1.6-mistral-7b", "mistral-7b-v0.2", 324_491_264),
    ("llava-1.5-13b", "llama-2-13b", 334_974_976),
    ("llava-v1.5-13b", "llama-2-13b", 334_974_976),
    ("pixtral-12b", "mistral-nemo-12b", 434_957_312),
    ("pixtral-12b-2409", "mistral-nemo-12b", 434_957_312),
    ("llava-onevision-qwen2-0.5b-ov", "qwen2-0.5b", 399_585_440),
    ("llava-onevision-qwen2-0.5b-si", "qwen2-0.5b", 399_585_440),
    ("llava-onevision-qwen2-7b-ov", "qwen2-7b", 414_732_320),
    ("llava-onevision-qwen2-7b-si", "qwen2-7b", 414_732_320),
    ("llava-onevision-qwen2-72b-ov", "qwen2-72b", 474_318_368),
    ("llava-onevision-qwen2-72b-si", "qwen2-72b", 474_318_368),
    ("llava-next-video-7b", "llama-2-7b", 324_491_264),
    ("video-llava-7b", "llama-2-7b", 627_339_264),
    ("paligemma-3b-pt-224", "gemma-2b", 414_803_696),
    ("paligemma-3b-pt-448", "gemma-2b", 415_688_432),
    ("paligemma-3b-pt-896", "gemma-2b", 419_227_376),
    ("paligemma-3b-mix-224", "gemma-2b", 414_803_696),
    ("paligemma-3b-mix-448", "gemma-2b", 415_688_432),
    ("paligemma2-3b-pt-224", "gemma-2-2b", 415_098_864),
    ("paligemma2-3b-pt-448", "gemma-2-2b", 415_983_600),
    ("paligemma2-3b-pt-896", "gemma-2-2b", 419_522_544),
    ("paligemma2-10b-pt-224", "gemma-2-9b", 416_574_704),
    ("paligemma2-10b-pt-448", "gemma-2-9b", 417_459_440),
    ("paligemma2-10b-pt-896", "gemma-2-9b", 420_998_384),
    ("paligemma2-28b-pt-224", "gemma-2-27b", 417_755_376),
    ("paligemma2-28b-pt-448", "gemma-2-27b", 418_640_112),
    ("paligemma2-28b-pt-896", "gemma-2-27b", 422_179_056),
    ("paligemma2-3b-mix-224", "gemma-2-2b", 415_098_864),
    ("paligemma2-3b-mix-448", "gemma-2-2b", 415_983_600),
    ("paligemma2-10b-mix-224", "gemma-2-9b", 416_574_704),
    ("paligemma2-10b-mix-448", "gemma-2-9b", 417_459_440),
    ("paligemma2-28b-mix-224", "gemma-2-27b", 417_755_376),
    ("paligemma2-28b-mix-448", "gemma-2-27b", 418_640_112),
];

/// Models of the catalogue that stand for the language model alone of a checkpoint with a tower, and the parameters of
/// that: `Qwen3_5VisionModel` of transformers 5.24, with the sizes of `torchtitan/models/qwen3_5`, and Gemma 3's
/// `vision_tower` with `multi_modal_projector` of 4.57.
const BEHIND_A_TOWER: &[(&str, u64)] = &[
    ("qwen3.5-0.8b", 100_592_896),
    ("qwen3.5-2b", 331_416_576),
    ("qwen3.5-4b", 333_514_240),
    ("qwen3.5-9b", 456_010_480),
    ("qwen3.5-27b", 460_730_096),
    ("qwen3.5-35b-a3b", 446_571_248),
    ("qwen3.5-122b-a10b", 451_290_864),
    ("qwen3.5-397b-a17b", 456_010_480),
    ("gemma-3-4b", 419_816_304),
    ("gemma-3-12b", 421_290_864),
    ("gemma-3-27b", 423_060_336),
    // Llama 4's `vision_model` with `multi_modal_projector`.
    ("llama-4-scout-17b-16e", 871_932_416),
    ("llama-4-maverick-17b-128e", 871_932_416),
];

/// Towers by their names on the hub and their parameters: `CLIPVisionModel`, `SiglipVisionModel`.
const TOWERS: &[(&str, u64)] = &[
    ("clip-vit-large-patch14", 303_179_776),
    ("clip-vit-large-patch14-336", 303_507_456),
    ("siglip-so400m-patch14-384", 428_225_600),
    ("internvit-300m-448px", 304_012_288),
    ("internvit-300m-448px-v2.5", 304_012_288),
];

/// What is taken of the images that a tower is shown.
pub const ONE_IMAGE: &str = "one image a sample is taken: more of them, or tiles, hold and take more";

/// Words of a name that speak of pictures or sound.
const SENSES: [&str; 18] = [
    "vl",
    "vlm",
    "omni",
    "vision",
    "llava",
    "ocr",
    "audio",
    "video",
    "pixtral",
    "paligemma",
    "paligemma2",
    "voxtral",
    "internvl",
    "internvl3",
    "smolvlm",
    "smolvlm2",
    "ovis",
    "multimodal",
];

/// Whether a name is that of a model of pictures or sound.
pub fn is_multimodal(name: &str) -> bool {
    let lower = base(name).to_lowercase();
    lower
        .split(['-', '_', '.'])
        .any(|word| SENSES.contains(&word) || word.starts_with("internvl") || word.starts_with("vl"))
}

/// A composed model that is known by name: its own name, its language model's, and the parameters of what stands before that.
fn composed(name: &str) -> Option<(&'static str, &'static str, u64)> {
    let plain = base(name)
        .to_lowercase()
        .replace('_', "-")
        .replace("internvl3-5", "internvl3.5")
        .replace("internvl2-5", "internvl2.5");
    let fits = |known: &str| plain == known || model::tuned(&plain).any(|shorter| shorter == known);
    COMPOSED.iter().find(|(known, ..)| fits(known)).copied()
}

/// The parameters of a composed model that is known by name, all in all.
pub fn parameters(context: &ImportContext, name: &str) -> Option<u64> {
    let (_, language, before) = composed(name)?;
    context.catalog.model(language)?.params.checked_add(before)
}

/// Sets the language model of a composed model that is known by name; its tower is said at the end.
pub fn set(imported: &mut ImportedPlan, context: &ImportContext, name: &str, origin: &Origin) -> bool {
    let Some((known, language, parameters)) = composed(name) else { return false };
    let Some(preset) = context.catalog.model(language).map(|model| model.name.clone()) else { return false };
    let origin = Origin::Derived(format!("{origin}: the language model of {known}"));
    imported.say(keys::model::preset, preset, origin.clone());
    let whole = context.catalog.model(known).map(|model| WholeModel::of(model.name.clone()));
    imported.tower = Some(Tower { parameters, origin, frozen: false, trained: false, whole, pixels: None });
    true
}

/// Says of a tower that is there whether it trains, and how large its images are.
pub fn say(imported: &mut ImportedPlan, trains: bool, pixels: Setting<u64>) {
    if let Some(tower) = imported.tower.as_mut() {
        (tower.frozen, tower.trained, tower.pixels) = (!trains, trains, Some(pixels));
    }
}

/// Puts the tower back before a language model, for tools that load a checkpoint with all that it holds
/// (`AutoModelForImageTextToText`).
pub fn whole(imported: &mut ImportedPlan) {
    let Some(found) = imported.get(keys::model::preset).filter(|_| imported.tower.is_none()) else { return };
    let known = BEHIND_A_TOWER.iter().find(|(name, _)| found.value.as_str() == Some(name));
    let Some((name, parameters)) = known else { return };
    let origin = Origin::Derived(format!("{}: loaded with its tower", found.origin));
    let has_whole = name.starts_with("gemma-3-") || name.starts_with("qwen3.5-");
    let whole = has_whole.then(|| WholeModel::of(format!("{name}-vision")));
    let tower = Tower { parameters: *parameters, origin, frozen: false, trained: false, whole, pixels: None };
    imported.tower = Some(tower);
}

/// The same for scripts on transformers, where `AutoModelForCausalLM` makes Gemma 3's class for pictures and text of such a
/// checkpoint (`models/auto/modeling_auto.py`), and Qwen 3.5's for text alone.
pub fn of_causal_class(imported: &mut ImportedPlan) {
    let gemma = |name: &str| name.starts_with("gemma-3-");
    if imported.get(keys::model::preset).is_some_and(|found| found.value.as_str().is_some_and(gemma)) {
        whole(imported);
    }
}

/// What a script on the Trainer says of a tower: that it trains, or which one it is.
/// `--vision_tower openai/clip-vit-large-patch14-336` beside a language model, as LLaVA and its kin take it
/// (`llava/model/multimodal_encoder/clip_encoder.py`: `requires_grad_(False)`).
pub fn of_llava(imported: &mut ImportedPlan, settings: &Settings) {
    // Nothing is asked for before the tower is known: what nobody asks for is said.
    let named = settings.iter().find(|(name, _)| *name == "vision_tower").and_then(|(_, found)| {
        let plain = base(found.value.as_str()?).to_lowercase().replace('_', "-");
        let (_, parameters) = TOWERS.iter().find(|(known, _)| *known == plain)?;
        let whole = llava_like(imported, settings, &plain);
        let origin = found.origin.clone();
        Some(Tower { parameters: *parameters, origin, frozen: true, trained: false, whole, pixels: None })
    });
    if let Some(named) = named {
        settings.accept("vision_tower");
        // A layer or two of a few million parameters.
        if settings
            .text(PROJECTOR)
            .is_none_or(|found| ["linear", "mlp2x_gelu", "mlp1x_gelu"].contains(&found.value.as_str()))
        {
            settings.accept(PROJECTOR);
        }
        imported.tower = Some(named);
    }
    let adapted = imported.get(keys::lora::rank).is_some();
    let Some(tower) = imported.tower.as_mut() else { return };
    let parts = tower.whole.as_mut().filter(|_| !adapted).and_then(|whole| Some((whole, stated_parts(settings)?)));
    if let Some((whole, frozen)) = parts {
        (tower.trained, tower.frozen) = (!frozen.contains(&"vision_tower"), frozen.contains(&"vision_tower"));
        (whole.frozen, whole.stated) = (frozen, true);
    } else {
        tower.trained |= trains(settings);
        tower.frozen &= !tower.trained;
    }
    if tower.whole.as_ref().is_some_and(|whole| whole.grain().is_some()) {
        tower.pixels = settings.whole("image_max_pixels").or_else(|| settings.whole("max_pixels"));
    }
}

/// Whether the whole model can stand for it: nothing cuts its layers, and other modules than transformers' have no tower
/// here.
fn can_be_whole(imported: &ImportedPlan) -> bool {
    let cut = [
        keys::training::frozen,
        keys::distribution::tensor_parallel,
        keys::distribution::pipeline_parallel,
        keys::distribution::context_parallel,
    ];
    let is_given =
        |key: &&str| imported.get(key).is_some_and(|found| !["1", "false"].contains(&found.value.to_string().as_str()));
    let framework = imported.get(keys::model::framework).is_none_or(|found| found.value.as_str() == Some("pytorch"));
    framework && !cut.iter().any(is_given)
}

/// `--unfreeze_mm_vision_tower True`, `--tune_type_vision_tower full`, `--freeze_vision_tower False`,
/// `--mm_tunable_parts`.
fn trains(settings: &Settings) -> bool {
    let about = |name: &str| {
        let words = ["tune", "unfreeze", "unlock", "train_", "freeze"];
        let tower = name.contains("vision") && !name.contains("lr") && words.iter().any(|part| name.contains(part));
        tower || name == "mm_tunable_parts"
    };
    settings.iter().filter(|(name, _)| about(name)).any(|(name, _)| {
        let word = settings.text(name).map(|found| found.value.to_lowercase()).unwrap_or_default();
        let off = ["false", "frozen", "none", "no", "0"].contains(&word.as_str());
        match name {
            "mm_tunable_parts" => word.contains("vision"),
            name if name.contains("freeze") && !name.contains("unfreeze") => off,
            _ => !off,
        }
    })
}

/// Says of a tower what becomes of it: frozen below adapters, or by the tool's own default.
pub fn settle(imported: &mut ImportedPlan) {
    let Some(tower) = imported.tower.take() else { return };
    if let Some(whole) = tower.whole.as_ref().filter(|_| can_be_whole(imported)) {
        return set_whole(imported, &tower, whole);
    }
    imported.drop(keys::model::images);
    let millions = tower.parameters as f64 / 1e6;
    if tower.trained || (!tower.frozen && imported.get(keys::lora::rank).is_none()) {
        return not_modelled(
            imported,
            &format!("the vision tower of {millions:.0} M parameters, which trains with the model"),
        );
    }
    let before = imported.get(keys::training::frozen_models_billions).and_then(|found| found.value.as_f64());
    let billions = before.unwrap_or(0.0) + tower.parameters as f64 / 1e9;
    let found = Setting::new(billions, Origin::Derived(format!("{}: a vision tower that is frozen", tower.origin)));
    imported.set(keys::training::frozen_models_billions, Some(found));
    imported.note(format!(
        "the vision tower's weights, {millions:.0} M, are counted; its passes and what trains of the projector are not"
    ));
}

/// The whole model in place of its language model: what does not train, and how large its images are.
fn set_whole(imported: &mut ImportedPlan, tower: &Tower, whole: &WholeModel) {
    let origin = Origin::Derived(format!("{}: with its tower", tower.origin));
    imported.set(keys::model::preset, Some(Setting::new(whole.preset.clone(), origin.clone())));
    let adapted = imported.get(keys::lora::rank).is_some();
    let shown = imported.whole(keys::model::images) != Some(0);
    if adapted && shown && peft_finds_it(imported, tower) {
        imported.say(keys::lora::vision_tower, true, origin.clone());
    } else if adapted && shown && (tower.trained || !tower.frozen) {
        not_modelled(
            imported,
            "what trains of the vision tower and its projector beside adapters, which are counted on the language model alone",
        );
    }
    let frozen = whole.stated || (tower.frozen && !tower.trained);
    if frozen && !adapted && !whole.frozen.is_empty() {
        let modules: Vec<String> = whole.frozen.iter().map(|module| (*module).to_owned()).collect();
        if are_all(&whole.frozen) {
            not_modelled(imported, "every part of the model is frozen: nothing trains until its arguments say what");
        }
        imported.set(keys::training::frozen, Some(Setting::new(modules, origin)));
    }
    // LLaVA's own scripts make the projector anew behind the adapters (`llava/train/train.py`).
    if adapted && whole.frozen == ["vision_tower"] {
        let origin = Origin::Program("mm_projector trains beside the adapters".to_owned());
        imported.say(keys::lora::modules_to_save, vec!["multi_modal_projector"], origin);
    }
    if !shown {
        return;
    }
    if whole.preset.ends_with("-vision") {
        imported.miss(keys::model::images, "whether the data shows images is not said");
    }
    if let Some(grain) = whole.grain() {
        set_size(imported, tower.pixels.as_ref(), grain);
    }
    imported.note(ONE_IMAGE);
}

/// The largest image of ms-swift, by its argument for all models or by what Qwen's tools take: so many tokens, or the older
/// number of pixels (`swift/model/models/qwen.py`, `compat_qwen_vl_utils`).
pub fn limit_images(tower: &mut Tower, told: Option<Setting<u64>>, context: &ImportContext) {
    let Some(grain) = tower.whole.as_ref().and_then(WholeModel::grain) else { return };
    // Python counts on: a number of any length is a limit, if none that an image comes to.
    let number = |text: &str| match text.parse::<u64>() {
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Some(u64::MAX),
        read => read.ok(),
    };
    let whole = |name: &str| context.variable(name)?.and_then(|text| number(text.trim()));
    let tokens = whole("IMAGE_MAX_TOKEN_NUM").map(|found| found.map(|many| many.saturating_mul(grain * grain)));
    let told = [told, tokens.or_else(|| whole("MAX_PIXELS"))].into_iter().flatten();
    tower.pixels = told.min_by_key(|found| found.value);
}

/// Whether peft puts adapters into the tower by the names that are given, as it does where nobody keeps it out.
fn peft_finds_it(imported: &ImportedPlan, tower: &Tower) -> bool {
    let named = imported.get(keys::lora::targets).is_some_and(|found| !found.value.to_string().contains("all"));
    let computed = imported.notes.iter().any(|line| line.contains("where adapters go"));
    let plain = ["transformers", "axolotl"].contains(&imported.tool.as_str());
    !tower.frozen && !tower.trained && named && !computed && plain
}

/// The side of the largest image that is shown, and that a sample has room for.
fn set_size(imported: &mut ImportedPlan, pixels: Option<&Setting<u64>>, grain: u64) {
    let Some(most) = pixels else {
        return imported.miss(keys::model::image_size, "the data's images decide");
    };
    let of_image = most.value.isqrt() / grain;
    let room = imported.whole(keys::model::sequence_length).map_or(u64::MAX, u64::isqrt);
    let side = of_image.min(room).max(1).saturating_mul(grain);
    let why = if room < of_image { "as large as a sample has room for" } else { "the largest image" };
    let origin = Origin::Derived(format!("{}: {why}, in steps of {grain} pixels", most.origin));
    imported.say(keys::model::image_size, side, origin);
}
