//! What Python itself gives: its functions, and the methods of its texts, lists and dictionaries.

use serde_json::Value;

use super::calls::CallArguments;
use super::evaluate::above;
use super::script::FollowedScript;
use super::store::{Collection, LONGEST_LIST, Names};
use super::value::{ArgumentSource, Known};

impl FollowedScript<'_> {
    pub(super) fn named_values(&mut self, given: &CallArguments, object: bool) -> Known {
        let mut names = Names { object, ..Names::default() };
        if let Some(first) = given.at(0) {
            self.spread_into(&mut names, first);
        }
        names.values.extend(given.named.iter().map(|(name, value, _)| (name.clone(), value.clone())));
        names.lines.extend(given.named.iter().map(|(name, _, line)| (name.clone(), *line)));
        names.open |= given.open;
        Known::Collection(self.store.add(Collection::Names(names)))
    }

    /// Functions of Python itself.
    pub(super) fn builtin(&mut self, path: &str, given: &CallArguments) -> Option<Known> {
        let first = given.at(0);
        let source = first.map(Known::source).unwrap_or_default();
        let numbers = || given.placed.iter().map(|(value, _)| value.number()).collect::<Option<Vec<f64>>>();
        let all_whole = || given.placed.iter().all(|(value, _)| value.whole().is_some());
        let of_all = || given.placed.iter().fold(ArgumentSource::default(), |all, (value, _)| all.and(&value.source()));
        Some(match path {
            "int" => match first? {
                Known::Ranks => Known::Ranks,
                value => {
                    let text = value.text().and_then(|text| text.trim().parse().ok());
                    Known::numeral(value.number().or(text)?.trunc(), true).also(&source)
                }
            },
            "float" => {
                let text = first?.text().and_then(|text| text.trim().parse().ok());
                Known::numeral(first?.number().or(text)?, false).also(&source)
            }
            "round" if given.placed.len() == 1 => Known::numeral(first?.number()?.round(), true).also(&source),
            "str" | "Path" | "pathlib.Path" => match first? {
                Known::Plain(Value::String(text), _) => Known::plain(text.clone()).also(&source),
                Known::Plain(value @ Value::Number(_), _) => Known::plain(value.to_string()).also(&source),
                _ => Known::UNKNOWN,
            },
            "bool" => self.truth(first?).map_or(Known::UNKNOWN, Known::plain).also(&source),
            "max" if given.placed.len() > 1 => {
                let most = numbers()?.into_iter().fold(f64::MIN, f64::max);
                Known::numeral(most, all_whole()).also(&of_all())
            }
            "min" if given.placed.len() > 1 => {
                let least = numbers()?.into_iter().fold(f64::MAX, f64::min);
                Known::numeral(least, all_whole()).also(&of_all())
            }
            "len" => match (self.store.items(first?), first?.text()) {
                (Some(items), _) => Known::plain(items.len()),
                (None, Some(text)) => Known::plain(text.chars().count()),
                _ => Known::UNKNOWN,
            },
            "list" | "tuple" | "set" | "sorted" | "frozenset" => match first {
                Some(value) => match self.store.items(value).cloned() {
                    Some(items) => self.store.list(items),
                    None => Known::Collection(self.store.add(Collection::List(None))),
                },
                None => self.store.list(Vec::new()),
            },
            "os.path.join" | "osp.join" => {
                let parts: Option<Vec<&str>> = given.placed.iter().map(|(value, _)| value.text()).collect();
                Known::of_text(parts?.join("/")).also(&of_all())
            }
            _ => return self.of_things(path, given, &source),
        })
    }

    /// Functions that look into things or make them.
    fn of_things(&mut self, path: &str, given: &CallArguments, source: &ArgumentSource) -> Option<Known> {
        let first = given.at(0);
        Some(match path {
            "copy.copy" | "copy.deepcopy" | "deepcopy" | "os.path.expanduser" | "os.path.abspath"
            | "os.path.expandvars" => first?.clone(),
            "dataclasses.asdict"
            | "asdict"
            | "vars"
            | "OmegaConf.to_container"
            | "omegaconf.OmegaConf.to_container" => {
                self.named_values(&CallArguments { placed: given.placed.clone(), ..CallArguments::default() }, false)
            }
            "locals" => {
                let values = self.store.names(self.scope())?.values.clone();
                self.store.table(values)
            }
            "setattr" => {
                if let (Some(Known::Collection(at)), Some(name), Some(value)) =
                    (first, given.at(1)?.text(), given.at(2))
                {
                    self.store.set(*at, name, value.clone());
                }
                Known::plain(Value::Null)
            }
            "getattr" => {
                let name = given.at(1)?.text()?.to_owned();
                let found = self.attribute(&first?.clone(), &name);
                match given.at(2) {
                    Some(other) if found.is_open() => self.known_default(first?, other),
                    _ => found,
                }
            }
            // The folder of a model that the hub's or ModelScope's client loads: known by the model's name.
            path if path.rsplit('.').next() == Some("snapshot_download") => {
                let named = ["repo_id", "model_id"].iter().find_map(|name| given.named(name));
                first.or(named)?.clone()
            }
            "open" | "io.open" | "codecs.open" => Known::Opened(first?.text()?.to_owned(), source.clone()),
            "os.path.dirname" => Known::plain(above(first?.text()?)).also(&source.clone()),
            "isinstance" => self.is_of_type(first?, given.at(1)?).map_or(Known::UNKNOWN, Known::plain).also(source),
            "hasattr" | "print" | "type" | "super" | "range" | "enumerate" | "zip" | "any" | "all" | "sum" | "abs" => {
                Known::UNKNOWN
            }
            _ => return None,
        })
    }

    /// Whether a value is of one of Python's own types, where both are known.
    fn is_of_type(&self, value: &Known, class: &Known) -> Option<bool> {
        let Known::Open(path) = class else { return None };
        let [name] = path.as_slice() else { return None };
        let own = match value {
            Known::Plain(Value::String(_), _) => "str",
            Known::Plain(Value::Bool(_), _) => "bool",
            Known::Plain(Value::Number(number), _) if number.is_i64() => "int",
            Known::Plain(Value::Number(_), _) => "float",
            Known::Collection(at) => match self.store.get(*at)? {
                Collection::List(_) => "list",
                Collection::Names(names) if !names.object => "dict",
                Collection::Names(_) => return None,
            },
            _ => return None,
        };
        // What a file lists may have become a tuple, and a truth value is a whole number too.
        match name.as_str() {
            "dict" | "str" | "float" => Some(own == name),
            "int" if own != "bool" => Some(own == name),
            "bool" | "list" if own != "list" => Some(own == name),
            _ => None,
        }
    }

    /// The default of a name that something has not, where it is certain that it has not.
    fn known_default(&self, owner: &Known, default: &Known) -> Known {
        match owner {
            Known::Collection(at) if self.store.names(*at).is_some_and(|names| !names.open) => default.clone(),
            // What only a run could tell.
            Known::Collection(_) | Known::Made(..) => Known::UNKNOWN,
            _ => default.clone(),
        }
    }

    /// Methods of texts, lists and dictionaries, and `get` of anything.
    pub(super) fn method(&mut self, owner: &Known, name: &str, given: &CallArguments) -> Option<Known> {
        match owner {
            Known::Plain(Value::String(text), source) => match name {
                "open" | "read_text" => Some(Known::Opened(text.clone(), source.clone())),
                _ => self.of_text(text, name, given).map(|found| found.also(source)),
            },
            Known::Collection(at) => match self.store.get(*at)?.clone() {
                Collection::List(items) => self.of_list(*at, items, name, given),
                Collection::Names(names) => self.of_names(*at, &names, name, given),
            },
            Known::Open(_) | Known::Made(..) if name == "get" => {
                let asked = given.at(0)?.text()?.to_owned();
                let path = if let Known::Open(path) = owner { path.clone() } else { Vec::new() };
                let found = self.asked(&path, &asked);
                Some(match given.at(1) {
                    // What a call has made is not known to lack the name, unless a file of settings was read that does.
                    Some(_) if found.is_open() && !self.may_lack(owner) => Known::UNKNOWN,
                    // Nor what a function is handed that nothing was seen to call.
                    Some(_) if found.is_open() && self.blindly > 0 => Known::UNKNOWN,
                    Some(default) if found.is_open() => default.clone().also(&ArgumentSource::argument(&asked)),
                    _ => found,
                })
            }
            Known::Opened(..) if name == "read" => Some(owner.clone()),
            Known::Absent if name == "get" => given.at(1).cloned().or(Some(Known::Absent)),
            _ => None,
        }
    }

    /// Whether something that is not known may be said to lack a name: an argument of the script's, or what stands for a
    /// file of settings that was read with the command.
    fn may_lack(&self, owner: &Known) -> bool {
        let read = || self.own.iter().any(|(_, told)| told.origin.is_of_settings());
        !matches!(owner, Known::Made(..)) || read()
    }

    fn of_text(&mut self, text: &str, name: &str, given: &CallArguments) -> Option<Known> {
        let first = given.at(0).and_then(Known::text);
        Some(match name {
            "lower" => Known::plain(text.to_lowercase()),
            "upper" => Known::plain(text.to_uppercase()),
            "strip" if given.placed.is_empty() => Known::plain(text.trim()),
            "is_absolute" => Known::plain(text.starts_with('/')),
            "startswith" => Known::plain(text.starts_with(first?)),
            "endswith" => Known::plain(text.ends_with(first?)),
            "replace" => Known::of_text(text.replace(first?, given.at(1)?.text()?)),
            "split" => {
                let parts: Vec<&str> = match first {
                    Some(sign) if !sign.is_empty() => text.split(sign).collect(),
                    _ => text.split_whitespace().collect(),
                };
                self.store.list(parts.into_iter().map(Known::plain).collect())
            }
            "join" => {
                let items = self.store.items(given.at(0)?)?;
                let parts: Option<Vec<&str>> = items.iter().map(Known::text).collect();
                Known::of_text(parts?.join(text))
            }
            "resolve" | "absolute" | "expanduser" | "as_posix" => Known::plain(text),
            "joinpath" => Known::of_text(format!("{text}/{}", first?)),
            _ => return None,
        })
    }

    fn of_list(&mut self, at: usize, items: Option<Vec<Known>>, name: &str, given: &CallArguments) -> Option<Known> {
        let changed = match name {
            "copy" => return Some(Known::Collection(self.store.add(Collection::List(items)))),
            "append" | "add" => items.map(|mut items| {
                items.push(given.at(0).cloned().unwrap_or(Known::UNKNOWN));
                items
            }),
            "extend" | "update" => {
                let further = given.at(0).and_then(|value| self.store.items(value).cloned());
                items
                    .zip(further)
                    .map(|(items, further)| items.into_iter().chain(further).collect::<Vec<_>>())
                    .filter(|items| items.len() <= LONGEST_LIST)
            }
            "insert" | "remove" | "pop" | "clear" | "discard" => None,
            _ => return Some(Known::UNKNOWN),
        };
        if let Some(held) = self.store.change(at) {
            *held = Collection::List(changed);
        }
        Some(Known::plain(Value::Null))
    }

    fn of_names(&mut self, at: usize, names: &Names, name: &str, given: &CallArguments) -> Option<Known> {
        let asked = given.at(0).and_then(Known::text).map(str::to_owned);
        Some(match name {
            "get" | "pop" | "setdefault" => {
                let found = self.entry(at, &asked?);
                let default = given.at(1).cloned();
                match found {
                    Some(found) if !names.open || default.is_none() || !found.is_open() => found,
                    None if !names.open => default.unwrap_or_else(|| Known::plain(Value::Null)),
                    _ => Known::UNKNOWN,
                }
            }
            "items" => {
                let pairs = names.values.iter().map(|(name, value)| vec![Known::plain(name.as_str()), value.clone()]);
                let pairs = pairs.collect::<Vec<_>>().into_iter().map(|pair| self.store.list(pair)).collect();
                self.store.list(pairs)
            }
            "keys" => self.store.list(names.values.keys().map(|name| Known::plain(name.as_str())).collect()),
            "values" => self.store.list(names.values.values().cloned().collect()),
            "copy" | "_asdict" | "to_dict" => Known::Collection(self.store.add(Collection::Names(names.clone()))),
            "update" | "merge_with" => {
                let mut changed = names.clone();
                if let Some(further) = given.at(0) {
                    self.spread_into(&mut changed, further);
                }
                changed.values.extend(given.named.iter().map(|(name, value, _)| (name.clone(), value.clone())));
                if let Some(held) = self.store.change(at) {
                    *held = Collection::Names(changed);
                }
                Known::plain(Value::Null)
            }
            _ => return None,
        })
    }
}
