//! The types that a script's loop computes in and stores.

use super::Script;
use crate::origin::Setting;
use crate::own_loop::Autocast;
use crate::python::PassedArgument;
use crate::script_doubts::code;

/// What a script has where it computes or stores anything in another type than fp32, or leaves that to others: a checkpoint's
/// type, or that of accelerate's environment.
const OTHER_TYPES: [&str; 16] = [
    "bf16",
    "bfloat16",
    "fp16",
    "float16",
    ".half(",
    "torch.half",
    "autocast",
    "mixed_precision",
    "precision=",
    "dtype",
    "accelerator(",
    "from_pretrained(",
    ".double(",
    "float64",
    "load_in_",
    "deepspeed",
];

/// What makes another type without a cast of the model or an autocast: a checkpoint's, an engine's, a library's.
const ELSEWHERE: [&str; 11] = [
    "from_pretrained(",
    ".double(",
    "float64",
    "load_in_",
    "deepspeed",
    "accelerator(",
    "apex",
    "amp.initialize",
    "set_autocast",
    // Keras' policies (keras/src/dtype_policies).
    "set_global_policy",
    "dtype_policy",
];

/// What scripts call the model that trains.
pub(super) const MODELS: [&str; 6] = ["model", "net", "network", "gpt", "lm", "self.model"];

/// What the weights of a script's model are stored in.
enum StoredType {
    /// What its class makes them.
    AsMade,
    /// What it is cast to.
    Cast(&'static str),
    /// What is not followed.
    Open,
}

impl Script<'_> {
    /// What it computes in under PyTorch's autocast, or that it has no other type than fp32.
    pub(super) fn precision(&self) -> Option<Setting<&'static str>> {
        let lower = self.text.to_lowercase();
        if !OTHER_TYPES.iter().any(|part| lower.contains(part)) {
            return self.is_whole.then(|| Setting::new("fp32", self.says("no other type in it")));
        }
        if let Some(word) = self.named_as_in_clip() {
            return Some(Setting::new(word, self.says("args.precision")));
        }
        match self.stored_in() {
            StoredType::AsMade => {}
            StoredType::Cast("fp32") => return Some(Setting::new("fp32", self.says("no cast that is made"))),
            StoredType::Cast(word) => return Some(Setting::new(word, self.says("what its model is cast to"))),
            StoredType::Open => return None,
        }
        match Autocast::of(self.reader, self.text) {
            Autocast::Half(half) => {
                let word = if half == "bf16" { "bf16-mixed" } else { "fp16-mixed" };
                Some(Setting::new(word, self.says("autocast(")))
            }
            // Its autocast is off, and nothing else in it makes another type.
            Autocast::None
                if self.is_whole
                    && !self.hands_on_autocast()
                    && !self.makes_types()
                    && !ELSEWHERE.iter().any(|part| lower.contains(part)) =>
            {
                Some(Setting::new("fp32", self.says("no autocast that is on")))
            }
            Autocast::None | Autocast::Open => None,
        }
    }

    /// The precision that open_clip and its copies take by a name (open_clip_train/precision.py, `get_autocast`). What casts
    /// the model itself keeps norms as they are: those are left open.
    fn named_as_in_clip(&self) -> Option<&'static str> {
        let is_copy = self.has(&["get_autocast(args.precision"]) && self.text.contains("amp_bf16");
        match is_copy.then(|| self.reader.expression("args.precision")).flatten()?.as_str()? {
            "amp" if !self.reader.hides_gpus() => Some("fp16-mixed"),
            "amp_bf16" | "amp_bfloat16" => Some("bf16-mixed"),
            "fp32" => Some("fp32"),
            _ => None,
        }
    }

    /// Whether something but an autocast is made in a type that is named: a layer, a policy of an engine.
    fn makes_types(&self) -> bool {
        code(self.text).any(|line| makes_small(line, "dtype=") && !line.contains("autocast("))
    }

    /// Whether the class itself is handed on, for a call that does not name it: `partial(torch.autocast, "cuda")`.
    fn hands_on_autocast(&self) -> bool {
        let alone = |line: &str| {
            line.match_indices("autocast").any(|(at, word)| {
                let (before, behind) = (&line[..at], &line[at + word.len()..]);
                let joins = |letter: char| letter.is_alphanumeric() || letter == '_';
                let is_part = before.ends_with(joins) || behind.starts_with(|next: char| joins(next) || next == '.');
                !is_part && !behind.trim_start().starts_with('(')
            })
        };
        code(self.text).any(alone)
    }

    fn stored_in(&self) -> StoredType {
        const OTHERS: [&str; 4] = ["torch_dtype", "set_default_dtype", "Trainer(", "Accelerator("];
        let other = |line: &str| {
            (OTHERS.iter().any(|part| line.contains(part)) || makes_small(line, "dtype=torch."))
                && !line.contains("autocast(")
        };
        if code(self.text).any(other) {
            return StoredType::Open;
        }
        let casts: Vec<&str> = code(self.text).filter_map(cast_of).collect();
        if casts.is_empty() {
            return StoredType::AsMade;
        }
        if self.has(&["autocast("]) || !casts.iter().all(|target| MODELS.contains(target)) {
            return StoredType::Open;
        }
        let methods = [("bfloat16", "bf16"), ("half", "fp16")].map(|(method, word)| {
            let is_there = self.has(&[&format!(".{method}(")]);
            if is_there { (self.reader.reached(&[method]), word) } else { (Some(false), word) }
        });
        let passed = ["0", "1", "dtype"].iter().flat_map(|place| self.reader.passed(&["to"], place));
        let types = passed.map(|(passed, certain)| match passed {
            PassedArgument::Plain(told) => match told.value.as_str() {
                Some("bfloat16") => (certain.then_some(true), "bf16"),
                Some("float16" | "half") => (certain.then_some(true), "fp16"),
                _ => (Some(false), ""),
            },
            // A device that was made is no type.
            PassedArgument::Nothing | PassedArgument::Made(..) => (Some(false), ""),
            PassedArgument::Open => (None, ""),
        });
        let all: Vec<(Option<bool>, &'static str)> = methods.into_iter().chain(types).collect();
        if all.iter().any(|(made, _)| made.is_none()) {
            return StoredType::Open;
        }
        // Where no branch with a cast is taken, it has no other type.
        all.iter()
            .find(|(made, _)| *made == Some(true))
            .map_or(StoredType::Cast("fp32"), |(_, word)| StoredType::Cast(word))
    }
}

