//! Commands that a program of one's own submits to machines elsewhere.

use super::{base, is_python, is_shell, wrappers};
use crate::arguments;

/// The command that a program submits: `python mason.py --gpus 8 -- source env.sh \&\& python train.py`.
pub fn command(program: &str, words: &[String]) -> Option<Vec<String>> {
    let at = words.iter().position(|word| word == "--")?;
    let behind = words.get(at + 1..)?;
    let start = behind.iter().rposition(|word| matches!(word.as_str(), "&&" | ";")).map_or(0, |at| at + 1);
    let inner = behind.get(start..)?;
    let name = base(inner.first()?);
    // `gantry run … -- /bin/bash -c 'torchrun …'`
    let leads = is_python(name) || is_shell(name) || wrappers::find(name).is_some();
    let inner = inner.to_vec();
    leads.then(|| if program == "mason.py" { on_all_nodes(words.get(..at).unwrap_or_default(), inner) } else { inner })
}

/// open-instruct's `mason.py` (`main`) multiplies accelerate's `--num_processes` by its own `--num_nodes`, and tells it those.
fn on_all_nodes(own: &[String], mut inner: Vec<String>) -> Vec<String> {
    const OPTION: &str = "--num_processes";
    let nodes = arguments::read(own).options.whole("num_nodes").map_or(1, |found| found.value);
    let at = inner.iter().position(|word| word == OPTION).map(|at| at + 1);
    if nodes > 1
        && let Some(word) = at.and_then(|at| inner.get_mut(at))
        && let Some(all) = word.parse::<u64>().ok().and_then(|each| each.checked_mul(nodes))
    {
        *word = all.to_string();
        let machines = ["--num_machines".to_owned(), nodes.to_string()];
        inner.splice(at.unwrap_or(0) + 1..at.unwrap_or(0) + 1, machines);
    }
    inner
}
