//! Plans as the command line names them: files, a stream, a shape.

use std::path::Path;

use serde_json::Value;

use super::{Exit, Streams};
use crate::plan::{Document, Fault, Loaded, Plan, plan_of};

/// A plan that was read, with its text for the places of later faults.
pub struct Source {
    /// What the report calls it.
    pub name: String,
    /// What stands before a fault's line; none for a plan that has no text of the user's.
    file: Option<String>,
    loaded: Loaded,
}

impl Source {
    /// What it says.
    pub const fn plan(&self) -> &Plan {
        &self.loaded.plan
    }

    /// Tells faults that the text's reader could not know of, each at its key's place.
    pub fn tell(&self, faults: Vec<Fault>, streams: &mut Streams) -> Exit {
        let placed = faults.into_iter().map(|fault| self.loaded.document.placed(fault));
        tell(self.file.as_deref(), placed, streams)
    }
}

/// The plan of a file, or the plans of standard input for `-`; faults are told as they are found.
pub fn of_file(word: &str, streams: &mut Streams) -> (Vec<Source>, Exit) {
    if word == "-" {
        return of_stream(streams);
    }
    match Loaded::load(word) {
        Ok(loaded) => (vec![Source { name: word.to_owned(), file: Some(word.to_owned()), loaded }], Exit::Done),
        Err(faults) => (Vec::new(), tell(Some(word), faults, streams)),
    }
}

fn of_stream(streams: &mut Streams) -> (Vec<Source>, Exit) {
    const NAME: &str = "stdin";
    let text = match streams.read(Path::new("-")) {
        Ok(text) => text,
        Err(exit) => return (Vec::new(), exit),
    };
    let documents = match Document::parse_stream(&text) {
        Ok(documents) => documents,
        Err(faults) => return (Vec::new(), tell(Some(NAME), faults, streams)),
    };
    let several = documents.len() > 1;
    let mut plans = Vec::new();
    let mut exit = Exit::Done;
    for (at, document) in documents.into_iter().enumerate() {
        let name = if several { format!("{NAME}#{}", at + 1) } else { NAME.to_owned() };
        match Loaded::from_document(&name, document) {
            Ok(loaded) => plans.push(Source { name, file: Some(NAME.to_owned()), loaded }),
            Err(faults) => exit = exit.and(tell(Some(NAME), faults, streams)),
        }
    }
    (plans, exit)
}

/// A plan that was put together from the words of the command line, its `name`.
pub fn of_words(name: String, value: &Value, streams: &mut Streams) -> (Vec<Source>, Exit) {
    match Loaded::from_text(&name, &value.to_string()) {
        Ok(loaded) => (vec![Source { name, file: None, loaded }], Exit::Done),
        Err(faults) => (Vec::new(), tell(None, faults, streams)),
    }
}

/// The plan of a measured case. `folder` is where the paths in it start.
pub fn of_case(value: &Value, folder: &Path) -> Result<Plan, Vec<Fault>> {
    Document::parse(&value.to_string()).and_then(|document| plan_of(&document, folder))
}

fn tell(file: Option<&str>, faults: impl IntoIterator<Item = Fault>, streams: &mut Streams) -> Exit {
    for fault in faults {
        streams.fail(Exit::Usage, &line(file, fault));
    }
    Exit::Usage
}

/// The line for a fault: file, place, key, what is wrong.
pub fn line(file: Option<&str>, fault: Fault) -> String {
    match file {
        Some(file) if fault.at.is_some() => format!("{file}:{fault}"),
        Some(file) => format!("{file}: {fault}"),
        // The place in a text that nobody wrote helps nobody.
        None => Fault { at: None, ..fault }.to_string(),
    }
}
