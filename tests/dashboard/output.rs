//! What is written to the terminal, byte by byte, and at which sizes.

use std::fs;
use std::path::Path;

use crate::plan::PLAN;
use crate::standin::Scenario;
use crate::terminal::{Program, Terminal, contains, keys};

const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

/// One GPU on which nothing changes.
const STILL: &str = "
gpus:
  - name: NVIDIA H100 80GB HBM3
    memory: { total: 85520809984, used: 21474836480 }
    busy: 97
    memory_busy: 20
    power: 612000
    temperature: 67
    memory_clock_max: 2619
    bus_width: 5120
";

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Everything between the marks of synchronized frames, and everything else.
fn frames(mut raw: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let (mut frames, mut outside) = (Vec::new(), Vec::new());
    while let Some(begin) = position(raw, BEGIN) {
        outside.extend_from_slice(&raw[..begin]);
        let rest = &raw[begin + BEGIN.len()..];
        let Some(end) = position(rest, END) else { return (frames, outside) };
        frames.push(rest[..end].to_vec());
        raw = &rest[end + END.len()..];
    }
    outside.extend_from_slice(raw);
    (frames, outside)
}

/// The bytes without escape sequences: what is printed.
fn printed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.iter().copied();
    let mut printed = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            // CSI: up to a letter, `@`, `~` and their like.
            0x1b if bytes.next() == Some(b'[') => drop(bytes.find(|byte| (0x40..=0x7e).contains(byte))),
            0x1b => {}
            _ => printed.push(byte),
        }
    }
    printed
}

/// The parameters of every `CSI … m`.
fn renditions(raw: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(raw);
    let sequences = text.split("\x1b[").skip(1);
    let whole = sequences
        .filter_map(|rest| rest.split_once(|c: char| ('@'..='~').contains(&c)).map(|(params, _)| (params, rest)));
    whole.filter(|(params, rest)| rest[params.len()..].starts_with('m')).map(|(params, _)| params.to_owned()).collect()
}

/// Whether one of them sets a colour (leaving a colour is none).
fn coloured(renditions: &[String]) -> bool {
    let sets = |code: u16| matches!(code, 30..=38 | 40..=48 | 58 | 90..=97 | 100..=107);
    renditions.iter().any(|params| params.split([';', ':']).next().and_then(|code| code.parse().ok()).is_some_and(sets))
}

/// Through every pane, the help, a typed value and a question.
fn look_everywhere(terminal: &mut Terminal) {
    terminal.wait_for("demo");
    for (key, shown) in
        [("2", "VRAM"), ("v", "VRAM"), ("3", "Roofline"), ("4", "Monitor"), ("5", "Compare"), ("1", "Plan")]
    {
        terminal.keys(key);
        terminal.keys("z");
        terminal.wait_until(shown, |screen| screen.lines().nth(3).is_some_and(|line| line.contains(shown)));
        terminal.keys("z");
    }
    terminal.keys("?");
    terminal.wait_for("esc closes");
    terminal.keys(keys::ESC);
    terminal.wait_without("esc closes");
    terminal.keys(keys::RIGHT);
    terminal.keys("q");
    terminal.wait_for("Unsaved changes");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn everything_is_drawn_in_synchronized_frames() {
    let mut terminal = Program::memwall().start();
    look_everywhere(&mut terminal);
    let (frames, outside) = frames(&terminal.raw());
    assert!(frames.len() > 5);
    let outside = printed(&outside);
    assert!(outside.iter().all(u8::is_ascii_whitespace), "outside of frames: {}", String::from_utf8_lossy(&outside));
    assert!(frames.iter().all(|frame| !contains(frame, BEGIN)), "frames within frames");
}

#[test]
fn a_frame_in_which_nothing_changed_is_cheap() {
    let scenario = Scenario::new(STILL);
    let program = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN).size(80, 24);
    let terminal = program.nvml(&scenario).start();
    terminal.wait_until("the card", |screen| screen.lines().next().is_some_and(|header| header.contains("nvml")));
    // The first samples change something: the comparison waits until it has seen whole steps.
    terminal.wait_until("both differences", |screen| {
        screen.lines().nth(1).is_some_and(|line| line.matches(" % ▼").count() == 2)
    });
    let before = frames(&terminal.raw()).0.len();
    terminal.wait_frames(12);
    let all = frames(&terminal.raw()).0;
    for frame in &all[before..] {
        assert!(frame.len() <= 200, "{} bytes: {}", frame.len(), String::from_utf8_lossy(frame).escape_debug());
    }
}

#[test]
fn without_colours_none_is_written() {
    for (args, variable) in [(&["--no-color"][..], ""), (&[], "1")] {
        let mut terminal = Program::memwall().args(args).env("NO_COLOR", variable).start();
        look_everywhere(&mut terminal);
        assert!(!coloured(&renditions(&terminal.raw())), "{:?}", renditions(&terminal.raw()));
    }
    // Set but empty asks for nothing (no-color.org).
    let mut terminal = Program::memwall().env("NO_COLOR", "").start();
    look_everywhere(&mut terminal);
    assert!(coloured(&renditions(&terminal.raw())));
}

