//! Terminals that answer late, in pieces, or are not read: their answers are no keys, and nothing else waits for them.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;

use crate::plan::PLAN;
use crate::standin::{Scenario, wait_for};
use crate::terminal::{Link, Program, Terminal, keys};

/// Late answers as terminals give them (xterm's ctlseqs): to OSC 10, 11 and 52, XTVERSION, DA2, DECRQM; a change of focus.
const ANSWERS: [&str; 7] = [
    "\x1b]10;rgb:0000/0000/0000\x1b\\",
    "\x1b]11;rgb:ffff/ffff/ffff\x07",
    "\x1b]52;c;cnFycnFy\x1b\\",
    "\x1bP>|tmux 3.4 rqRz\x1b\\",
    "\x1b[>41;390;0c",
    "\x1b[?2026;2$y",
    "\x1b[I\x1b[O",
];

fn recordings(terminal: &Terminal) -> usize {
    let entries = fs::read_dir(terminal.folder()).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().path().to_string_lossy().contains(".ndjson")).count()
}

#[test]
fn answers_of_terminals_are_no_keys_whole_late_or_in_pieces() {
    let program = Program::memwall().args(&["mine.yaml", "--interval", "100ms"]).silent();
    let mut terminal = program.file("mine.yaml", PLAN).start();
    terminal.wait_for("demo");
    for answer in ANSWERS {
        terminal.keys(answer);
        // A sample later, as a slow link has it; the first byte alone is the longest in doubt.
        for cut in [1, 2, answer.len() / 2] {
            terminal.keys(&answer[..cut]);
            terminal.wait_frames(2);
            terminal.keys(&answer[cut..]);
        }
        terminal.keys("?");
        terminal.wait_for("esc closes");
        terminal.keys(keys::ESC);
        let screen = terminal.wait_without("esc closes");
        assert!(!screen.contains("rec") || !screen.contains("recording"), "{answer:?}:\n{screen}");
        assert!(!screen.contains("draft"), "{answer:?}:\n{screen}");
    }
    assert_eq!(recordings(&terminal), 0);
    terminal.keys("q");
    terminal.assert_left_well();
}

/// A GPU that is never twice the same, and hot from the third second on.
const BUSY: &str = "
gpus:
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-1
    memory: { total: 85520809984, used: { noise: [40000000000, 30000000000], every_ms: 50 } }
    busy: { noise: [50, 49], every_ms: 50 }
    power: { noise: [400000, 300000], every_ms: 50 }
    power_limit: 700000
    temperature: { steps: [[0, 50], [3000, 95]] }
";

/// A dashboard that records, whose alerts leave a file, and whose terminal nobody reads any more.
fn unread(scenario: &Scenario) -> (Terminal, PathBuf) {
    let program = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN).nvml(scenario).size(200, 50);
    let alerted = program.folder().join("alerted");
    let config = program.folder().join("config/memwall");
    fs::create_dir_all(&config).unwrap();
    let rules = format!("temperature: 90\nnotify: [bell]\ncommand: [touch, '{}']\n", alerted.display());
    fs::write(config.join("alerts.yaml"), rules).unwrap();
    let mut terminal = program.start();
    terminal.wait_for("GPU 0");
    // Of the plan pane more is worked out when it grows, which takes long without optimisations.
    terminal.keys("4r");
    terminal.wait_for("● rec");
    terminal.leave_unread();
    turn_screens(&mut terminal);
    (terminal, alerted)
}

/// Another whole screen with each sample: together more than the system keeps for a terminal.
fn turn_screens(terminal: &mut Terminal) {
    for _ in 0..13 {
        let samples = recorded(terminal);
        terminal.keys("z");
        wait_for("a sample", || recorded(terminal) > samples);
    }
}

fn recording(terminal: &Terminal) -> PathBuf {
    let mut entries = fs::read_dir(terminal.folder()).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.to_string_lossy().ends_with(".ndjson.gz")).unwrap()
}

fn text_of(path: &std::path::Path) -> String {
    let mut bytes = Vec::new();
    // Its end is not written yet.
    drop(MultiGzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes));
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    String::from_utf8(bytes[..whole].to_vec()).unwrap()
}

fn recorded(terminal: &Terminal) -> usize {
    text_of(&recording(terminal)).lines().count()
}

