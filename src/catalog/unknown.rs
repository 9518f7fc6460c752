//! What to say of names that the catalogue does not have.

use super::{Catalog, names};

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
        let nearest = names::nearest(&self.gpus, name, |gpu| (&gpu.name, &gpu.aliases));
        names::unknown(name, nearest, "`memwall gpus` lists what is")
    }

    /// What to say of a link that is not in the catalogue: the known name nearest to it, or all of them.
    #[must_use]
    pub fn no_link(&self, name: &str) -> String {
        let nearest = names::nearest(&self.links, name, |link| (&link.name, &link.aliases));
        let known: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
        names::unknown(name, nearest, &format!("known: {}", known.join(", ")))
    }
}
