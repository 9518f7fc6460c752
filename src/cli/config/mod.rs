//! The user's configuration: what `config.yaml`, `keys.yaml`, `alerts.yaml` and the environment say.

mod access;
mod options;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

pub use options::{ConfigOption, OPTIONS, example};

use super::args::ConfigArgs;
use super::dashboard::{known_themes, no_theme};
use super::{Exit, Streams, output, user_catalog};
use crate::app::{AlertRules, Keymap, LayoutPreset, Pane, RackPattern};
use crate::files;
use crate::observe::{Access, SourceChoice};
use crate::plan::{Document, Fault};

/// The file's name in the user's folder.
const FILE: &str = "config.yaml";

/// Larger than any file of options, keys or alerts.
const MOST_BYTES: u64 = 1 << 20;

/// Who says an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionSource {
    /// This variable.
    Variable(String),
    /// The file.
    File,
}

/// What the user has configured; what nobody says is none.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The theme's name.
    pub theme: Option<String>,
    /// Time between readings.
    pub interval: Option<Duration>,
    /// Where readings come from.
    pub source: Option<SourceChoice>,
    /// What servers elsewhere ask for before they answer.
    pub access: Access,
    /// How the name of a node says its rack.
    pub rack: Option<RackPattern>,
    /// The mouse chooses.
    pub mouse: Option<bool>,
    /// ASCII alone.
    pub ascii: Option<bool>,
    /// With colours.
    pub color: Option<bool>,
    /// How panes share the screen.
    pub layout: Option<LayoutPreset>,
    /// Panes that stand beside others.
    pub panes: Option<Vec<Pane>>,
    /// The pane with the focus at the start.
    pub start_pane: Option<Pane>,
    /// What keys do.
    pub keys: Keymap,
    /// What is alerted about, and how.
    pub alerts: AlertRules,
    /// The options that somebody says, each with its value in words and who says it.
    pub said: Vec<(&'static str, String, OptionSource)>,
    /// What is wrong with the files and variables, one line each with its place. What is faulty holds as if nobody
    /// said it.
    pub faults: Vec<String>,
}

impl Config {
    /// Reads the files of the user's folder and the variables that `variable` looks up.
    #[must_use]
    pub fn load(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut config = Self::default();
        let folder = user_catalog::folder(&variable);
        let text = |config: &mut Self, name: &str| {
            let path = folder.as_ref()?.join(name);
            match read(&path) {
                Ok(text) => text.map(|text| (path.display().to_string(), text)),
                Err(error) => {
                    config.faults.push(format!("{}: {error}", path.display()));
                    None
                }
            }
        };
        if let Some((shown, text)) = text(&mut config, "keys.yaml") {
            config.take_keys(&shown, &text);
        }
        if let Some((shown, text)) = text(&mut config, "alerts.yaml") {
            config.take_alerts(&shown, &text);
        }
        if let Some((shown, text)) = text(&mut config, FILE) {
            config.take_file(&shown, &text, folder.as_deref());
        }
        if let Err(fault) = access::take_variables(&mut config.access, &variable) {
            config.faults.push(fault.to_string());
        }
        config.take_variables(variable, folder.as_deref());
        let others = folder.as_deref().and_then(others_file).filter(|_| !config.alerts.channels.command.is_empty());
        if let Some(others) = others {
            config.alerts.channels.command.clear();
            let why = "another user can write the file: its command is not run as root";
            config.faults.push(format!("{}: {why}", others.display()));
        }
        config
    }

