//! What single calls in a loop's text say: its loader, its optimizer, its tokenizer, the models that it loads.

use serde_json::Value;

use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::python::ScriptReader;
use crate::python_calls::call;
use crate::python_models::models;
use crate::script_doubts::code;
use crate::settings::whole;
use crate::text::arguments;

/// What the loader of the samples to train on takes for a batch: none where several take different ones.
pub fn loader_batch(text: &str) -> Option<String> {
    const OTHERS: [&str; 7] = ["eval", "valid", "test", "dev", "val_", "infer", "predict"];
    let mut found: Vec<String> = Vec::new();
    for parts in calls(text, "DataLoader") {
        let keyword = parts.iter().find_map(|part| part.trim().strip_prefix("batch_size"));
        let value = keyword.and_then(|rest| rest.trim_start().strip_prefix('='));
        let spread = parts.iter().find_map(|part| spread_batch(text, part.trim().strip_prefix("**")?));
        let value = value.or(spread.as_deref());
        let is_place = |part: &&String| !part.contains('=') && !part.trim().starts_with("**");
        let places: Vec<&String> = parts.iter().take_while(is_place).collect();
        let Some(value) = value.or_else(|| places.get(1).map(|part| part.as_str())) else { continue };
        // `per_device_train_batch_size` is no development set's.
        let of_another = |text: &str| {
            let text = text.to_lowercase().replace("device", "");
            OTHERS.iter().any(|part| text.contains(part))
        };
        if !of_another(value)
            && !parts.first().is_some_and(|set| of_another(set))
            && !found.contains(&value.trim().to_owned())
        {
            found.push(value.trim().to_owned());
        }
    }
    match found.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// The batch of keywords that a loader takes from a dictionary (`train_kwargs = {'batch_size': args.batch_size}`, as
/// pytorch/examples' mnist/main.py has it); none where another is put into it later.
fn spread_batch(text: &str, name: &str) -> Option<String> {
    let is_other = |line: &str| {
        line.contains("batch_size") && [".update(", "["].iter().any(|way| line.contains(&format!("{name}{way}")))
    };
    if name.is_empty() || code(text).any(is_other) {
        return None;
    }
    let mut made = text.match_indices(name).filter_map(|(at, _)| {
        let begins =
            text[..at].lines().next_back().is_none_or(|line| line.trim().is_empty() || text[..at].ends_with('\n'));
        let value = text[at + name.len()..].trim_start_matches(' ').strip_prefix('=')?.trim_start_matches(' ');
        (begins && value.starts_with(['{', 'd'])).then_some(value)
    });
    let made = made.next().filter(|_| made.next().is_none())?;
    let (inside, mark) = match made.strip_prefix('{') {
        Some(inside) => (inside, ':'),
        None => (made.strip_prefix("dict(")?, '='),
    };
    arguments(inside).into_iter().find_map(|part| {
        let (key, value) = part.split_once(mark)?;
        (key.trim().trim_matches(['"', '\'']) == "batch_size").then(|| value.trim().to_owned())
    })
}

/// Whether DeepSpeed makes the loader itself, by the batch of its own configuration (`deepspeed.initialize`,
/// `training_data`): one that the script has made is not what it trains on.
pub fn engine_loads(text: &str) -> bool {
    text.contains("deepspeed")
        && calls(text, "initialize").iter().flatten().any(|part| part.trim_start().starts_with("training_data="))
}

/// No script that matters has more calls of one name, or a longer one.
const MOST_CALLS: usize = 512;
const LONGEST_CALL: usize = 20_000;

/// The arguments of every call of `name`.
pub fn calls(text: &str, name: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = call(rest, name).filter(|_| found.len() < MOST_CALLS) {
        let behind = rest.get(at + name.len() + 1..).unwrap_or("");
        let end = behind.char_indices().nth(LONGEST_CALL).map_or(behind.len(), |(at, _)| at);
        found.push(arguments(behind.get(..end).unwrap_or(behind)));
        rest = behind;
    }
    found
}

/// The optimizer that a script makes, by a name that the tables know; none where it makes none, or several of which the
/// reader does not rule out all but one, or where its kernel is open. `fused` says of one of its arguments whether it asks for
/// the fused kernel; none of `fused=` with a value that is not followed.
pub fn optimizer(text: &str, reader: &ScriptReader, fused: &dyn Fn(&str) -> Option<bool>) -> Option<&'static str> {
    const MADE: [(&str, &str); 13] = [
        ("AdamW", "adamw"),
        // pytorch_pretrained_bert/optimization.py: a loop over the weights, as AdamW's of transformers.
        ("BertAdam", "adamw_hf"),
        ("Adam", "adam"),
        ("FusedAdam", "fusedadam"),
        ("DeepSpeedCPUAdam", "cpuadam"),
        ("SGD", "sgd"),
        ("Adafactor", "adafactor"),
        ("Lion", "lion"),
        ("AdamW8bit", "adamw_8bit"),
        ("Adam8bit", "adam_8bit"),
        ("PagedAdamW8bit", "paged_adamw_8bit"),
        ("PagedAdamW32bit", "paged_adamw"),
        ("RMSprop", "rmsprop"),
    ];
    let mut made: Vec<&(&str, &str)> = MADE.iter().filter(|(class, _)| call(text, class).is_some()).collect();
    if made.len() > 1 {
        // One is left where the others are ruled out, and it is made for certain.
        made.retain(|(class, _)| reader.reached(&[class]) != Some(false));
        if !made.iter().all(|(class, _)| reader.makes(class)) {
            return None;
        }
    }
    let [(class, word)] = made.as_slice() else { return None };
    if let Some(paged) = of_bitsandbytes(text, reader).filter(|_| *class == "AdamW") {
        match paged {
            Paged::Not => {}
            Paged::By(word) => return Some(word),
            Paged::Open => return None,
        }
    }
    Some(match *class {
        "AdamW" if is_of_transformers(text, class) && !runs(text, "optim.AdamW(") => "adamw_hf",
        "AdamW" => {
            let asks: Vec<Option<bool>> = calls(text, class).iter().flatten().map(|part| fused(part)).collect();
            match (asks.contains(&Some(true)), asks.contains(&None)) {
                (true, _) => "adamw_torch_fused",
                (false, true) => return None,
                (false, false) => word,
            }
        }
        "SGD" if keeps_momentum(text, class, reader)? => "sgd_momentum",
        "RMSprop"
            if keeps_momentum(text, class, reader)?
                || calls(text, class).concat().iter().any(|part| part.contains("centered")) =>
        {
            return None;
        }
        _ => word,
    })
}

