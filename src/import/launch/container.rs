//! What a container finds in its environment.

use super::LaunchCommand;

/// Variables that Singularity hands into its container under their names without the prefix (`singularity exec`, "--env").
pub fn hand_into(launched: &mut LaunchCommand) {
    const PREFIXES: [&str; 2] = ["SINGULARITYENV_", "APPTAINERENV_"];
    let inside = |(name, value): &(String, String)| {
        let name = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
        Some((name.to_owned(), value.clone()))
    };
    let handed: Vec<(String, String)> = launched.variables.iter().filter_map(inside).collect();
    launched.variables.extend(handed);
}
