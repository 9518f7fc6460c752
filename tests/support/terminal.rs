//! A program in a pseudo-terminal, as a user has it: shows what is on its screen, types, resizes, sends signals, and sees
//! how it ends.
//!
//! Nothing here sleeps: a wait ends as soon as the screen is as wanted, and fails with that screen
//! when it is not so in time. What lies between the marks of a synchronized frame is seen when
//! the frame is whole, as a terminal shows it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::MasterPty;
use tempfile::TempDir;

use super::program::{Writer, cells, mode_of, pty_size};
use super::screen::Shared;

pub use super::program::{Link, Program};

/// Keys as a terminal sends them.
pub mod keys {
    pub const DOWN: &str = "\x1b[B";
    pub const UP: &str = "\x1b[A";
    pub const RIGHT: &str = "\x1b[C";
    pub const LEFT: &str = "\x1b[D";
    pub const HOME: &str = "\x1b[H";
    pub const ENTER: &str = "\r";
    pub const TAB: &str = "\t";
    pub const BACK_TAB: &str = "\x1b[Z";
    pub const ESC: &str = "\x1b";
    pub const CTRL_C: &str = "\x03";
}

/// A started program and its terminal.
pub struct Terminal {
    pub(super) shared: Arc<Shared>,
    pub(super) master: Option<Box<dyn MasterPty + Send>>,
    pub(super) writer: Option<Writer>,
    pub(super) pid: u32,
    pub(super) mode_before: String,
    pub(super) home: TempDir,
}

impl Terminal {
    /// Waits until the text is on the screen; the screen then.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Waits until the text is no longer on the screen; the screen then.
    pub fn wait_without(&self, text: &str) -> String {
        self.wait_until(&format!("a screen without {text:?}"), |screen| !screen.contains(text))
    }

    /// Waits until the screen is as wanted; the screen then.
    pub fn wait_until(&self, what: &str, mut wanted: impl FnMut(&str) -> bool) -> String {
        self.shared.wait(what, |seen| {
            let text = seen.text();
            (!seen.frames().drawing && wanted(&text)).then_some(text)
        })
    }

    /// How many frames were shown so far.
    pub fn frames(&self) -> usize {
        self.shared.lock().frames().shown.len()
    }

    /// The first frame after that many which is as wanted.
    pub fn first_frame(&self, after: usize, what: &str, mut wanted: impl FnMut(&str) -> bool) -> String {
        self.shared.wait(what, |seen| seen.frames().shown.iter().skip(after).find(|frame| wanted(frame)).cloned())
    }

    /// Waits for that many frames more.
    pub fn wait_frames(&self, more: usize) {
        let before = self.frames();
        self.shared.wait("more frames", |seen| (seen.frames().shown.len() >= before + more).then_some(()));
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        self.shared.lock().text()
    }

    /// Everything that was written so far.
    pub fn raw(&self) -> Vec<u8> {
        self.shared.lock().raw.clone()
    }

    /// Waits until these bytes have been written.
    pub fn wait_raw(&self, bytes: &[u8]) {
        let what = format!("the bytes {:?}", String::from_utf8_lossy(bytes));
        self.shared.wait(&what, |seen| contains(&seen.raw, bytes).then_some(()));
    }

    /// The colour in which that text stands on the screen.
    pub fn colour_of(&self, text: &str) -> vt100::Color {
        let seen = self.shared.lock();
        let screen = seen.parser.screen();
        let (rows, columns) = screen.size();
        for row in 0..rows.get() {
            let symbols: Vec<&str> =
                (0..columns.get()).map(|column| screen.cell(row, column).map_or("", |cell| cell.contents())).collect();
            let width = text.chars().count();
            if let Some(column) = symbols.windows(width).position(|window| window.concat() == text) {
                return screen.cell(row, u16::try_from(column).unwrap()).unwrap().fgcolor();
            }
        }
        panic!("no {text:?} on\n{}", screen.contents());
    }

    /// Another program writes over the screen.
    pub fn scribble(&self, text: &str) {
        self.shared.change(|seen| seen.parser.process(format!("\x1b[1;1H{text}").as_bytes()));
    }

