//! Every option of the configuration, in one table: its name, its variable, its values and what it does.

use serde_json::Value;

use super::{Config, access};
use crate::app::{LayoutPreset, Pane, RackPattern};
use crate::cli::args::values;

/// An option: all that is known of it.
#[derive(Debug, Clone, Copy)]
pub struct ConfigOption {
    /// Its key in the file. Its variable has the same name in capitals behind `MEMWALL_`.
    pub key: &'static str,
    /// Its option on the command line; none where it has none.
    pub flag: Option<&'static str>,
    /// What holds where nobody says anything else.
    pub default: &'static str,
    /// A value as the file has it: the rest of the line, and perhaps lines below it.
    pub example: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
    /// Takes a value.
    pub(super) take: fn(&mut Config, &Value) -> Result<(), String>,
}

impl ConfigOption {
    /// The variable that says it; none where a line is too little for it.
    #[must_use]
    pub fn variable(&self) -> Option<String> {
        (!self.is_section()).then(|| format!("MEMWALL_{}", self.key.to_uppercase()))
    }

    /// Whether its value is a section of its own.
    #[must_use]
    pub fn is_section(&self) -> bool {
        self.example.contains('\n')
    }
}

/// The options, in the order of the example.
pub const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        key: "theme",
        flag: Some("--theme"),
        default: "dark or light, by the terminal's background",
        example: "dark",
        help: "Colour theme: one of those that `memwall --theme` lists, or your own themes/NAME.yaml",
        take: |config, value| word(value).map(|name| config.theme = Some(name)),
    },
    ConfigOption {
        key: "interval",
        flag: Some("--interval"),
        default: "1s",
        example: "1s",
        help: "Time between readings, 100ms to 60s",
        take: |config, value| {
            config.interval = Some(values::interval(&word(value)?)?);
            Ok(())
        },
    },
    ConfigOption {
        key: "source",
        flag: Some("--source"),
        default: "auto",
        example: "auto",
        help: "Where readings come from: auto, nvml, amdgpu, demo, prometheus:URL or dcgm:URL",
        take: |config, value| {
            config.source = Some(values::source(&word(value)?)?);
            Ok(())
        },
    },
    ConfigOption {
        key: "access",
        flag: None,
        default: "none",
        example: "\n  token_file: /run/secrets/prometheus-token\n  headers: {X-Scope-OrgID: my-team}\n  ca: /etc/ssl/private-ca.pem",
        help: "What servers of metrics ask for: a token, or user and password; headers; the authority of a certificate",
        take: |config, value| {
            config.access = access::read(value)?;
            Ok(())
        },
    },
    ConfigOption {
        key: "rack",
        flag: None,
        default: "the label `rack` or one like it",
        example: "'^(r[0-9]+)-'",
        help: "The rack of a cluster's node by its name: a regular expression, whose first group is the rack",
        take: |config, value| {
            let pattern = word(value)?.parse::<RackPattern>();
            config.rack = Some(pattern.map_err(|why| why.to_string())?);
            Ok(())
        },
    },
    ConfigOption {
        key: "mouse",
        flag: Some("--mouse"),
        default: "false",
        example: "true",
        help: "The mouse chooses panes, fields, arrows and the keys of the bottom line",
        take: |config, value| {
            config.mouse = Some(flag(value)?);
            Ok(())
        },
    },
    ConfigOption {
        key: "ascii",
        flag: Some("--ascii"),
        default: "false; true where the locale is not UTF-8",
        example: "true",
        help: "Draw with ASCII characters only",
        take: |config, value| {
            config.ascii = Some(flag(value)?);
            Ok(())
        },
    },
    ConfigOption {
        key: "color",
        flag: Some("--no-color"),
        default: "true",
        example: "false",
        help: "Draw with colours",
        take: |config, value| {
            config.color = Some(flag(value)?);
            Ok(())
        },
    },
    ConfigOption {
        key: "layout",
        flag: None,
        default: "grid, or that of the last session",
        example: "watch",
        help: "How panes share the screen at the start: grid, edit, watch or single",
        take: |config, value| {
            let known = LayoutPreset::ALL.map(LayoutPreset::name).join(", ");
            let name = word(value)?;
            let preset = LayoutPreset::of_name(&name).ok_or_else(|| format!("`{name}` is none of {known}"))?;
            config.layout = Some(preset);
            Ok(())
        },
    },
    ConfigOption {
        key: "panes",
        flag: None,
        default: "all",
        example: "[plan, vram, monitor, compare]",
        help: "Panes that stand beside others; the rest have the screen alone, by their digit",
        take: |config, value| {
            let named: Result<Vec<Pane>, String> = words(value)?.iter().map(|name| pane(name)).collect();
            let panes = named?;
            if panes.is_empty() {
                return Err("a list of panes is needed here".to_owned());
            }
            config.panes = Some(panes);
            Ok(())
        },
    },
    ConfigOption {
        key: "start_pane",
        flag: None,
        default: "monitor beside a run, else plan",
        example: "monitor",
        help: "The pane that has the focus at the start",
        take: |config, value| {
            config.start_pane = Some(pane(&word(value)?)?);
            Ok(())
        },
    },
    ConfigOption {
        key: "alerts",
        flag: None,
        default: "those of alerts.yaml",
        example: "\n  temperature: 85\n  notify: [bell]",
        help: "Thresholds and channels, on top of alerts.yaml; see `memwall help alerts`",
        take: |_, _| Ok(()),
    },
    ConfigOption {
        key: "keys",
        flag: None,
        default: "those of keys.yaml",
        example: "\n  anywhere: {f2: themes, ctrl-x ctrl-s: save}",
        help: "Your own keys, on top of keys.yaml; see `memwall help keys`",
        take: |_, _| Ok(()),
    },
];

/// A commented file with every option, each commented out.
#[must_use]
pub fn example() -> String {
    let mut text =
        "# Options of MemWall's dashboard. Copy this to ~/.config/memwall/config.yaml and uncomment what you \
                    want to change.\n# The command line wins over the environment, and that wins over this file.\n"
            .to_owned();
    for option in OPTIONS {
        let names: Vec<String> = option.flag.map(str::to_owned).into_iter().chain(option.variable()).collect();
        text += &format!("\n# {}.\n", option.help);
        let also = if names.is_empty() { String::new() } else { format!(" Also {}.", names.join(", ")) };
        text += &format!("# Default: {}.{also}\n", option.default);
        let space = if option.is_section() { "" } else { " " };
        for line in format!("{}:{space}{}", option.key, option.example).lines() {
            text += &format!("#{line}\n");
        }
    }
    text
}

fn word(value: &Value) -> Result<String, String> {
    match value {
        Value::String(word) => Ok(word.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err("one word is needed here".to_owned()),
    }
}

/// A list, or as a variable has it: words with commas between.
fn words(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(values) => values.iter().map(word).collect(),
        value => Ok(word(value)?.split(',').map(|part| part.trim().to_owned()).collect()),
    }
}

fn flag(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        value => match word(value)?.to_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err("true or false is needed here".to_owned()),
        },
    }
}

fn pane(name: &str) -> Result<Pane, String> {
    let known = Pane::ALL.into_iter().find(|pane| pane.name().eq_ignore_ascii_case(name));
    known.ok_or_else(|| format!("`{name}` is none of {}", Pane::ALL.map(Pane::name).join(", ").to_lowercase()))
}
