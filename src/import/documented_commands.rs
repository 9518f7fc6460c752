//! Commands that start a file, as its comments and the texts near it have them.

use std::collections::BTreeMap;

use super::Files;
use super::common::ImportContext;
use super::launch;
use super::shell;

/// Texts that tell how things are started, by the folder that they stand in.
const TEXTS: [&str; 2] = ["README.md", "scripts/README.md"];

/// No longer text is looked through.
pub const LONGEST: usize = 400_000;

/// No file that matters stands deeper.
const MOST_FOLDERS: usize = 6;

/// More commands than these are not compared.
const MOST_COMMANDS: usize = 6;

/// A command that starts the file.
pub struct Documented {
    /// Where it is written.
    pub place: String,
    pub words: Vec<String>,
    /// The word of the text that is the file, or its neighbour.
    pub named: String,
    /// It starts another file of the same folder, which this one stands for.
    pub neighbour: bool,
}

/// The file as a command names it, where one of its words does: a module keeps its own name.
fn named(word: &str, name: &str, beside: bool) -> Option<String> {
    if names(word, name, beside) || is_registered(word, name) {
        return Some(name.to_owned());
    }
    is_module(word, name).then(|| word.to_owned())
}

/// Whether a word is a configuration by its place below the tool's own folder of them: `tune run … --config llama3/8B_lora`
/// of `recipes/configs/llama3/8B_lora.yaml` (torchtune, `_recipe_registry.py`).
fn is_registered(word: &str, name: &str) -> bool {
    let Some((_, below)) = name.rsplit_once("configs/") else { return false };
    word.contains('/') && below.strip_suffix(".yaml") == Some(word)
}

/// Whether a word is a script as a module of Python's, with a package around it: `openrlhf.cli.train_rm`.
pub fn is_module(word: &str, name: &str) -> bool {
    let Some(path) = name.strip_suffix(".py") else { return false };
    let (word, path): (Vec<&str>, Vec<&str>) = (word.split('.').collect(), parts(path));
    let alike = word.iter().rev().zip(path.iter().rev()).take_while(|(one, other)| one == other).count();
    word.len() > 1 && alike == word.len()
}

/// Commands that start the file: in its comments, else in the nearest text that has one. Where no text names the file,
/// one that starts its neighbour in the same folder stands for it.
pub fn commands(name: &str, content: &str, context: &ImportContext) -> Vec<Documented> {
    let comments = comments(name, content);
    let own = of_text(&comments, name, &|word| named(word, name, true), name);
    if !own.is_empty() {
        return own;
    }
    let texts = texts(name, context.run.files);
    for direct in [true, false] {
        for (path, text) in &texts {
            let lines: Vec<&str> = text.lines().collect();
            let beside =
                path.rsplit_once('/').map(|(folder, _)| folder) == name.rsplit_once('/').map(|(folder, _)| folder);
            let put = |word: &str| match direct {
                true => named(word, name, beside),
                false => neighbours(word, name).then(|| name.to_owned()),
            };
            let found = of_text(&lines, path, &put, name);
            if !found.is_empty() {
                return found.into_iter().map(|command| Documented { neighbour: !direct, ..command }).collect();
            }
        }
    }
    Vec::new()
}

/// What a file says of itself, line by line: its comments, and the text that a script in Python begins with.
fn comments<'t>(name: &str, content: &'t str) -> Vec<&'t str> {
    const QUOTES: [&str; 2] = ["\"\"\"", "'''"];
    let mut within: Option<&str> = None;
    let mut begun = !name.ends_with(".py");
    let mut found = Vec::new();
    for line in content.lines() {
        let bare = line.trim();
        if let Some(quote) = within {
            found.push(bare);
            within = Some(quote).filter(|quote| !bare.contains(quote));
            continue;
        }
        let comment = bare.strip_prefix('#');
        if let Some(quote) = QUOTES.into_iter().find(|quote| !begun && bare.starts_with(quote)) {
            within = Some(quote).filter(|quote| bare.matches(quote).count() == 1);
        }
        begun |= comment.is_none() && !bare.is_empty();
        found.push(comment.unwrap_or("").trim());
    }
    found
}

/// Texts of the file's folder and those above, the nearest first.
pub fn texts(name: &str, files: &dyn Files) -> Vec<(String, String)> {
    let mut folders: Vec<&str> =
        std::iter::successors(Some(name), |path| path.rsplit_once('/').map(|(above, _)| above))
            .skip(1)
            .take(MOST_FOLDERS)
            .collect();
    if !name.starts_with('/') {
        folders.push("");
    }
    let paths = folders.iter().flat_map(|folder| {
        let further = further(folder, files);
        let texts = TEXTS.iter().map(|text| (*text).to_owned()).chain(further);
        texts.map(move |text| if folder.is_empty() { text } else { format!("{folder}/{text}") })
    });
    paths
        .filter_map(|path| {
            let text = files.read(&path).ok().filter(|text| text.len() <= LONGEST)?;
            Some((path, text))
        })
        .collect()
}

