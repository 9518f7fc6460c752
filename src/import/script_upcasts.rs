//! Weights that a script raises to fp32, before adapters stand beside them or after.

use super::imported::ImportedPlan;
use super::origin::Origin;
use super::python::ScriptReader;
use super::settings::Settings;
use crate::plan::keys;

/// Sets what is held where a loop raises what trains: all weights of a model that has no adapters yet, else the adapters.
/// An engine that stores weights in types of its own, or quantised ones, are left alone.
pub fn apply(imported: &mut ImportedPlan, reader: &ScriptReader, settings: &Settings) {
    let precision = imported.get(keys::training::precision).and_then(|found| found.value.as_str());
    let in_16_bits = matches!(precision, Some("bf16" | "fp16"));
    let engine = imported.get(keys::distribution::engine).is_none_or(|found| found.value == "ddp");
    let quantised = imported.get(keys::lora::base_bits).is_some();
    if !in_16_bits || !engine || quantised {
        return;
    }
    match raised(reader.content()) {
        Some(RaisedWeights::All) => {
            let word = ["bf16", "fp16"].into_iter().find(|half| settings.is(half));
            let word = word.map_or_else(|| "fp32".to_owned(), |half| format!("{half}-mixed"));
            let origin = Origin::Program(format!("{}: all weights are raised to fp32", reader.name()));
            imported.say(keys::training::precision, word, origin);
        }
        Some(RaisedWeights::Adapters) if imported.get(keys::lora::rank).is_some() => {
            let origin = Origin::Program(format!("{}: what trains is raised to fp32", reader.name()));
            imported.say(keys::lora::dtype, "fp32", origin);
        }
        Some(RaisedWeights::Unknown) => {
            let name = reader.name();
            imported.note(format!(
                "{name}: weights are raised to fp32, all or those of adapters, and it is not known which"
            ));
        }
        _ => {}
    }
}

/// What a script raises to fp32.
#[derive(Debug, PartialEq, Eq)]
enum RaisedWeights {
    All,
    Adapters,
    /// Nothing tells whether adapters are there when it does.
    Unknown,
}

/// Whether a loop raises what trains, before or after the script makes adapters.
fn raised(text: &str) -> Option<RaisedWeights> {
    let raises = |line: &str| {
        let value = line.split_once(".data = ").map_or("", |(_, value)| value);
        value.contains(".data.to(torch.float32)") || value.contains(".data.float()")
    };
    let over_all =
        |line: &str| line.starts_with("for ") && line.contains(".parameters()") && line.contains("requires_grad");
    let lines = lines_of(text);
    let at = lines
        .windows(2)
        .position(|pair| matches!(pair, [first, second] if over_all(first.text) && raises(second.text)))?;
    let makes =
        |line: &CodeLine| line.text.contains("get_peft_model(") || line.text.contains("PeftModel.from_pretrained(");
    let made: Vec<usize> =
        (0..lines.len()).filter(|at| lines.get(*at).is_some_and(|line| !line.is_import() && makes(line))).collect();
    let around = calls_around(&lines, at);
    if made.is_empty() {
        let outermost = around.last().and_then(|(function, _)| *function);
        let called = |name: &str| lines.iter().any(|line| defined(line.text) != Some(name) && names(line.text, name));
        return Some(if outermost.is_none_or(called) { RaisedWeights::All } else { RaisedWeights::Unknown });
    }
    let after: Vec<Option<bool>> = made.iter().map(|made| runs_after(&around, &calls_around(&lines, *made))).collect();
    Some(if after.contains(&Some(true)) {
        RaisedWeights::Adapters
    } else if after.contains(&None) {
        RaisedWeights::Unknown
    } else {
        RaisedWeights::All
    })
}

/// A line of a script that runs, and the function that it stands in.
struct CodeLine<'a> {
    text: &'a str,
    function: Option<&'a str>,
}

impl CodeLine<'_> {
    fn is_import(&self) -> bool {
        self.text.starts_with("import ") || self.text.starts_with("from ")
    }
}

/// The name of a function that begins in a line.
fn defined(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
    rest.split_once('(').map(|(name, _)| name.trim())
}

/// Whether a line has a name as a word of its own.
fn names(line: &str, name: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|word| word == name)
}

