//! What to say of names that the catalogue does not have.

use super::{Catalog, Gpu, ModelPreset, UNKNOWN_MODEL, names};

impl Catalog {
    /// Whether `name` is the processor, which is no device of the catalogue before it is measured.
    #[must_use]
    pub fn is_cpu(name: &str) -> bool {
        name.trim().eq_ignore_ascii_case("cpu")
    }

    /// What to say of a GPU that is not in the catalogue: the known name nearest to it, or where all stand.
    #[must_use]
    pub fn no_gpu(&self, name: &str) -> String {
        if Self::is_cpu(name) {
            return "CPU not measured yet: `memwall bench --cpu` measures this machine's, in about a minute".to_owned();
        }
        if let Some(broken) = self.cannot_be_used(name) {
            return broken;
        }
        let nearest = names::nearest(&self.gpus, name, |gpu| (&gpu.name, &gpu.aliases));
        names::unknown(name, nearest, "`memwall gpus` lists what is")
    }

    /// What to say of a link that is not in the catalogue: the known name nearest to it, or all of them.
    #[must_use]
    pub fn no_link(&self, name: &str) -> String {
        if let Some(broken) = self.cannot_be_used(name) {
            return broken;
        }
        let nearest = names::nearest(&self.links, name, |link| (&link.name, &link.aliases));
        let known: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
        names::unknown(name, nearest, &format!("known: {}", known.join(", ")))
    }

    /// What to say of a preset that is not in the catalogue: the known name nearest to it, or where all stand.
    #[must_use]
    pub fn no_model(&self, name: &str) -> String {
        if name.trim().eq_ignore_ascii_case(UNKNOWN_MODEL) {
            return "the model is not known yet: put a name that `memwall models` lists in its place, or \
                    `model.hf_config` or `model.trace`"
                .to_owned();
        }
        if let Some(broken) = self.cannot_be_used(name) {
            return broken;
        }
        let nearest = names::nearest(&self.models, name, |model| (&model.name, &model.aliases));
        names::unknown(name, nearest, "`memwall models` lists what is")
    }

    /// The GPUs of whose names one has these letters, forgivingly as names are compared. An entry that a later one hides is
    /// none of them.
    #[must_use]
    pub fn gpus_like(&self, letters: &str) -> Vec<&Gpu> {
        let is_whole = |gpu: &&Gpu| self.gpu(&gpu.name).is_some_and(|found| std::ptr::eq(found, *gpu));
        let like = self.gpus.iter().filter(|gpu| names::have((&gpu.name, &gpu.aliases), letters));
        like.filter(is_whole).collect()
    }

    /// The same of models.
    #[must_use]
    pub fn models_like(&self, letters: &str) -> Vec<&ModelPreset> {
        let is_whole = |model: &&ModelPreset| self.model(&model.name).is_some_and(|found| std::ptr::eq(found, *model));
        let like = self.models.iter().filter(|model| names::have((&model.name, &model.aliases), letters));
        like.filter(is_whole).collect()
    }

    /// What to say of a name that an entry of the user's own has which cannot be used.
    fn cannot_be_used(&self, name: &str) -> Option<String> {
        Some(format!("{name} cannot be used: {}", self.broken(name)?))
    }
}
