//! Variables that a script uses and sets nowhere.

use super::imported::ImportedPlan;

/// Says which variables of a command are set nowhere: nothing stands for them here, and something may in the run.
pub fn note(imported: &mut ImportedPlan, unset: &[String], unread: &[String]) {
    let mut names: Vec<&str> = Vec::new();
    for name in unset {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return;
    }
    let unread: Vec<&str> = unread.iter().map(String::as_str).filter(|path| !sets_up_the_shell(path)).collect();
    let names = names.iter().map(|name| format!("${name}")).collect::<Vec<_>>().join(", ");
    let from = if unread.is_empty() { String::new() } else { format!(" ({} could not be read)", unread.join(", ")) };
    imported.note(format!("set nowhere in the script, taken as nothing or unknown: {names}{from}"));
    if let Some(file) = unread.first() {
        imported.unread = Some((*file).to_owned());
        imported.distrust();
    }
}

/// Whether a sourced file readies the shell or turns an environment of Python on: of a training it says nothing that the
/// shell in which the script is started would not say.
fn sets_up_the_shell(path: &str) -> bool {
    const ENDS: [&str; 9] = [
        "/etc/profile.d/conda.sh",
        "/etc/profile.d/mamba.sh",
        "/etc/profile.d/modules.sh",
        "/bin/activate",
        "/etc/profile",
        ".bashrc",
        ".bash_profile",
        ".profile",
        "/lmod/init/bash",
    ];
    path == "activate" || ENDS.iter().any(|end| path.ends_with(end))
}
