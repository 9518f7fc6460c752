//! What a few calls of libraries give, and the files of settings that a script loads.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ScriptReader;
use super::calls::CallArguments;
use super::evaluate::above;
use super::script::FollowedScript;
use super::store::{Collection, Names};
use super::value::{ArgumentSource, Known};
use crate::settings::UNKNOWN;

/// Variables that tell one process from another.
const OF_A_RANK: [&str; 6] = ["LOCAL_RANK", "RANK", "SLURM_PROCID", "SLURM_LOCALID", "NODE_RANK", "GROUP_RANK"];

/// Devices that are no GPU of NVIDIA's or AMD's under PyTorch's name for one.
const OTHER_DEVICES: [&str; 8] = ["mps", "xpu", "npu", "hpu", "xla", "tpu", "mlu", "hip"];

/// No longer file of settings is looked into.
const LONGEST_FILE: usize = 1_000_000;

/// Things with names that are made of keywords or a dictionary.
const OF_NAMES: [&str; 10] = [
    "dict",
    "SimpleNamespace",
    "Namespace",
    "EasyDict",
    "AttrDict",
    "DotDict",
    "Munch",
    "Box",
    "ConfigDict",
    "OmegaConf.create",
];

impl ScriptReader<'_> {
    /// Whether its environment leaves CUDA no device.
    pub fn hides_gpus(&self) -> bool {
        self.script.borrow().hides_gpus()
    }
}

