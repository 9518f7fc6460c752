//! A plan that is saved to another folder goes on naming the configuration that it named.

use std::path::{Component, Path, PathBuf};

use crate::app::editor::{CONFIG, Editor, folder_of};
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
    use crate::app::{Editor, Effect, Event, KeyPress, State, update};
    use crate::catalog::Catalog;
    use crate::plan::HfConfig;
    use crate::reading::Moment;
    use std::path::{Path, PathBuf};

    /// A plan of `plans/`, whose configuration lies beside it.
    fn state() -> State {
        let catalog = Catalog::embedded().unwrap();
        let text = "model: {hf_config: config.json, batch_size: 8}\n".to_owned();
        let mut editor = Editor::open_text("a".to_owned(), Some("plans/a.yaml".into()), text, &catalog);
        let gpt2 = (*catalog.model("gpt2").unwrap().hf_config).clone();
        editor.take_config("config.json".to_owned(), Ok(HfConfig::Inline(gpt2)), &catalog);
        State::on(editor, catalog, None, Moment(0))
    }

    fn save_as(state: &mut State, path: &str) -> Vec<Effect> {
        let keys =
            std::iter::once(KeyPress::Char('S')).chain(path.chars().map(KeyPress::Char)).chain([KeyPress::Enter]);
        keys.flat_map(|key| update(state, Event::Key(key))).collect()
    }

    #[test]
    fn a_plan_saved_elsewhere_names_the_same_configuration() {
        let mut state = state();
        let effects = save_as(&mut state, "other/b.yaml");
        let Some(Effect::Save { text, .. }) = effects.into_iter().find(|effect| matches!(effect, Effect::Save { .. }))
        else {
            panic!("nothing is saved")
        };
        assert_eq!(text, "model: {hf_config: ../plans/config.json, batch_size: 8}\n");
        assert!(state.plans.editor.text().contains("{hf_config: config.json"), "not before it is on disk");
        let path = PathBuf::from("other/b.yaml");
        let effects = update(&mut state, Event::Saved { path, text: text.clone() });
        assert_eq!((state.plans.editor.text(), state.plans.editor.modified()), (text.as_str(), false));
        assert!(state.notice.as_ref().unwrap().text.contains("../plans/config.json"));
        let (folder, named) = (PathBuf::from("other"), "../plans/config.json".to_owned());
        assert!(effects.contains(&Effect::ReadConfig { folder, named }), "{effects:?}");
    }

    #[test]
    fn beside_itself_it_stays_as_it_is() {
        let mut state = state();
        let effects = save_as(&mut state, "plans/b.yaml");
        let own = state.plans.editor.text().to_owned();
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Save { text, .. } if *text == own)));
    }

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
