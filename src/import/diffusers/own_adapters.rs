//! Adapters that a script lays by itself over modules of a list of its own (`module.set_lora_layer(…)`, diffusers before 0.25).

use std::collections::{BTreeMap, BTreeSet};

use super::super::adapters;
use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::rows::not_modelled;
use crate::plan::keys;

/// The call that lays one over a module.
const CALL: &str = ".set_lora_layer(";

/// Modules that diffusers' own scripts of those releases write out.
const WRITTEN_OUT: [&str; 6] = ["to_q", "to_k", "to_v", "to_out[0]", "add_k_proj", "add_v_proj"];

/// Linear layers of Stable Diffusion's U-Net, and how many stand in each of its transformer blocks.
const LINEAR: [(&str, usize); 6] =
    [("to_q", 2), ("to_k", 2), ("to_v", 2), ("to_out.0", 2), ("ff.net.0.proj", 1), ("ff.net.2", 1)];

/// Convolutions of 1 x 1 in the first two Stable Diffusions, which a plan has no adapters for.
const CONVOLUTIONS: [&str; 2] = ["proj_in", "proj_out"];

/// Transformer blocks of those two's U-Net (`unet/config.json`: two in each of three blocks down, one in the middle, three in
/// each of three up).
const BLOCKS: usize = 16;

/// Takes the modules from the list that the script reads, or says that they are not followed.
pub(super) fn set(imported: &mut ImportedPlan, context: &ImportContext, path: &str, text: &str) {
    let mut receivers = text.match_indices(CALL).filter_map(|(at, _)| text.get(..at));
    let is_own = receivers.any(|before| !WRITTEN_OUT.iter().any(|name| before.ends_with(&format!(".{name}"))));
    if !is_own || imported.get(keys::lora::rank).is_none() {
        return;
    }
    imported.drop(keys::lora::targets);
    let Some((file, modules)) = listed(context, text) else {
        return unfollowed(imported, path);
    };
    let counts = modules.iter().fold(BTreeMap::new(), |mut counts: BTreeMap<&str, usize>, module| {
        *counts.entry(kind(module)).or_default() += 1;
        counts
    });
    let first = ["stable-diffusion-1.5", "stable-diffusion-2.1"];
    let known = imported.get(keys::model::preset).is_some_and(|found| first.iter().any(|name| found.value == *name));
    let whole = |name: &str, count: usize| {
        LINEAR.iter().any(|(linear, each)| *linear == name && each * BLOCKS == count)
            || CONVOLUTIONS.contains(&name) && count == BLOCKS
    };
    if !known || !counts.iter().all(|(name, count)| whole(name, *count)) {
        return unfollowed(imported, path);
    }
    let (convolutions, linear): (Vec<&str>, Vec<&str>) = counts.keys().partition(|name| CONVOLUTIONS.contains(*name));
    let origin = Origin::File { name: file.clone(), line: None, key: "modules".to_owned() };
    adapters::set_targets(imported, Some(Setting::new(linear.iter().map(|name| (*name).to_owned()).collect(), origin)));
    if !convolutions.is_empty() {
        not_modelled(imported, &format!("{file}: adapters of convolutions: {}", convolutions.join(", ")));
    }
}

fn unfollowed(imported: &mut ImportedPlan, path: &str) {
    not_modelled(imported, &format!("{path}: adapters of its own, over a list of modules that is not followed"));
    imported.miss(keys::lora::targets, format!("{path} lays adapters over a list of its own"));
}

/// The one list of modules that the script opens by name: the file, and what stands in it.
fn listed(context: &ImportContext, text: &str) -> Option<(String, BTreeSet<String>)> {
    let folder = context.program.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let literals = text.split(['"', '\'']).filter(|word| word.ends_with(".json") && !word.contains(['\n', ' ', '{']));
    let names: BTreeSet<&str> = literals.collect();
    let mut lists = names.into_iter().filter_map(|name| {
        let beside = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let content = context.run.files.read(name).or_else(|_| context.run.files.read(&beside)).ok()?;
        let modules: Vec<String> = serde_json::from_str(&content).ok()?;
        Some((name.to_owned(), modules.into_iter().collect()))
    });
    let first = lists.next()?;
    lists.next().is_none().then_some(first)
}

/// The last part of a module's path that tells which of a block's it is.
fn kind(module: &str) -> &str {
    let known = LINEAR.iter().map(|(name, _)| *name).chain(CONVOLUTIONS);
    known.into_iter().find(|name| module.ends_with(&format!(".{name}"))).unwrap_or(module)
}