    /// Types.
    pub fn keys(&mut self, keys: &str) {
        let mut writer = self.writer.as_mut().unwrap().lock().unwrap();
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    /// Holds a key down that long: it comes thirty times a second.
    pub fn hold(&mut self, key: &str, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.keys(key);
            thread::sleep(Duration::from_millis(33));
        }
    }

    /// The process that draws: the one that the shell waits for does not.
    pub fn dashboard(&self) -> u32 {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid)).unwrap_or_default();
        children.split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap_or(self.pid)
    }

    /// Another size.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.shared.change(|seen| seen.parser.set_size(cells(rows), cells(columns)));
        self.master().resize(pty_size((columns, rows))).unwrap();
    }

    fn master(&self) -> &dyn MasterPty {
        &**self.master.as_ref().unwrap()
    }

    /// The terminal goes away, as when a window is closed or a line breaks; waits for the end of
    /// the program then.
    pub fn hang_up(&mut self) {
        // The reader's copy goes at the next frame.
        self.shared.lock().hung_up = true;
        (self.master, self.writer) = (None, None);
        self.shared.wait("the end", |seen| seen.status.clone().map(drop));
    }

    /// Nobody reads what it writes, as over a line that hangs.
    pub fn leave_unread(&self) {
        self.shared.lock().unread = true;
    }

    /// Reads again.
    pub fn read_on(&self) {
        self.shared.change(|seen| seen.unread = false);
    }

    /// Waits for the end of the program, whatever is still to be read of it.
    pub fn wait_end(&self) {
        self.shared.wait("the end", |seen| seen.status.clone().map(drop));
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid.to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end of the program and of what it wrote; its exit code.
    pub fn exit_code(&self) -> u32 {
        let status = self.shared.wait("the end", |seen| seen.status.clone().filter(|_| seen.closed));
        assert_eq!(status.signal(), None, "it was killed");
        status.exit_code()
    }

    /// Waits for the end; asserts that it went well and that the terminal is as it was before.
    pub fn assert_left_well(&self) {
        let code = self.exit_code();
        assert_eq!(code, 0, "{}", self.screen());
        self.assert_restored();
    }

    /// Asserts that the terminal is as it was before the program.
    pub fn assert_restored(&self) {
        let seen = self.shared.lock();
        let screen = seen.parser.screen();
        assert!(!screen.alternate_screen(), "still on the alternate screen");
        assert!(!screen.hide_cursor(), "the cursor is hidden");
        assert!(!screen.bracketed_paste(), "pastes are still bracketed");
        assert!(!seen.frames().drawing, "synchronized output is still on");
        assert_eq!(screen.fgcolor(), vt100::Color::Default, "what follows is coloured");
        drop(seen);
        assert_eq!(mode_of(self.master()), self.mode_before, "the terminal's mode is another");
    }

    /// Asserts that the terminal is in raw mode: what `assert_restored` looks at does change.
    pub fn assert_taken_over(&self) {
        let seen = self.shared.lock();
        assert!(seen.parser.screen().alternate_screen() && seen.parser.screen().hide_cursor());
        drop(seen);
        assert_ne!(mode_of(self.master()), self.mode_before);
    }

    /// What it wrote on standard error, where that went apart.
    pub fn stderr(&self) -> String {
        String::from_utf8(std::fs::read(self.home.path().join("stderr.txt")).unwrap()).unwrap()
    }

    /// Its working directory.
    pub fn folder(&self) -> &Path {
        self.home.path()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.read_on();
        // A test that failed leaves no program behind. An ended one's pid may be another's by now.
        if self.shared.lock().status.is_none() {
            drop(Command::new("kill").args(["-s", "KILL", &self.pid.to_string()]).stderr(Stdio::null()).status());
        }
    }
}

/// Whether `part` occurs in `whole`.
pub fn contains(whole: &[u8], part: &[u8]) -> bool {
    whole.windows(part.len()).any(|window| window == part)
}
