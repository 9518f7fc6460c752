//! Numbers that a script reads by names which people give them.

use super::Script;
use crate::idle_arguments;
use crate::origin::{Origin, Setting};
use crate::own_loop;
use crate::script_defaults::is_name;
use crate::settings::{Settings, whole};

/// What scripts call the samples of a forward pass, in lower case: the loader's batch, and what one device takes.
pub(super) const BATCHES: [&str; 16] = [
    "batch_size",
    "batch",
    "bs",
    "bsz",
    "batchsize",
    "train_batch_size",
    "micro_batch_size",
    "micro_batch",
    "micro_bs",
    "micro",
    "mbs",
    "device_batch_size",
    "train_bs",
    "per_device_batch_size",
    "per_gpu_batch_size",
    "per_device_train_batch_size",
];

/// What they call the tokens of a sample.
pub(super) const LENGTHS: [&str; 17] = [
    "seq_len",
    "seq_length",
    "seqlen",
    "seq",
    "sequence_length",
    "sequence_len",
    "max_seq_len",
    "max_seq_length",
    "max_length",
    "max_len",
    "block_size",
    "ctx",
    "ctx_len",
    "context_len",
    "context_length",
    "context_size",
    "window_size",
];

/// What they call the blocks of a language model, and their width.
pub(super) const LAYERS: [&str; 4] = ["n_layer", "n_layers", "num_layers", "num_hidden_layers"];
pub(super) const WIDTHS: [&str; 6] = ["n_embd", "n_embed", "d_model", "hidden_size", "dim_model", "dim"];

/// What they call the micro batches of a step.
pub(super) const STEPS: [&str; 19] = [
    "accumulation",
    "gradient_accumulation_steps",
    "gradient_accumulation",
    "grad_accum_steps",
    "grad_accum",
    "grad_acc_steps",
    "accumulation_steps",
    "accumulate_steps",
    "accum_steps",
    "accum",
    "n_accum",
    "accum_iter",
    "accumulate_grad_batches",
    "grad_accumulation_steps",
    // espnet2/train/trainer.py, speechbrain/core.py, open_clip_train/params.py, ultralytics/engine/trainer.py.
    "accum_grad",
    "grad_accumulation_factor",
    "accum_freq",
    "iters_to_accumulate",
    "accumulate",
];

/// Options under their long names, where the script declares both: `add_argument("-b", "--batch-size")`.
pub(super) fn with_long_names(mut options: Settings, text: &str) -> Settings {
    for declared in ["add_argument", "option"].iter().flat_map(|call| own_loop::calls(text, call)) {
        let written =
            declared.iter().filter_map(|part| part.trim().strip_prefix(['"', '\''])?.split(['"', '\'']).next());
        let names: Vec<String> = written
            .filter(|name| name.starts_with('-'))
            .map(|name| name.trim_start_matches('-').replace('-', "_"))
            .collect();
        let Some(long) = names.iter().max_by_key(|name| name.len()) else { continue };
        let given = names.iter().find(|name| *name != long && options.holds(name)).cloned();
        if let Some(short) = given.filter(|_| !options.holds(long)) {
            let before = options.clone();
            options.adopt(long, &before, &short);
        }
    }
    options
}

/// The default of the script's own argument, which its command does not give, is what the script takes.
fn sure(found: Setting<u64>) -> Setting<u64> {
    match found.origin {
        Origin::Default { framework: "the script", option } => {
            Setting { value: found.value, origin: Origin::Program(option) }
        }
        origin => Setting { value: found.value, origin },
    }
}

impl Script<'_> {
    /// That number, with the name which has it and that its text asks for.
    pub(super) fn named_as(&self, names: &[&str], number: u64, what: &str) -> Setting<u64> {
        let named = self.every_named(names).into_iter().find(|found| found.value == number);
        named.unwrap_or_else(|| Setting::new(number, self.says(what)))
    }

    /// The number of the only such name that its text asks for; of several that agree the first.
    pub(super) fn named(&self, names: &[&str]) -> Option<Setting<u64>> {
        let found = self.every_named(names);
        let first = found.first()?.clone();
        found.iter().all(|other| other.value == first.value).then_some(first)
    }

    /// The words of its text that are one of `names` in whatever case, and that it reads somewhere.
    pub(super) fn words(&self, names: &[&str]) -> Vec<&str> {
        let mut words: Vec<&str> = Vec::new();
        for word in self.text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
            if names.contains(&word.to_lowercase().as_str()) && !words.contains(&word) && self.asks(word) {
                words.push(word);
            }
        }
        words
    }

    pub(super) fn every_named(&self, names: &[&str]) -> Vec<Setting<u64>> {
        let of_file = |word: &str| {
            let mut here = self.file.iter().filter(|(name, _)| name.rsplit('.').next() == Some(word));
            let (name, _) = here.next()?;
            here.next().is_none().then(|| self.file.whole(name)).flatten()
        };
        // How much text is made at a time has the same names.
        // A product with passes is what is printed, one with blocks or their width makes a layer.
        let keeps = [STEPS.as_slice(), &LAYERS, &WIDTHS].contains(&names);
        let is_reckoned = |word: &str| match keeps {
            true => self.is_changed(word),
            false => self.is_reckoned_with(word),
        };
        // So has the window that a mean is taken over (torchvision, references/classification/utils.py, `SmoothedValue`).
        let of_mean = |word: &str| word == "window_size" && self.text.contains("SmoothedValue(");
        let own = |word: &&str| !(is_reckoned(word) || of_mean(word) || *word == "max_length" && self.generates());
        let known = self.words(names).into_iter().filter(own).filter_map(|word| {
            let of_script = || self.reader.named(&[word]).whole(word);
            let own = self.reader.own().whole(word).map(sure);
            own.or_else(of_script).or_else(|| of_file(word)).or_else(|| self.attribute(word))
        });
        known.filter(|found| found.value > 0).collect()
    }

    /// What it reads from an object of its own: `cfg.block_size`.
    pub(super) fn attribute(&self, name: &str) -> Option<Setting<u64>> {
        let behind = format!(".{name}");
        let of = |(at, _): (usize, &str)| {
            let before = self.text.get(..at)?;
            let is_end = !self
                .text
                .get(at + behind.len()..)?
                .starts_with(|next: char| next.is_alphanumeric() || "_(".contains(next));
            let object = before.rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next()?;
            (is_end && is_name(object) && object != "self").then(|| format!("{object}{behind}"))
        };
        let mut found = self.text.match_indices(&behind).filter_map(of).filter_map(|part| {
            let number = whole(&self.reader.expression(&part)?)?;
            Some(Setting::new(number, self.says(&part)))
        });
        let first = found.next()?;
        found.all(|other| other.value == first.value).then_some(first)
    }

    /// Whether its text reads a name beside where it gives it a value or declares it.
    pub(super) fn asks(&self, name: &str) -> bool {
        let declares = |line: &str| {
            let line = line.trim_start();
            line.contains("add_argument(")
                || line.strip_prefix(name).map(str::trim_start).is_some_and(|rest| {
                    rest.starts_with(':') || rest.strip_prefix('=').is_some_and(|rest| !rest.starts_with('='))
                })
        };
        is_name(name) && self.text.lines().any(|line| !declares(line) && idle_arguments::mentions(line, name) > 0)
    }
}
