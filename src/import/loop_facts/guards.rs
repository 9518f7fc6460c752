//! What keeps a script from being told of: a healthy run whose script is misread would be called another than its plan.

use super::Script;
use crate::own_loop;
use crate::script_doubts::code;

/// Arguments with which scripts do something else than train.
const ELSE: [&str; 9] =
    ["eval", "evaluate", "eval_only", "test", "test_only", "inference", "infer", "generate", "sample"];

/// Parts of what people call the samples that nothing is learnt from.
const HELD_OUT: [&str; 6] = ["val", "test", "eval", "infer", "predict", "held"];

/// Optimizers by the names of their classes.
const OPTIMIZERS: [&str; 8] = ["AdamW", "Adam", "SGD", "Adafactor", "Lion", "RMSprop", "Adagrad", "NAdam"];

/// Whether a command asks for something else than training.
pub(super) fn asks_for_else(words: &[String]) -> bool {
    let named = |word: &String| word.trim_start_matches('-').replace('-', "_").to_lowercase();
    words.iter().filter(|word| word.starts_with("--")).any(|word| ELSE.contains(&named(word).as_str()))
}

/// No training has more backward passes.
const MOST_PASSES: usize = 32;

/// How far a line is set in.
fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The line that begins what stands around a line, by the word that it begins with.
fn around(lines: &[&str], at: usize, word: &str) -> Option<usize> {
    let own = depth(lines.get(at)?);
    lines.get(..at)?.iter().rposition(|line| line.trim_start().starts_with(word) && depth(line) < own)
}

/// Whether the loop around a backward pass runs over batches, as far as its words tell.
fn runs_over_batches(lines: &[&str], at: usize) -> bool {
    const OF_BATCHES: [&str; 8] = ["range(", "enumerate(", "loader", "batches", "data", "tqdm(", "dl", "pbar"];
    let line = around(lines, at, "for ").and_then(|at| lines.get(at));
    line.is_none_or(|line| OF_BATCHES.iter().any(|part| line.to_lowercase().contains(part)))
}

