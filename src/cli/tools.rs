//! What other programs get: completions, JSON schemas, the Python client, man pages.

use std::fs;
use std::io;
use std::path::Path;

use super::args::{Cli, CompletionsArgs, ManArgs, SchemaArgs, SchemaName};
use super::{Exit, Failure, Streams};
use crate::plan::json_schema;
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
    clap_complete::generate(args.shell, &mut Cli::program(), "memwall", &mut script);
    streams.print(&script)
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
    Ok(page)
}
