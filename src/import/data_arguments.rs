//! Arguments of a script that only choose its data: how many samples, which fields. Two things must hold: the name speaks
//! of data, and every statement of the script and its modules that has the name works on data, tells a reader something
//! or names a file.

use super::origin::Origin;
use super::script_defaults::is_name;
use super::settings::Settings;

/// Parts of names that speak of data.
const OF_DATA: [&str; 14] = [
    "sample", "ratio", "fraction", "percent", "field", "column", "question", "answer", "subset", "task", "domain",
    "shot", "source", "mix",
];

/// Words of statements that work on data.
const DATA: [&str; 16] = [
    "data", "dataset", "datasets", "sample", "samples", "example", "examples", "record", "records", "row", "rows",
    "random", "rng", "shuffle", "select", "split",
];

/// Parts of statements that may change what is held or how long a step takes.
const OTHERS: [&str; 25] = [
    "model",
    "trainer",
    "config",
    "arguments",
    "batch",
    "lora",
    "peft",
    "optim",
    "length",
    "dtype",
    "loader",
    "token",
    "max_len",
    "accum",
    "engine",
    "parallel",
    "generat",
    "llm",
    "gpu",
    "cuda",
    "device",
    "checkpoint",
    "adapter",
    "seq",
    "step",
];

/// Beginnings of statements that only tell somebody something.
const TELLS: [&str; 9] =
    ["print", "logger", "logging", "log", "raise", "assert", "wandb", "warnings", "parser.add_argument"];

/// What stands in for a statement whose brackets never close.
const LONGEST: usize = 60;

/// Those of the given arguments that only choose data, after the text of the script with its project's modules.
pub fn names(given: &Settings, text: &str) -> Vec<String> {
    let own = |origin: &Origin| matches!(origin, Origin::Argument(_) | Origin::Default { framework: "the script", .. });
    let of_data = |name: &str| OF_DATA.iter().any(|part| name.contains(part));
    let asked: Vec<&str> = given
        .iter()
        .filter(|(name, found)| own(&found.origin) && is_name(name) && of_data(name))
        .map(|(name, _)| name)
        .collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let statements = statements(text);
    asked.into_iter().filter(|name| only_chooses_data(&statements, name)).map(str::to_owned).collect()
}

/// A statement: its margin and its text in one line.
struct Statement {
    margin: usize,
    text: String,
}