/// Its lines without comments, each with the innermost function that it is indented below.
fn lines_of(text: &str) -> Vec<CodeLine<'_>> {
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let plain = line.trim_start();
        if plain.is_empty() || plain.starts_with('#') {
            continue;
        }
        let indent = line.len() - plain.len();
        // `) -> Model:` goes on with the arguments of a function.
        while !plain.starts_with(')') && open.last().is_some_and(|(outer, _)| indent <= *outer) {
            open.pop();
        }
        lines.push(CodeLine { text: plain, function: open.last().map(|(_, name)| *name) });
        open.extend(defined(plain).map(|name| (indent, name)));
    }
    lines
}

/// The lines outside of a function that call it.
fn calls_of(lines: &[CodeLine], name: &str) -> Vec<usize> {
    let call = format!("{name}(");
    let calls = |line: &CodeLine| {
        let outside = line.function != Some(name) && defined(line.text).is_none();
        outside && line.text.contains(&call) && names(line.text, name)
    };
    lines.iter().enumerate().filter(|(_, line)| calls(line)).map(|(at, _)| at).collect()
}

/// A line and the calls that lead to it, innermost first, each with the function that it stands in; up to one that is not
/// called, or from several places.
fn calls_around<'a>(lines: &[CodeLine<'a>], mut at: usize) -> Vec<(Option<&'a str>, usize)> {
    const DEEPEST: usize = 16;
    let mut around = Vec::new();
    while let Some(line) = lines.get(at).filter(|_| around.len() < DEEPEST) {
        around.push((line.function, at));
        let calls = line.function.map(|name| calls_of(lines, name)).unwrap_or_default();
        let [call] = calls.as_slice() else { break };
        at = *call;
    }
    around
}

/// Whether the first of two lines runs after the other, by the innermost function that leads to both.
fn runs_after(line: &[(Option<&str>, usize)], other: &[(Option<&str>, usize)]) -> Option<bool> {
    line.iter().find_map(|(function, at)| {
        let (_, other) = other.iter().find(|(of_other, _)| of_other == function)?;
        // In one line what stands in the brackets of a call is made first.
        Some(at >= other)
    })
}

#[cfg(test)]
mod tests {
    use super::{RaisedWeights, raised};

    const RAISE: &str = "for param in filter(lambda p: p.requires_grad, model.parameters()):\n    \
                         param.data = param.data.to(torch.float32)\n";

    /// MedicalGPT's `dpo_training.py` has TRL's trainer make adapters; its `supervised_finetuning.py` makes them before.
    #[test]
    fn weights_are_raised_before_adapters_are_made_or_after() {
        let before = format!("model = load()\n{RAISE}trainer = DPOTrainer(model, peft_config=peft_config)\n");
        assert_eq!(raised(&before), Some(RaisedWeights::All));
        let after = format!("model = get_peft_model(model, peft_config)\n{RAISE}");
        assert_eq!(raised(&after), Some(RaisedWeights::Adapters));
        assert_eq!(raised("model = load()\n"), None);
    }

    /// As Python runs them: a function where it is called, not where it stands.
    #[test]
    fn the_order_of_calls_decides() {
        let body = RAISE.replace('\n', "\n    ");
        let helper = format!("from peft import get_peft_model\n\ndef raise_all(\n    model,\n) -> None:\n    {body}\n");
        let main = |body: &str| format!("{helper}def main():\n    {body}\n\nif __name__ == '__main__':\n    main()\n");
        let make = "model = get_peft_model(model, config)";
        for (text, expected) in [
            (main(&format!("{make}\n    raise_all(model)")), RaisedWeights::Adapters),
            (main(&format!("raise_all(model)\n    {make}")), RaisedWeights::All),
            (format!("{helper}{make}\nraise_all(model)\n"), RaisedWeights::Adapters),
            (format!("{helper}raise_all(model)\n{make}\n"), RaisedWeights::All),
            (main("raise_all(get_peft_model(model, config))"), RaisedWeights::Adapters),
            // The adapters' own function, called before.
            (
                format!(
                    "{}\ndef wrap(model):\n    return get_peft_model(model)\n",
                    main("model = wrap(model)\n    raise_all(model)")
                ),
                RaisedWeights::Adapters,
            ),
            // Both in one.
            (format!("def build():\n    {body}\n    {make}\nbuild()\n"), RaisedWeights::All),
            // Called before and after, or by nobody here.
            (main(&format!("raise_all(model)\n    {make}\n    raise_all(model)")), RaisedWeights::Unknown),
            (main(make), RaisedWeights::Unknown),
            (helper.clone(), RaisedWeights::Unknown),
            // What another starts is called.
            (format!("def main():\n    {body}\nfire.Fire(main)\n"), RaisedWeights::All),
        ] {
            assert_eq!(raised(&text), Some(expected), "{text}");
        }
    }
}
