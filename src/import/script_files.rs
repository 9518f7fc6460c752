//! Files as a script's commands find them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::Files;
use super::settings::UNKNOWN;
use crate::files::Unread;

/// Files that a script writes itself before it starts what reads them.
pub struct ScriptFiles<'a> {
    /// What it writes, by path.
    own: &'a BTreeMap<String, String>,
    /// Files that it writes or changes in a way that is not followed.
    changed: &'a BTreeSet<String>,
    /// The files that are there before it starts.
    below: &'a dyn Files,
    /// The script itself.
    script: &'a str,
    /// Where it goes before it starts anything.
    folder: &'a str,
    /// Files that were found near the script.
    elsewhere: RefCell<BTreeSet<String>>,
    /// The folder that a program was found in which is not in the present one: its modules and settings are there too.
    started_in: RefCell<Option<String>>,
}

static NO_TEXTS: BTreeMap<String, String> = BTreeMap::new();
static NO_NAMES: BTreeSet<String> = BTreeSet::new();

impl<'a> ScriptFiles<'a> {
    /// Those around a script that writes none.
    pub fn around(below: &'a dyn Files, script: &'a str) -> Self {
        Self::written(below, script, (&NO_TEXTS, &NO_NAMES), "")
    }

    /// Those around a script that writes some itself, by path and text, changes others in a way that is not followed, and
    /// goes to `folder` before it starts anything.
    pub fn written(
        below: &'a dyn Files,
        script: &'a str,
        (own, changed): (&'a BTreeMap<String, String>, &'a BTreeSet<String>),
        folder: &'a str,
    ) -> Self {
        Self { own, changed, below, script, folder, elsewhere: RefCell::default(), started_in: RefCell::default() }
    }

    /// Files that were found elsewhere than where the script looks for them.
    pub fn elsewhere(&self) -> BTreeSet<String> {
        self.elsewhere.borrow().clone()
    }
}

/// No script that matters stands deeper.
const MOST_FOLDERS: usize = 12;

/// A file as a script names it: from the present directory, else from the folder of the script or one above it, where
/// it may have been started. Of a place on another machine, `/home/me/project/configs/zero3.json`, the end of the path
/// counts, with one folder at least. The text, and the path where it was found.
pub fn near(files: &dyn Files, script: &str, path: &str) -> Result<(String, String), Unread> {
    let missed = match files.read(path) {
        Ok(text) => return Ok((text, path.to_owned())),
        Err(why) => why,
    };
    if is_elsewhere(path) {
        let mut rest = path;
        for _ in 0..MOST_FOLDERS {
            let Some((_, below)) = rest.split_once('/') else { break };
            rest = below;
            if rest.contains('/')
                && !rest.starts_with('/')
                && !rest.contains("..")
                && let Some(found) = at_or_above(files, script, rest)
            {
                return Ok(found);
            }
        }
        if let Some(found) = beside_folder(files, script, path) {
            return Ok(found);
        }
    }
    let mut folder = script;
    if let Some(found) = beside_script(files, script, path) {
        return Ok(found);
    }
    for _ in 0..MOST_FOLDERS {
        let Some((above, _)) = folder.rsplit_once('/').filter(|_| !is_elsewhere(path)) else { break };
        folder = above;
        let there = format!("{folder}/{}", path.trim_start_matches("./"));
        if let Ok(text) = files.read(&there) {
            return Ok((text, there));
        }
    }
    // `scripts/low_precision/../scripts/models/qwen3-4B.sh`, of a script that was moved one folder down.
    let up = path.rsplit_once("../").map(|(_, behind)| behind).filter(|behind| behind.contains('/'));
    if let Some(found) = up.and_then(|behind| at_or_above(files, script, behind)) {
        return Ok(found);
    }
    // `Project/recipes/zero2.yaml`, where the script is started beside the project.
    let inside = path.trim_start_matches("./").split_once('/').map(|(_, inside)| inside);
    let inside = inside.filter(|inside| inside.contains('/') && !is_elsewhere(path) && !path.contains(".."));
    inside.and_then(|inside| Some((files.read(inside).ok()?, inside.to_owned()))).ok_or(missed)
}

/// Whether a path leads to another machine's place, or begins with what only the run knows: `$BASE/src/train.py`.
fn is_elsewhere(path: &str) -> bool {
    path.starts_with(['/', '~']) || path.split('/').next() == Some(UNKNOWN)
}