/// Whether a script takes bitsandbytes' `AdamW`, under a condition, in place of PyTorch's.
enum Paged {
    Not,
    By(&'static str),
    Open,
}

/// `if args.use_qlora: from bitsandbytes.optim import AdamW`, which the lines below make
/// (`bitsandbytes/optim/adamw.py`: 32 bits where `optim_bits` says no other).
fn of_bitsandbytes(text: &str, reader: &ScriptReader) -> Option<Paged> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.trim().starts_with("from bitsandbytes.optim import AdamW"))?;
    let own = indent(lines.get(at)?);
    let above = lines.get(..at)?.iter().rev().find(|line| !line.trim().is_empty() && indent(line) < own)?;
    let asked = above.trim().strip_prefix("if ").and_then(|rest| rest.strip_suffix(':'));
    let given = || {
        let calls = calls(text, "AdamW").concat();
        let told = |name: &str| {
            let value = calls.iter().find_map(|part| part.trim().strip_prefix(name)?.trim_start().strip_prefix('='));
            value.map(|value| reader.expression(value.trim()))
        };
        match (told("optim_bits"), told("is_paged")) {
            (Some(Some(bits)), Some(Some(Value::Bool(true)))) if bits.as_u64() == Some(8) => {
                Paged::By("paged_adamw_8bit")
            }
            (Some(Some(bits)), Some(Some(Value::Bool(true)))) if bits.as_u64() == Some(32) => Paged::By("paged_adamw"),
            _ => Paged::Open,
        }
    };
    Some(match asked.map(|asked| reader.expression(asked)) {
        Some(Some(Value::Bool(false))) => Paged::Not,
        Some(Some(Value::Bool(true))) => given(),
        _ => Paged::Open,
    })
}

