//! Which theme, and whether colours and Unicode are wanted.

use std::time::Duration;

use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};

use crate::cli::args::LookArgs;
use crate::cli::user_catalog;
use crate::files;
use crate::ui::{EMBEDDED, Look, Theme};

/// Larger than any theme.
const MOST_BYTES: u64 = 1 << 20;

/// A terminal that knows the question answers within a round trip; one that does not, answers another at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// The look that the arguments and the environment ask for.
pub fn choose(args: &LookArgs) -> Result<Look, String> {
    // https://no-color.org: set and not empty.
    let no_color = args.no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let theme = match &args.theme {
        Some(name) => named(name)?,
        None if no_color => Theme::colourless(),
        None => named(fitting())?,
    };
    Ok(Look { theme: if no_color { Theme::colourless() } else { theme }, ascii: args.ascii })
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

/// A theme by name: the user's own file wins over the embedded one.
fn named(name: &str) -> Result<Theme, String> {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    let own = user_catalog::folder(|name| std::env::var_os(name))
        .filter(|_| plain)
        .map(|directory| directory.join("themes").join(format!("{name}.yaml")))
        .filter(|path| path.is_file());
    if let Some(path) = own {
        let shown = path.display();
        let text = files::read_text(&path, MOST_BYTES).map_err(|error| format!("{shown}: {error}"))?;
        return Theme::parse(&shown.to_string(), &text).map_err(|error| error.to_string());
    }
    match EMBEDDED.iter().find(|(known, _)| *known == name) {
        Some((name, text)) => Theme::parse(name, text).map_err(|error| error.to_string()),
        None => {
            let known = EMBEDDED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(format!("--theme: no theme `{name}`; known: {known}"))
        }
    }
}