/// `/home/me/project/scripts/train.py` of a script that has a program of that name beside it.
fn beside_script(files: &dyn Files, script: &str, path: &str) -> Option<(String, String)> {
    let file = path.rsplit('/').next().filter(|file| is_elsewhere(path) && file.ends_with(".py"))?;
    let there = script.rsplit_once('/').map_or_else(|| file.to_owned(), |(folder, _)| format!("{folder}/{file}"));
    Some((files.read(&there).ok()?, there))
}

/// A path below the present directory or a folder above the script.
fn at_or_above(files: &dyn Files, script: &str, path: &str) -> Option<(String, String)> {
    let folders = std::iter::successors(script.rsplit_once('/').map(|(folder, _)| folder), |folder| {
        folder.rsplit_once('/').map(|(above, _)| above)
    });
    let paths = folders.take(MOST_FOLDERS).map(|folder| format!("{folder}/{path}"));
    std::iter::once(path.to_owned()).chain(paths).find_map(|there| Some((files.read(&there).ok()?, there)))
}

/// `/home/MiniLLM/finetune.py` of a script that stands below a folder of that name.
fn beside_folder(files: &dyn Files, script: &str, path: &str) -> Option<(String, String)> {
    let (folder, file) = path.rsplit_once('/')?;
    let name = folder.rsplit('/').next().filter(|name| !name.is_empty())?.to_lowercase();
    let whole = files.absolute(script);
    let mut above = script;
    let mut full = whole.as_str();
    for _ in 0..MOST_FOLDERS {
        above = above.rsplit_once('/').map_or("", |(above, _)| above);
        full = full.rsplit_once('/')?.0;
        if full.rsplit('/').next().is_some_and(|own| is_named(&own.to_lowercase(), &name)) {
            let there = if above.is_empty() { file.to_owned() } else { format!("{above}/{file}") };
            return Some((files.read(&there).ok()?, there));
        }
    }
    None
}

/// Whether a folder has a name, an owner's in front or not: `owner__MiniLLM`.
fn is_named(folder: &str, name: &str) -> bool {
    let owner = folder.strip_suffix(name);
    owner.is_some_and(|owner| owner.is_empty() || owner.ends_with(|letter: char| !letter.is_ascii_alphanumeric()))
}

impl Files for ScriptFiles<'_> {
    fn read(&self, path: &str) -> Result<String, Unread> {
        let text = self.found(path)?;
        if text.starts_with("version https://git-lfs.github.com/spec/") {
            return Err(Unread(format!("{path}: a pointer of Git LFS, not the file itself")));
        }
        Ok(text)
    }

    fn absolute(&self, path: &str) -> String {
        let there = near(self.below, self.script, path).map_or_else(|_| path.to_owned(), |(_, there)| there);
        self.below.absolute(&there)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.below.names(folder)
    }
}

impl ScriptFiles<'_> {
    /// The text of a file, wherever it is.
    fn found(&self, path: &str) -> Result<String, Unread> {
        let plain = |path: &str| path.trim_start_matches("./").to_owned();
        let own = self.own.iter().find(|(name, _)| plain(name) == plain(path));
        if let Some((_, text)) = own {
            return Ok(text.clone());
        }
        if self.changed.iter().any(|name| plain(name) == plain(path)) {
            return Err(Unread(format!("{path}: the script writes or changes it, in a way that is not followed")));
        }
        if !self.folder.is_empty()
            && !path.starts_with('/')
            && let Ok(text) = self.below.read(&format!("{}/{path}", self.folder))
        {
            return Ok(text);
        }
        let started_in = self.started_in.borrow().clone().filter(|_| !is_elsewhere(path));
        if let Some(there) = started_in.map(|folder| format!("{folder}{path}"))
            && let Ok(text) = self.below.read(&there)
        {
            self.elsewhere.borrow_mut().insert(there);
            return Ok(text);
        }
        let (text, there) = near(self.below, self.script, path)?;
        if there != path {
            let folder = there.strip_suffix(path).filter(|_| path.ends_with(".py"));
            if let Some(folder) = folder.filter(|folder| folder.ends_with('/')) {
                self.started_in.borrow_mut().get_or_insert_with(|| folder.to_owned());
            }
            self.elsewhere.borrow_mut().insert(there);
        }
        Ok(text)
    }
}
