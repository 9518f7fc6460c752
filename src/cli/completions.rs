//! `memwall completions`.

use clap::CommandFactory;

use super::args::{Cli, CompletionsArgs};
use super::{Exit, Streams};

pub fn run(args: &CompletionsArgs, streams: &mut Streams) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "memwall", &mut script);
    streams.print(&script)
}
