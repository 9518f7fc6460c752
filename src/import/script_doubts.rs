//! What a script does in its own text, whatever its arguments are: a default of the library does not stand against it.

use super::imported::ImportedPlan;
use super::origin::Origin;
use super::python::ScriptReader;
use super::python_calls::call;
use super::rows::not_modelled;
use super::script_adapters;
use super::script_effects;
use super::script_keywords;
use super::script_upcasts;
use super::script_vocabulary;
use super::settings::Settings;
use super::trainer::reentrant;
use crate::plan::keys;

/// Parts of a script's text, and the plan's key whose default is doubtful then.
const DOUBTS: &[(&str, &[&str])] = &[
    (
        "training.activation_checkpointing",
        &[
            "gradient_checkpointing_enable(",
            "apply_activation_checkpointing(",
            "checkpoint_sequential(",
            "utils.checkpoint(",
        ],
    ),
    // Weights of the attention are given back by eager attention alone.
    ("training.attention", &["output_attentions=True", "output_attentions = True"]),
    ("training.precision", &["autocast(", ".half()", ".bfloat16()", "amp.initialize(", "GradScaler("]),
    (
        "training.optimizer",
        &["Adam8bit(", "AdamW8bit(", "PagedAdam", "Adafactor(", "Lion(", "SGD(", "Muon(", "Lomo(", "LOMO(", "CPUAdam("],
    ),
];

/// Further parts that speak of precision in a training loop of one's own; the first one is what an `Accelerator` may tell.
const OWN_PRECISION: [&str; 4] = ["mixed_precision", "torch.bfloat16", "torch.float16", "torch.half"];

/// Lines that run: no comments, imports and declarations of arguments.
pub fn code(text: &str) -> impl Iterator<Item = &str> {
    const OTHERS: [&str; 7] = ["#", "import ", "from ", "def ", "class ", "parser.add_argument", "help="];
    text.lines().map(str::trim_start).filter(|line| !OTHERS.iter().any(|start| line.starts_with(start)))
}

/// Takes defaults out that a script's own text may go over, but where its arguments keep it from that. `own` is the text
/// of a training loop of its own, with what it calls in its project's modules.
pub fn reconcile(imported: &mut ImportedPlan, reader: &ScriptReader, own: Option<&str>, settings: &Settings) {
    let path = reader.name();
    let (text, own) = (own.unwrap_or_else(|| reader.content()), own.is_some());
    script_adapters::prepare(imported, reader, settings);
    script_upcasts::apply(imported, reader, settings);
    script_effects::say(imported, reader);
    script_keywords::say(imported, reader);
    script_vocabulary::say(imported, reader, text);
    // `Accelerator(mixed_precision="no")` says that it casts nothing (accelerate, `accelerator.py`).
    let mixed = reader.calls(&["Accelerator"]).text("mixed_precision");
    let told = usize::from(mixed.is_some_and(|found| found.value == "no"));
    for (key, parts) in DOUBTS {
        let further: &[&str] = if own && *key == "training.precision" { &OWN_PRECISION[told..] } else { &[] };
        let said = |part: &&&str| code(text).any(|line| line.contains(**part));
        let made = |part: &&&str| match part.split_once('(') {
            Some((call, _)) => reader.reached(&[call.trim_start_matches('.')]) != Some(false),
            None => true,
        };
        let named = parts.iter().chain(further).find(|part| said(part) && made(part));
        // A default of the script's own arguments is what its text asks.
        let guessed = imported.get(key).is_some_and(
            |found| matches!(found.origin, Origin::Default { framework, .. } if framework != "the script"),
        );
        const ON: &str = "gradient_checkpointing_enable";
        let turned_on = named.is_some_and(|part| part.starts_with(ON)) && reader.sure_calls(ON) > 0;
        // A Trainer that is told not to turn it on leaves what the script itself has turned on.
        let told_off = *key == keys::training::activation_checkpointing
            && imported.get(key).is_some_and(|found| found.value == "none");
        if turned_on && (guessed || told_off) {
            imported.say(keys::training::activation_checkpointing, "full", Origin::Program(format!("{path}: {ON}(")));
            reentrant::say(imported, reentrant::of_call(reader).or_else(|| settings.flag(reentrant::NAME)));
        } else if let Some(part) = named.filter(|part| guessed || told_off && part.starts_with(ON)) {
            imported.drop(key);
            imported.miss(key, format!("{path} has {part}, which is not followed"));
        }
    }
}

/// Says of adapters that a script may make and that nothing was read of.
pub fn adapters(imported: &mut ImportedPlan, reader: &ScriptReader, settings: &Settings) {
    let (path, text) = (reader.name(), reader.content());
    // `nolora: False` says nothing of them.
    let speaks = |name: &str| ["lora", "peft", "adapter"].iter().any(|part| name.contains(part));
    let told = settings.iter().any(|(name, _)| speaks(name) && !name.starts_with("no"));
    let open = imported.get(keys::lora::rank).is_none()
        && !imported.missing.iter().any(|missing| missing.key == "training.lora.rank");
    const CALL: &str = "get_peft_model";
    let made = call(text, CALL).is_some() && reader.reached(&[CALL]) != Some(false) || reader.sure_calls(CALL) > 0;
    let handed = script_adapters::hands_on(reader) != Some(false);
    if open && !told && (made || handed) {
        not_modelled(imported, &format!("{path} makes adapters by itself: all weights are counted as trained"));
    }
}