/// Further texts of a folder that are called after the first: `README_sdxl.md`.
fn further(folder: &str, files: &dyn Files) -> Vec<String> {
    const MOST: usize = 8;
    let is_text = |name: &String| name.starts_with("README") && name.ends_with(".md") && name != TEXTS[0];
    files.names(folder).into_iter().filter(is_text).take(MOST).collect()
}

/// The lines of a text, from 1, those put together that a stroke at their end continues.
pub fn joined_lines(lines: &[&str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let start = at;
        let mut whole = String::new();
        while let Some(line) = lines.get(at) {
            at += 1;
            let line = line.trim();
            let line =
                line.strip_prefix("Usage:").unwrap_or(line).trim_start().trim_start_matches("$ ").trim_matches('`');
            match continued(line) {
                Some(part) => {
                    whole.push_str(part);
                    at = next_options(lines, at);
                }
                None => {
                    whole.push_str(line);
                    break;
                }
            }
            whole.push(' ');
        }
        found.push((start + 1, whole));
    }
    found
}

/// A line that goes on below it, without its stroke and the remark that a text has behind that.
fn continued(line: &str) -> Option<&str> {
    let (part, behind) = line.rsplit_once('\\')?;
    let behind = behind.trim_start();
    (behind.is_empty() || behind.starts_with('#')).then_some(part)
}

/// Where a command goes on that a text breaks by remarks of its options, at which a shell would end it.
fn next_options(lines: &[&str], at: usize) -> usize {
    let rest = lines.get(at..).unwrap_or_default();
    let remarks = rest.iter().take_while(|line| line.trim().is_empty() || line.trim().starts_with('#')).count();
    let options = rest.get(remarks).is_some_and(|line| line.trim().starts_with("--"));
    if options { at + remarks } else { at }
}

/// The commands of a text one of whose words `put` replaces by the file.
fn of_text(lines: &[&str], path: &str, put: &dyn Fn(&str) -> Option<String>, name: &str) -> Vec<Documented> {
    let stem = launch::base(name).split('.').next().unwrap_or("");
    let mut found: Vec<Documented> = Vec::new();
    let mut variables = BTreeMap::new();
    for (line, whole) in joined_lines(lines) {
        if found.len() >= MOST_COMMANDS {
            break;
        }
        if let Some((variable, value)) = assignment(&whole) {
            variables.insert(variable, value);
        }
        let of_settings = [".y", ".json", "--config "].iter().any(|part| whole.contains(part));
        let of_script =
            name.ends_with(".py") && (whole.contains(".py") || whole.contains(" -m ") || whole.contains("--module"));
        if !whole.contains(' ') || !(of_settings || of_script) || stem.is_empty() {
            continue;
        }
        for command in shell::read(&whole, &|variable| variables.get(variable).cloned()).commands {
            let Some(named) = command.words.iter().find(|word| put(word).is_some()).cloned() else { continue };
            let words: Vec<String> = command.words.into_iter().map(|word| put(&word).unwrap_or(word)).collect();
            let is_new = found.iter().all(|other| other.words != words);
            if is_new && starts(&words) {
                found.push(Documented { place: format!("{path}:{line}"), words, named, neighbour: false });
            }
        }
    }
    found
}

/// A variable that a line of a text sets for the commands below it, and its value: `export MODEL_NAME="gpt2"`.
fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
    let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let value = value.split_once(" #").map_or(value, |(value, _)| value.trim_end()).trim_matches(['"', '\'']);
    let plain = !value.is_empty() && !value.contains(['$', '`', '"', '\'', ' ']);
    (is_name && plain && !name.starts_with(|letter: char| letter.is_ascii_digit()))
        .then(|| (name.to_owned(), value.to_owned()))
}

/// Whether a command starts a program of Python's or a launcher, or hands on to a script.
fn starts(words: &[String]) -> bool {
    let launched = launch::take_apart(words);
    let program = &launched.program;
    let script = !program.python && program.path.ends_with(".sh");
    let started = !launched.launchers.is_empty() || program.python || script || super::file::trains_by_itself(program);
    started && !does_other_work(program)
}

/// Whether a program is told to do something else than train, or does by its name.
pub fn does_other_work(program: &launch::Program) -> bool {
    let told = program.words.first().is_some_and(|word| OTHER_WORK.contains(&word.as_str()));
    told || program.trains_nothing()
}

/// What a script is told first to do something else than train.
const OTHER_WORK: [&str; 12] = [
    "eval",
    "evaluate",
    "evaluation",
    "test",
    "predict",
    "infer",
    "inference",
    "generate",
    "serve",
    "export",
    "demo",
    "chat",
];

/// Parts of a path.
fn parts(path: &str) -> Vec<&str> {
    path.trim_matches(['"', '\'', '`']).split('/').filter(|part| !matches!(*part, "" | ".")).collect()
}

