//! Edges that were once wrong: keys beside a resize, help at its end, text that steers a terminal.

use crate::plan::PLAN;
use crate::standin::{RealProcess, Scenario};
use crate::terminal::{Program, contains, keys};

#[test]
fn a_key_between_two_sizes_is_not_kept_back() {
    let mut terminal = Program::memwall().start();
    terminal.wait_for("demo");
    for turn in 0..200_u16 {
        let pane = ["1 Plan", "2 VRAM", "3 Roofline", "4 Monitor"][usize::from(turn % 4)];
        terminal.resize(80 + turn % 9, 24);
        terminal.keys(&pane[..1]);
        terminal.wait_for(&format!("╭ {pane}"));
    }
}

#[test]
fn the_help_does_not_scroll_beyond_its_end() {
    let mut terminal = Program::memwall().size(80, 24).start();
    terminal.wait_for("demo");
    terminal.keys("?");
    let top = terminal.wait_for("esc closes");
    terminal.keys(&keys::DOWN.repeat(99));
    terminal
        .wait_until("the end", |screen| screen.lines().nth(21).is_some_and(|line| line.contains("bandwidth in TB/s")));
    terminal.wait_frames(3);
    let end = terminal.screen();
    assert_ne!(end.lines().nth(4), top.lines().nth(4));
    terminal.keys("\x1b[A");
    terminal.wait_until("one line up", |screen| screen.lines().nth(4) != end.lines().nth(4));
}

#[test]
fn escape_closes_a_help_that_fits_and_other_keys_do_not() {
    let mut terminal = Program::memwall().size(200, 50).start();
    terminal.wait_for("demo");
    terminal.keys("?");
    terminal.wait_for("· esc closes");
    terminal.keys(keys::DOWN);
    terminal.keys("zoom");
    terminal.wait_for("keys with zoom");
    terminal.keys(keys::ESC);
    terminal.wait_for("· esc closes");
    terminal.keys(keys::ESC);
    terminal.wait_without("· esc closes");
}

#[test]
fn the_name_of_a_card_of_ones_own_is_cleaned_everywhere() {
    let custom =
        "{custom: {name: \"\\u202emy card\", memory_gb: 80, bandwidth_gb_s: 2000, peak_tflops: {bf16: 500, fp32: 50}}}";
    let plan = PLAN.replace("{gpu_type: NVIDIA H100}", custom);
    let terminal = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", plan).start();
    terminal.wait_for("demo");
    assert!(!contains(&terminal.raw(), "\u{202e}".as_bytes()), "{}", terminal.screen());
}

#[test]
fn a_file_name_from_right_to_left_is_cleaned_on_standard_error() {
    let terminal = Program::memwall().args(&["a\u{202e}b.txt"]).start();
    terminal.exit_code();
    assert!(!contains(&terminal.raw(), "\u{202e}".as_bytes()), "{}", terminal.screen());
}

#[test]
fn every_invisible_mark_in_a_process_name_is_cleaned() {
    for mark in ['\u{61c}', '\u{2028}', '\u{2029}', '\u{200b}', '\u{feff}', '\u{e0041}'] {
        let run = RealProcess::start(&[&format!("x{mark}y")]);
        let text = "gpus: [{ memory: { total: 85520809984, used: 1 }, processes: [{ pid: PID, memory: 5 }] }]";
        let scenario = Scenario::new(&text.replace("PID", &run.pid().to_string()));
        let terminal = Program::memwall().size(200, 50).nvml(&scenario).start();
        terminal.wait_for("sh -c read");
        assert!(!contains(&terminal.raw(), mark.to_string().as_bytes()), "U+{:04X}", u32::from(mark));
    }
}

#[test]
fn a_terminal_too_narrow_for_the_sentence_still_says_the_size_needed() {
    let terminal = Program::memwall().size(30, 9).start();
    terminal.wait_for("40×10");
}

#[test]
fn a_directory_is_named_with_a_blank_before_the_reason() {
    let program = Program::memwall().args(&["plans"]);
    std::fs::create_dir(program.folder().join("plans")).unwrap();
    let terminal = program.start();
    terminal.exit_code();
    assert!(terminal.screen().contains("plans: "), "{}", terminal.screen());
}

#[test]
fn terminals_of_every_size_that_can_be_claimed_are_drawn_on_within_bounds() {
    // Of one cell nothing can be read: it is waited for as long as frames come.
    for size in [(1, 1), (65_535, 65_535), (65_535, 1), (1, 65_535)] {
        let program = Program::memwall().args(&["mine.yaml", "--interval", "100ms"]).file("mine.yaml", PLAN);
        let terminal = program.size(size.0, size.1).start();
        terminal.wait_frames(3);
        let status = std::fs::read_to_string(format!("/proc/{}/status", terminal.dashboard())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
        // The program without optimisations has itself forty MiB more of code and tables than the released one.
        assert!(peak <= (64 + 40) << 10, "{size:?}: {peak} KiB");
        terminal.signal("TERM");
        terminal.assert_left_well();
    }
}
