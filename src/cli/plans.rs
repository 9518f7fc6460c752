//! Plans as the command line names them: files, a stream, a shape.

use std::path::Path;

use serde_json::Value;

use super::import;
use super::{Exit, Failure, Streams};
use crate::plan::{Change, Document, Fault, LoadedPlan, Plan, decoded, plan_of, schema};

/// A plan that was read, with its text for the places of later faults.
pub struct PlanSource {
    /// What the report calls it.
    pub name: String,
    /// What stands before a fault's line; none for a plan that has no text of the user's.
    file: Option<String>,
    /// Whether it was read from another tool's file: its text is then nobody's to look at.
    imported: bool,
    loaded: LoadedPlan,
}

impl PlanSource {
    /// What it says.
    pub const fn plan(&self) -> &Plan {
        &self.loaded.plan
    }

    /// Its text.
    pub const fn document(&self) -> &Document {
        &self.loaded.document
    }

    /// Where relative paths in it start; none for the working directory.
    pub fn folder(&self) -> Option<&Path> {
        self.loaded.path.as_deref().and_then(Path::parent)
    }

    /// Faults that the text's reader could not know of, each at its key's place.
    pub fn refused(&self, faults: Vec<Fault>) -> Failure {
        refused(self.file.as_deref(), self.placed(faults))
    }

    /// Such faults at their places; of an imported plan with the origin of the key's value instead.
    pub fn placed(&self, faults: Vec<Fault>) -> Vec<Fault> {
        let placed = faults.into_iter().map(|fault| self.loaded.document.placed(fault));
        placed.map(|fault| if self.imported { self.with_origin(fault) } else { fault }).collect()
    }

    /// A fault with what stands beside the key's value as its origin, and no place.
    fn with_origin(&self, fault: Fault) -> Fault {
        let line = fault.at.and_then(|at| self.loaded.document.text().lines().nth(at.line.checked_sub(1)?));
        let message = match line.and_then(|line| line.split_once(" # ")) {
            Some((_, origin)) => format!("{} ({})", fault.message, origin.trim()),
            None => fault.message,
        };
        Fault { at: None, message, ..fault }
    }

    /// The plan of a document of a stream, which has so many lines before it.
    pub fn of_part(name: String, bytes: Vec<u8>, lines_before: usize) -> Result<Self, Vec<Fault>> {
        let text = decoded(bytes).map_err(|fault| vec![fault])?;
        if says_nothing(&text) {
            return Err(vec![Fault::of("", EMPTY)]);
        }
        let loaded = LoadedPlan::from_document(&name, Document::parse_part(&text, lines_before)?)?;
        Ok(Self { file: Some(name.clone()), name, imported: false, loaded })
    }
}

/// The plan of a file, or the plans of standard input for `-`; faults are told as they are found.
pub fn of_file(word: &str, streams: &mut Streams) -> (Vec<PlanSource>, Exit) {
    if word == "-" {
        return of_stream(streams);
    }
    match import::open(Path::new(word)) {
        Ok(loaded) if says_nothing(loaded.document.text()) => {
            (Vec::new(), streams.end(Err(Failure::usage(format!("{word}: {EMPTY}")))))
        }
        Ok(loaded) => {
            let imported = loaded.path.is_none();
            let name = named(word, &loaded);
            (vec![PlanSource { name, file: Some(word.to_owned()), imported, loaded }], Exit::Done)
        }
        Err(failure) => (Vec::new(), streams.end(Err(failure))),
    }
}

const EMPTY: &str = "it is empty; `memwall new` writes a plan";

/// Whether a text has no key: an answer for the model that is assumed then would be nobody's.
fn says_nothing(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    let bare =
        |line: &str| line.is_empty() || line.starts_with('#') || ["---", "...", "{}", "null", "~"].contains(&line);
    text.lines().map(str::trim).all(bare)
}

