//! Why a file gives no plan.

use std::fmt;

/// Why a file gives no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It cannot be read as what its name says it is: where, and why.
    Unreadable(String),
    /// It is a plan already.
    Plan(String),
    /// No tool that is known has written it, or is started by it.
    NoTool(String),
    /// It starts several trainings; one has to be chosen.
    Several {
        /// The file.
        file: String,
        /// The commands, as they are numbered from 1.
        commands: Vec<String>,
    },
}

impl Refused {
    /// The same in other words, such as shorter names of files.
    #[must_use]
    pub fn reworded(self, reworded: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Unreadable(why) => Self::Unreadable(reworded(&why)),
            Self::NoTool(why) => Self::NoTool(reworded(&why)),
            Self::Plan(name) => Self::Plan(reworded(&name)),
            Self::Several { file, commands } => Self::Several {
                file: reworded(&file),
                commands: commands.iter().map(|command| reworded(command)).collect(),
            },
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) | Self::NoTool(why) => f.write_str(why),
            Self::Plan(name) => write!(f, "{name}: a plan already, nothing to import"),
            Self::Several { file, commands } => {
                write!(f, "{file}: {} trainings; choose one with --which:", commands.len())?;
                for (at, command) in commands.iter().enumerate() {
                    write!(f, " [{}] {command}", at + 1)?;
                }
                Ok(())
            }
        }
    }
}

/// Why a script is not read: what would have to be at hand. `parses`: it takes arguments from a command line.
pub(super) fn why_not(content: &str, parses: bool) -> String {
    const ARGUMENTS: &str = "a script that takes its arguments from a command line: import that command";
    const NOTHING: &str =
        "no training is recognised in this script: neither a Trainer nor a loop, nor a tool's configuration";
    of_library(content).unwrap_or_else(|| if parses { ARGUMENTS } else { NOTHING }.to_owned())
}

/// The same of a script that trains by a library which is known.
fn of_library(content: &str) -> Option<String> {
    let code = || content.lines().filter(|line| !line.trim_start().starts_with('#'));
    let has = |part: &str| code().any(|line| line.contains(part));
    if has("nemo_run") || has("nemo.collections") {
        let recipe = code().find_map(|line| {
            let (before, _) = line.split_once("_recipe(")?;
            let start = before.rfind(|letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '.')));
            before.get(start.map_or(0, |at| at + 1)..).filter(|name| name.contains('.')).map(str::to_owned)
        });
        if let Some(recipe) = recipe {
            return Some(format!(
                "it runs NeMo's {recipe}_recipe, whose settings stand in NeMo: import that recipe's file of \
                 nemo/collections/llm/recipes, and set here what this script changes of it"
            ));
        }
        if has("run.Script(") {
            return Some("NeMo-Run starts another script: import that one".to_owned());
        }
    }
    let module = ["LightningModule)", "LightningModule,"].iter().any(|part| has(part));
    let trainer = ["L.Trainer(", "pl.Trainer(", "lightning.Trainer(", "= Trainer("].iter().any(|part| has(part));
    let lightning = has("import lightning") || has("pytorch_lightning") || has("from lightning");
    (lightning && (module || trainer)).then(|| {
        "Lightning trains a module of its own, whose layers are not read: memwall trace records them, and the plan is \
         written around that"
            .to_owned()
    })
}

/// Why a command of NeMo's is not read: `nemo llm pretrain --factory llama3_8b`.
pub(super) fn factory(words: &[String]) -> Option<String> {
    let at = words.iter().position(|word| word.rsplit('/').next() == Some("nemo"))?;
    let rest = words.get(at + 1..)?;
    let kind = rest.first().filter(|word| matches!(word.as_str(), "llm" | "vlm"))?;
    let recipe = rest.iter().enumerate().find_map(|(at, word)| {
        word.strip_prefix("--factory=").or_else(|| rest.get(at + 1).filter(|_| word == "--factory").map(String::as_str))
    });
    let recipe = recipe.map_or_else(|| "a recipe".to_owned(), |name| format!("the recipe {name}"));
    Some(format!(
        "it runs {recipe} of NeMo, whose settings stand in NeMo: import its file of nemo/collections/{kind}/recipes, and set \
         here what this command changes of it"
    ))
}

#[cfg(test)]
mod tests {
    use super::{factory, of_library};

    #[test]
    fn what_is_missing_of_a_library_is_said() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let told = factory(&words("nemo llm pretrain --factory llama3_8b --yes")).unwrap();
        assert!(told.starts_with("it runs the recipe llama3_8b of NeMo"), "{told}");
        assert_eq!(factory(&words("nemo_run x")), None);
        let told =
            of_library("import nemo_run as run\nrecipe = llm.llama3_8b.pretrain_recipe(\n    dir='x')\n").unwrap();
        assert!(told.contains("llm.llama3_8b.pretrain_recipe"), "{told}");
        let told = of_library("import lightning as L\nclass A(L.LightningModule):\n    pass\n").unwrap();
        assert!(told.starts_with("Lightning trains a module of its own"), "{told}");
        assert_eq!(of_library("import torch\nclass A(torch.nn.Module):\n    pass\n"), None);
    }
}
