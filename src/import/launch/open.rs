//! Options of a launcher whose values only a run could tell: what the launcher does without them is not what runs.

use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::plan::keys;
use crate::settings::is_open;

const NUMBERS: &[&str] = &[keys::cluster::num_gpus, keys::cluster::nodes, keys::cluster::gpus_per_node];
const NODES: &[&str] = &[keys::cluster::nodes, keys::cluster::gpus_per_node];

/// Options, and the plan's keys that they decide.
const OPTIONS: [(&str, &[&str]); 12] = [
    ("nnodes", NUMBERS),
    ("num_nodes", NUMBERS),
    ("num_machines", NODES),
    ("num_processes", NUMBERS),
    ("nproc_per_node", NUMBERS),
    ("num_gpus", NUMBERS),
    ("include", NUMBERS),
    ("exclude", NUMBERS),
    ("hostfile", NUMBERS),
    ("world_info", NUMBERS),
    ("mixed_precision", &[keys::training::precision]),
    ("gpu_ids", NUMBERS),
];

/// Says which of them are open, and takes the launcher's own defaults out.
pub fn say(imported: &mut ImportedPlan, context: &ImportContext) {
    for (name, decided) in OPTIONS {
        let open = context
            .launchers
            .iter()
            .any(|launcher| launcher.options.get(name).and_then(|found| found.value.as_str()).is_some_and(is_open));
        if !open || imported.tool.is_empty() {
            continue;
        }
        if decided.contains(&keys::training::precision) {
            imported.note(format!("not understood: the launcher's {name}"));
        }
        for key in decided {
            imported.doubt(key, format!("the launcher's {name}, which only the run knows, says it"));
        }
    }
}
