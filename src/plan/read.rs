//! From a document to a [`Plan`]: every key held against the schema, every fault
//! reported with its place.

use super::build::MAX_FAULTS;
use super::document::Document;
use super::fault::Fault;
use super::keys;
use super::keys::Plan;
use super::keywords::{RecomputeModule, RecomputeWord};
use super::nearest::{unknown_key, unknown_word};
use super::node::{Entry, Node, NodeShape};
use super::schema::{self, ValueKind};
use super::types::{Checkpointing, HfConfig};
use super::values::{self, mismatch};

use crate::order::StableOrder;

impl Document {
    /// The plan that the text spells.
    ///
    /// # Errors
    /// Every unknown key, wrong type and impossible value, in the order of the text.
    pub fn plan(&self) -> Result<Plan, Vec<Fault>> {
        let mut reader = PlanReader { document: self, faults: Vec::new() };
        reader.hold_keys(self.root(), "");
        let plan = keys::plan(&mut reader);
        if reader.faults.is_empty() {
            return Ok(plan);
        }
        reader.faults.order_by_key(|fault| fault.at);
        if reader.faults.len() >= MAX_FAULTS {
            reader.faults.push(Fault::of("", "there are more faults; these come first"));
        }
        Err(reader.faults)
    }
}

/// Reads keys out of a document and notes what is wrong with them.
pub struct PlanReader<'a> {
    document: &'a Document,
    faults: Vec<Fault>,
}