/// Whether a line makes something, by what begins with `part`, in a type that may be smaller than fp32. Labels, masks and
/// counts are in whole numbers.
fn makes_small(line: &str, part: &str) -> bool {
    const OTHERS: [&str; 9] = ["float", "float32", "long", "int", "int64", "int32", "bool", "uint8", "short"];
    line.match_indices(part).any(|(at, _)| {
        let named = line[at..].trim_start_matches("dtype=");
        let behind = ["torch.", "np.", "th."].iter().find_map(|of| named.strip_prefix(of)).unwrap_or(named);
        let end = behind.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(behind.len());
        // `dtype=images.dtype` takes over what is there.
        let path = named.find(|letter: char| !letter.is_ascii_alphanumeric() && !"_.".contains(letter));
        !OTHERS.contains(&&behind[..end]) && !named[..path.unwrap_or(named.len())].ends_with(".dtype")
    })
}

/// What a line casts to 16 bits, by `x.to(torch.bfloat16)`, `x.bfloat16()` or `x.half()`; none where it casts nothing.
fn cast_of(line: &str) -> Option<&str> {
    let is_small = || ["bfloat16", "float16", "dtype"].iter().any(|word| line.contains(word));
    let to = line.split_once(".to(").filter(|_| is_small());
    let (before, _) = to.or_else(|| line.split_once(".bfloat16(")).or_else(|| line.split_once(".half("))?;
    // `model = GPT2LMHeadModel(config).to(torch.bfloat16)`: what is made there.
    let made = before.ends_with(')').then(|| before.split_once('=')).flatten().map(|(name, _)| name.trim());
    made.or_else(|| before.rsplit([' ', '=', '(']).next())
}
