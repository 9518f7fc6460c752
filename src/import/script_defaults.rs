//! The defaults of a script's own arguments: fields of its dataclasses and `add_argument` of argparse. Read, never
//! run.

use std::collections::BTreeSet;

use serde_json::Value;

use super::common::ImportContext;
use super::expression;
use super::launch::Program;
use super::origin::Origin;
use super::script_classes;
use super::script_modules;
use super::settings::Settings;
use super::text::arguments;
use super::text::python_literal;

/// No longer script is looked into.
pub const LONGEST: usize = 2_000_000;

/// The text of the script that runs, where it is at hand: a path, or a module below the present directory.
pub fn script_of(context: &ImportContext) -> Option<(String, String)> {
    let Program { path, module, python, .. } = context.program;
    if path.is_empty() || !(*python || *module) {
        return None;
    }
    let paths = if *module {
        let folder = path.replace('.', "/");
        vec![format!("{folder}.py"), format!("{folder}/__main__.py"), format!("src/{folder}.py")]
    } else {
        vec![path.clone()]
    };
    paths.into_iter().filter(|path| path.ends_with(".py")).find_map(|path| {
        let text = context.run.files.read(&path).ok().filter(|text| text.len() <= LONGEST)?;
        let text = script_modules::by_library_names(&text);
        let inner = entered(context, &text).map(|inner| format!("{text}\n{inner}"));
        Some((path, inner.unwrap_or(text)))
    })
}

/// The module of its own project that a few lines start: LLaVA's `train_mem.py` is `from llava.train.train import train`.
fn entered(context: &ImportContext, text: &str) -> Option<String> {
    const MOST_LINES: usize = 30;
    if text.lines().filter(|line| !line.trim().is_empty()).count() > MOST_LINES {
        return None;
    }
    let module = text.lines().find_map(|line| {
        let (module, names) = line.trim().strip_prefix("from ")?.split_once(" import ")?;
        names.split(',').any(|name| matches!(name.trim(), "train" | "main")).then_some(module)
    })?;
    let text = context.run.files.read(&format!("{}.py", module.replace('.', "/"))).ok()?;
    (text.len() <= LONGEST).then(|| script_modules::as_imported(&text))
}

/// Another library than `PyTorch` that a script trains with; data may come through `PyTorch` all the same.
pub fn other_library(text: &str) -> Option<&'static str> {
    const LIBRARIES: [(&str, &str, bool); 7] = [
        ("torch_xla", "XLA", true),
        ("flax", "JAX", true),
        ("optax", "JAX", true),
        ("jax", "JAX", false),
        ("tensorflow", "TensorFlow", false),
        ("paddle", "PaddlePaddle", false),
        ("mindspore", "MindSpore", false),
    ];
    let imports = |name: &str| {
        text.lines().any(|line| {
            ["import ", "from "].iter().any(|word| {
                let rest = line.strip_prefix(word).and_then(|rest| rest.strip_prefix(name));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '.', ',']))
            })
        })
    };
    let torch = imports("torch");
    LIBRARIES.iter().find(|(name, _, alone)| (*alone || !torch) && imports(name)).map(|(_, library, _)| *library)
}

