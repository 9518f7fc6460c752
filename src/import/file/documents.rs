//! The documents of a YAML file.

use super::super::jobs;
use super::super::settings::Settings;
use super::super::text::{self, Unparsable};
use super::commands;

/// The document of a YAML file; of several the first that starts something, a training before a service.
pub fn documents(name: &str, content: &str) -> Result<Settings, Unparsable> {
    let whole = text::yaml(name, content);
    if whole.is_ok() || !content.contains("\n---") {
        return whole;
    }
    let parts: Vec<Settings> = content.split("\n---").filter_map(|part| text::yaml(name, part).ok()).collect();
    let trains =
        |part: &&Settings| jobs::of_settings(part).is_some_and(|job| !commands(&job.script, &|_| None).is_empty());
    let job = parts.iter().find(trains).or_else(|| parts.iter().find(|part| jobs::of_settings(part).is_some()));
    job.cloned().map_or(whole, Ok)
}
