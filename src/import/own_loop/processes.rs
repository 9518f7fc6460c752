//! How many processes a loop of one's own trains in.

use super::OwnLoop;
use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::launch::World;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::script_doubts::code;

/// What the text of a script starts processes with, or tells them apart by; none where one process runs it as it stands.
pub fn several(text: &str) -> Option<&'static str> {
    named(text, &STARTS).or_else(|| named(text, &RANKS))
}

fn named(text: &str, parts: &[&'static str]) -> Option<&'static str> {
    parts.iter().find(|part| code(text).any(|line| line.contains(**part))).copied()
}

const STARTS: [&str; 5] = ["mp.spawn(", "multiprocessing.spawn(", "ray.init(", "ray.remote", ".remote("];
const RANKS: [&str; 4] = ["DistributedDataParallel(", "DDP(", "Accelerator(", "init_process_group("];

impl OwnLoop {
    /// How many processes train where no launcher starts the script.
    pub(super) fn processes(&self, imported: &mut ImportedPlan, context: &ImportContext) {
        let named = |parts: &[&'static str]| named(&self.text, parts);
        const KEY: &str = keys::cluster::num_gpus;
        if let Some(part) = named(&STARTS) {
            return imported.miss(KEY, format!("{} starts its processes itself: {part}", self.path));
        }
        if let Some(part) = named(&RANKS) {
            return imported.miss(KEY, format!("no launcher is named: {} has {part}, which it tells", self.path));
        }
        if named(&["device_map"]).is_some() {
            return imported.miss(KEY, format!("{}: device_map spreads layers over the GPUs in sight", self.path));
        }
        let found = match (named(&["DataParallel("]), context.visible_gpus()) {
            (None, _) => Setting::new(1, Origin::Program(format!("{}: no launcher, nothing in it spreads", self.path))),
            (Some(_), Some(seen)) => {
                imported.note("nn.DataParallel over all GPUs in sight, whose first holds the outputs of all");
                seen
            }
            (Some(part), None) => {
                return imported.miss(KEY, format!("{}: {part} takes every GPU in sight, and none is", self.path));
            }
        };
        let world = World::here(found.value, found.origin);
        imported.fill(KEY, world.total);
        imported.fill(keys::cluster::nodes, world.nodes);
        imported.fill(keys::cluster::gpus_per_node, world.per_node);
    }
}
