//! What is unsaved when it ends badly, and files that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::plan::PLAN;
use crate::standin::wait_for;
use crate::terminal::{Program, Terminal, keys};

/// The dashboard on a plan at that place, with its state there.
fn open(folder: &Path) -> Terminal {
    open_at(folder, folder)
}

fn open_at(folder: &Path, state: &Path) -> Terminal {
    let plan = folder.join("mine.yaml");
    let terminal =
        Program::memwall().args(&[plan.to_str().unwrap()]).env("XDG_STATE_HOME", state.join("state")).start();
    terminal.wait_for("demo");
    terminal
}

/// The sequence's next value.
fn edit(terminal: &mut Terminal) {
    terminal.keys(&keys::DOWN.repeat(6));
    terminal.keys(keys::RIGHT);
    terminal.wait_for("4096");
}

/// Kills it, and waits until the process that draws, which outlives the shell's child by a little, is gone too.
fn kill(terminal: &mut Terminal) {
    let dashboard = terminal.dashboard();
    terminal.signal("KILL");
    terminal.hang_up();
    wait_for("its end", || !Path::new(&format!("/proc/{dashboard}")).exists());
}

/// Texts that are kept whole.
fn kept(folder: &Path) -> usize {
    let is_whole = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|ending| ending == "json");
    fs::read_dir(folder.join("state/memwall/unsaved")).map_or(0, |all| all.flatten().filter(is_whole).count())
}

#[test]
fn what_is_unsaved_survives_a_lost_terminal_a_signal_and_a_kill() {
    for end in ["hang up", "TERM", "KILL"] {
        let folder = tempfile::tempdir().unwrap();
        let plan = folder.path().join("mine.yaml");
        fs::write(&plan, PLAN).unwrap();
        let mut terminal = open(folder.path());
        edit(&mut terminal);
        match end {
            "hang up" => terminal.hang_up(),
            "KILL" => {
                wait_for("the text kept", || kept(folder.path()) == 1);
                kill(&mut terminal);
            }
            signal => {
                terminal.signal(signal);
                terminal.exit_code();
            }
        }
        assert_eq!(fs::read_to_string(&plan).unwrap(), PLAN, "{end}: the file is as it was");

        let mut again = open(folder.path());
        let screen = again.wait_for("Unsaved changes were kept");
        assert!(screen.contains("+   sequence_length: 4096"), "{end}:\n{screen}");
        again.keys("r");
        again.wait_for("are back");
        again.keys("ss");
        again.wait_for(" saved /");
        assert_eq!(fs::read_to_string(&plan).unwrap(), PLAN.replace("2048", "4096"), "{end}");
        again.keys("q");
        again.assert_left_well();
        assert_eq!(kept(folder.path()), 0, "{end}: nothing is kept any more");
    }
}

#[test]
fn two_dashboards_on_one_plan_keep_a_draft_each_and_know_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("mine.yaml");
    fs::write(&plan, PLAN).unwrap();
    let mut one = open(folder.path());
    edit(&mut one);
    wait_for("the first draft", || kept(folder.path()) == 1);
    let mut other = open(folder.path());
    // The first one lives: its draft is nobody else's.
    let screen = other.wait_for("is open in another dashboard too, process ");
    assert!(!screen.contains("were kept"), "{screen}");
    edit(&mut other);
    wait_for("the second draft", || kept(folder.path()) == 2);
    for terminal in [&mut one, &mut other] {
        kill(terminal);
    }
    // Meanwhile somebody else writes another part of the plan.
    fs::write(&plan, PLAN.replace("num_gpus: 1", "num_gpus: 2")).unwrap();
    let mut again = open(folder.path());
    let screen = again.wait_for("2 drafts were kept");
    assert!(screen.contains("by process ") && screen.contains("+   sequence_length: 4096"), "{screen}");
    again.keys("d");
    again.wait_for("Unsaved changes were kept");
    wait_for("the first one's end", || kept(folder.path()) == 1);
    again.keys("r");
    again.wait_for("merged with what was written since");
    again.keys("ss");
    again.wait_for(" saved /");
    assert_eq!(fs::read_to_string(&plan).unwrap(), PLAN.replace("2048", "4096").replace("num_gpus: 1", "num_gpus: 2"));
    wait_for("no draft once saved", || kept(folder.path()) == 0);
}