/// What a report calls a plan: its file, and what that was read as where it is no plan's.
fn named(word: &str, loaded: &LoadedPlan) -> String {
    if loaded.path.is_some() { word.to_owned() } else { loaded.name.clone() }
}

fn of_stream(streams: &mut Streams) -> (Vec<PlanSource>, Exit) {
    const NAME: &str = "stdin";
    let text = match streams.read(Path::new("-")) {
        Ok(text) => text,
        Err(failure) => return (Vec::new(), streams.end(Err(failure))),
    };
    if says_nothing(&text) {
        return (Vec::new(), streams.end(Err(Failure::usage(format!("standard input: {EMPTY}")))));
    }
    let documents = match Document::parse_stream(&text) {
        Ok(documents) => documents,
        Err(faults) => return (Vec::new(), streams.end(Err(refused(Some(NAME), faults)))),
    };
    let several = documents.len() > 1;
    let mut plans = Vec::new();
    let mut exit = Exit::Done;
    for (at, document) in documents.into_iter().enumerate() {
        let name = if several { format!("{NAME}#{}", at + 1) } else { NAME.to_owned() };
        match LoadedPlan::from_document(&name, document) {
            Ok(loaded) => plans.push(PlanSource { name, file: Some(NAME.to_owned()), imported: false, loaded }),
            Err(faults) => exit = exit.and(streams.end(Err(refused(Some(NAME), faults)))),
        }
    }
    (plans, exit)
}

/// The one plan of a file or of standard input, with `KEY=VALUE` changes made to its text.
///
/// # Errors
/// Where there is none, there are several, or a change is none.
pub fn only(word: &str, set: &[String], streams: &mut Streams) -> Result<PlanSource, Failure> {
    let (sources, exit) = of_file(word, streams);
    let several = sources.len() > 1;
    let Some(mut source) = sources.into_iter().next() else { return Err(exit.into()) };
    if several {
        return Err(Failure::usage("several plans are on standard input; this command takes one"));
    }
    let changed = change(set).and_then(|change| source.loaded.document.changed(&change));
    let changed = changed.map_err(|fault| Failure::usage(format!("--set: {}", Fault { at: None, ..fault })))?;
    match source.loaded.plan_of(&changed) {
        Ok(plan) => {
            source.loaded.plan = plan;
            source.loaded.document = changed;
            Ok(source)
        }
        Err(faults) => Err(refused(Some("--set"), faults.into_iter().map(|fault| Fault { at: None, ..fault }))),
    }
}

/// What `--set KEY=VALUE` asks for; `null` takes the key out.
pub fn change(set: &[String]) -> Result<Change, Fault> {
    let mut change = Change::default();
    for text in set {
        let (name, value) = text.split_once('=').ok_or_else(|| Fault::of(text, "needs a value: KEY=VALUE"))?;
        let key = schema::named(name.trim())?.path;
        match value.trim() {
            "null" => change.remove.push(key),
            value => change.set.push((key, value.to_owned())),
        }
    }
    Ok(change)
}

/// A plan that was put together from the words of the command line, its `name`.
pub fn of_words(name: String, value: &Value, streams: &mut Streams) -> (Vec<PlanSource>, Exit) {
    match LoadedPlan::from_text(&name, &value.to_string()) {
        Ok(loaded) => (vec![PlanSource { name, file: None, imported: false, loaded }], Exit::Done),
        Err(faults) => (Vec::new(), streams.end(Err(refused(None, faults)))),
    }
}

/// The plan of a measured case. `folder` is where the paths in it start.
pub fn of_case(value: &Value, folder: &Path) -> Result<Plan, Vec<Fault>> {
    Document::parse(&value.to_string()).and_then(|document| plan_of(&document, folder))
}

/// What is said of a plan's faults, a line each.
pub fn refused(file: Option<&str>, faults: impl IntoIterator<Item = Fault>) -> Failure {
    Failure { exit: Exit::Usage, lines: faults.into_iter().map(|fault| line(file, fault)).collect() }
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
