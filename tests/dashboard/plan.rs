//! Changing a plan, and what happens to its file.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::terminal::{Program, Terminal, keys};

/// Small, valid, and with what editing must not lose: comments, blanks, quotes, a closing remark.
pub const PLAN: &str = "\
# one card, one night
model:
  preset: llama-2-7b      # the small one
  batch_size: 8
  sequence_length: 2048   # tokens, special ones included
training:
    precision: \"bf16-mixed\"
    micro_batch_size: 1
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 1}
# the end
";

/// Rows of the form down to that one.
const GPU: usize = 2;
const SEQUENCE: usize = 6;

fn open(content: &str) -> Terminal {
    let terminal = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", content).start();
    terminal.wait_for("demo");
    terminal
}

fn select(terminal: &mut Terminal, row: usize, label: &str) {
    terminal.keys(keys::HOME);
    terminal.keys(&keys::DOWN.repeat(row));
    terminal.wait_until(&format!("{label} selected"), |screen| {
        field(screen, label).is_some_and(|field| field.contains('‹') || field.contains('›'))
    });
}

/// The field's row of the form.
fn field(screen: &str, label: &str) -> Option<String> {
    let row = screen.lines().find(|line| line.starts_with(&format!("│{label} ")))?;
    Some(row.split('│').nth(1)?.to_owned())
}

/// Its value, without what the run's plan says there.
fn value(screen: &str, label: &str) -> String {
    let field = field(screen, label).unwrap_or_default().replace(['‹', '›'], "");
    field.split("  was ").next().unwrap_or_default().trim_start_matches(label).trim().to_owned()
}

/// What the plan in front predicts: a row of the memory list, without what the run's plan has there.
fn memory_row(screen: &str, word: &str) -> String {
    let words = [format!("░░ {word} "), format!("    {word}   ")];
    let row = screen.lines().find_map(|line| words.iter().find_map(|word| Some(&line[line.find(word)?..])));
    row.unwrap_or_else(|| panic!("no {word}:\n{screen}")).chars().take(22).collect()
}

/// The roofs that the roofline pane names.
fn roofline_title(screen: &str) -> String {
    let row = screen.lines().find_map(|line| Some(&line[line.find("3 Roofline")?..])).unwrap();
    row.split('╮').next().unwrap().to_owned()
}

fn text(terminal: &Terminal) -> String {
    fs::read_to_string(terminal.folder().join("mine.yaml")).unwrap()
}

#[test]
fn another_value_is_answered_by_the_other_panes_in_the_same_frame() {
    let mut terminal = open(PLAN);
    select(&mut terminal, SEQUENCE, "sequence");
    let before = terminal.screen();
    let frames = terminal.frames();
    terminal.keys(keys::RIGHT);
    let frame = terminal.first_frame(frames, "4096", |frame| value(frame, "sequence") == "4096");
    assert_ne!(memory_row(&frame, "activations"), memory_row(&before, "activations"), "{frame}");
    assert!(frame.contains("· uns"), "unsaved:\n{frame}");

    terminal.keys("u");
    let undone = terminal.wait_until("2048", |screen| value(screen, "sequence") == "2048");
    assert_eq!(memory_row(&undone, "device-used"), memory_row(&before, "device-used"));
    assert_eq!(memory_row(&undone, "activations"), memory_row(&before, "activations"));

    // Another GPU has other roofs and another capacity.
    select(&mut terminal, GPU, "GPU");
    let card = value(&terminal.screen(), "GPU");
    let frames = terminal.frames();
    terminal.keys(keys::RIGHT);
    let frame = terminal.first_frame(frames, "another card", |frame| value(frame, "GPU") != card);
    assert_ne!(roofline_title(&frame), roofline_title(&before), "{frame}");
    terminal.keys(keys::LEFT);
    terminal.wait_until("the first card", |screen| value(screen, "GPU") == card);
    assert_eq!(text(&terminal), PLAN, "nothing is written before it is asked for");
}

