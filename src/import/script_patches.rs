//! Modules of transformers that a project puts others in the place of, as it is imported.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::python::ScriptReader;
use super::rows::not_modelled;

/// No more names are shown.
const MOST_NAMED: usize = 6;

/// Says which modules of a library's model a package of the project replaces where the script does `import package`:
/// `transformers.models.llama.modeling_llama.LlamaRMSNorm = RMSNorm`. What hangs on the environment counts as done.
pub fn say(imported: &mut ImportedPlan, reader: &ScriptReader, context: &ImportContext) {
    let folder = reader.name().rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let packages = reader.content().lines().filter_map(|line| {
        let name = line.strip_prefix("import ")?.split([' ', '.', ',', '#']).next()?;
        (!name.is_empty()).then(|| format!("{folder}{name}/__init__.py"))
    });
    for path in packages {
        let Ok(text) = context.run.files.read(&path) else { continue };
        let mut names: Vec<&str> = replaced(&text);
        names.dedup();
        names.truncate(MOST_NAMED);
        if !names.is_empty() {
            not_modelled(imported, &format!("{path}: what it puts in place of transformers' {}", names.join(", ")));
        }
    }
}

/// The names that a module gives other values in a module of transformers, outside of functions.
fn replaced(text: &str) -> Vec<&str> {
    let mut functions: Vec<usize> = Vec::new();
    let mut names = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let indent = line.len() - line.trim_start().len();
        functions.retain(|function| *function < indent);
        let code = line.trim_start();
        if code.starts_with("def ") {
            functions.push(indent);
            continue;
        }
        let told = code.split_once(" = ").filter(|_| functions.is_empty() && !code.starts_with('#'));
        if let Some((place, _)) = told
            && let Some((_, behind)) = place.split_once("modeling_")
            && !place.contains(['(', ' '])
            && let Some((_, name)) = behind.split_once('.')
        {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn what_is_replaced_as_a_package_is_imported_is_named() {
        let text = "import os\nif os.environ.get('A'):\n    import transformers\n    \
                    transformers.models.llama.modeling_llama.LlamaRMSNorm = RMSNorm\n\
                    def replace():\n    transformers.models.llama.modeling_llama.LlamaMLP = MLP\n\
                    modeling_llama = transformers.models.llama.modeling_llama\n";
        assert_eq!(replaced(text), ["LlamaRMSNorm"]);
    }
}