/// As [`read`], with the modules of its own project that a script imports its parts from; of dataclasses those that its
/// parser fills in, where it shows them.
pub fn of_project(context: &ImportContext, path: &str, text: &str) -> Settings {
    const MOST: usize = 16;
    let near = script_modules::of(path, text);
    let behind = script_modules::handed_on(context, path, text);
    let own = near.len();
    let files = near.into_iter().chain(behind).enumerate();
    let found = files.filter_map(|(at, file)| Some((context.run.files.read(&file).ok()?, file, at < own)));
    let mut seen = BTreeSet::new();
    let found = found.filter(|(text, ..)| text.len() <= LONGEST && seen.insert(text.clone()));
    let mut found: Vec<(String, String, bool)> = found.take(MOST).collect();
    let below =
        found.iter().filter(|(.., near)| *near).flat_map(|(text, file, _)| script_modules::of_bases(file, text));
    let below: BTreeSet<String> = below.filter(|file| found.iter().all(|(_, known, _)| known != file)).collect();
    let below = below.into_iter().filter_map(|file| Some((context.run.files.read(&file).ok()?, file, false)));
    let below: Vec<_> = below.filter(|(text, ..)| text.len() <= LONGEST).take(MOST).collect();
    // What a class stands on goes below its own.
    found.splice(0..0, below);
    let texts: Vec<&str> = std::iter::once(text).chain(found.iter().map(|(text, ..)| text.as_str())).collect();
    let classes = script_classes::parsed(text, &texts);
    // A package hands on more than the script takes from it.
    let named = classes.clone().or_else(|| script_classes::named(text, &texts));
    let mut settings = Settings::default();
    for (text, file, near) in &found {
        settings.over(read_of(file, text, if *near { classes.as_ref() } else { named.as_ref() }));
    }
    settings.with(read_of(path, text, classes.as_ref()))
}

/// What the arguments of a script are where nobody gives them, by name.
pub fn read(name: &str, text: &str) -> Settings {
    read_of(name, text, None)
}

/// The same, of dataclasses those of these names alone.
fn read_of(name: &str, text: &str, classes: Option<&BTreeSet<String>>) -> Settings {
    let mut settings = Settings::default();
    fields(name, text, classes, &mut settings);
    options(name, text, &mut settings);
    parameters(name, text, &mut settings);
    settings
}

/// Parameters of the function that python-fire makes a command of: `fire.Fire(train)`.
fn parameters(file: &str, text: &str, settings: &mut Settings) {
    let Some((_, called)) = text.split_once("fire.Fire(").or_else(|| text.split_once("typer.run(")) else { return };
    let name = called.split([')', ',']).next().unwrap_or("").trim();
    let Some(at) = text.find(&format!("def {name}(")).filter(|_| is_name(name)) else { return };
    let open = at + "def (".len() + name.len();
    for part in arguments(text.get(open..).unwrap_or("")) {
        let Some((left, right)) = part.split_once('=') else { continue };
        let name = left.split(':').next().unwrap_or(left).trim();
        let within = text.get(open..).and_then(|rest| rest.find(part.trim())).unwrap_or(0);
        let line = text.get(..open + within).map_or(1, |before| before.matches('\n').count() + 1);
        if let (true, Some(found)) = (is_name(name), value(right)) {
            set(settings, file, line, name, found);
        }
    }
}

fn set(settings: &mut Settings, file: &str, line: usize, name: &str, value: Value) {
    let option = format!("{name} ({file}:{line})");
    settings.set(name, value, Origin::Default { framework: "the script", option });
}

/// The names of all options that a text declares: those of argparse, and the fields of its classes.
pub fn option_names(text: &str) -> BTreeSet<String> {
    let calls = text.match_indices("add_argument(").filter(|(at, _)| !is_comment(text, *at));
    let calls = calls.filter_map(|(at, call)| text.get(at + call.len()..));
    let options = calls.filter_map(|rest| option_name(&arguments(rest)));
    let fields = text.lines().filter(|line| line.starts_with([' ', '\t'])).filter_map(|line| {
        let name = line.trim().split_once(':')?.0.trim_end();
        is_name(name).then(|| name.to_owned())
    });
    options.chain(fields).collect()
}