/// Whether a call of PyTorch's keeps a momentum of the gradients: none of one that is not followed.
fn keeps_momentum(text: &str, class: &str, reader: &ScriptReader) -> Option<bool> {
    let given = calls(text, class);
    let by_name =
        given.iter().flatten().find_map(|part| part.trim().strip_prefix("momentum")?.trim().strip_prefix('='));
    // `SGD(params, lr, momentum)`; RMSprop's third is another.
    let by_place = given.iter().find_map(|parts| parts.get(2)).filter(|part| class == "SGD" && !part.contains('='));
    match by_name.or(by_place.map(String::as_str)) {
        Some(value) => reader.expression(value.trim())?.as_f64().map(|share| share > 0.0),
        None => Some(false),
    }
}

/// Whether a part of a text stands in a line that runs, before its comment.
fn runs(text: &str, part: &str) -> bool {
    code(text).any(|line| line.split(" #").next().is_some_and(|line| line.contains(part)))
}

/// Whether a class is imported from transformers, in one line or in brackets.
fn is_of_transformers(text: &str, class: &str) -> bool {
    let starts =
        |line: &str| ["from transformers", "from pytorch_transformers"].iter().any(|from| line.starts_with(from));
    let mut lines = text.lines();
    while let Some(first) = lines.by_ref().find(|line| starts(line)) {
        let mut names = first.split_once(" import ").map_or("", |(_, names)| names).to_owned();
        while names.contains('(') && !names.contains(')') {
            let Some(next) = lines.next() else { break };
            names.push(' ');
            names.push_str(next);
        }
        if names.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|name| name == class) {
            return true;
        }
    }
    false
}

/// Whether an argument of an optimizer asks for its fused kernel: `fused=True`, `fused=args.fused_optimizer`.
/// None of a value that is not followed.
pub fn is_fused(part: &str, reader: &ScriptReader, text: &str) -> Option<bool> {
    let value = part.trim().strip_prefix("fused").and_then(|rest| rest.trim_start().strip_prefix('='));
    let Some(value) = value.filter(|_| !is_set_off(part, text)) else { return Some(false) };
    match reader.expression(value.trim()) {
        Some(Value::Bool(on)) => Some(on),
        Some(Value::Null) => Some(false),
        _ => None,
    }
}

/// Whether a call of the script's own gives an argument another value than its default: `Config(fused_optimizer=False)`.
fn is_set_off(part: &str, text: &str) -> bool {
    let name = part.rsplit('.').next().unwrap_or(part).trim();
    part.contains('.') && code(text).any(|line| line.replace(' ', "").contains(&format!("{name}=False")))
}

/// `ds_config["train_micro_batch_size_per_gpu"] = args.batch_size`: what a script puts into its configuration.
pub fn given(text: &str, reader: &ScriptReader, origin: &dyn Fn(&str) -> Origin) -> Vec<(&'static str, Setting<u64>)> {
    const PUT: [(&str, &str); 2] = [
        ("train_micro_batch_size_per_gpu", keys::training::micro_batch_size),
        ("gradient_accumulation_steps", keys::training::gradient_accumulation_steps),
    ];
    let mut found = Vec::new();
    let lines: Vec<&str> = code(text).collect();
    for (name, key) in PUT {
        let put = lines.iter().enumerate().find_map(|(at, line)| {
            let quoted = ["\"]", "']"].map(|end| format!("{name}{end}"));
            let (_, behind) = quoted.iter().find_map(|name| line.split_once(name))?;
            let value = behind.trim_start().strip_prefix('=').filter(|rest| !rest.starts_with('='))?.trim();
            // In brackets it stands on the next line.
            if value == "(" { lines.get(at + 1).copied() } else { Some(value) }
        });
        let Some(value) = put.and_then(|value| reader.expression(value.trim())) else { continue };
        if let Some(number) = whole(&value).filter(|number| *number > 0) {
            found.push((key, Setting::new(number, origin(name))));
        }
    }
    found
}