impl FollowedScript<'_> {
    /// A call of a library by its path: what it gives.
    pub(super) fn library(&mut self, path: String, given: CallArguments) -> Known {
        let name = path.rsplit('.').next().unwrap_or("");
        // `namedtuple("Args", names)(**values)`
        if OF_NAMES.iter().any(|end| path == *end || path.ends_with(&format!(".{end}")))
            || path.ends_with("namedtuple") && given.at(0).is_none()
        {
            return self.named_values(&given, name != "dict");
        }
        if let Some(found) = self.builtin(&path, &given).or_else(|| self.surroundings(&path, &given)) {
            return found;
        }
        if let Some(found) = self.loaded(&path, &given).or_else(|| self.omega(&path, &given)) {
            return found;
        }
        self.declare(&path, &given);
        if let Some(found) = self.objects(&path, &given) {
            return found;
        }
        if self.starts(&path, &given) {
            return Known::UNKNOWN;
        }
        let call = self.note(vec![path.clone()], &given);
        Known::Made(path, call)
    }

    /// Takes down arguments that a script declares: options of argparse, fields of the classes that a parser fills in.
    fn declare(&mut self, path: &str, given: &CallArguments) {
        const PARSERS: [&str; 6] =
            ["HfArgumentParser", "TrlParser", "H4ArgumentParser", "tyro.cli", "draccus.parse", "simple_parsing.parse"];
        if path.ends_with("add_argument") {
            let written = given.placed.iter().filter_map(|(value, _)| value.text()).find(|name| name.starts_with("--"));
            let name = written.map(|name| name.trim_start_matches('-').replace('-', "_"));
            if let Some((name, default)) = name.zip(given.named("default")).filter(|(_, default)| !default.is_open()) {
                self.declared.insert(name, default.clone());
            }
        }
        if path.rsplit('.').next().is_some_and(|name| name.starts_with("DEFINE_")) {
            self.declare_flag(given);
        }
        if PARSERS.iter().any(|parser| path.ends_with(parser)) {
            self.parsed.clear();
            let first = given.at(0).or_else(|| given.named("dataclass_types")).cloned().unwrap_or(Known::UNKNOWN);
            let classes = self.store.items(&first).cloned().unwrap_or_else(|| vec![first]);
            for class in classes {
                if let Known::Class(class) = &class {
                    let (fields, _) = self.inherited(class);
                    self.declared.extend(fields.into_iter().filter(|(_, value)| !value.is_open()));
                }
                self.parsed.push(class);
            }
        }
    }

    /// A flag of absl's: `flags.DEFINE_bool("bf16", False, "")`, which `--nobf16` turns off.
    fn declare_flag(&mut self, given: &CallArguments) {
        let Some(name) = given.at(0).or_else(|| given.named("name")).and_then(Known::text).map(str::to_owned) else {
            return;
        };
        let is_off = self.own.is_set(&format!("no{name}"));
        let default = given.at(1).or_else(|| given.named("default")).filter(|default| !default.is_open()).cloned();
        if let Some(default) = if is_off { Some(Known::plain(false)) } else { default } {
            self.declared.insert(name, default);
        }
    }

    /// The objects that a parser makes of classes of the script's own, with what its command or its file gives.
    fn objects(&mut self, path: &str, given: &CallArguments) -> Option<Known> {
        const FILLS: [&str; 4] =
            ["parse_args_into_dataclasses", "parse_args_and_config", "parse_json_file", "parse_yaml_file"];
        let fills = FILLS.iter().find(|name| path.ends_with(**name)).filter(|_| !self.parsed.is_empty())?;
        let mut told = BTreeMap::new();
        if fills.ends_with("_file") {
            let file = given.at(0).or_else(|| given.named("json_file")).or_else(|| given.named("yaml_file"))?;
            let (name, source) = (file.text()?.to_owned(), file.source());
            let Known::Collection(at) = self.read_file(&name, &source)? else { return None };
            told = self.store.names(at)?.values.clone();
        }
        let mut objects = Vec::new();
        for class in self.parsed.clone() {
            // Of a library's class it is known what the script sets itself.
            let (mut values, above, class) = match class {
                Known::Class(class) => {
                    let (values, above) = self.inherited(&class);
                    (values, !above.is_empty(), Some(class))
                }
                _ => (BTreeMap::new(), true, None),
            };
            let names: Vec<String> = values.keys().chain(told.keys()).cloned().collect();
            for name in names {
                let of_command = || self.argument(&[String::new(), name.clone()]);
                if let Some(found) = told.get(&name).cloned().or_else(of_command) {
                    values.insert(name, found);
                }
            }
            let names = Names { values, class, object: true, open: above, ..Names::default() };
            let at = self.store.add(Collection::Names(names));
            self.filled.push(at);
            objects.push(Known::Collection(at));
        }
        Some(self.store.list(objects))
    }

    /// What stands around the script: its environment, its GPU, its ranks.
    fn surroundings(&mut self, path: &str, given: &CallArguments) -> Option<Known> {
        let name = path.rsplit('.').next()?;
        match name {
            // What a GPU of today can do.
            "is_bf16_supported" | "is_bfloat16_supported" => return Some(Known::plain(true)),
            // A machine that trains has a GPU, unless it is hidden, and none of these.
            "is_available" => {
                let other = OTHER_DEVICES.iter().any(|device| path.contains(device));
                return Some(Known::plain(!other && !self.hides_gpus()));
            }
            "get_world_size" => return Some(Known::Ranks),
            _ => {}
        }
        if !matches!(path, "os.getenv" | "getenv" | "os.environ.get" | "environ.get") {
            return None;
        }
        let variable = given.at(0)?.text()?.to_owned();
        if variable == "WORLD_SIZE" {
            return Some(Known::Ranks);
        }
        if let Some(told) = self.variable(&variable) {
            return Some(told);
        }
        let default =
            given.at(1).or_else(|| given.named("default")).filter(|_| !OF_A_RANK.contains(&variable.as_str()));
        Some(default.map_or(Known::UNKNOWN, |default| default.clone().also(&ArgumentSource::argument(&variable))))
    }

    /// Whether the environment leaves CUDA no device (CUDA C++ Programming Guide, "CUDA Environment Variables").
    pub(super) fn hides_gpus(&self) -> bool {
        let visible = self.variables.and_then(|variables| variables.get("CUDA_VISIBLE_DEVICES"));
        visible.is_some_and(|devices| matches!(devices.trim(), "" | "-1"))
    }

    /// What a variable of the environment holds, where the command or the script around it sets it.
    pub(super) fn variable(&self, name: &str) -> Option<Known> {
        let told = self.variables?.get(name).filter(|_| !OF_A_RANK.contains(&name))?;
        Some(if told.contains(UNKNOWN) { Known::UNKNOWN } else { Known::plain(told.as_str()) })
    }

    /// Whether that starts a function of the script's own: `fire.Fire(train)`, `mp.spawn(main, args=(…))`.
    fn starts(&mut self, path: &str, given: &CallArguments) -> bool {
        let Some(Known::Function(function, of)) = given.at(0).cloned() else { return false };
        let placed = match path.rsplit('.').next() {
            Some("Fire" | "run" | "cli") => {
                self.options.entry(std::rc::Rc::as_ptr(&function)).or_default();
                Vec::new()
            }
            Some("spawn" | "start_processes") => {
                let args = given.named("args").and_then(|args| self.store.items(args).cloned()).unwrap_or_default();
                std::iter::once(Known::UNKNOWN).chain(args).collect()
            }
            Some("notebook_launcher") => {
                let args = given.at(1).or_else(|| given.named("args"));
                args.and_then(|args| self.store.items(args).cloned()).unwrap_or_default()
            }
            _ => return false,
        };
        self.call_function(&function, of, placed, BTreeMap::new(), false);
        true
    }

    /// A file of settings that the script loads, where it is at hand.
    fn loaded(&mut self, path: &str, given: &CallArguments) -> Option<Known> {
        const LOADERS: [&str; 8] = [
            "yaml.safe_load",
            "yaml.load",
            "yaml.full_load",
            "yaml.unsafe_load",
            "json.load",
            "json.loads",
            "OmegaConf.load",
            "omegaconf.OmegaConf.load",
        ];
        if !LOADERS.contains(&path) {
            return None;
        }
        let (file, source) = match given.at(0)? {
            Known::Opened(file, source) => (file.clone(), source.clone()),
            value if path.starts_with("Omega") || path.starts_with("omega") => {
                (value.text()?.to_owned(), value.source())
            }
            _ => return None,
        };
        self.read_file(&file, &source)
    }

    /// What a file of settings holds, where it is at hand: in the present folder, or beside the script.
    fn read_file(&mut self, file: &str, source: &ArgumentSource) -> Option<Known> {
        let beside = format!("{}/{file}", above(&self.path));
        let text = [file, &beside].iter().find_map(|file| self.files?.read(file).ok())?;
        let value: Value = serde_yaml::from_str(&text).ok().filter(|_| text.len() <= LONGEST_FILE)?;
        Some(self.read_in(value, "", source))
    }

    /// What a file of settings holds; where a command names that file, its settings are read with it.
    fn read_in(&mut self, value: Value, name: &str, file: &ArgumentSource) -> Known {
        let Value::Object(entries) = value else {
            let short = name.rsplit('.').next().unwrap_or("");
            let given = [name, short].into_iter().filter(|name| self.own.is_set(name));
            let source = given.fold(file.clone(), |all, name| all.and(&ArgumentSource::argument(name)));
            return self.told(value).also(&source);
        };
        let mut values = BTreeMap::new();
        for (key, value) in entries {
            let inner = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            values.insert(key, self.read_in(value, &inner, file));
        }
        self.store.table(values)
    }
}