#[test]
fn in_ascii_nothing_else_is_printed() {
    for (columns, rows) in [(80, 24), (120, 40), (200, 50)] {
        let mut terminal = Program::memwall().args(&["--ascii"]).size(columns, rows).start();
        look_everywhere(&mut terminal);
        let other: Vec<u8> = printed(&terminal.raw()).into_iter().filter(|byte| !byte.is_ascii()).collect();
        assert!(other.is_empty(), "{}", String::from_utf8_lossy(&other));
    }
}

/// The accent of a theme, as its file has it.
fn accent(theme: &str) -> vt100::Color {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("themes").join(format!("{theme}.yaml"));
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("accent: ")).unwrap();
    vt100::Color::Idx(line.trim().parse().unwrap())
}

#[test]
fn the_theme_follows_the_terminals_background() {
    assert_ne!(accent("dark"), accent("light"));
    let mut terminal = Program::without_theme().start();
    terminal.wait_raw(b"\x1b]11;?");
    // Black on white, and what kind of terminal this is, as one that knows the questions answers.
    terminal.keys("\x1b]10;rgb:0000/0000/0000\x1b\\\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;c");
    terminal.wait_for("demo");
    assert_eq!(terminal.colour_of("1 Plan"), accent("light"));
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_terminal_that_does_not_tell_its_background_is_taken_for_dark() {
    let mut terminal = Program::without_theme().start();
    terminal.wait_raw(b"\x1b]11;?");
    terminal.wait_for("demo");
    assert_eq!(terminal.colour_of("1 Plan"), accent("dark"));
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_theme_of_the_users_own_is_used() {
    let dark = Path::new(env!("CARGO_MANIFEST_DIR")).join("themes/dark.yaml");
    let mine = fs::read_to_string(dark).unwrap().replace("accent: 75", "accent: 201");
    let program = Program::without_theme().args(&["--theme", "mine"]);
    let themes = program.folder().join("config/memwall/themes");
    fs::create_dir_all(&themes).unwrap();
    fs::write(themes.join("mine.yaml"), mine).unwrap();
    let terminal = program.start();
    terminal.wait_for("demo");
    assert_eq!(terminal.colour_of("1 Plan"), vt100::Color::Idx(201));
}

#[test]
fn a_storm_of_sizes_ends_in_a_whole_screen() {
    let mut terminal = Program::memwall().start();
    terminal.wait_for("demo");
    // Knuth's MMIX generator: the same sizes every time.
    let mut state: u64 = 2;
    let mut below = |most: u16| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + u16::try_from((state >> 33) % u64::from(most)).unwrap()
    };
    for turn in 0..40 {
        terminal.resize(below(250), below(80));
        // Some sizes are drawn, some are gone before they could be.
        if turn % 4 == 0 {
            terminal.wait_frames(1);
        }
    }
    terminal.resize(120, 40);
    let whole = |screen: &str| {
        let rows: Vec<&str> = screen.lines().collect();
        rows.len() == 40
            && screen.matches('╭').count() == 4
            && screen.matches('╯').count() == 4
            && rows[2..39].iter().all(|row| row.ends_with(['│', '╮', '╯']) && row.chars().count() == 120)
            && rows[39].trim_end().ends_with("q quit")
    };
    terminal.wait_until("a whole screen", whole);
    terminal.keys("q");
    terminal.assert_left_well();
}

/// On standard error, once it takes over a second: a sweep is counted, and an error that is longer than the screen's
/// line breaks between words.
#[test]
fn a_long_command_says_how_far_it_is() {
    let vary = ["--vary", "batch_size=1..100", "--vary", "sequence_length=1..1000"];
    let mut swept = Program::without_theme().file("plan.yaml", "model: {preset: gpt2}\n");
    swept = swept.args(&["sweep", "plan.yaml"]).args(&vary).size(80, 24);
    let mut terminal = swept.start();
    terminal.wait_for("of 100000");
    assert!(terminal.screen().contains("predictions "), "{}", terminal.screen());
    terminal.keys("\x03");
    terminal.wait_end();
    let told = Program::without_theme().size(40, 24).args(&["predict", "transformer", "7", "32", "--gpus", "8"]);
    let terminal = told.args(&["--strategy", "hybrid"]).start();
    assert_eq!(terminal.exit_code(), 2);
    let words = terminal.screen().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Give --tensor-parallel N, --pipeline-parallel N or --data-parallel N"), "{words}");
    for line in terminal.screen().lines() {
        assert!(!line.ends_with("--"), "{}", terminal.screen());
    }
}
