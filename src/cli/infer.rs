//! `memwall infer PID`, `memwall infer FILE`.

mod asked;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::args::{ImportArgs, InferArgs, InferTarget, PlanFormat, PlanOutput};
use super::{Exit, Failure, Streams, output, plans, versions};
use crate::app::{Account, CommandPlan, CommandSetting, HookKnowledge, Proposal, SourceState};
use crate::catalog::Catalog;
use crate::files::Unread;
use crate::import::{self, Files, ImportedPlan, InferredValue, Origin, ProcessView};
use crate::observe::{self, SourceContext};
use crate::plan::{self, LoadedPlan};
use crate::predict;
use crate::reading::{DeviceSample, HookedRun, Moment, SourceInfo, SourceKind};
pub use asked::{HOOKS_PATIENCE, has_hook};
use asked::{ask, starts_hook, tell};

/// A file that a command names is read up to here: the largest configurations have some 100 kB.
const MOST_BYTES: u64 = plan::MAX_BYTES as u64;

/// No more names of a folder are looked at.
const MOST_NAMES: usize = 1000;

/// A driver that has not answered by then is left out.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes the plan of the process that was asked for, and what could not be read of it.
pub fn run(args: &InferArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let pid = match &args.of {
        InferTarget::Process(pid) => *pid,
        InferTarget::Job(file) => return super::import::run(&args.of_job(file), catalog, streams),
    };
    if args.gpus.is_some() || args.which.is_some() {
        return Err(Failure::usage("--gpus and --which are for the file of a job: a process tells these itself"));
    }
    let (heading, imported) = of_process(pid, gpus(catalog), catalog, HookSpeech::Asked)?;
    deliver(&heading, &imported, &args.to, streams)
}

impl InferArgs {
    /// The file of a job is read as `memwall import` reads one.
    fn of_job(&self, file: &Path) -> ImportArgs {
        let (file, command) = (Some(file.to_owned()), Vec::new());
        ImportArgs { file, gpus: self.gpus, which: self.which, command, to: self.to.clone() }
    }
}

/// How it is known what the hook in a process says.
#[derive(Debug, Clone, Copy)]
pub enum HookSpeech<'a> {
    /// It is not.
    Unheard,
    /// It is listened to, for some seconds.
    Asked,
    /// Somebody has listened already.
    Heard(&'a HookedRun),
}

/// What a process says about its plan, with a line that says which it is.
///
/// # Errors
/// Why it cannot be looked at, or that nothing is known of it.
pub fn of_process(
    pid: u32,
    gpus: Vec<String>,
    catalog: &Catalog,
    hook: HookSpeech<'_>,
) -> Result<(String, ImportedPlan), Failure> {
    let command = observe::ProcessCommand::of(pid).map_err(Failure::failed)?;
    with_view(&command, gpus, |run| read(pid, run, &command, catalog, hook))
}

/// What is read of a process is read of this view.
fn with_view<T>(command: &observe::ProcessCommand, gpus: Vec<String>, read: impl FnOnce(&ProcessView) -> T) -> T {
    let files = HostFiles { folder: command.folder.clone(), root: command.root.clone() };
    read(&ProcessView {
        versions: versions::of_environment(command),
        command: command.words.clone(),
        variables: command.variables.clone(),
        ancestors: command.ancestors.clone(),
        gpus,
        withheld: command.withheld.is_some(),
        world: None,
        which: None,
        files: &files,
    })
}