impl<'a> PlanReader<'a> {
    /// The value of a key; none where it is absent or null.
    fn get(&self, path: &str) -> Option<&'a Node> {
        self.document.node(path).filter(|node| !node.is_null())
    }

    fn fault(&mut self, path: &str, node: &Node, message: String) {
        self.faults.push(Fault::of(path, message).placed(Some(node.at)));
    }

    /// A value that `read` takes, or a fault with the key's rule.
    fn value<T>(&mut self, path: &str, read: impl Fn(&Node, ValueKind) -> Option<T>) -> Option<T> {
        let node = self.get(path)?;
        let kind = schema::key(path)?.kind;
        let value = read(node, kind);
        if value.is_none() {
            self.fault(path, node, mismatch(node, kind));
        }
        value
    }

    /// Keys that the schema does not know, and sections that are none.
    fn hold_keys(&mut self, node: &Node, section: &str) {
        if !matches!(node.shape, NodeShape::Mapping { .. }) {
            let word = schema::key(section).is_some_and(|key| matches!(key.kind, ValueKind::WordOrSection(_)));
            if !node.is_null() && !word {
                self.fault(section, node, mismatch(node, ValueKind::Section) + &preset_hint(section, node));
            }
            return;
        }
        for Entry { key, at, value, .. } in node.entries() {
            if self.faults.len() >= MAX_FAULTS {
                return;
            }
            let path = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
            // A name with dots is one key, not a path of several: nobody would read it.
            match schema::key(&path).filter(|_| !key.contains('.')) {
                Some(known) if known.kind.holds_keys() => self.hold_keys(value, &path),
                Some(_) => {}
                None => self.faults.push(Fault::of(path, unknown_key(section, key)).placed(Some(*at))),
            }
        }
    }

    pub fn whole(&mut self, path: &str) -> Option<u64> {
        self.value(path, values::whole)
    }

    pub fn wholes(&mut self, path: &str) -> Option<Vec<u64>> {
        self.value(path, |node, kind| values::list(node, |item| values::whole(item, kind)))
    }

    pub fn number(&mut self, path: &str) -> Option<f64> {
        self.value(path, values::number)
    }

    pub fn flag(&mut self, path: &str) -> Option<bool> {
        self.value(path, values::flag)
    }

    pub fn text(&mut self, path: &str) -> Option<String> {
        self.value(path, |node, _| values::text(node).map(str::to_owned))
    }

    pub fn texts(&mut self, path: &str) -> Option<Vec<String>> {
        self.value(path, |node, _| values::list(node, |item| values::text(item).map(str::to_owned)))
    }

    pub fn word<T>(&mut self, path: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let node = self.get(path)?;
        self.word_of(path, node, parse)
    }

    pub fn words<T>(&mut self, path: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
        let node = self.get(path)?;
        let Some(items) = values::list(node, Some) else {
            let kind = schema::key(path)?.kind;
            self.fault(path, node, mismatch(node, kind));
            return None;
        };
        items.into_iter().map(|item| self.word_of(path, item, &parse)).collect()
    }

    fn word_of<T>(&mut self, path: &str, node: &Node, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let key = schema::key(path)?;
        let NodeShape::Scalar { text, .. } = &node.shape else {
            self.fault(path, node, mismatch(node, key.kind));
            return None;
        };
        let word = parse(text);
        if word.is_none() {
            self.fault(path, node, unknown_word(key, text));
        }
        word
    }

    /// Keys of their own that are absent together.
    pub fn section<T>(&mut self, path: &str, read: impl Fn(&mut Self) -> T) -> Option<T> {
        let node = self.get(path)?;
        matches!(node.shape, NodeShape::Mapping { .. }).then(|| read(self))
    }

    /// The same, but an empty one (`custom: {}`) says nothing: it is as good as absent.
    pub fn maybe_empty<T>(&mut self, path: &str, read: impl Fn(&mut Self) -> T) -> Option<T> {
        let filled = self.get(path).is_some_and(|node| !node.entries().is_empty());
        if filled { self.section(path, read) } else { None }
    }

    pub fn hf_config(&mut self, path: &str) -> Option<HfConfig> {
        self.value(path, |node, _| match &node.shape {
            NodeShape::Mapping { .. } => Some(HfConfig::Inline(node.to_json_map())),
            _ => values::text(node).map(|path| HfConfig::Path(path.to_owned())),
        })
    }

    /// A word, `{every: K}`, `{modules: […]}` or `{classes: […]}`.
    pub fn recomputation(&mut self, path: &str) -> Option<Checkpointing> {
        let node = self.get(path)?;
        if !matches!(node.shape, NodeShape::Mapping { .. }) {
            let faults = self.faults.len();
            let word = self.word(path, RecomputeWord::parse);
            // The schema lists the words alone.
            self.faults.iter_mut().skip(faults).for_each(|fault| fault.message.push_str(GROUPS_OF_RECOMPUTATION));
            return word.map(|word| match word {
                RecomputeWord::None => Checkpointing::None,
                RecomputeWord::Selective => Checkpointing::Selective,
                RecomputeWord::SelectiveOp => Checkpointing::SelectiveOp,
                RecomputeWord::Full => Checkpointing::Full,
            });
        }
        let faults = self.faults.len();
        let every = self.whole(&format!("{path}.every"));
        let modules = self.words(&format!("{path}.modules"), RecomputeModule::parse);
        let classes = self.texts(&format!("{path}.classes"));
        match (every, modules, classes) {
            (Some(1), None, None) => Some(Checkpointing::Full),
            (Some(every), None, None) => Some(Checkpointing::Every(every)),
            (None, Some(modules), None) => Some(Checkpointing::Modules(modules)),
            (None, None, Some(classes)) if !classes.is_empty() => Some(Checkpointing::Classes(classes)),
            _ if self.faults.len() > faults => None,
            _ => {
                self.fault(path, node, "needs one of `every`, `modules` and `classes`".to_owned());
                None
            }
        }
    }
}

/// What stands in place of a word for the blocks that are recomputed.
const GROUPS_OF_RECOMPUTATION: &str = ", {every: K}, {modules: […]}, {classes: […]}";

/// Where a model's name stands that belongs into a key of its own.
fn preset_hint(section: &str, node: &Node) -> String {
    match &node.shape {
        NodeShape::Scalar { text, .. } if section == "model" && values::is_textual(text) => {
            format!(": `model: {{preset: {}}}` names a model of the catalogue", values::short(text))
        }
        _ => String::new(),
    }
}
