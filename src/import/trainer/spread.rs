//! Layers of a script's model that are spread over the GPUs in sight.

use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::python::ScriptReader;
use super::super::rows::not_modelled;
use super::super::settings::Settings;
use super::data_parallel;
use crate::plan::keys;

/// Whether a script has its model's layers spread over whatever GPUs there are.
fn spreads_by_itself(content: &str) -> bool {
    let lines = content.lines().filter(|line| !line.trim_start().starts_with('#')).map(|line| line.replace('\'', "\""));
    let spread = |line: &String| {
        line.split_once("device_map").is_some_and(|(_, rest)| {
            let rest = rest.trim_start_matches(['"', ' ', '=', ':']);
            ["auto", "balanced", "sequential"].iter().any(|word| rest.starts_with(word))
        })
    };
    lines.into_iter().any(|line| spread(&line))
}

/// Whether each of several processes has the whole model on its own GPU: `if ddp: device_map = {"": local_rank}`.
fn by_rank(content: &str) -> bool {
    content.replace('\'', "\"").replace(' ', "").contains("device_map={\"\":")
}

/// `--device_map auto` spreads nothing over one GPU, nor where a launcher's processes are each told their own.
pub(super) fn by_argument(settings: &Settings, context: &ImportContext, reader: Option<&ScriptReader>) {
    const NAME: &str = "device_map";
    let alone = context.launchers.is_empty();
    let single = match context.world.total.as_ref() {
        Some(total) => total.value == 1,
        None => alone && context.visible_gpus().is_some_and(|gpus| gpus.value == 1),
    };
    let told = !alone && reader.is_some_and(|reader| by_rank(reader.whole()));
    if settings.get(NAME).is_some_and(|found| found.value == "auto") && (single || told) {
        settings.accept(NAME);
    }
}

/// The same of a script of which nobody says how it starts: it may be by a launcher, whose every process holds the whole
/// model.
pub fn spread_alone(imported: &mut ImportedPlan, path: &str, content: &str, context: &ImportContext) {
    if !spreads_by_itself(content) || imported.tool == "unsloth" {
        return;
    }
    match context.world.total.as_ref().map(|total| total.value) {
        Some(1) => {}
        Some(_) => not_modelled(
            imported,
            &format!("{path}: device_map=\"auto\" spreads the layers over the GPUs, unless a launcher starts it"),
        ),
        None => imported.miss(keys::cluster::num_gpus, "device_map spreads the layers over all GPUs in sight"),
    }
}

/// A script that was a notebook, which nothing starts several times (`nbconvert`, `python.tpl`: `# In[3]:`); unsloth keeps to
/// one GPU.
pub fn of_notebook(imported: &mut ImportedPlan, content: &str) {
    let notebook = content.lines().any(|line| line.starts_with("# In[") || line.contains("get_ipython()"));
    if notebook && imported.tool == "unsloth" {
        let one = Origin::Derived("a notebook, and unsloth keeps to one GPU".to_owned());
        imported.fill(keys::cluster::num_gpus, Some(Setting::new(1, one)));
    }
}

/// Without a launcher several GPUs in sight share out the layers, where the script says so, or the batch.
pub fn spread(imported: &mut ImportedPlan, path: &str, content: &str, context: &ImportContext) {
    let alone = context.launchers.is_empty() && context.world.total.is_none();
    let spreads = spreads_by_itself(content);
    let Some(gpus) = context.visible_gpus() else {
        // unsloth keeps to one GPU.
        if alone && spreads {
            not_modelled(imported, &format!("{path}: device_map=\"auto\" spreads the layers over the GPUs in sight"));
            imported.miss(keys::cluster::num_gpus, "device_map spreads the layers over all GPUs in sight, and none is");
        } else if alone && imported.tool != "unsloth" {
            data_parallel(imported, context);
        } else if alone {
            of_notebook(imported, content);
        } else if spreads && !by_rank(content) && context.world.total.as_ref().is_some_and(|total| total.value > 1) {
            not_modelled(
                imported,
                &format!("{path}: device_map=\"auto\" under several processes, which accelerate refuses"),
            );
        }
        return;
    };
    if gpus.value < 2 {
        return;
    }
    if content.contains("device_map") && alone {
        not_modelled(imported, &format!("{path}: device_map spreads the layers over {} GPUs", gpus.value));
        imported.miss(keys::cluster::num_gpus, "device_map spreads the layers over all GPUs in sight");
    } else if content.contains(".is_parallelizable = True") && alone {
        // `Trainer` leaves such a model where it is, and wraps it in no `nn.DataParallel`.
        not_modelled(
            imported,
            &format!("{path}: is_parallelizable: all of the model is on one of {} GPUs", gpus.value),
        );
        imported.miss(keys::cluster::num_gpus, "without a launcher the script trains on one GPU of those in sight");
    } else {
        data_parallel(imported, context);
    }
}