    fn take_file(&mut self, shown: &str, text: &str, folder: Option<&Path>) {
        let placed = |fault: &dyn std::fmt::Display| format!("{shown}:{fault}");
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(faults) => return self.faults.extend(faults.iter().map(|fault| placed(fault))),
        };
        for key in document.keys() {
            let Some(option) = OPTIONS.iter().find(|option| option.key == key) else {
                let known: Vec<&str> = OPTIONS.iter().map(|option| option.key).collect();
                let why = format!("no option of this name; known: {}", known.join(", "));
                let at = document.place_of(&key);
                self.faults.push(placed(&Fault::of(key, why).placed(at)));
                continue;
            };
            let value = document.value(&key).unwrap_or_default();
            if value == Value::Null {
                continue;
            }
            if let Err(why) = self.take(option, &value, folder) {
                self.faults.push(placed(&document.placed(Fault::of(key, why))));
                continue;
            }
            match (option.key, section(&document, &key)) {
                ("keys", Some(section)) => self.take_keys(shown, &section),
                ("alerts", Some(section)) => self.take_alerts(shown, &section),
                _ => {}
            }
            let said = document.written(&key).unwrap_or_default();
            self.said.push((option.key, shown_value(option.key, said), OptionSource::File));
        }
    }

    /// Takes the value of an option.
    ///
    /// # Errors
    /// What is wrong with it; the option is as if nobody had said it then.
    fn take(&mut self, option: &ConfigOption, value: &Value, folder: Option<&Path>) -> Result<(), String> {
        let before = self.theme.clone();
        (option.take)(self, value).map_err(|why| why.to_string())?;
        let themes = folder.map(|folder| folder.join("themes"));
        let is_unknown = |name: &String| !known_themes(themes.as_deref()).contains(name);
        match self.theme.take_if(|name| option.key == "theme" && is_unknown(name)) {
            Some(name) => {
                self.theme = before;
                Err(no_theme(&name, themes.as_deref()))
            }
            None => Ok(()),
        }
    }

    fn take_variables(&mut self, variable: impl Fn(&str) -> Option<OsString>, folder: Option<&Path>) {
        for option in OPTIONS {
            let Some(name) = option.variable() else { continue };
            let Some(value) = variable(&name).filter(|value| !value.is_empty()) else { continue };
            let value = value.to_string_lossy().into_owned();
            match self.take(option, &Value::String(value.clone()), folder) {
                Ok(()) => {
                    self.said.retain(|(key, ..)| *key != option.key);
                    self.said.push((option.key, shown_value(option.key, &value), OptionSource::Variable(name)));
                }
                Err(why) => self.faults.push(format!("{name}={value}: {why}")),
            }
        }
    }

    fn take_keys(&mut self, shown: &str, text: &str) {
        match self.keys.clone().extended(text) {
            Ok(keys) => self.keys = keys,
            Err(faults) => self.faults.extend(faults.into_iter().map(|fault| format!("{shown}:{fault}"))),
        }
    }

    fn take_alerts(&mut self, shown: &str, text: &str) {
        match self.alerts.clone().extended(text) {
            Ok(alerts) => self.alerts = alerts,
            Err(faults) => self.faults.extend(faults.into_iter().map(|fault| format!("{shown}:{fault}"))),
        }
    }

    /// The faults in one line for the screen; none where there are none.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let first = self.faults.first()?;
        Some(match self.faults.len() {
            1 => first.clone(),
            count => format!("{first} (and {} more: `memwall config` lists them)", count - 1),
        })
    }
}

/// A value as it may be shown: in a line, and without what nobody may see.
fn shown_value(key: &str, value: &str) -> String {
    let is_secret = key == "access" || (key == "source" && value.contains('@'));
    if is_secret || value.contains('\n') { "…".to_owned() } else { value.to_owned() }
}

/// The text of a file; none where there is no such file.
fn read(path: &Path) -> io::Result<Option<String>> {
    match files::read_text(path, MOST_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// As root, a file in this folder that may name a command and that another user can write: `sudo -E` keeps that user's
/// folder.
fn others_file(folder: &Path) -> Option<PathBuf> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let is_others = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| meta.uid() != 0 || meta.mode() & 0o022 != 0);
    let mut files = ["alerts.yaml", FILE].map(|name| folder.join(name)).into_iter().filter(|path| path.exists());
    files.find(|path| is_root && (is_others(path) || is_others(folder)))
}

/// Where the configuration is.
fn file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    Some(user_catalog::folder(variable)?.join(FILE))
}