/// KiB that a process has resident.
fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// How long the terminal is left unread before the GPU is hot: `MEMWALL_UNREAD_MINUTES`, else no longer than it takes.
fn unread_for() -> Duration {
    let minutes = std::env::var("MEMWALL_UNREAD_MINUTES").ok().and_then(|text| text.parse::<u64>().ok());
    Duration::from_secs(60 * minutes.unwrap_or(0))
}

#[test]
fn an_unread_terminal_holds_up_no_alert_no_recording_and_no_end() {
    let heat = 3000 + unread_for().as_millis();
    let scenario = Scenario::new(&BUSY.replace("[3000, 95]", &format!("[{heat}, 95]")));
    let begun = Instant::now();
    let (terminal, alerted) = unread(&scenario);
    // Frames that nobody takes are no memory: once it has some history, as much after forty samples more.
    let (pid, samples) = (terminal.dashboard(), recorded(&terminal) + 40);
    wait_for("some history", || recorded(&terminal) >= samples);
    let before = resident_kib(pid);
    std::thread::sleep(unread_for().saturating_sub(begun.elapsed()));
    wait_for("the heat", || text_of(&recording(&terminal)).contains(r#""temperature":{"value":95.0}"#));
    let hot = Instant::now();
    wait_for("the alert's command", || alerted.exists());
    assert!(hot.elapsed() <= Duration::from_secs(2), "{:?}", hot.elapsed());
    wait_for("forty samples", || recorded(&terminal) >= samples + 40);
    let grown = resident_kib(pid).saturating_sub(before);
    println!("{:?} unread: {} samples, {before} KiB and {grown} more", begun.elapsed(), recorded(&terminal));
    assert!(grown <= 1024, "{grown} KiB more");
    let asked = Instant::now();
    terminal.signal("TERM");
    terminal.wait_end();
    assert!(asked.elapsed() <= Duration::from_secs(1), "{:?}", asked.elapsed());
    assert_complete(&recording(&terminal));
    terminal.read_on();
    terminal.assert_left_well();
}

/// No sample is missing: none was dropped since it began.
fn assert_complete(path: &std::path::Path) {
    let dropped = |line: &str| {
        let sample: serde_json::Value = serde_json::from_str(line).unwrap();
        (sample["at"].as_u64().unwrap(), sample.get("dropped").and_then(serde_json::Value::as_u64).unwrap_or(0))
    };
    let samples: Vec<(u64, u64)> = text_of(path).lines().skip(1).map(dropped).collect();
    assert!(samples.iter().all(|(_, dropped)| *dropped == samples[0].1), "{samples:?}");
}

#[test]
fn over_a_slow_line_the_screen_is_right_soon_after_held_keys() {
    // 64 kbit/s are 8000 bytes a second.
    let link = Link { bytes_per_s: 8000.0, delay: Duration::from_millis(100) };
    let mut terminal = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN).over(link).start();
    terminal.wait_for("demo");
    // Another whole screen each time; of the plan pane more is worked out, which takes long without optimisations.
    terminal.keys("4");
    terminal.hold("z", Duration::from_secs(10));
    let before = terminal.raw().len();
    terminal.keys("?");
    terminal.wait_for("esc closes");
    // What the line alone takes, there and back, however busy the machine of the test is.
    let bytes = terminal.raw().len() - before;
    let taken = Duration::from_secs_f64(bytes as f64 / link.bytes_per_s) + 2 * link.delay;
    println!("{bytes} bytes: {taken:?}");
    assert!(taken <= Duration::from_secs(2), "{bytes} bytes: {taken:?}");
    terminal.keys(keys::ESC);
    terminal.wait_without("esc closes");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn what_waits_for_a_terminal_that_answers_is_one_frame() {
    let scenario = Scenario::new(BUSY);
    let (terminal, _) = unread(&scenario);
    let before = terminal.raw().len();
    terminal.read_on();
    // Thirteen times the pane was zoomed and back: at last it is zoomed.
    terminal.wait_until("the zoomed pane", |screen| screen.matches('╭').count() == 1);
    let waited = terminal.raw().len() - before;
    // A whole screen is 200 x 50 characters with their colours; thirteen of them were asked for.
    assert!(waited < 60_000, "{waited} bytes");
    terminal.signal("TERM");
    terminal.assert_left_well();
}
