//! Real processes on simulated GPUs, through a driver that does what drivers do.

use std::time::{Duration, Instant};

use crate::plan::PLAN;
use crate::standin::{RealProcess, Scenario};
use crate::terminal::{Program, Terminal, contains, keys};

/// Two GPUs; `EXTRA` is for what a test changes on the first.
const CARDS: &str = "
log: LOG
gpus:
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-1
    memory: { total: 85520809984, used: 21474836480 }
    busy: 97
    memory_busy: 40
    power: 612000
    power_limit: 700000
    temperature: 67
    sm_clock: 1755
    memory_clock: 2619
    memory_clock_max: 2619
    bus_width: 5120
    EXTRA
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-2
    memory: { total: 85520809984, used: 1073741824 }
    busy: 3
    power: POWER
    power_limit: 700000
    temperature: 41
";

fn cards(extra: &str) -> String {
    CARDS.replace("EXTRA", extra).replace("POWER", "71000")
}

/// 20 GiB on the first GPU.
fn held_by(process: &RealProcess) -> String {
    cards(&format!("processes: [{{ pid: {}, memory: 21474836480 }}]", process.pid()))
}

fn start(scenario: &Scenario, args: &[&str]) -> Terminal {
    let program = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN).size(160, 50);
    program.args(args).nvml(scenario).start()
}

fn header(screen: &str) -> &str {
    screen.lines().next().unwrap_or_default()
}

/// The row of a GPU, which begins with its number.
fn card(screen: &str, number: u32) -> &str {
    let begins = |row: &&str| row.trim_start_matches(['▸', ' ']).starts_with(&format!("{number} "));
    let monitor = screen.lines().skip_while(|line| !line.contains("4 Monitor"));
    let mut rows = monitor.flat_map(|line| line.split('│')).filter(begins);
    rows.find(|row| row.contains(['▕', '–'])).unwrap_or_default()
}

/// The row of a process.
fn process(screen: &str, pid: u32) -> Option<String> {
    let pid = pid.to_string();
    let rows = screen.lines().flat_map(|line| line.split('│'));
    let mut rows = rows.filter(|row| row.split_whitespace().any(|word| word.trim_start_matches(['▶', '▸']) == pid));
    rows.find(|row| row.contains("sh")).map(str::to_owned)
}