/// The statements of a text, each with what its brackets hold; no comments.
fn statements(text: &str) -> Vec<Statement> {
    let mut found: Vec<Statement> = Vec::new();
    let (mut open, mut lines) = (0_usize, 0_usize);
    for line in text.lines() {
        let code = line.split(" #").next().unwrap_or(line);
        let trimmed = code.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let starts = open == 0 || lines > LONGEST || ["def ", "class "].iter().any(|word| trimmed.starts_with(word));
        if starts {
            (open, lines) = (0, 0);
            found.push(Statement { margin: code.len() - code.trim_start().len(), text: String::new() });
        }
        if let Some(statement) = found.last_mut() {
            statement.text.push_str(trimmed);
            statement.text.push(' ');
        }
        let count = |signs: &[char]| trimmed.matches(signs).count();
        open = (open + count(&['(', '[', '{'])).saturating_sub(count(&[')', ']', '}']));
        lines += 1;
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// Whether there are statements with that name beside its declaration, and all of them are about data.
fn only_chooses_data(statements: &[Statement], name: &str) -> bool {
    let mut used = false;
    let mut loads_data: Option<usize> = None;
    for (at, statement) in statements.iter().enumerate() {
        loads_data = loads_data.filter(|margin| statement.margin > *margin);
        if loads_data.is_none() && makes_data(&statement.text) {
            loads_data = Some(statement.margin);
        }
        let text = without_entry(&statement.text, name);
        if !words(&text).any(|word| word == name) || declares(&text, name) {
            continue;
        }
        used = true;
        if loads_data.is_some() && !["model", "token", "batch"].iter().any(|part| text.contains(part)) {
            continue;
        }
        let guards = ["if ", "elif "].iter().any(|word| statement.text.starts_with(word));
        let fine = if guards {
            statement.text.trim_end().ends_with(':') && guarded(statements, at).all(|inner| is_of_data(inner, name))
        } else {
            is_of_data(&statement.text, name)
        };
        if !fine {
            return false;
        }
    }
    used
}

/// Whether a statement begins a function that makes data, by its name: `def load_mixed_data(`.
fn makes_data(text: &str) -> bool {
    let name = text.strip_prefix("def ").and_then(|rest| rest.split('(').next()).unwrap_or("");
    ["data", "sample", "example"].iter().any(|part| name.contains(part))
}

/// A statement without what only writes the argument down under its own name: `"num_samples": args.num_samples`.
fn without_entry(text: &str, name: &str) -> String {
    let key = [format!("\"{name}\": args.{name}"), format!("'{name}': args.{name}")];
    key.iter().fold(text.to_owned(), |text, entry| text.replace(entry.as_str(), ""))
}

/// The statements below a condition, and those of its alternatives.
fn guarded(statements: &[Statement], at: usize) -> impl Iterator<Item = &str> {
    let margin = statements.get(at).map_or(0, |statement| statement.margin);
    let alternative = |text: &str| ["elif ", "else"].iter().any(|word| text.starts_with(word));
    let below = statements.iter().skip(at + 1);
    below
        .take_while(move |inner| inner.margin > margin || inner.margin == margin && alternative(&inner.text))
        .filter(move |inner| inner.margin > margin)
        .map(|inner| inner.text.as_str())
}

/// Whether a statement declares the argument, a field or a parameter of that name and no more.
fn declares(text: &str, name: &str) -> bool {
    let field = text.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    let option = format!("--{name} ");
    text.contains(&option) || text.contains(".add_argument(") || text.starts_with("def ") || field
}

fn is_of_data(text: &str, name: &str) -> bool {
    if TELLS.iter().any(|start| text.starts_with(start)) {
        return true;
    }
    // The name itself may have such a part.
    let rest: String = words(text).filter(|word| *word != name).collect::<Vec<_>>().join(" ").to_lowercase();
    let target = text.split('=').next().unwrap_or("").trim();
    let names_file = ["_dir", "_path", "_name", "_file"].iter().any(|end| target.ends_with(end));
    if names_file && !text.starts_with("return") {
        return text.contains("f\"") || text.contains("f'") || text.contains("join(");
    }
    let about = words(&rest).any(|word| DATA.contains(&word) || word.starts_with("data") || word.ends_with("_data"));
    about && !OTHERS.iter().any(|part| rest.contains(part))
}

#[cfg(test)]
mod tests {
    use super::names;
    use crate::origin::Origin;
    use crate::settings::Settings;

    fn given() -> Settings {
        let mut given = Settings::default();
        given.set("num_samples", 8.into(), Origin::Argument("--num-samples".to_owned()));
        given
    }

    #[test]
    fn a_number_of_samples_that_only_selects_rows_chooses_data() {
        let script = "parser.add_argument('--num_samples', type=int)\nif args.num_samples < len(data):\n\
            \x20   data = data.select(range(args.num_samples))\nelse:\n    print('all')\n\
            run_dir = f'out-{args.num_samples}'\ndef load_data(num_samples):\n\
            \x20   half = num_samples // 2\nkept = {'rank': args.rank, 'num_samples': args.num_samples}\n";
        assert_eq!(names(&given(), script), ["num_samples"]);
    }

    #[test]
    fn what_reaches_a_model_or_a_batch_is_more() {
        let script = "parser.add_argument('--num_samples', type=int)\ndata = data.select(range(args.num_samples))\n";
        for further in [
            "config = GRPOConfig(num_generations=args.num_samples)\n",
            "n = args.num_samples\n",
            "if args.num_samples > 4:\n    model.train()\n",
            "data = collate(data,\n    batch_size=args.num_samples)\n",
        ] {
            assert!(names(&given(), &format!("{script}{further}")).is_empty(), "{further}");
        }
        // Nobody asks for it: that is another reader's.
        assert!(names(&given(), "parser.add_argument('--num_samples')\n").is_empty());
    }
}