/// Whether a word of a command is the file: its whole path or the end of it, with the folder unless the text stands
/// `beside` it. `config_{a,b}.yaml` is each of both.
pub fn names(word: &str, name: &str, beside: bool) -> bool {
    let is_file = [".yaml", ".yml", ".json", ".toml"].iter().any(|end| word.ends_with(end));
    let is_script = name.ends_with(".py") && word.ends_with(".py");
    if !is_file && !is_script {
        return false;
    }
    if let Some((before, rest)) = word.split_once('{')
        && let Some((inner, behind)) = rest.split_once('}')
    {
        return inner.contains(',')
            && inner.split(',').any(|choice| names(&format!("{before}{choice}{behind}"), name, beside));
    }
    let (word, name) = (parts(word), parts(name));
    let alike = word.iter().rev().zip(name.iter().rev()).take_while(|(one, other)| one == other).count();
    let least = if beside { 1 } else { 2 };
    alike >= least && (alike == word.len() || alike == name.len())
}

/// Whether a word is another file of the same kind in the same folder, or in the one above.
fn neighbours(word: &str, name: &str) -> bool {
    let (Some((folder, file)), Some((own, other))) = (word.rsplit_once('/'), name.rsplit_once('/')) else {
        return false;
    };
    let kind = |file: &str| file.rsplit_once('.').map(|(_, end)| end.to_owned());
    let (folder, own) = (parts(folder), parts(own));
    let above = own.split_last().map_or(&own[..], |(_, above)| above);
    let within = |own: &[&str]| {
        let alike = folder.iter().rev().zip(own.iter().rev()).take_while(|(one, other)| one == other).count();
        alike >= 2 && alike == folder.len()
    };
    kind(file) == kind(other) && kind(file).is_some() && (within(&own) || within(above))
}

#[cfg(test)]
mod tests {
    use super::{assignment, is_module, is_registered, joined_lines, named, names, neighbours, starts};

    #[test]
    fn an_evaluation_is_none_whatever_it_evaluates() {
        let words = |script: &str| ["python", script, "--config", "a.yaml"].map(str::to_owned);
        assert!(starts(&words("finetune.py")) && starts(&words("train_and_eval.py")));
        assert!(!starts(&words("eval_finetuned.py")) && !starts(&words("evaluate.py")));
    }

    #[test]
    fn a_module_is_its_script() {
        let name = "openrlhf/cli/train_rm.py";
        assert!(is_module("openrlhf.cli.train_rm", name) && is_module("cli.train_rm", name));
        assert!(!is_module("train_rm", name) && !is_module("openrlhf.cli.train_sft", name));
        assert_eq!(named("openrlhf.cli.train_rm", name, false).as_deref(), Some("openrlhf.cli.train_rm"));
    }

    #[test]
    fn a_configuration_goes_by_its_place_below_the_tools_folder() {
        let name = "recipes/configs/llama3_1/8B_lora.yaml";
        assert!(
            is_registered("llama3_1/8B_lora", name)
                && is_registered("llama3_1/8B_lora", "configs/llama3_1/8B_lora.yaml")
        );
        assert!(!is_registered("8B_lora", "recipes/configs/8B_lora.yaml") && !is_registered("llama3/8B_lora", name));
    }

    #[test]
    fn a_line_may_set_a_variable() {
        let set = |line| assignment(line).map(|(name, value)| format!("{name}: {value}"));
        assert_eq!(
            set("export MODEL_NAME=\"CompVis/stable-diffusion-v1-4\"").as_deref(),
            Some("MODEL_NAME: CompVis/stable-diffusion-v1-4")
        );
        assert_eq!(
            set("MODEL_PATH=\"/models/Qwen3-8B\"  # [Required]").as_deref(),
            Some("MODEL_PATH: /models/Qwen3-8B")
        );
        assert_eq!(set("python train.py --lr=1e-4"), None);
        assert_eq!(set("OUT=$ROOT/out"), None);
    }

    #[test]
    fn remarks_of_a_text_do_not_end_a_command() {
        let lines =
            ["torchrun train.py \\", "  # Core", "  --bf16 \\  # precision", "", "  # Data", "  --lr 1e-4", "# end"];
        let joined = joined_lines(&lines);
        assert_eq!(joined.first().map(|(_, whole)| whole.split_whitespace().count()), Some(5));
        assert_eq!(joined_lines(&["python a.py \\", "# note", "next"]).len(), 2);
    }

    #[test]
    fn a_word_is_the_file_by_the_end_of_its_path() {
        let name = "recipes/zephyr/sft/config_full.yaml";
        for (word, beside, expected) in [
            ("recipes/zephyr/sft/config_full.yaml", false, true),
            ("./recipes/zephyr/sft/config_full.yaml", false, true),
            ("sft/config_full.yaml", false, true),
            ("config_full.yaml", false, false),
            ("config_full.yaml", true, true),
            ("recipes/gemma/sft/config_full.yaml", false, false),
            ("recipes/zephyr/sft/config_{full,qlora}.yaml", false, true),
            ("recipes/{model}/sft/config_full.yaml", false, false),
            ("recipes/zephyr/sft", false, false),
        ] {
            assert_eq!(names(word, name, beside), expected, "{word}");
        }
        assert!(neighbours("recipes/zephyr/sft/other.yaml", name) && neighbours("zephyr/sft/other.yaml", name));
        assert!(!neighbours("recipes/zephyr/dpo/other.yaml", name) && !neighbours("sft/other.json", name));
    }
}
