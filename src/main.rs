//! The command: parse, call the library, exit code.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use memwall::cli::{self, Failure, Streams, args, dashboard};

fn main() -> ExitCode {
    let (mut input, mut out, mut err) = (io::stdin(), io::stdout(), io::stderr());
    let mut streams = Streams { input: &mut input, out: &mut out, err: &mut err };
    let asked = match args::parsed() {
        Ok(asked) => asked,
        Err(failure) => return streams.end(Err(failure)).into(),
    };
    cli::run(asked, &mut streams, |args, streams| {
        if let Some(why) = dashboard::unable(std::env::var_os("TERM").as_deref()).filter(|_| io::stdout().is_terminal())
        {
            Err(Failure::failed(why))
        } else if io::stdin().is_terminal() && io::stdout().is_terminal() {
            dashboard::supervisor::supervise(streams, || {
                let (catalog, faults) = cli::own_catalog();
                dashboard::run(&args, catalog, &faults)
            })
        } else {
            let catalog = cli::catalog(streams);
            cli::without_screen(&args, &catalog, streams)
        }
    })
    .into()
}
