//! What other programs get: completions, JSON schemas, the Python client, man pages.

use std::fs;
use std::io;
use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap_complete::Shell;

use super::args::{Cli, CompletionsArgs, ManArgs, SchemaArgs, SchemaName};
use super::dashboard::known_themes;
use super::{Exit, Failure, Streams};
use crate::catalog::Catalog;
use crate::lessons::lessons;
use crate::manual::TOPICS;
use crate::plan::{EXAMPLES, json_schema};
use crate::report::schema;

/// The client module.
const PYTHON: &str = include_str!("python/memwall.py");

/// `memwall python`.
pub fn python(streams: &mut Streams) -> Exit {
    streams.print(PYTHON)
}

/// `memwall schema NAME`.
pub fn schema(args: &SchemaArgs, streams: &mut Streams) -> Exit {
    let schema = match args.name {
        SchemaName::Plan => json_schema(),
        SchemaName::Report => schema::report(),
        SchemaName::Recording => schema::recording(),
        SchemaName::Cases => schema::cases(),
    };
    streams.print(format!("{schema:#}\n"))
}

/// `memwall completions`.
pub fn completions(args: &CompletionsArgs, streams: &mut Streams) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut with_names(Cli::program(), args.shell), "memwall", &mut script);
    streams.print(&script)
}

/// The program with the names that an argument may be: the shells offer them, the program itself forgives more.
fn with_names(program: clap::Command, shell: Shell) -> clap::Command {
    let catalog = Catalog::embedded().unwrap_or_default();
    let gpus: Vec<String> = catalog.gpus.iter().map(|gpu| word(&gpu.name)).collect();
    let models: Vec<String> = catalog.models.iter().map(|model| word(&model.name)).collect();
    let topics: Vec<String> = TOPICS.iter().map(|topic| topic.name.to_owned()).collect();
    let commands: Vec<String> = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|command| command.get_name().to_owned())
        .collect();
    let terms: Vec<String> = lessons().iter().map(|lesson| slug(lesson.name)).collect();
    let themes = known_themes(None);
    let plans = EXAMPLES.iter().map(|(name, _)| (*name).to_owned());
    let starts: Vec<String> = models.iter().cloned().chain(plans).collect();
    let named = |argument: clap::Arg, command: &str| {
        let names = match (command, argument.get_id().as_str()) {
            ("models", "fit" | "scales") | (_, "gpu_type") | ("gpus", "name") => &gpus,
            ("models", "name") => &models,
            ("new", "from") => &starts,
            ("help", "topic") => &[topics.as_slice(), &commands].concat(),
            // Where names are given, zsh offers no files, which a log is.
            ("explain", "what") if shell != Shell::Zsh => &terms,
            ("man", "command") => &commands,
            (_, "theme") => &themes,
            _ => return argument,
        };
        argument.value_parser(PossibleValuesParser::new(names.iter().cloned()))
    };
    program.mut_args(|argument| named(argument, "")).mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        command.mut_args(|argument| named(argument, &name))
    })
}

/// A name as one word: blanks do not matter in names, nor does the vendor of most.
fn word(name: &str) -> String {
    name.trim_start_matches("NVIDIA ").replace(' ', "-")
}

/// A term as one word in small letters.
pub fn slug(term: &str) -> String {
    term.to_lowercase().replace(' ', "-")
}

/// `memwall man`.
pub fn man(args: &ManArgs, streams: &mut Streams) -> Result<Exit, Failure> {
    let mut program = Cli::program();
    program.build();
    if let Some(folder) = &args.output {
        let written = write_pages(&program, folder);
        written.map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
        return Ok(Exit::Done);
    }
    let command = match &args.command {
        None => Some(&program),
        Some(name) => program.find_subcommand(name),
    };
    let Some(command) = command else {
        let name = args.command.as_deref().unwrap_or_default();
        return Err(Failure::usage(format!("man: no command `{name}`; see memwall --help")));
    };
    let page = page(command).map_err(|error| Failure::failed(format!("man: {error}")))?;
    Ok(streams.print(page))
}

fn write_pages(program: &clap::Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
    for command in shown.chain([program]) {
        fs::write(folder.join(format!("{}.1", name(command))), page(command)?)?;
    }
    Ok(())
}

/// The name of a command's page.
fn name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name(command)).render(&mut page)?;
    Ok(with_values(&String::from_utf8_lossy(&page), command).into_bytes())
}

/// A page whose synopsis names the value of each option that takes one: clap_mangen writes the option alone.
fn with_values(page: &str, command: &clap::Command) -> String {
    const HEADING: &str = ".SH SYNOPSIS\n";
    let Some((before, rest)) = page.split_once(HEADING) else { return page.to_owned() };
    let (mut synopsis, rest) =
        rest.split_once('\n').map_or((rest.to_owned(), ""), |(line, rest)| (line.to_owned(), rest));
    let escaped = |text: &str| text.replace('-', "\\-");
    for option in command.get_arguments().filter(|argument| argument.get_action().takes_values()) {
        let (Some(long), Some(names)) = (option.get_long(), option.get_value_names()) else { continue };
        let flag = format!("\\fB\\-\\-{}\\fR", escaped(long));
        let value = format!("{flag} \\fI{}\\fR", escaped(&names.join(" ")));
        synopsis = synopsis.replacen(&flag, &value, 1);
    }
    format!("{before}{HEADING}{synopsis}\n{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synopsis(name: &str) -> String {
        let mut program = Cli::program();
        program.build();
        let command = if name.is_empty() { &program } else { program.find_subcommand(name).unwrap() };
        let page = String::from_utf8(page(command).unwrap()).unwrap();
        page.split(".SH SYNOPSIS\n").nth(1).unwrap().lines().next().unwrap().to_owned()
    }

    #[test]
    fn the_synopsis_of_a_page_names_values() {
        let program = synopsis("");
        for part in [r"[\fB\-\-attach\fR \fIPID\fR]", r"[\fB\-\-log\-pattern\fR \fIREGEX\fR]", r"[\fB\-\-once\fR]"] {
            assert!(program.contains(part), "{part}: {program}");
        }
        assert!(synopsis("models").contains(r"[\fB\-\-fit\fR \fIGPU\fR]"), "{}", synopsis("models"));
    }

    #[test]
    fn names_that_are_completed_are_understood() {
        let catalog = Catalog::embedded().unwrap();
        for gpu in catalog.gpus.iter() {
            assert_eq!(catalog.gpu(&word(&gpu.name)).map(|found| &found.name), Some(&gpu.name));
            assert!(!word(&gpu.name).contains(' '), "{}", gpu.name);
        }
        for lesson in lessons() {
            assert_eq!(crate::lessons::lesson(&slug(lesson.name)), Some(lesson));
        }
    }
}
