//! A plan that is saved to another folder goes on naming the configuration that it named.

use std::path::{Component, Path, PathBuf};

use super::editor::{CONFIG, Editor, folder_of};
use crate::plan::{Change, Document};

/// The plan as it is to be saved at `path`, which names its configuration by the way from there; none where it
/// names none by a relative path, where that stays the same, or where names alone do not tell the way.
pub fn relocated(editor: &Editor, path: &Path) -> Option<Document> {
    let named = editor.document()?.value(CONFIG)?;
    let named = Path::new(named.as_str()?);
    let moved = way(editor.folder(), named, folder_of(path)).filter(|moved| moved != named)?;
    let set = vec![(CONFIG, moved.to_str()?.to_owned())];
    editor.with(&Change { set, remove: Vec::new() }).ok()
}

/// From the folder `to` to what is called `named` from the folder `from`.
fn way(from: &Path, named: &Path, to: &Path) -> Option<PathBuf> {
    if named.is_absolute() {
        return None;
    }
    let target = from.join(named);
    if target.is_absolute() != to.is_absolute() {
        return target.is_absolute().then_some(target);
    }
    let parts = |path: &Path| -> Vec<String> {
        let parts = path.components().filter(|part| *part != Component::CurDir);
        parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let (target, to) = (parts(&target), parts(to));
    let common = target.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = &to[common..];
    // The way back out of `..` or `~` has a name that nobody knows here.
    if up.iter().any(|part| part == ".." || part == "~") {
        return None;
    }
    Some(up.iter().map(|_| "..").chain(target[common..].iter().map(String::as_str)).collect())
}

#[cfg(test)]
mod tests {
    use super::way;
    use std::path::{Path, PathBuf};

    #[test]
    fn the_way_leads_to_the_same_file() {
        for (from, named, to, expected) in [
            ("", "a/config.json", "sub", Some("../a/config.json")),
            ("plans", "config.json", "", Some("plans/config.json")),
            ("plans", "../c.json", "plans/new", Some("../../c.json")),
            ("/p/a", "c.json", "/p/b", Some("../a/c.json")),
            ("/p/a", "c.json", "elsewhere", Some("/p/a/c.json")),
            ("", "./c.json", ".", Some("c.json")),
            ("a", "c.json", "/x", None),
            ("a", "c.json", "../b", None),
            ("a", "/c.json", "b", None),
        ] {
            let found = way(Path::new(from), Path::new(named), Path::new(to));
            assert_eq!(found, expected.map(PathBuf::from), "{from} {named} {to}");
        }
    }
}