/// Whether a script loads models by several names; one that an argument names, and that nobody gives, is not loaded.
pub fn several_models(text: &str, reader: &ScriptReader) -> bool {
    let mut names: Vec<String> = Vec::new();
    for class in models(text) {
        for parts in calls(text, &class) {
            let first = parts.iter().find(|part| !part.contains('=') || part.contains("pretrained_model_name_or_path"));
            let name =
                first.map(|part| part.split('=').next_back().unwrap_or(part).trim().to_owned()).unwrap_or_default();
            let known = reader.expression(&name).filter(|value| !value.is_null());
            let asked = name.contains("args.") && known.is_none();
            let name = known.map_or(name, |value| value.to_string());
            if !asked && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.len() > 1
}

/// A module of the script's own around the model that it loads, with layers of its own: `RewardModel(nn.Module)` that has
/// heads of several layers.
pub fn wrapper(text: &str) -> Option<String> {
    const LAYERS: [&str; 5] = ["nn.Linear(", "nn.Sequential(", "nn.Embedding(", "nn.Parameter(", "nn.Conv"];
    const AROUND: [&str; 2] = [".from_pretrained(", "load_backbone("];
    let mut classes = text.split("\nclass ").skip(1);
    classes.find_map(|class| {
        let (head, body) = class.split_once(':')?;
        let (name, bases) = head.split_once('(')?;
        let body = body.split("\ndef ").next()?;
        let has = |parts: &[&str]| parts.iter().any(|part| code(body).any(|line| line.contains(part)));
        let module = matches!(bases.trim_end_matches(')').trim(), "nn.Module" | "torch.nn.Module");
        let made = || code(text).any(|line| line.replace(' ', "").contains(&format!("model={name}(")));
        (module && has(&LAYERS) && has(&AROUND) && made()).then(|| name.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::{loader_batch, runs};

    /// pytorch/examples, mnist/main.py.
    #[test]
    fn a_loader_takes_its_batch_from_a_dictionary() {
        let script = |line: &str| {
            format!(
                "def main():\n    train_kwargs = {{'batch_size': args.batch_size}}\n    test_kwargs = {{'batch_size': \
                 args.test_batch_size}}\n    cuda_kwargs = {{'num_workers': 1, 'shuffle': True}}\n    \
                 train_kwargs.update(cuda_kwargs)\n{line}    train_loader = DataLoader(dataset1,**train_kwargs)\n    \
                 test_loader = DataLoader(dataset2, **test_kwargs)\n"
            )
        };
        assert_eq!(loader_batch(&script("")).as_deref(), Some("args.batch_size"));
        assert_eq!(loader_batch(&script("    train_kwargs['batch_size'] = 8\n")), None);
        let made = "kwargs = dict(batch_size=16, shuffle=True)\nloader = DataLoader(data, **kwargs)\n";
        assert_eq!(loader_batch(made).as_deref(), Some("16"));
    }

    #[test]
    fn a_call_in_a_comment_does_not_run() {
        let part = "optim.AdamW(";
        assert!(runs("    optimizer = torch.optim.AdamW(model.parameters())  # PyTorch's\n", part));
        assert!(!runs("# optimizer = torch.optim.AdamW(model.parameters())\n", part));
        assert!(!runs("optimizer = AdamW(model.parameters())  # was torch.optim.AdamW(model.parameters())\n", part));
    }
}