fn read(
    pid: u32,
    run: &ProcessView,
    command: &observe::ProcessCommand,
    catalog: &Catalog,
    hook: HookSpeech<'_>,
) -> Result<(String, ImportedPlan), Failure> {
    let mut imported = import::run(run, catalog);
    // A program that nobody knows may still have the hook in it.
    match hook {
        HookSpeech::Unheard => {}
        HookSpeech::Asked => ask(pid, run, &mut imported, catalog),
        HookSpeech::Heard(told) => tell(&mut imported, told, catalog),
    }
    if imported.values.is_empty() {
        let is_python = run.command.first().is_some_and(|word| word.contains("python"));
        let how = if is_python { format!("; if it trains: {}", traced(run).join(" ")) } else { String::new() };
        return Err(Failure::failed(format!("process {pid}: {}{how}", nothing_known(&imported))));
    }
    if imported.names_no_model().is_some() && command.withheld.is_none() {
        imported.notes.extend(traced(run));
    }
    imported.notes.extend(command.withheld.clone());
    if let Some(root) = &command.root {
        imported.notes.push(format!("its files are a container's, and lie under {} while it runs", root.display()));
    }
    let shown: String = run.command.join(" ").chars().take(200).collect();
    Ok((format!("Inferred from process {pid}: {shown}"), imported))
}

/// How a plan is had of a model that no rule knows: PyTorch itself tells it, in one step of the same command.
fn traced(process: &ProcessView<'_>) -> [String; 2] {
    let behind_memwall = |words: &Vec<String>| {
        starts_hook(words).then(|| words.iter().position(|word| word == "--").map(|at| words[at + 1..].to_vec()))?
    };
    // A rank's own command is its launcher's work.
    let alone = !process.variables.contains_key("RANK") && !starts_hook(&process.command);
    let started = process.ancestors.iter().chain([&process.command]).find_map(behind_memwall);
    let command = started.or_else(|| alone.then(|| process.command.clone()));
    let command = command.map_or_else(|| "COMMAND".to_owned(), |words| shell_words(&words));
    // A long command is cut at its end: what to write stands before it.
    [
        "no preset is this model: write `trace: model.tape.json.gz` in place of `preset`; a traced step makes that file:"
            .to_owned(),
        format!("memwall run --trace model.tape.json.gz -- {command}"),
    ]
}