/// Options that are `None` where nobody gives them: no default, or that one, and no switch.
pub fn nothing(text: &str) -> BTreeSet<String> {
    // Fields of TRL's (`trl/trainer/model_config.py`); what its later versions have there is in the tables of versions.
    const OF_MODELS: [&str; 3] = ["dtype", "torch_dtype", "attn_implementation"];
    let mut names = BTreeSet::new();
    // `ModelArguments` of the alignment handbook has them too (`src/alignment/configs.py`).
    let classes = [("ModelConfig", "from trl import"), ("ModelArguments", "from alignment import")];
    if classes.iter().any(|(class, from)| text.contains(class) && text.contains(from)) {
        names.extend(OF_MODELS.map(str::to_owned));
    }
    for (at, call) in text.match_indices("add_argument(").filter(|(at, _)| !is_comment(text, *at)) {
        let parts = arguments(text.get(at + call.len()..).unwrap_or(""));
        let says = |name: &str| {
            parts
                .iter()
                .find_map(|part| part.split_once('=').filter(|(key, _)| key.trim() == name))
                .map(|(_, value)| value.trim())
        };
        let silent = says("action").is_none() && says("required").is_none_or(|value| value == "False");
        if silent && says("default").is_none_or(|value| value == "None") {
            names.extend(option_name(&parts));
        }
    }
    names
}

/// Whether the line in which a place of a text stands is commented out.
fn is_comment(text: &str, at: usize) -> bool {
    let line = text.get(..at).and_then(|before| before.rsplit('\n').next()).unwrap_or("");
    line.trim_start().starts_with('#')
}

/// The long name of an option that a call declares.
fn option_name(parts: &[String]) -> Option<String> {
    let long = parts.iter().find_map(|part| match python_literal(part) {
        Some(Value::String(name)) => name.strip_prefix("--").map(|name| name.replace('-', "_")),
        _ => None,
    });
    long.filter(|name| is_name(name))
}

/// The value of an expression: a literal, or arithmetic over whole numbers.
fn value(text: &str) -> Option<Value> {
    let text = text.trim().trim_end_matches(',');
    let items = || list(text.strip_prefix('[')?.strip_suffix(']')?).filter(|_| text.len() > "[]".len());
    python_literal(text).or_else(items).or_else(|| expression::python(text, &|_| None).map(Value::from))
}

/// Fields of classes behind `@dataclass`: `name: type = value`, `name: type = field(default=value)`.
fn fields(file: &str, text: &str, classes: Option<&BTreeSet<String>>, settings: &mut Settings) {
    let wanted = |line: &str| {
        let name = line.trim_start_matches("class ").split([':', '(']).next().unwrap_or("").trim();
        classes.is_none_or(|classes| classes.contains(name))
    };
    let (mut marked, mut inside) = (false, false);
    let mut start = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let at = start;
        start += line.len();
        let bare = line.trim();
        if !line.starts_with([' ', '\t', '\n', '\r', '#', ')']) {
            inside = marked && bare.starts_with("class ") && wanted(bare);
            marked = bare.starts_with("@dataclass") || bare.starts_with("@dataclasses.dataclass");
            continue;
        }
        if !inside || bare.starts_with("def ") {
            inside &= !bare.starts_with("def ");
            continue;
        }
        let field = bare.split_once(':').map(|(name, rest)| (name.trim_end(), rest));
        let Some((name, rest)) = field.filter(|(name, _)| is_name(name)) else { continue };
        let Some((_, right)) = rest.split_once('=') else { continue };
        let right = right.trim();
        // `HfArg` is transformers' own short form of `field` (`hf_argparser.py`).
        let call = ["field(", "dataclasses.field(", "HfArg("].iter().find(|call| right.starts_with(**call));
        let found = match call {
            Some(call) => {
                let open = text.get(at..).and_then(|from| from.find(call)).map_or(at, |found| at + found + call.len());
                let parts = arguments(text.get(open..).unwrap_or(""));
                keyword(&parts, "default").or_else(|| made(&parts))
            }
            // A list over several lines.
            None if right.starts_with('[') && !right.contains(']') => {
                let open = at + line.find("= [").map_or(line.len(), |found| found + "= [".len());
                list(text.get(open..).unwrap_or(""))
            }
            None => value(right.split(" #").next().unwrap_or(right)),
        };
        if let Some(found) = found {
            set(settings, file, number + 1, name, found);
        }
    }
}

pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn keyword(parts: &[String], name: &str) -> Option<Value> {
    parts.iter().find_map(|part| {
        let (key, right) = part.split_once('=')?;
        (key.trim() == name).then(|| value(right))?
    })
}