#[test]
fn cards_and_real_processes_are_shown_as_the_driver_tells_them() {
    let run = RealProcess::start(&["train.py", "--epochs=3"]);
    let scenario = Scenario::new(&held_by(&run));
    let mut terminal = start(&scenario, &[]);
    let screen = terminal.wait_until("nvml", |screen| header(screen).contains("nvml") && screen.contains("train.py"));
    assert!(!header(&screen).contains("demo"), "{screen}");
    assert!(screen.contains("driver 550.54.15") && screen.contains("CUDA 12.4"), "{screen}");
    let first = card(&screen, 0);
    // 21 474 836 480 bytes are 20 GiB.
    for figure in ["20.0", "97%", "612", "67", "1755"] {
        assert!(first.contains(figure), "{figure}: {first}");
    }
    assert!(card(&screen, 1).contains("1.00") && card(&screen, 1).contains("71"), "{screen}");
    let row = process(&screen, run.pid()).unwrap();
    assert!(row.contains("20.0") && row.contains("train.py"), "{row}");
    terminal.keys("4z");
    terminal.wait_for("train.py --epochs=3");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_card_without_counters_has_a_bound_on_its_bandwidth() {
    let scenario = Scenario::new(&cards(""));
    let terminal = start(&scenario, &[]);
    // 40 % of 5120 bits / 8 x 2 x 2619 MHz = 1.34 TB/s.
    let screen = terminal.wait_for("≤1.34");
    assert!(card(&screen, 0).contains("≤1.34"), "{screen}");
    assert!(card(&screen, 1).contains('–'), "the other tells none:\n{screen}");
}

#[test]
fn a_card_with_counters_has_a_measured_bandwidth() {
    let scenario = Scenario::new(&cards("gpm: { metrics: { 2: 97, 5: 44, 10: 39 } }"));
    let terminal = start(&scenario, &[]);
    // 39 % of 3.352 TB/s.
    let screen = terminal.wait_until("a bandwidth", |screen| screen.contains("1.31"));
    let row = card(&screen, 0);
    assert!(row.contains("1.31") && !row.contains('≤') && row.contains("44%"), "{row}");
}

#[test]
fn a_process_is_attached_by_enter_and_let_go_of() {
    let run = RealProcess::start(&["train.py"]);
    let scenario = Scenario::new(&held_by(&run));
    let mut terminal = start(&scenario, &[]);
    terminal.wait_for("train.py");
    let pid = run.pid().to_string();
    terminal.keys("4");
    terminal.keys(&keys::DOWN.repeat(9));
    terminal.keys(keys::ENTER);
    let screen = terminal.wait_for(&format!("attached to {pid}"));
    assert!(header(&screen).contains(&format!("▶ {pid}")), "{screen}");
    assert!(process(&screen, run.pid()).unwrap().contains('▶'), "{screen}");
    terminal.keys("5");
    terminal.wait_for(&format!("process {pid} on GPU 0"));
    terminal.keys("4");
    terminal.keys(keys::ENTER);
    let screen = terminal.wait_for(&format!("detached from {pid}"));
    assert!(!header(&screen).contains('▶'), "{screen}");
}

#[test]
fn a_process_is_attached_from_the_start_and_its_end_is_said() {
    let run = RealProcess::start(&["train.py"]);
    let pid = run.pid().to_string();
    let scenario = Scenario::new(&cards(""));
    let mut terminal = start(&scenario, &["--attach", &pid]);
    terminal.wait_until("nvml", |screen| header(screen).contains("nvml"));
    let screen = terminal.wait_for("not on a GPU yet");
    assert!(header(&screen).contains(&pid), "{screen}");
    scenario.write(&held_by(&run));
    terminal.wait_until("its name", |screen| header(screen).contains(&format!("▶ {pid} sh")));
    terminal.keys("5");
    terminal.wait_for(&format!("process {pid} on GPU 0"));
    run.end();
    scenario.write(&cards(""));
    terminal.wait_until("its end", |screen| header(screen).contains(&format!("▶ {pid} ended")));
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_lost_card_keeps_its_row_with_the_reason_and_the_others_go_on() {
    let scenario = Scenario::new(&cards(""));
    let terminal = start(&scenario, &[]);
    terminal.wait_for("612");
    scenario.write(&cards("lost: {}"));
    let screen = terminal.wait_until("the loss", |screen| card(screen, 0).contains("gone"));
    assert!(!card(&screen, 0).contains("612"), "{screen}");
    assert!(header(&screen).contains("nvml"), "{screen}");
    scenario.write(&cards("lost: {}").replace("71000", "83000"));
    let screen = terminal.wait_until("the other card", |screen| card(screen, 1).contains("83"));
    assert!(card(&screen, 0).contains("gone"), "{screen}");
    scenario.write(&cards(""));
    terminal.wait_until("the card back", |screen| card(screen, 0).contains("612"));
}

#[test]
fn a_call_that_hangs_leaves_the_keys_alone_and_the_age_of_the_figures_is_shown() {
    let scenario = Scenario::new(&cards(""));
    let mut terminal = start(&scenario, &[]);
    terminal.wait_for("612");
    let hang = "faults: [{ call: nvmlDeviceGetPowerUsage, hang_s: 3600 }]\n";
    scenario.write(&format!("{hang}{}", cards("")));
    let power = || scenario.calls().iter().filter(|call| call.starts_with("nvmlDeviceGetPowerUsage")).count();
    terminal.wait_until("old figures", |screen| header(screen).contains(" old"));
    let stuck = power();
    // The best of several, because the machine has others to serve; a key that waited for the
    // driver would wait each time.
    let answers = (0..8).map(|_| {
        let start = Instant::now();
        terminal.keys("?");
        terminal.wait_for("esc closes");
        let answered = start.elapsed();
        terminal.keys(keys::ESC);
        terminal.wait_without("esc closes");
        answered
    });
    let quickest = answers.min().unwrap();
    assert!(quickest < Duration::from_millis(50), "{quickest:?}");
    terminal.keys("3");
    terminal.keys("z");
    let screen = terminal.wait_until("a zoomed pane", |screen| screen.matches('╭').count() == 1);
    assert!(header(&screen).contains(" old"), "{screen}");
    assert_eq!(power(), stuck, "it does not hang");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_driver_that_does_not_start_is_a_demo_with_the_reason_or_a_clear_line() {
    for (text, reason) in [("init: 9", "NVIDIA driver not loaded"), ("gpus: []", "NVIDIA driver sees no GPU")] {
        let scenario = Scenario::new(text);
        let terminal = start(&scenario, &[]);
        let screen = terminal.wait_for(reason);
        assert!(header(&screen).contains("demo"), "{screen}");
    }
    let scenario = Scenario::new("init: 9");
    let mut terminal = start(&scenario, &["--source", "nvml"]);
    let screen = terminal.wait_for("the NVIDIA driver is not loaded");
    assert!(!screen.contains("demo"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn names_from_outside_do_not_reach_the_terminal_as_they_are() {
    // Colour, window title, a new line, text from right to left, an 8-bit control sequence.
    let evil = ["\x1b[31mRED", "\x1b]0;TITLE\x07", "two\nlines", "\u{202e}txet\u{2066}", "\u{9b}2J", "\x08\x08"];
    let run = RealProcess::start(&evil);
    let named = r#"name: "card\e[2J\e]0;TITLE\a\u202E""#;
    let text = held_by(&run).replacen("name: NVIDIA H100 80GB HBM3", named, 1);
    let scenario = Scenario::new(&text);
    let name = "a\x1b[31mb\u{202e}c";
    let program = Program::memwall().size(200, 50).args(&[format!("{name}.yaml")]).nvml(&scenario);
    let mut terminal = program.file(format!("{name}.yaml"), PLAN).start();
    let screen = terminal.wait_for("RED");
    let row = process(&screen, run.pid()).unwrap();
    assert!(row.contains("TITLE") && row.contains("two") && row.contains("lines"), "in one row: {row}");
    for pane in ["1", "2", "3", "4z", "5"] {
        let frames = terminal.frames();
        terminal.keys(pane);
        terminal.first_frame(frames, "a frame", |_| true);
    }
    terminal.keys("q");
    terminal.assert_left_well();
    let raw = terminal.raw();
    for part in ["\x1b[31mRED", "\x1b]0;", "\x07", "\u{202e}", "\u{2066}", "\u{9b}", "\x08", "\x1b[2J\x1b]"] {
        assert!(!contains(&raw, part.as_bytes()), "{part:?} was written");
    }
}

#[test]
fn a_process_is_ended_from_the_table_after_its_pid_is_typed() {
    let run = RealProcess::start(&["train.py"]);
    let pid = run.pid();
    let scenario = Scenario::new(&held_by(&run));
    let mut terminal = start(&scenario, &[]);
    terminal.wait_for("train.py");
    terminal.keys("4x");
    terminal.wait_for(&format!("type {pid}"));
    terminal.keys("1\r");
    terminal.wait_for("the pid was not typed");
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    terminal.keys("x");
    terminal.wait_for(&format!("type {pid}"));
    terminal.keys(&format!("{pid}\r"));
    terminal.wait_for(&format!("asked {pid} to end"));
    // Its parent, this test, has not waited for it: a zombie is what is left of it.
    crate::standin::wait_for("its end", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    });
    terminal.keys("q");
    terminal.assert_left_well();
}