/// Words as a shell takes them.
fn shell_words(words: &[String]) -> String {
    let plain = |word: &String| {
        !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter))
    };
    let quoted = |word: &String| {
        if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The devices that a process of this machine may be on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceSight {
    /// GPUs, by name; none where their driver does not answer.
    Gpus(Vec<String>),
    /// There is no driver of any: whatever runs here runs on the CPU.
    NoDriver,
}

impl DeviceSight {
    /// What a source shows.
    #[must_use]
    pub fn of(source: &SourceInfo, devices: &[DeviceSample], catalog: &Catalog) -> Self {
        match source.kind {
            SourceKind::Host => Self::NoDriver,
            kind if kind.is_live() => Self::Gpus(names(devices, catalog)),
            // A demo's GPUs are nobody's.
            _ => Self::Gpus(Vec::new()),
        }
    }
}

/// The same as the dashboard shows it.
///
/// # Errors
/// Why it cannot be looked at, or that nothing is known of it.
pub fn proposal(pid: u32, sight: DeviceSight, catalog: &Catalog, hook: HookSpeech<'_>) -> Result<Proposal, Failure> {
    let (gpus, no_driver) = match sight {
        DeviceSight::Gpus(names) => (names, false),
        DeviceSight::NoDriver => (Vec::new(), true),
    };
    let (heading, mut imported) = of_process(pid, gpus, catalog, hook)?;
    if no_driver {
        import::without_driver(&mut imported);
    }
    let plan = LoadedPlan::from_text(&format!("inferred-{pid}"), &imported.yaml(&heading))
        .map_err(|faults| plans::refused(None, faults))?;
    let whose = if imported.tool.is_empty() { "a run" } else { &imported.tool };
    let title = format!("{whose}: the plan of {pid}");
    let heard = match hook {
        HookSpeech::Heard(run) => HookKnowledge::of(run),
        HookSpeech::Unheard | HookSpeech::Asked => HookKnowledge::Nothing,
    };
    Ok(Proposal {
        pid,
        plan,
        account: account(title, &imported),
        stated: imported.stated(),
        steps: imported.steps(),
        heard,
    })
}

/// Whether a source has found no driver of GPUs here.
pub const fn sees_no_driver(source: &SourceState) -> bool {
    matches!(source, SourceState::Running(SourceInfo { kind: SourceKind::Host, .. }))
}

/// What the command of a process says, its files and its environment; nothing where that cannot be read. What its script
/// says of its own loop fills what no reader of a tool has said.
pub fn command_plan(pid: u32, no_driver: bool, catalog: &Catalog) -> CommandPlan {
    let Ok(command) = observe::ProcessCommand::of(pid) else { return CommandPlan { pid, ..CommandPlan::default() } };
    with_view(&command, Vec::new(), |run| {
        let imported = read(pid, run, &command, catalog, HookSpeech::Unheard).ok().map(|(_, imported)| imported);
        let sure = imported.as_ref().map_or_else(Vec::new, ImportedPlan::stated);
        let values = imported.iter().flat_map(|imported| &imported.values);
        let mut settings: Vec<CommandSetting> = values.filter_map(|row| setting(row, &sure)).collect();
        // Without a driver PyTorch has no more devices than where all are hidden.
        let hidden = no_driver.then(|| ("CUDA_VISIBLE_DEVICES".to_owned(), String::new()));
        let variables = run.variables.iter().map(|(name, value)| (name.clone(), value.clone())).chain(hidden).collect();
        for fact in import::loop_facts(&ProcessView { variables, ..run.copy() }, catalog) {
            let known = settings.iter().position(|one| one.key == fact.key);
            if known.is_none_or(|at| settings[at].is_default) {
                known.map(|at| settings.remove(at));
                settings.extend(setting(&fact, &[(fact.key, String::new())]));
            }
        }
        let named = settings.iter().find(|setting| setting.key == plan::keys::model::preset);
        let of_torchvision = named.and_then(|setting| import::torchvision_parameters(&setting.value));
        let params = imported.as_ref().and_then(|imported| params(imported, catalog)).or(of_torchvision);
        let steps = imported.as_ref().and_then(ImportedPlan::steps);
        CommandPlan { pid, settings, params, steps }
    })
}

/// A row as it is held against a plan: one that is sure, or a default.
fn setting(row: &InferredValue, sure: &[(&'static str, String)]) -> Option<CommandSetting> {
    let is_default = matches!(row.origin, Origin::Default { .. });
    let stated = sure.iter().any(|(key, _)| *key == row.key) || matches!(row.origin, Origin::Program(_));
    let value = row.value.as_str().map_or_else(|| row.value.to_string(), str::to_owned);
    (stated || is_default).then(|| CommandSetting { key: row.key, value, origin: row.origin.to_string(), is_default })
}

/// Parameters of the model that it names, whose configuration may lie in a file. Nothing else of it has to be known: a
/// GPU that is not counts no parameters.
fn params(imported: &ImportedPlan, catalog: &Catalog) -> Option<u64> {
    if imported.names_no_model().is_some() {
        return None;
    }
    let mut model = imported.clone();
    model.values.retain(|row| row.key.starts_with("model."));
    let counted = |imported: &ImportedPlan| {
        let plan = LoadedPlan::from_text("", &imported.yaml("")).ok()?.plan;
        let predicted = predict::of(&plan, catalog).ok().map(|prediction| prediction.params.total);
        predicted.or_else(|| predict::counted(&plan).map(|count| count.total))
    };
    counted(imported).or_else(|| counted(&model))
}

/// What was read, as the dashboard shows it.
pub fn account(title: String, imported: &ImportedPlan) -> Account {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let rows = imported.values.iter().map(|row| [row.key.to_owned(), shown(&row.value), row.origin.to_string()]);
    let missing = imported.missing.iter().map(|missing| format!("{}: {}", missing.key, missing.why));
    let open = missing.chain(imported.notes.iter().cloned()).collect();
    Account { title, rows: rows.collect(), open }
}

/// The line for a process or command of which nothing is known.
pub fn nothing_known(imported: &ImportedPlan) -> String {
    imported.missing.first().map_or_else(|| "nothing is known of it".to_owned(), |missing| missing.why.clone())
}

/// The files of a process.
pub struct HostFiles {
    /// Where relative paths start; none where nobody may know.
    pub folder: Option<PathBuf>,
    /// Where absolute paths start, where that is not here.
    pub root: Option<PathBuf>,
}

impl HostFiles {
    /// Never relative to this program's own directory: that may hold another file of the name.
    fn path(&self, name: &str) -> Option<PathBuf> {
        match (Path::new(name).strip_prefix("/"), &self.root, &self.folder) {
            (Ok(below), Some(root), _) => Some(root.join(below)),
            (_, _, Some(folder)) => Some(folder.join(name)),
            (_, _, None) => Some(PathBuf::from(name)).filter(|path| path.is_absolute()),
        }
    }
}

impl Files for HostFiles {
    fn read(&self, path: &str) -> Result<String, Unread> {
        if path.is_empty() || path.contains('\0') {
            return Err(Unread("no file is named".to_owned()));
        }
        let path = self.path(path).ok_or_else(|| Unread(format!("{path}: the working directory is not known")))?;
        observe::regular_file(&path, MOST_BYTES)
    }

    fn absolute(&self, path: &str) -> String {
        self.path(path).unwrap_or_else(|| PathBuf::from(path)).display().to_string()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = self.path(folder).and_then(|folder| fs::read_dir(folder).ok());
        let names = entries.into_iter().flatten().take(MOST_NAMES);
        let mut names: Vec<String> = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

/// The names of this machine's GPUs; none without a driver, or where it does not answer.
pub fn gpus(catalog: &Catalog) -> Vec<String> {
    let (answer, answered) = mpsc::channel();
    // A driver that hangs keeps this thread, not the program.
    let asked = thread::Builder::new().spawn(move || {
        let opened = observe::open(observe::SourceChoice::Auto, SourceContext::default());
        let devices = opened.map(|mut source| source.sample(Moment::default()).devices);
        // Nobody listens any more when it took too long.
        drop(answer.send(devices.unwrap_or_default()));
    });
    let devices = asked.ok().and_then(|_| answered.recv_timeout(PATIENCE).ok()).unwrap_or_default();
    names(&devices, catalog)
}

/// What drivers call GPUs; the catalogue's name for one of several editions that share theirs.
fn names(devices: &[DeviceSample], catalog: &Catalog) -> Vec<String> {
    let name = |device: &DeviceSample| {
        let name = device.name.value()?;
        let edition = catalog.seen(name, device.memory.value().map(|memory| memory.total));
        Some(edition.filter(|card| card.driver_name.is_some()).map_or(name, |card| &card.name).clone())
    };
    devices.iter().filter_map(name).collect()
}

/// Writes an inferred plan where it is wanted.
pub fn deliver(
    heading: &str,
    imported: &ImportedPlan,
    to: &PlanOutput,
    streams: &mut Streams,
) -> Result<Exit, Failure> {
    let text = match to.format {
        PlanFormat::Yaml => imported.yaml(heading),
        PlanFormat::Json => format!("{}\n", as_json(imported)),
    };
    if imported.values.is_empty() {
        return Err(Failure::failed(format!("no plan: {}", nothing_known(imported))));
    }
    let Some(path) = &to.save else {
        let shown = if to.format == PlanFormat::Yaml { output::yaml_on_page(&text) } else { text };
        return Ok(streams.print(shown));
    };
    save_new(path, &text)?;
    Ok(streams.print(format!("saved {}\n", path.display())))
}

/// Writes a file that is not there yet.
pub fn save_new(path: &Path, text: &str) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() {
        return Err(Failure::failed(format!("{}: exists already", path.display())));
    }
    plan::save(path, text).map_err(|fault| Failure::failed(format!("{}: {fault}", path.display())))
}

fn as_json(imported: &ImportedPlan) -> Value {
    let mut origins = Map::new();
    for inferred in &imported.values {
        origins.insert(inferred.key.to_owned(), inferred.origin.to_string().into());
    }
    let missing: Map<String, Value> =
        imported.missing.iter().map(|missing| (missing.key.to_owned(), Value::from(missing.why.clone()))).collect();
    json!({
        "tool": imported.tool,
        "plan": imported.json(),
        "origins": origins,
        "missing": missing,
        "notes": imported.notes,
    })
}
