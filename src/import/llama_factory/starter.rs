//! What starts LLaMA-Factory's ranks.

use crate::common::ImportContext;
use crate::script_defaults::script_of;

/// Whether the program starts torchrun itself, on every GPU in sight: the command, its module (`src/llamafactory/cli.py`,
/// `main`), or a script of a project's own that calls it.
pub fn starts_torchrun(context: &ImportContext) -> bool {
    let named = ["llamafactory-cli", "lmf", "llamafactory.cli"].contains(&context.program.name());
    named || script_of(context).is_some_and(|(_, text)| text.contains("llamafactory.cli import main"))
}
