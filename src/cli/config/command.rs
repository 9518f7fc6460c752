//! `memwall config`: the options as they hold, and a commented example of the file.

use super::{Config, OPTIONS, OptionSource, example, file};
use crate::cli::args::ConfigArgs;
use crate::cli::{Exit, Streams, output};

/// Writes what holds and who says it; faults are told, and make it fail.
pub fn run(args: &ConfigArgs, streams: &mut Streams) -> Exit {
    if args.example {
        return streams.print(output::yaml_on_page(&example()));
    }
    let variable = |name: &str| std::env::var_os(name);
    let config = Config::load(variable);
    let mut text = match file(variable) {
        Some(path) if path.is_file() => format!("# {}\n", path.display()),
        Some(path) => format!("# {}\n# is not there; `memwall config --example` writes one\n", path.display()),
        None => "# no home, so no config.yaml\n".to_owned(),
    };
    for option in OPTIONS {
        let said = config.said.iter().find(|(key, ..)| *key == option.key);
        let (value, by) = match said {
            Some((_, value, OptionSource::File)) => (value.as_str(), "config.yaml"),
            Some((_, value, OptionSource::Variable(name))) => (value.as_str(), name.as_str()),
            None => (option.default, "default"),
        };
        text += &format!("{:<12}{value:<46}  # {by}\n", format!("{}:", option.key));
    }
    let exit = streams.print(text);
    config.faults.iter().fold(exit, |exit, fault| exit.and(streams.fail(Exit::Usage, fault)))
}