#[test]
fn a_value_is_typed_or_pasted() {
    let mut terminal = open(PLAN);
    select(&mut terminal, SEQUENCE, "sequence");
    terminal.keys(keys::ENTER);
    terminal.wait_for("was 2048");
    // Keys of the dashboard are letters here.
    terminal.keys("z1q");
    terminal.wait_for("▸ z1q");
    terminal.keys("\x7f\x7f\x7f");
    terminal.wait_without("z1q");
    terminal.keys("10");
    terminal.keys("\x1b[200~2\n4\x1b[31m\x1b[201~");
    terminal.wait_for("▸ 1024");
    terminal.keys("\x15");
    terminal.keys("1024");
    terminal.wait_until("just the number", |screen| value(screen, "sequence") == "▸ 1024");
    terminal.keys(keys::ENTER);
    terminal.wait_until("1024", |screen| value(screen, "sequence") == "1024");
}

#[test]
fn a_broken_value_keeps_the_last_good_plan_and_says_what_is_wrong() {
    let mut terminal = open(PLAN);
    select(&mut terminal, SEQUENCE, "sequence");
    let before = terminal.screen();
    terminal.keys(keys::ENTER);
    terminal.wait_for("was 2048");
    terminal.keys("many");
    terminal.keys(keys::ENTER);
    let broken = terminal.wait_for("last good plan");
    assert!(broken.contains("│5:20: model.sequence_length:"), "{broken}");
    assert_eq!(memory_row(&broken, "device-used"), memory_row(&before, "device-used"));
    assert_eq!(memory_row(&broken, "activations"), memory_row(&before, "activations"));
    terminal.keys("u");
    let undone = terminal.wait_without("last good plan");
    assert_eq!(value(&undone, "sequence"), "2048");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn saving_changes_that_value_and_nothing_else() {
    let program = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN);
    let (file, twin) = (program.folder().join("mine.yaml"), program.folder().join("twin"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(&file, &twin).unwrap();
    let mut terminal = program.start();
    terminal.wait_for("demo");
    select(&mut terminal, SEQUENCE, "sequence");
    terminal.keys(keys::RIGHT);
    terminal.wait_for("4096");
    terminal.keys("s");
    terminal.wait_for("to be saved");
    terminal.keys("s");
    terminal.wait_for("saved mine.yaml");
    assert_eq!(text(&terminal), PLAN.replace("2048", "4096"));
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
    // Its other name is still the same file's.
    assert_eq!(fs::read_to_string(&twin).unwrap(), PLAN.replace("2048", "4096"));
    let names = fs::read_dir(terminal.folder()).unwrap().map(|entry| entry.unwrap().file_name());
    // What is kept of unsaved changes is in the user's state directory.
    let mut names: Vec<String> =
        names.map(|name| name.into_string().unwrap()).filter(|name| name != ".local" && name != "hooks").collect();
    names.sort();
    assert_eq!(names, ["mine.yaml", "twin"], "nothing is left beside it");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_new_user_finds_the_largest_batch_that_fits_by_what_the_screen_says() {
    // Sharded over eight GPUs it fits, and more than one sample at a time does.
    let plan = PLAN.replace("num_gpus: 1}", "num_gpus: 8}\ndistribution: {sharding: zero3}");
    let program = Program::memwall().size(80, 24).file("mine.yaml", &plan);
    let mut terminal = program.start();
    let footer = |screen: String| screen.lines().last().unwrap().to_owned();
    // The program is started without a plan: how to open one is the first word of the bottom line.
    terminal.wait_for("o open");
    terminal.keys("o");
    terminal.wait_for("choose, or type a path");
    terminal.keys("mine");
    terminal.wait_for("▸ mine.yaml");
    terminal.keys(keys::ENTER);
    let screen = terminal.wait_for("mine · draft");
    assert!(footer(screen).contains("m max batch"));
    terminal.keys("m");
    let screen = terminal.wait_for("the largest that fits");
    assert!(screen.contains("one more") && screen.contains("GiB left"), "{screen}");
    assert!(footer(screen).contains("⏎ takes it into the plan"));
    terminal.keys(keys::ENTER);
    let screen = terminal.wait_for("s saves it");
    assert!(screen.contains("draft"), "{screen}");
    terminal.keys("s");
    let screen = terminal.wait_for("to be saved");
    assert!(footer(screen).contains("s or ⏎ saves this"));
    terminal.keys("s");
    terminal.wait_for("saved mine.yaml");
    assert!(!text(&terminal).contains("batch_size: 8 ") && text(&terminal).contains("# the end"), "another batch");
    // 10 keys: o, four letters and Enter, m, Enter, s, s.
}

#[test]
fn what_someone_else_changed_is_not_overwritten() {
    let mut terminal = open(PLAN);
    select(&mut terminal, SEQUENCE, "sequence");
    terminal.keys(keys::RIGHT);
    terminal.wait_for("4096");
    let theirs = PLAN.replace("one night", "two nights");
    fs::write(terminal.folder().join("mine.yaml"), &theirs).unwrap();
    terminal.keys("ss");
    terminal.wait_for("Changed by someone else");
    assert_eq!(text(&terminal), theirs);
    // Their comment and our value: both.
    terminal.keys("m");
    terminal.wait_for("merged");
    terminal.keys("ss");
    terminal.wait_for("saved mine.yaml");
    assert_eq!(text(&terminal), theirs.replace("2048", "4096"));
}

#[test]
fn leaving_with_unsaved_changes_asks() {
    let mut terminal = open(PLAN);
    select(&mut terminal, SEQUENCE, "sequence");
    terminal.keys(keys::RIGHT);
    terminal.wait_for("4096");
    terminal.keys("q");
    terminal.wait_for("Unsaved changes");
    terminal.keys(keys::ESC);
    terminal.wait_without("Unsaved changes");
    terminal.keys("q");
    terminal.wait_for("Unsaved changes");
    terminal.keys("q");
    terminal.assert_left_well();
    assert_eq!(text(&terminal), PLAN);

    let mut terminal = open(PLAN);
    select(&mut terminal, SEQUENCE, "sequence");
    terminal.keys(keys::RIGHT);
    terminal.wait_for("4096");
    terminal.keys(keys::CTRL_C);
    terminal.wait_for("Unsaved changes");
    terminal.keys("s");
    terminal.assert_left_well();
    assert_eq!(text(&terminal), PLAN.replace("2048", "4096"));
}

#[test]
fn an_example_is_saved_as_a_new_file_and_over_nobodys() {
    const NAME: &str = "13b_long_sequence.yaml";
    let change = |terminal: &mut Terminal| {
        terminal.wait_for("demo");
        let before = value(&terminal.screen(), "sequence");
        terminal.keys(&keys::DOWN.repeat(SEQUENCE));
        terminal.keys(keys::LEFT);
        terminal.wait_until("another sequence", |screen| {
            let now = value(screen, "sequence");
            !now.is_empty() && now != before
        });
        terminal.keys("ss");
    };
    let mut terminal = Program::memwall().start();
    change(&mut terminal);
    terminal.wait_for(&format!("saved {NAME}"));
    let written = fs::read_to_string(terminal.folder().join(NAME)).unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/plans").join(NAME);
    let shipped = fs::read_to_string(shipped).unwrap();
    let other = written.lines().zip(shipped.lines()).filter(|(ours, theirs)| ours != theirs).count();
    assert_eq!((other, written.lines().count()), (1, shipped.lines().count()), "one line is another:\n{written}");

    let mut terminal = Program::memwall().file(NAME, "mine").start();
    change(&mut terminal);
    terminal.wait_for("exists already");
    assert_eq!(fs::read_to_string(terminal.folder().join(NAME)).unwrap(), "mine");
}
