//! `memwall completions`.

use super::args::{Cli, CompletionsArgs};
use super::{Exit, Streams};

pub fn run(args: &CompletionsArgs, streams: &mut Streams) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::program(), "memwall", &mut script);
    streams.print(&script)
}