impl Script<'_> {
    /// Whether gradients are applied behind each backward pass, in the same block and on no condition.
    pub(super) fn steps_each_time(&self) -> bool {
        let lines: Vec<&str> = self.text.lines().filter(|line| code(line).next().is_some()).collect();
        let Some(at) = lines.iter().position(|line| line.contains(".backward(")) else { return false };
        let Some(backward) = lines.get(at) else { return false };
        let applies = |line: &str| line.contains(".step(") && !line.trim_start().starts_with("if ");
        if applies(backward) {
            return true;
        }
        let behind = lines.iter().skip(at + 1);
        let block: Vec<&&str> = behind.take_while(|line| depth(line) >= depth(backward)).collect();
        let step = block.iter().position(|line| depth(line) == depth(backward) && applies(line));
        let decides = |line: &str| {
            let line = line.trim_start();
            ["if ", "for ", "while ", "continue"].iter().any(|word| line.starts_with(word))
        };
        step.is_some_and(|step| !block.iter().take(step).any(|line| decides(line)))
    }

    /// Whether it has a name for a part of a batch that goes through the model at a time: `micro_batch_size`, `n_micro_bs`. A
    /// micro step is none.
    pub(super) fn names_micro_batches(&self) -> bool {
        let of_batch = |word: &str| {
            let word = word.to_lowercase();
            word.contains("micro") && !word.contains("step")
        };
        let words = |line: &str| {
            let line = line.split(" #").next().unwrap_or_default();
            line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').any(of_batch)
        };
        code(self.text).any(words)
    }

    /// Whether what a loader of training samples takes goes through the model as it is: by backward passes of one function, each
    /// in a loop over batches and not over parts of one.
    pub(super) fn takes_whole_batches(&self) -> bool {
        let lines: Vec<&str> = self.text.lines().collect();
        let is_pass = |line: &&str| code(line).any(|line| line.contains(".backward("));
        let passes: Vec<usize> = lines.iter().enumerate().filter(|(_, line)| is_pass(line)).map(|(at, _)| at).collect();
        let functions: Vec<Option<usize>> =
            passes.iter().take(MOST_PASSES).map(|at| around(&lines, *at, "def ")).collect();
        let is_one = own_loop::has_one_backward(self.text) || functions.windows(2).all(|two| two[0] == two[1]);
        let known = if own_loop::is_lightning(self.text) { 0..=MOST_PASSES } else { 1..=MOST_PASSES };
        known.contains(&passes.len())
            && is_one
            && passes.iter().all(|at| runs_over_batches(&lines, *at))
            && self.makes_training_loader()
    }

    /// Whether a loader is made whose samples train: named for nothing else, in a function that is called.
    fn makes_training_loader(&self) -> bool {
        let lines: Vec<&str> = self.text.lines().collect();
        let made = lines.iter().enumerate().filter(|(_, line)| code(line).any(|line| line.contains("DataLoader(")));
        let of_another = |words: &str| HELD_OUT.iter().any(|part| words.to_lowercase().contains(part));
        made.filter(|(_, line)| !of_another(line)).any(|(at, line)| {
            let mut above = lines.get(..at).unwrap_or_default().iter().rev();
            let function = above.find(|above| above.trim_start().starts_with("def ") && depth(above) < depth(line));
            function.is_none_or(|function| self.is_called(function) && !of_another(function))
        })
    }

    /// Whether the function that a line begins is named somewhere else too.
    fn is_called(&self, definition: &str) -> bool {
        let behind = definition.trim_start().trim_start_matches("def ");
        let name = behind.split('(').next().unwrap_or_default().trim();
        name.starts_with("__") || code(self.text).any(|line| line.contains(name) && !line.contains("def "))
    }

    /// Whether it makes text as well: what it draws, or how long something is, may be of that.
    pub(super) fn generates(&self) -> bool {
        let lower = self.text.to_lowercase();
        ["prompt", "def sample", "def generate", ".generate(", "multinomial", "max_new_tokens"]
            .iter()
            .any(|part| lower.contains(part))
    }

    /// Whether a name is given another value later, or enters into what is used by a sum of the script's own.
    pub(super) fn is_reckoned_with(&self, name: &str) -> bool {
        let parts = [format!("{name} *"), format!("* {name}"), format!("{name} //"), format!("// {name}")];
        self.is_changed(name) || code(self.text).any(|line| parts.iter().any(|part| line.contains(part.as_str())))
    }

    /// Whether a name is given another value later.
    pub(super) fn is_changed(&self, name: &str) -> bool {
        let assigns = |line: &str| {
            let (left, right) = line.split_once('=').unwrap_or((line, ""));
            let of_object = left.trim_end().ends_with(&format!(".{name}"))
                && !right.starts_with('=')
                && !left.trim_start().starts_with("self.");
            let counts = ["//", "*", "/"]
                .iter()
                .any(|sign| left.trim().strip_suffix(sign).is_some_and(|left| left.trim_end().ends_with(name)));
            of_object || counts && !right.starts_with('=')
        };
        code(self.text).any(assigns)
    }

    /// Whether the micro batches that a name counts are counted somewhere: by a remainder, a share of the loss, a loop over
    /// them, or what is handed to who accumulates.
    pub(super) fn counts_by(&self, name: &str) -> bool {
        let counts = |line: &str| {
            let hands_on =
                line.contains("gradient_accumulation") && line.contains('(') && !line.contains("add_argument(");
            line.contains(name) && (["%", "/", "range("].iter().any(|part| line.contains(part)) || hands_on)
        };
        code(self.text).any(|line| counts(line) && !line.contains("print("))
    }

    /// Whether it names an optimizer's class without making one there, for a choice that is not followed.
    pub(super) fn picks_optimizer(&self) -> bool {
        let names_alone = |line: &str| {
            OPTIMIZERS.iter().any(|name| {
                line.match_indices(&format!("optim.{name}")).any(|(at, found)| {
                    let behind = line.get(at + found.len()..).unwrap_or_default();
                    !behind.starts_with(|next: char| next == '(' || next.is_alphanumeric())
                })
            })
        };
        code(self.text).any(|line| names_alone(line) && !line.trim_start().starts_with("import "))
    }

    /// Whether one process feeds several devices, each a share of what its loader takes.
    pub(super) fn shares_out(&self) -> bool {
        code(self.text).any(|line| {
            line.match_indices("DataParallel(").any(|(at, _)| {
                let before = line.get(..at).unwrap_or_default();
                !before.ends_with("Distributed") && !before.ends_with("Sharded")
            })
        })
    }
}
