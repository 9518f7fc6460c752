//! The command: parse, call the library, exit code.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use memwall::cli::{self, Exit, Streams, args, dashboard};

fn main() -> ExitCode {
    let (mut input, mut out, mut err) = (io::stdin(), io::stdout(), io::stderr());
    let mut streams = Streams { input: &mut input, out: &mut out, err: &mut err };
    let asked = match args::parsed() {
        Ok(asked) => asked,
        Err(message) => return streams.fail(Exit::Usage, &message).into(),
    };
    cli::run(asked, &mut streams, |args, catalog, streams| {
        if let Some(why) = dashboard::unable(std::env::var_os("TERM").as_deref()).filter(|_| io::stdout().is_terminal())
        {
            streams.fail(Exit::Failed, &why)
        } else if io::stdin().is_terminal() && io::stdout().is_terminal() {
            dashboard::supervisor::supervise(streams, |streams| dashboard::run(&args, catalog, streams))
        } else {
            cli::without_screen(&args, &catalog, streams)
        }
    })
    .into()
}