/// A section's text alone, with blanks for all that stands before it: places in it are those in the file.
fn section(document: &Document, key: &str) -> Option<String> {
    let (written, text) = (document.written(key)?, document.text());
    let start = (written.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let before = text.get(..start)?;
    let blank: String = before.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
    Some(blank + written)
}

/// `memwall config`: writes what holds and who says it; faults are told, and make it fail.
pub fn run(args: &ConfigArgs, streams: &mut Streams) -> Exit {
    if args.example {
        return streams.print(output::yaml_on_page(&example()));
    }
    let variable = |name: &str| std::env::var_os(name);
    let config = Config::load(variable);
    let mut text = match file(variable) {
        Some(path) if path.is_file() => format!("# {}\n", path.display()),
        Some(path) => format!("# {}\n# is not there; `memwall config --example` writes one\n", path.display()),
        None => "# no home, so no config.yaml\n".to_owned(),
    };
    for option in OPTIONS {
        let said = config.said.iter().find(|(key, ..)| *key == option.key);
        let (value, by) = match said {
            Some((_, value, OptionSource::File)) => (value.as_str(), "config.yaml"),
            Some((_, value, OptionSource::Variable(name))) => (value.as_str(), name.as_str()),
            None => (option.default, "default"),
        };
        text += &format!("{:<12}{value:<46}  # {by}\n", format!("{}:", option.key));
    }
    let exit = streams.print(text);
    config.faults.iter().fold(exit, |exit, fault| exit.and(streams.fail(Exit::Usage, fault)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is configured by a file of that text and these variables.
    fn config(text: &str, variables: &[(&str, &str)]) -> Config {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("memwall");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(FILE), text).unwrap();
        Config::load(|name| match name {
            "XDG_CONFIG_HOME" => Some(home.path().into()),
            name => variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value)),
        })
    }

    #[test]
    fn root_runs_no_command_that_another_user_can_write() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("memwall");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("alerts.yaml"), "command: [/usr/bin/page]\nmemory: 95\n").unwrap();
        let load = || Config::load(|name| (name == "XDG_CONFIG_HOME").then(|| home.path().into()));
        assert_eq!(load().alerts.channels.command, ["/usr/bin/page"]);
        // Another's file; one's own that all may write. Only root can give a file away, and only root is at risk.
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            return;
        }
        let refused = |config: &Config| {
            assert_eq!(config.alerts.channels.command, [""; 0]);
            assert!(config.faults[0].contains("is not run as root"), "{:?}", config.faults);
        };
        let file = folder.join("alerts.yaml");
        chown(&file, Some(1000), Some(1000)).unwrap();
        refused(&load());
        chown(&file, Some(0), Some(0)).unwrap();
        assert_eq!(load().faults, [""; 0]);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        refused(&load());
    }

    #[test]
    fn the_environment_wins_over_the_file() {
        let text = "theme: nord\ninterval: 2s\npanes: [plan, monitor]\n";
        let config = config(text, &[("MEMWALL_THEME", "dracula"), ("MEMWALL_MOUSE", "yes"), ("MEMWALL_ASCII", "")]);
        assert_eq!(config.faults, [""; 0]);
        assert_eq!((config.theme.as_deref(), config.interval), (Some("dracula"), Some(Duration::from_secs(2))));
        assert_eq!((config.mouse, config.ascii), (Some(true), None));
        assert_eq!(config.panes, Some(vec![Pane::Plan, Pane::Monitor]));
        let variable = OptionSource::Variable("MEMWALL_THEME".to_owned());
        assert!(config.said.contains(&("theme", "dracula".to_owned(), variable)), "{:?}", config.said);
        assert!(config.said.contains(&("interval", "2s".to_owned(), OptionSource::File)), "{:?}", config.said);
    }

    #[test]
    fn what_proves_who_asks_is_not_shown() {
        let text = "access: {token: s3cret}\nsource: prometheus:http://me:s3cret@host\n";
        let config = config(text, &[]);
        assert_eq!(config.faults, [""; 0]);
        assert!(!format!("{config:?}").replace("Prometheus(\"http://me:s3cret@host\")", "").contains("s3cret"));
        assert!(config.said.iter().all(|(_, value, _)| value == "…"), "{:?}", config.said);
    }

    #[test]
    fn faults_have_their_place_and_the_rest_holds() {
        let text = "theme: nord\nintervall: 2s\nlayout: rows\nalerts:\n  memory: 95\n  temprature: 3\nkeys: {plan: {w: sav}}\n";
        let config = config(text, &[("MEMWALL_INTERVAL", "1h")]);
        assert_eq!(config.theme.as_deref(), Some("nord"));
        let places: Vec<String> =
            config.faults.iter().map(|fault| fault.rsplit("config.yaml").next().unwrap().to_owned()).collect();
        assert!(places[0].starts_with(":2:1: intervall: no option of this name; known: theme, interval"), "{places:?}");
        assert!(places[1].starts_with(":3:9: layout: `rows` is none of grid, edit, watch, single"), "{places:?}");
        assert!(places[2].starts_with(":6:15: temprature: known are notify"), "{places:?}");
        assert!(places[3].starts_with(":7:18: no action `sav`; nearest: `save`"), "{places:?}");
        assert_eq!(places[4], "MEMWALL_INTERVAL=1h: is not between 100ms and 60s");
        assert!(config.fault().unwrap().ends_with("(and 4 more: `memwall config` lists them)"));
    }

    #[test]
    fn the_example_holds_every_option_and_reads_once_it_is_uncommented() {
        let example = example();
        assert!(example.lines().all(|line| line.is_empty() || line.starts_with('#')), "{example}");
        let lines = example.lines().filter(|line| !line.starts_with("# "));
        let uncommented: Vec<&str> = lines.map(|line| line.strip_prefix('#').unwrap_or(line)).collect();
        // The lines of a section begin with blanks, and so look like a comment's.
        let sections = example.lines().filter_map(|line| line.strip_prefix("#  ")).count();
        assert_eq!(sections, 6);
        let text = example
            .lines()
            .filter_map(|line| {
                let rest = line.strip_prefix('#')?;
                (!rest.starts_with(' ') || rest.starts_with("  ")).then_some(rest)
            })
            .collect::<Vec<_>>()
            .join("\n");
        let config = config(&text, &[]);
        assert_eq!(config.faults, [""; 0], "{uncommented:?}");
        let said: Vec<&str> = config.said.iter().map(|(key, ..)| *key).collect();
        let all: Vec<&str> = OPTIONS.iter().map(|option| option.key).collect();
        assert_eq!(said, all);
        assert_eq!((config.mouse, config.color, config.layout), (Some(true), Some(false), Some(LayoutPreset::Watch)));
    }
}
