//! A run with what is known of its libraries' versions.

use crate::origin::Origin;
use crate::settings::Settings;
use crate::{ProcessView, versions};

impl ProcessView<'_> {
    /// The same with the versions that files beside `launch` state, where the environment tells none; and what is to be
    /// said of it.
    pub(crate) fn with_stated_versions(&self, launch: &str, content: &str) -> (Self, Option<String>) {
        let mut view = self.copy();
        let found = self.versions.is_empty().then(|| versions::beside(self.files, launch, content)).flatten();
        let note = found.map(|(stated, path)| {
            let list: Vec<String> = stated.iter().map(|(name, range)| format!("{name} {range}")).collect();
            view.versions = stated;
            format!("{path}: {}", list.join(", "))
        });
        (view, note)
    }

    /// The same with the versions that the calls of a script and the options of its command leave; and what told them.
    pub(crate) fn with_versions_of(&self, text: &str, options: &Settings) -> (Self, Vec<String>) {
        let given = |name: &str| options.get(name).is_some_and(|found| matches!(found.origin, Origin::Argument(_)));
        let (versions, told) = versions::narrowed(&self.versions, text, given);
        (Self { versions, ..self.copy() }, told)
    }
}