/// The items of a list whose opening bracket stands before `behind`: none where one of them is no literal.
fn list(behind: &str) -> Option<Value> {
    let items = arguments(behind);
    let items =
        items.iter().map(|item| item.lines().map(|line| line.split('#').next().unwrap_or("")).collect::<String>());
    let items: Vec<String> = items.map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect();
    items.iter().map(|item| python_literal(item)).collect()
}

/// `default_factory=lambda: ["q_proj", "v_proj"]`.
fn made(parts: &[String]) -> Option<Value> {
    let (_, right) =
        parts.iter().find_map(|part| part.trim_start().strip_prefix("default_factory")?.split_once("lambda"))?;
    list(right.trim_start().strip_prefix(':')?.trim_start().strip_prefix('[')?)
}

/// `add_argument("--name", default=value)`; a flag that is stored as true is false, and the other way round.
fn options(file: &str, text: &str, settings: &mut Settings) {
    let mut rest = 0;
    while let Some(found) = text.get(rest..).and_then(|from| from.find("add_argument(")) {
        let open = rest + found + "add_argument(".len();
        rest = open;
        if is_comment(text, open) {
            continue;
        }
        let parts = arguments(text.get(open..).unwrap_or(""));
        let Some(name) = option_name(&parts) else { continue };
        let action = parts.iter().find(|part| part.trim_start().starts_with("action"));
        let flag = action.and_then(|part| match part {
            part if part.contains("store_true") => Some(Value::Bool(false)),
            part if part.contains("store_false") => Some(Value::Bool(true)),
            _ => None,
        });
        if let Some(found) = keyword(&parts, "default").or(flag) {
            let line = text.get(..open).map_or(1, |before| before.matches('\n').count() + 1);
            set(settings, file, line, &name, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dataclasses_and_parsers_have_defaults() {
        let text = "\
@dataclass
class Arguments(transformers.TrainingArguments):
    # a comment: with = signs
    optim: str = field(default=\"adamw_torch\")
    model_max_length: int = field(
        default=8192 * 4,
        metadata={\"help\": \"Maximum, default=3\"},
    )
    lora_r: int = 64  # a remark
    bf16: bool = HfArg(
        default=True,
        help=\"Whether to use bf16, default=3\",
    )
    targets: List[str] = field(default_factory=lambda: [\"q\"])
    modules: List[str] = field(
        default_factory=lambda: [
            \"q_proj\",  # queries
            \"v_proj\",
        ]
    )
    others: List[str] = [
        \"k_proj\",
    ]
    nothing: Optional[str] = None

    def run(self):
        lora_r: int = 5

class Other:
    lora_r: int = 7

parser.add_argument('-b', '--batch-size', type=int, default=12, help='a, b')
parser.add_argument(\"--fp16\", action=\"store_true\")
parser.add_argument(
    \"--lr\", type=float,
    default=1e-4)
";
        let read = read("a.py", text);
        assert_eq!(read.text("optim").unwrap().value, "adamw_torch");
        assert_eq!(read.whole("model_max_length").unwrap().value, 32_768);
        assert_eq!(read.whole("lora_r").unwrap().value, 64);
        assert_eq!(read.whole("batch_size").unwrap().value, 12);
        assert!(!read.flag("fp16").unwrap().value);
        assert!(read.flag("bf16").unwrap().value);
        assert_eq!(read.number("lr").unwrap().value, 1e-4);
        assert_eq!(read.texts("targets").unwrap().value, ["q"]);
        assert_eq!(read.texts("modules").unwrap().value, ["q_proj", "v_proj"]);
        assert_eq!(read.texts("others").unwrap().value, ["k_proj"]);
        assert!(read.get("nothing").is_none());
        assert!(!read.is_set("optim"), "a default is nobody's word");
        assert_eq!(read.whole("lora_r").unwrap().origin.to_string(), "default of the script: lora_r (a.py:9)");
    }
}