#[test]
fn changes_that_were_discarded_are_not_offered_again() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.yaml"), PLAN).unwrap();
    let mut terminal = open(folder.path());
    edit(&mut terminal);
    terminal.keys("q");
    terminal.wait_for("Unsaved changes");
    terminal.keys("q");
    terminal.assert_left_well();
    assert_eq!(kept(folder.path()), 0);
}

#[test]
fn a_full_disk_loses_nothing() {
    // A limit of no bytes to a file stands for a disk without room: every write fails.
    let full = "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"";
    let program = Program::at("sh").args(&["-c", full, env!("CARGO_BIN_EXE_memwall"), "--theme", "dark", "mine.yaml"]);
    let mut terminal = program.file("mine.yaml", PLAN).start();
    terminal.wait_for("demo");
    edit(&mut terminal);
    terminal.wait_for("unsaved changes are not kept against a crash: ");
    terminal.keys("ss");
    let screen = terminal.wait_for("not saved: ");
    assert!(screen.contains("4096"), "{screen}");
    assert_eq!(fs::read_to_string(terminal.folder().join("mine.yaml")).unwrap(), PLAN);
    let beside = fs::read_dir(terminal.folder())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".memwall"));
    assert_eq!(beside.count(), 0, "nothing is left beside it");
    // It is still unsaved.
    terminal.keys("q");
    terminal.wait_for("Unsaved changes");
}

#[test]
fn a_folder_removed_underneath_is_said_and_another_file_takes_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).unwrap();
    fs::write(gone.join("mine.yaml"), PLAN).unwrap();
    let mut terminal = open_at(&gone, folder.path());
    edit(&mut terminal);
    fs::remove_dir_all(&gone).unwrap();
    terminal.keys("ss");
    terminal.wait_for("not saved: ");
    let other = folder.path().join("other.yaml");
    terminal.keys("S");
    terminal.wait_for("save as");
    terminal.keys(other.to_str().unwrap());
    terminal.keys(keys::ENTER);
    terminal.wait_for(" saved /");
    assert_eq!(fs::read_to_string(other).unwrap(), PLAN.replace("2048", "4096"));
}

#[test]
fn a_file_removed_underneath_is_said_and_written_again_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("mine.yaml");
    fs::write(&plan, PLAN).unwrap();
    let mut terminal = open(folder.path());
    edit(&mut terminal);
    fs::remove_file(&plan).unwrap();
    terminal.keys("ss");
    terminal.wait_for("The file is gone");
    terminal.keys(keys::ESC);
    terminal.wait_without("The file is gone");
    assert!(!plan.exists(), "not on its own");
    terminal.keys("ss");
    terminal.wait_for("w write it again");
    terminal.keys("w");
    terminal.wait_for(" saved /");
    assert_eq!(fs::read_to_string(&plan).unwrap(), PLAN.replace("2048", "4096"));
}

#[test]
fn a_key_map_with_a_fault_is_a_line_on_the_screen_with_its_place() {
    let program = Program::memwall().size(200, 50);
    let config = program.folder().join("config/memwall");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("keys.yaml"), "plan:\n  w: sav\n").unwrap();
    let mut terminal = program.start();
    terminal.wait_for("keys.yaml:2:6: no action `sav`; nearest: `save`");
    // The keys are those of the table until it is mended.
    terminal.keys("q");
    terminal.assert_left_well();
}

/// A disk of its own, which answers again and goes whatever becomes of the test.
struct Disk(PathBuf);

impl Disk {
    /// None where this user cannot mount one.
    fn mount(folder: &Path) -> Option<Self> {
        let script = "truncate -s 20M disk && mkfs.ext4 -q disk && mkdir at && mount -o loop disk at";
        let done = Command::new("sh").args(["-c", script]).current_dir(folder).output().unwrap();
        done.status.success().then(|| Self(folder.join("at")))
    }

    fn answer(&self, whether: &str) -> bool {
        Command::new("fsfreeze").arg(whether).arg(&self.0).status().is_ok_and(|status| status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.answer("-u");
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[test]
fn a_disk_that_does_not_answer_keeps_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(folder.path()) else {
        eprintln!("not run: this user cannot mount a disk");
        return;
    };
    fs::write(disk.0.join("mine.yaml"), PLAN).unwrap();
    let mut terminal = open_at(&disk.0, folder.path());
    edit(&mut terminal);
    assert!(disk.answer("-f"), "stopped");
    terminal.keys("ss");
    terminal.wait_for("saving for ");
    let asked = Instant::now();
    terminal.signal("TERM");
    terminal.wait_end();
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    terminal.wait_for("a disk does not answer");
    terminal.assert_restored();
}
