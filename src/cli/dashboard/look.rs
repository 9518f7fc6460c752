//! Which theme, and whether colours and Unicode are wanted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};

use crate::app::{Choice, State, Themes, shown_theme};
use crate::cli::Failure;
use crate::cli::args::LookArgs;
use crate::cli::config::Config;
use crate::cli::{output, user_catalog};
use crate::files;
use crate::report::page::beside;
use crate::ui::{EMBEDDED, Look, Theme};

/// Larger than any theme.
const MOST_BYTES: u64 = 1 << 20;

/// A terminal that knows the question answers within a round trip; one that does not, answers another at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// The look at the start, and every theme that there is.
#[derive(Debug)]
pub struct ChosenLook {
    /// How the screen looks at first.
    pub look: Look,
    /// What can be chosen, for the list.
    pub themes: Themes,
    /// The same themes by their names.
    pub by_name: Vec<(String, Theme)>,
    /// What is wrong with the user's themes, one line each.
    pub faults: Vec<String>,
}

/// The look in the theme that is chosen while the dashboard runs, and the themes that it may have.
#[derive(Debug)]
pub struct ThemedLook {
    look: Look,
    /// The theme that it has.
    name: String,
    themes: Vec<(String, Theme)>,
}

impl ThemedLook {
    /// As it looks at the start.
    pub fn new(look: &Look, themes: Vec<(String, Theme)>, state: &State) -> Self {
        Self { look: look.clone(), name: shown_theme(state).to_owned(), themes }
    }

    /// The look in the theme that is shown.
    pub fn of(&mut self, state: &State) -> &Look {
        let name = shown_theme(state);
        if name != self.name {
            if let Some((_, theme)) = self.themes.iter().find(|(known, _)| known == name) {
                self.look.theme = theme.clone();
            }
            name.clone_into(&mut self.name);
        }
        &self.look
    }
}

/// The look that the command line, the environment and the configuration ask for, or that was chosen `before`.
///
/// # Errors
/// Where the command line names a theme that there is not.
pub fn choose(args: &LookArgs, config: &Config, before: Option<String>) -> Result<ChosenLook, Failure> {
    let variable = |name: &str| std::env::var_os(name);
    let ascii = args.ascii || config.ascii.unwrap_or_else(|| !output::is_utf8(variable));
    // https://no-color.org: set and not empty.
    let no_color = args.no_color
        || config.color == Some(false)
        || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let (by_name, faults) = all();
    let find = |name: &str| by_name.iter().find(|(known, _)| known == name).map(|(_, theme)| theme.clone());
    if let Some(name) = args.theme.as_deref().filter(|name| find(name).is_none()) {
        let own = faults.iter().find(|fault| fault.contains(&format!("{name}.yaml")));
        return Err(Failure::usage(
            own.cloned().unwrap_or_else(|| format!("--theme: {}", no_theme(name, folder().as_deref()))),
        ));
    }
    if no_color {
        let look = Look::new(Theme::colourless(), ascii);
        return Ok(ChosenLook { look, themes: Themes::default(), by_name: Vec::new(), faults });
    }
    let said = args.theme.clone().or_else(|| config.theme.clone().filter(|name| find(name).is_some()));
    // What somebody says for this start wins over what was chosen in an earlier one.
    let chosen = before.filter(|name| said.is_none() && find(name).is_some());
    let at_start = match (&said, &chosen) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) => name.clone(),
        (None, None) if has_sixteen_colours(variable) => "ansi".to_owned(),
        (None, None) => fitting().to_owned(),
    };
    let theme = find(&at_start).unwrap_or_else(Theme::colourless);
    let themes = Themes { choices: listed(&by_name), at_start, chosen };
    Ok(ChosenLook { look: Look::new(theme, ascii), themes, by_name, faults })
}

/// The names of all themes, a line each with where it is from: for `--theme` without a name.
pub fn list() -> String {
    let (by_name, _) = all();
    let width = output::page(None).width;
    listed(&by_name).into_iter().map(|choice| beside(&format!("{:<18}", choice.name), &choice.facts, width)).collect()
}

/// That there is no theme of that name, and which there are.
pub fn no_theme(name: &str, folder: Option<&Path>) -> String {
    format!("no theme `{name}`; known: {}", known_themes(folder).join(", "))
}

/// The names of all themes: the embedded ones, and those of the user's, who keeps them in that folder.
pub fn known_themes(folder: Option<&Path>) -> Vec<String> {
    let own = themes_of_user(folder);
    let embedded = EMBEDDED.iter().map(|(name, _)| (*name).to_owned()).filter(|name| !own.contains(name));
    embedded.chain(own.iter().cloned()).collect()
}

