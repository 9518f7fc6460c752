//! What a log states of its run beside its steps: sizes, batches, types and recomputation, as frameworks write them
//! before they begin.
//!
//! Phrases, and blocks of settings: `TrainingArguments(…)`, Megatron's dotted arguments, a configuration in YAML.

mod phrases;
mod settings;

use crate::reading::StatedSettings;
use settings::SettingsBlock;

/// One part in so many of a count by tensor ranks may be what each of them holds.
const HELD_WHOLE: u64 = 20;

/// Longer lines hold no header.
const LONGEST: usize = 4096;

/// Reads the header, line by line.
#[derive(Debug, Default)]
pub struct HeaderReader {
    stated: StatedSettings,
    block: Option<SettingsBlock>,
    /// The parameters that a script of nobody's counts; 0 where it counts two models.
    own_count: Option<u64>,
    /// Ranks that share each expert's matrices, where Megatron states them.
    expert_tensor: Option<u64>,
}

impl HeaderReader {
    /// What is stated so far.
    pub const fn stated(&self) -> &StatedSettings {
        &self.stated
    }

    /// Another file, or the same begun anew.
    pub fn begin_anew(&mut self) {
        *self = Self::default();
    }

    /// Takes in a line; whether it stated anything.
    pub fn read(&mut self, line: &str) -> bool {
        if line.len() > LONGEST {
            return false;
        }
        let before = self.stated.clone();
        phrases::read(line, &mut self.stated);
        if self.stated == before {
            phrases::own(line, &mut self.stated, &mut self.own_count);
        }
        self.rank_count(line);
        self.read_block(line);
        self.stated != before
    }

    fn read_block(&mut self, line: &str) {
        if let Some(begun) = SettingsBlock::beginning(line) {
            self.block = Some(begun);
        }
        if let Some((name, value)) = settings::dotted(line) {
            self.dotted(name, value);
            return;
        }
        let Some(block) = self.block else { return };
        match block.setting(line) {
            Some((name, value)) => settings::apply(block, name, value, &mut self.stated),
            None if block.ends(line) => self.block = None,
            None => {}
        }
    }

    /// Megatron's and DeepSpeed's: `micro_batch_size ........ 4`.
    fn dotted(&mut self, name: &str, value: &str) {
        match name {
            "expert_tensor_parallel_size" => self.expert_tensor = whole(value),
            _ => settings::apply(SettingsBlock::Dotted, name, value, &mut self.stated),
        }
    }

    /// Megatron-LM, `training/training.py`, `get_model`: a rank's own count. It comes after the arguments. Of one stage,
    /// all matrices are shared out over the tensor ranks; norms and learned positions, which each holds whole, and a vocabulary
    /// filled up for them make it some hundredths more than the model.
    fn rank_count(&mut self, line: &str) {
        const COUNT: &str = "number of parameters on (tensor, pipeline) model parallel rank (0, 0): ";
        let Some(count) = count_after(line, COUNT) else { return };
        let Some(tensor) = self.stated.tensor else { return };
        // Experts may be shared out otherwise than the rest.
        let alike = self.stated.pipeline == Some(1)
            && self.stated.expert.is_none_or(|expert| expert == 1)
            && self.expert_tensor.is_none_or(|expert| expert == tensor);
        if alike {
            self.stated.params = count.checked_mul(tensor);
            self.stated.params_within = self.stated.params.filter(|_| tensor > 1).map_or(0, |all| all / HELD_WHOLE);
        }
    }
}

/// `36,718`, `123.59M`, `6.74 billion`, `124 M`: a count above zero, as far as it is written.
fn written_count(text: &str) -> Option<u64> {
    written(text).map(|(count, _)| count)
}

/// A written count, and half a step of its last digit where a unit rounds it.
fn written(text: &str) -> Option<(u64, u64)> {
    let text = text.trim_start_matches(|letter: char| letter.is_whitespace() || "=:(".contains(letter));
    let end = text.find(|letter: char| !(letter.is_ascii_digit() || ",._".contains(letter))).unwrap_or(text.len());
    let digits: String = text[..end].chars().filter(|letter| !",_".contains(*letter)).collect();
    let digits = digits.trim_end_matches('.');
    let number: f64 = digits.parse().ok()?;
    let unit = text[end..].trim_start();
    let word: String = unit.chars().take_while(char::is_ascii_alphabetic).collect();
    let times = match word.as_str() {
        "K" | "k" | "thousand" => 1e3,
        "M" | "million" | "Million" => 1e6,
        "B" | "billion" | "Billion" => 1e9,
        "T" | "trillion" => 1e12,
        _ => 1.0,
    };
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let step = times / 10_f64.powi(i32::try_from(decimals).ok()?);
    let count = super::facts::count((number * times).round()).filter(|count| *count > 0)?;
    Some((count, super::facts::count((step / 2.0).floor()).unwrap_or(0)))
}

/// How far off a count of a line is at most, by the digits that it is written with.
fn rounding(line: &str, count: Option<u64>) -> u64 {
    let starts = line.char_indices().filter(|(at, letter)| {
        let before = line[..*at].chars().next_back();
        letter.is_ascii_digit() && !before.is_some_and(|before| before.is_ascii_digit() || ",._".contains(before))
    });
    let mut found = starts.filter_map(|(at, _)| written(&line[at..])).filter(|(number, _)| Some(*number) == count);
    found.next().map_or(0, |(_, within)| within)
}

/// A whole number and nothing else.
fn whole(text: &str) -> Option<u64> {
    text.trim().trim_end_matches(',').parse().ok().filter(|number| *number > 0)
}

/// The count behind the first `key` of a line.
fn count_after(line: &str, key: &str) -> Option<u64> {
    written_count(&line[line.find(key)? + key.len()..])
}

#[cfg(test)]
mod tests;
