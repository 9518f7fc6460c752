//! What a container or a job of Ray finds in its environment.

use serde_json::Value;

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

/// Variables that Ray sets for a job: `ray job submit --runtime-env-json='{"env_vars": {"NAME": "1"}}'`.
pub fn of_ray(launched: &mut LaunchCommand, options: &[String]) {
    let told = options.iter().find_map(|word| word.trim_start_matches('-').strip_prefix("runtime-env-json="));
    let Some(Value::Object(environment)) = told.and_then(|text| serde_json::from_str(text).ok()) else { return };
    let variables = environment.get("env_vars").and_then(Value::as_object).into_iter().flatten();
    let texts = variables.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    launched.variables.extend(texts);
}