/// The names of the user's own themes.
fn themes_of_user(folder: Option<&Path>) -> Vec<String> {
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok());
    let names = entries.into_iter().flatten().flatten();
    let mut own: Vec<String> =
        names.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".yaml")?.to_owned())).collect();
    own.sort();
    own
}

fn listed(by_name: &[(String, Theme)]) -> Vec<Choice> {
    let own = folder().map(|folder| folder.display().to_string()).unwrap_or_default();
    let of = |name: &str| match EMBEDDED.iter().find(|(known, _)| *known == name) {
        Some((_, text)) if text_of_user(name).is_none() => {
            let comment = text.lines().next().unwrap_or_default().trim_start_matches("# ");
            comment
                .split(" See ")
                .next()
                .unwrap_or_default()
                .split_once(". ")
                .map_or(comment, |(first, _)| first)
                .to_owned()
        }
        _ => format!("yours, {own}/{name}.yaml"),
    };
    by_name.iter().map(|(name, _)| Choice::of(name, of(name).split(" See ").next().unwrap_or_default())).collect()
}

/// Dark or light, as the terminal says that its background is.
fn fitting() -> &'static str {
    let mut options = QueryOptions::default();
    options.timeout = PATIENCE;
    match theme_mode(options) {
        Ok(ThemeMode::Light) => "light",
        Ok(ThemeMode::Dark) | Err(_) => "dark",
    }
}

/// Whether the terminal is of a kind that shows sixteen colours or fewer, however it is set up: a console, or one that
/// says so in its name (terminfo(5) lists them). Others may say less than they can, as `xterm` does.
pub fn has_sixteen_colours(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let said = |name: &str| variable(name).map(|said| said.to_string_lossy().into_owned()).unwrap_or_default();
    let (kind, more) = (said("TERM"), said("COLORTERM"));
    let (family, _) = kind.split_once('-').unwrap_or((&kind, ""));
    let console = ["linux", "ansi", "cygwin", "cons25", "wsvt25"].contains(&family);
    let old = family.strip_prefix("vt").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
    let named = ["-16color", "-8color", "-16colors", "-m", "-mono"].iter().any(|end| kind.ends_with(end));
    more.is_empty() && (console || old || named)
}

/// Where the user's themes are.
fn folder() -> Option<PathBuf> {
    Some(user_catalog::folder(|name| std::env::var_os(name))?.join("themes"))
}

/// The text of a theme of the user's.
fn text_of_user(name: &str) -> Option<String> {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    let path = folder().filter(|_| plain)?.join(format!("{name}.yaml"));
    files::read_text(&path, MOST_BYTES).ok()
}

/// Every theme, the user's over the embedded ones of their names; and what is wrong with the user's.
fn all() -> (Vec<(String, Theme)>, Vec<String>) {
    let (mut themes, mut faults) = (Vec::new(), Vec::new());
    let own = themes_of_user(folder().as_deref());
    for name in known_themes(folder().as_deref()) {
        let user = own.contains(&name).then(|| text_of_user(&name)).flatten();
        let text =
            user.or_else(|| EMBEDDED.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned()));
        let shown =
            folder().map_or_else(|| name.clone(), |folder| folder.join(format!("{name}.yaml")).display().to_string());
        let said = if own.contains(&name) { &shown } else { &name };
        match text.map(|text| Theme::parse_with(&name, &text, text_of_user)) {
            Some(Ok(theme)) => themes.push((name, theme)),
            Some(Err(error)) => {
                let why = error.to_string();
                faults.push(format!("{said}: {}", why.strip_prefix(&format!("{name}: ")).unwrap_or(&why)));
            }
            None => faults.push(format!("{said}: cannot be read")),
        }
    }
    (themes, faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consoles_have_sixteen_colours() {
        let of = |said: &[(&str, &str)]| {
            has_sixteen_colours(|name| said.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        for kind in ["linux", "vt220", "xterm-16color", "ansi", "cygwin"] {
            assert!(of(&[("TERM", kind)]), "{kind}");
        }
        for kind in ["xterm", "xterm-256color", "screen", "tmux-256color", "vte-256color", "alacritty", "st"] {
            assert!(!of(&[("TERM", kind)]), "{kind}");
        }
        assert!(!of(&[("TERM", "linux"), ("COLORTERM", "truecolor")]) && !of(&[]));
    }
}
