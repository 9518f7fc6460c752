//! Which head a script trains: the vocabulary's, or one of the heads that transformers puts in its place. By the class
//! that its model is loaded with, as it was followed; by its name where a script of transformers is not at hand.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::python::{PassedArgument, ScriptReader};
use super::python_models::{is_model, models};
use super::rows::not_modelled;
use super::settings::{Settings, whole};
use crate::plan::keys;
use crate::plan::keywords::ModelHead;

/// What a class of models ends in, and the head that it has.
const CLASSES: [(&str, ScriptHead); 5] = [
    ("ForSequenceClassification", ScriptHead::Text(ModelHead::SequenceClassification)),
    ("ForTokenClassification", ScriptHead::Text(ModelHead::TokenClassification)),
    ("ForQuestionAnswering", ScriptHead::Text(ModelHead::QuestionAnswering)),
    ("ForMultipleChoice", ScriptHead::Text(ModelHead::MultipleChoice)),
    ("ForImageClassification", ScriptHead::Images),
];

/// Scripts of transformers' examples (examples/pytorch, and the text-classification and question-answering ones of older
/// releases), without their ending and `_no_trainer`.
const SCRIPTS: [(&str, ModelHead); 9] = [
    ("run_glue", ModelHead::SequenceClassification),
    ("run_xnli", ModelHead::SequenceClassification),
    ("run_classification", ModelHead::SequenceClassification),
    ("run_text_classification", ModelHead::SequenceClassification),
    ("run_ner", ModelHead::TokenClassification),
    ("run_qa", ModelHead::QuestionAnswering),
    ("run_squad", ModelHead::QuestionAnswering),
    ("run_swag", ModelHead::MultipleChoice),
    ("run_multiple_choice", ModelHead::MultipleChoice),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScriptHead {
    Vocabulary,
    Text(ModelHead),
    Images,
}

impl ScriptHead {
    fn of_call(call: &str) -> Self {
        let class = call.split('.').next().unwrap_or(call);
        CLASSES.iter().find(|(ending, _)| class.ends_with(ending)).map_or(Self::Vocabulary, |(_, head)| *head)
    }

    /// Whether the number of classes is the script's to say.
    fn is_counted(self) -> bool {
        const COUNTED: [ModelHead; 2] = [ModelHead::SequenceClassification, ModelHead::TokenClassification];
        self == Self::Images || COUNTED.iter().any(|head| self == Self::Text(*head))
    }
}

/// The head of the model that a script loads.
pub fn of_script(imported: &mut ImportedPlan, reader: &ScriptReader) {
    let calls = loads(reader);
    let mut followed = Vec::new();
    for call in &calls {
        let made = reader.passed(&[call], "num_labels").into_iter();
        followed.extend(made.map(|(_, certain)| (call.as_str(), ScriptHead::of_call(call), certain)));
    }
    if followed.is_empty() {
        followed.extend(calls.iter().map(|call| (call.as_str(), ScriptHead::of_call(call), false)));
    }
    if followed.iter().any(|(.., certain)| *certain) {
        followed.retain(|(.., certain)| *certain);
    }
    let Some(&(call, head, _)) = followed.first() else { return };
    if followed.iter().any(|(_, other, _)| *other != head) {
        // Of a policy and the model that rewards it, the vocabulary's head is trained.
        if followed.iter().all(|(_, other, _)| *other != ScriptHead::Vocabulary) {
            not_modelled(imported, "one of several heads, by a condition that is not followed");
        }
        return;
    }
    let class = call.trim_end_matches(".from_pretrained");
    match head {
        ScriptHead::Vocabulary => return,
        ScriptHead::Text(head) => {
            imported.say(keys::model::head, head.name(), Origin::Program(format!("{}: {class}", reader.name())));
        }
        ScriptHead::Images => {}
    }
    if head.is_counted() {
        set_classes(imported, reader, call, head);
    }
}

/// The calls that load the model, by the script's text; else those that were followed, of a class that a table has for
/// the kind of model (`MODEL_CLASSES[args.model_type]`); else, as if called, classes of one head that the text names.
fn loads(reader: &ScriptReader) -> Vec<String> {
    let own = models(reader.content());
    let own = if own.is_empty() { models(reader.whole()) } else { own };
    let own = if own.is_empty() { reader.loaded(is_model) } else { own };
    let text = reader.content();
    if !own.is_empty() || !text.contains("model_class.from_pretrained(") {
        return own;
    }
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| is_model(word));
    let named: Vec<&str> = words.collect();
    let Some(first) = named.first().map(|class| ScriptHead::of_call(class)) else { return own };
    let alike = named.iter().all(|class| ScriptHead::of_call(class) == first);
    if alike { named.first().map(|class| format!("{class}.from_pretrained")).into_iter().collect() } else { own }
}

/// How many classes a head has; where nobody says it, a configuration starts with two.
fn set_classes(imported: &mut ImportedPlan, reader: &ScriptReader, call: &str, head: ScriptHead) {
    let mut open = false;
    for name in ["num_labels", "config.num_labels", "id2label", "config.id2label"] {
        match reader.passed(&[call], name).into_iter().map(|(passed, _)| passed).next() {
            Some(PassedArgument::Plain(found)) => match classes(&found) {
                Some(classes) => return imported.set(keys::model::classes, Some(classes)),
                None => open = true,
            },
            Some(PassedArgument::Nothing) => {}
            Some(PassedArgument::Made(..) | PassedArgument::Open) => open |= !name.starts_with("config"),
            None => open = true,
        }
    }
    if !open {
        return;
    }
    match head {
        ScriptHead::Images => {
            not_modelled(imported, "a head of as many classes as the data has, which is not followed")
        }
        _ => note_two(imported),
    }
}

fn note_two(imported: &mut ImportedPlan) {
    imported.note("model.classes: as many as the data has, which is not known: 2 are counted");
}

/// A number, or as many as have names.
fn classes(found: &Setting<serde_json::Value>) -> Option<Setting<u64>> {
    let named = found.value.as_object().map(serde_json::Map::len).and_then(|names| u64::try_from(names).ok());
    let count = whole(&found.value).or(named).filter(|count| *count > 0)?;
    Some(found.clone().map(|_| count))
}

/// The head of a script of transformers that is started by its name alone.
pub fn of_name(imported: &mut ImportedPlan, context: &ImportContext, settings: &Settings) {
    let name = context.program.name();
    let stem = name.trim_end_matches(".py").trim_end_matches("_no_trainer");
    let Some((_, head)) = SCRIPTS.iter().find(|(script, _)| *script == stem) else { return };
    imported.say(keys::model::head, head.name(), Origin::Program(name.to_owned()));
    // GLUE's tasks (`run_glue.py`: `len(label_list)`, 1 where a score is asked for); XNLI has the classes of MNLI.
    let task = settings.text("task_name").map(|found| found.map(|task| task.to_lowercase()));
    let count = match (stem, &task) {
        ("run_xnli", _) => Some(3),
        ("run_glue", Some(task)) => match task.value.as_str() {
            "mnli" | "ax" => Some(3),
            "stsb" | "sts-b" => Some(1),
            "cola" | "mrpc" | "qnli" | "qqp" | "rte" | "sst2" | "sst-2" | "wnli" => Some(2),
            _ => None,
        },
        _ => None,
    };
    match (count, ScriptHead::Text(*head).is_counted()) {
        (Some(count), _) => {
            let origin = task.map_or_else(|| Origin::Program(name.to_owned()), |task| task.origin);
            imported.say(keys::model::classes, count, origin);
        }
        (None, true) => note_two(imported),
        (None, false) => {}
    }
}
