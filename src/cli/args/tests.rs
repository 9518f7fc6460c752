use clap::Parser;

use super::*;
use crate::observe::Departure;
use crate::units::Bytes;

fn parsed(line: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once(&"memwall").chain(line))
}

fn command(line: &[&str]) -> Result<Option<Command>, clap::Error> {
    parsed(line).map(|cli| cli.command)
}

/// The dashboard's arguments, where the line asks for it.
fn dashboard(line: &[&str]) -> DashboardArgs {
    let cli = parsed(line).unwrap();
    assert_eq!(cli.command, None);
    cli.dashboard
}

#[test]
fn the_definition_holds_together() {
    Cli::program().debug_assert();
}

/// Words of a shell's line, up to where its output goes.
fn words(line: &str) -> Vec<String> {
    let line = line.split(" > ").flat_map(|part| part.split(" | ")).next().unwrap();
    let mut words: Vec<String> = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[test]
fn each_command_has_three_examples_that_it_reads() {
    let program = Cli::program();
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let text = command.get_after_long_help().unwrap_or_else(|| panic!("{name} has no examples")).to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| line.contains("memwall ")).collect();
        let examples: Vec<&str> = lines.into_iter().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(examples.len(), 3, "{name}");
        assert!(words(examples[0])[1] == name, "{name}: {}", examples[0]);
        for example in examples {
            // What another program is told stands before the bar.
            let own = example.rsplit_once("| memwall").map_or(example.to_owned(), |(_, rest)| format!("memwall{rest}"));
            if let Err(error) = Cli::program().try_get_matches_from(words(&own)) {
                panic!("{example}: {error}");
            }
        }
    }
}

#[test]
fn the_last_of_an_option_counts_and_lists_keep_all() {
    let args = dashboard(&["--interval", "1s", "plan.yaml", "--interval", "2s"]);
    assert_eq!(args.interval, Some(Duration::from_secs(2)));
    let Ok(Some(Command::Sweep(sweep))) =
        command(&["sweep", "p.yaml", "--vary", "c=1,2", "--set", "a=1", "--set", "b=2"])
    else {
        panic!("a sweep");
    };
    assert_eq!(sweep.set, ["a=1", "b=2"]);
}

#[test]
fn a_bare_word_is_a_plan() {
    let args = dashboard(&["plan.yaml", "--interval", "500ms", "--source", "demo"]);
    assert_eq!(args.plan, Some(PathBuf::from("plan.yaml")));
    assert_eq!(
        (args.interval, args.source),
        (Some(Duration::from_millis(500)), Some(SourceChoice::Demo(Departure::default())))
    );
    let args = dashboard(&[]);
    assert_eq!((args.plan, args.interval), (None, None));
    assert!(matches!(command(&["predict", "plan.yaml"]), Ok(Some(Command::Predict(_)))));
}

#[test]
fn a_mistyped_command_is_named() {
    let args = dashboard(&["predcit"]);
    assert_eq!(args.no_such_plan().unwrap(), "predcit: no such plan file; the command is `predict`");
    let args = dashboard(&["Cargo.toml"]);
    assert_eq!(args.no_such_plan(), None);
}

#[test]
fn a_plan_that_is_not_there_is_begun_where_it_can_be() {
    assert_eq!(dashboard(&["not-there.yaml"]).no_such_plan(), None);
    let nowhere = dashboard(&["no-such-folder/not-there.yaml"]).no_such_plan();
    assert_eq!(nowhere.unwrap(), "no-such-folder/not-there.yaml: no such plan file");
}

#[test]
fn the_theme_may_have_no_name() {
    assert_eq!(dashboard(&["--theme"]).look.theme.as_deref(), Some(LIST_THEMES));
    assert_eq!(dashboard(&["--theme", "dark", "a.yaml"]).look.theme.as_deref(), Some("dark"));
}

#[test]
fn a_source_is_named_with_what_it_needs() {
    let args = dashboard(&["--source", "replay:a:b.ndjson"]);
    let replay = SourceChoice::Replay { path: PathBuf::from("a:b.ndjson"), speed: 1.0 };
    assert_eq!(args.source, Some(replay));
    for wrong in ["replay", "replay:", "smi", "demo:x"] {
        assert_eq!(command(&["--source", wrong]).unwrap_err().exit_code(), 2, "{wrong}");
    }
}

#[test]
fn a_recording_is_told_where_when_and_how_large() {
    let line = ["record", "-o", "r.ndjson", "--rotate", "1GiB", "--keep", "3", "--duration", "2h"];
    let Ok(Some(Command::Record(args))) = command(&line) else { panic!("no recording") };
    assert_eq!((args.rotate, args.keep), (Some(Bytes(1 << 30)), Some(3)));
    assert_eq!(args.duration, Some(Duration::from_secs(7200)));
    for wrong in [&["record"][..], &["record", "-o", "a", "--keep", "2"], &["record", "-o", "a", "--rotate", "9"]] {
        assert_eq!(command(wrong).unwrap_err().exit_code(), 2, "{wrong:?}");
    }
    assert!(command(&["replay", "a", "--speed", "0"]).is_err());
}

#[test]
fn intervals_have_bounds() {
    for (text, fine) in [("100ms", true), ("60s", true), ("1m", true), ("99ms", false), ("61s", false), ("x", false)] {
        assert_eq!(command(&["--interval", text]).is_ok(), fine, "{text}");
    }
}

#[test]
fn faults_of_usage_exit_with_2() {
    for line in [&["predict"][..], &["validate"], &["--nonsense"], &["gpus", "--format", "csv"], &["a", "b"]] {
        let error = command(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line:?}");
    }
}
