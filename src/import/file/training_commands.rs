//! Which of a script's commands start a training.

use crate::launch::{self, Program};
use crate::{llm_c, nemo_factories, prime_rl, primus, shell};

/// No script that matters has more commands that start Python or a launcher.
const MOST_COMMANDS: usize = 64;

/// The commands of a script that start Python, a launcher or a tool that trains, in their order.
pub fn commands(content: &str, known: &dyn Fn(&str) -> Option<String>) -> Vec<Vec<String>> {
    starting(shell::read(content, known).commands).into_iter().map(|command| command.words).collect()
}

pub(super) fn starting(all: Vec<shell::ShellCommand>) -> Vec<shell::ShellCommand> {
    let starts = |command: &shell::ShellCommand| {
        let launch::LaunchCommand { launchers, program, .. } = launch::take_apart(&command.words);
        // Without arguments a file may train all the same; a module is a tool, but for one that is called after it.
        let named = program.name().ends_with(".py") || program.name().contains('.') && program.trains_by_its_name();
        let runs = program.python && (!program.words.is_empty() || named);
        !launchers.is_empty() || runs || trains_by_itself(&program)
    };
    all.into_iter().flat_map(launch::in_turn).filter(starts).take(MOST_COMMANDS).collect()
}

/// Commands that start their launcher themselves: `llamafactory-cli train`, `trl sft`, `litgpt finetune_lora`.
pub fn trains_by_itself(program: &Program) -> bool {
    const COMMANDS: [&str; 10] =
        ["llamafactory-cli", "lmf", "axolotl", "litgpt", "trl", "swift", "megatron", "openrlhf", "xtuner", "oumi"];
    const TRAINING: [&str; 11] =
        ["train", "pretrain", "finetune", "sft", "dpo", "kto", "grpo", "rloo", "reward", "pt", "rlhf"];
    let what = program.words.first().map_or("", String::as_str);
    if program.name() == "automodel" {
        return program.words.iter().any(|word| word.ends_with(".yaml"));
    }
    llm_c::is_program(program.name())
        || prime_rl::is_command(program)
        || primus::is_command(program)
        || nemo_factories::is_command(program)
        || takes_training_arguments(program)
        || COMMANDS.contains(&program.name()) && (TRAINING.contains(&what) || what.starts_with("finetune_"))
}

/// Whether a project's own command, which its package installs, is given `TrainingArguments`: `autoalign-cli sft`,
/// `petrogpt-train`.
fn takes_training_arguments(program: &Program) -> bool {
    let given = |option: &str| {
        let option = |word: &String| word.split('=').next() == Some(option);
        program.words.iter().any(option)
    };
    !program.python && given("--model_name_or_path") && given("--per_device_train_batch_size")
}
