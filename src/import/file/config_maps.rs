//! Files that a manifest of Kubernetes mounts from a `ConfigMap` beside it, as a script that writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::super::settings::{self, Settings};
use super::super::text;

/// Containers and volumes in each other deeper than this are none.
const DEEPEST: usize = 16;

/// A word that ends no text of a map.
const END: &str = "END_OF_CONFIG_MAP";

/// What a manifest mounts: volumes of maps by their names, and where a container has each.
#[derive(Debug, Default)]
struct MountedMaps {
    volumes: BTreeMap<String, String>,
    /// The volume, the folder, and the file of the volume that alone stands there.
    mounts: Vec<(String, String, Option<String>)>,
}

impl MountedMaps {
    fn collect(&mut self, value: &Value, depth: usize) {
        let word = |key: &str| value.get(key).and_then(settings::text);
        if let (Some(name), Some(map)) = (word("name"), value.pointer("/configMap/name").and_then(settings::text)) {
            self.volumes.insert(name, map);
        }
        if let (Some(name), Some(folder)) = (word("name"), word("mountPath")) {
            self.mounts.push((name, folder, word("subPath")));
        }
        if depth < DEEPEST {
            let inner: Box<dyn Iterator<Item = &Value>> = match value {
                Value::Array(items) => Box::new(items.iter()),
                Value::Object(map) => Box::new(map.values()),
                _ => return,
            };
            inner.for_each(|inner| self.collect(inner, depth + 1));
        }
    }
}

/// The lines of a shell that put the files of a manifest's maps where its containers have them: nothing where it has none.
pub fn written(name: &str, content: &str) -> String {
    let mut lines = String::new();
    if !content.contains("ConfigMap") || !content.contains("mountPath") {
        return lines;
    }
    let mut maps: BTreeMap<String, Settings> = BTreeMap::new();
    let mut mounted = MountedMaps::default();
    for part in content.split("\n---").filter_map(|part| text::yaml(name, part).ok()) {
        if part.text("kind").is_some_and(|kind| kind.value == "ConfigMap") {
            let own = part.text("metadata.name").map_or_else(String::new, |found| found.value);
            maps.insert(own, part.below("data"));
        } else {
            part.iter().for_each(|(_, found)| mounted.collect(&found.value, 0));
        }
    }
    for (volume, folder, alone) in &mounted.mounts {
        let Some(map) = mounted.volumes.get(volume).and_then(|map| maps.get(map)) else { continue };
        let files = map.iter().filter(|(file, _)| alone.as_deref().is_none_or(|alone| alone == *file));
        for (file, found) in files {
            let Some(body) = settings::text(&found.value).filter(|body| !body.contains(END)) else { continue };
            let path =
                if alone.is_some() { folder.clone() } else { format!("{}/{file}", folder.trim_end_matches('/')) };
            let _ = writeln!(lines, "cat > {path} <<'{END}'\n{}\n{END}", body.trim_end());
        }
    }
    lines
}
