//! A program in a pseudo-terminal, as a user has it: starts it with a size and an environment of
//! its own, shows what is on its screen, types, resizes, sends signals, and sees how it ends.
//!
//! Nothing here sleeps: a wait ends as soon as the screen is as wanted, and fails with that screen
//! when it is not so in time. What lies between the marks of a synchronized frame is seen when
//! the frame is whole, as a terminal shows it.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use tempfile::TempDir;

use super::screen::{Frames, Shared};
use super::standin::Scenario;

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

/// A program that is about to be started.
pub struct Program {
    path: PathBuf,
    args: Vec<String>,
    env: Vec<(String, PathBuf)>,
    size: (u16, u16),
    home: TempDir,
    elsewhere: Option<PathBuf>,
    stderr_apart: bool,
    link: Option<Link>,
    silent: bool,
}

/// A slow line between the program and its terminal, with a buffer before it that takes everything, as sshd has one.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// Bytes that pass in a second.
    pub bytes_per_s: f64,
    /// Time that everything takes there, and the same back.
    pub delay: Duration,
}

impl Program {
    /// The program at a path, in an empty folder that is its home as well. It finds no driver,
    /// also on a machine that has one.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let none = home.path().join("no-driver.so");
        // Hooks of other runs on this machine are not heard: there is no such place.
        let hooks = none.join("hooks");
        let env = [("MEMWALL_NVML_LIB", none.clone()), ("MEMWALL_SYS_ROOT", none), ("MEMWALL_HOOK_DIR", hooks)];
        let env = env.map(|(name, path)| (name.to_owned(), path)).into();
        Self {
            path: path.into(),
            args: Vec::new(),
            env,
            size: (120, 40),
            home,
            elsewhere: None,
            stderr_apart: false,
            link: None,
            silent: false,
        }
    }

    /// The program under test, with a theme so that it need not ask the terminal for one.
    pub fn memwall() -> Self {
        Self::without_theme().args(&["--theme", "dark"])
    }

    /// The program under test as it comes.
    pub fn without_theme() -> Self {
        Self::at(env!("CARGO_BIN_EXE_memwall"))
    }

    /// More arguments.
    pub fn args(mut self, args: &[impl AsRef<str>]) -> Self {
        self.args.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// One more variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.to_owned(), PathBuf::from(value.as_ref())));
        self
    }

    /// With the driver of a scenario, asked often.
    pub fn nvml(mut self, scenario: &Scenario) -> Self {
        self.env.extend(scenario.env().map(|(name, path)| (name.to_owned(), path)));
        self.args(&["--interval", "200ms"])
    }

    /// In a terminal of that many columns and rows.
    pub fn size(mut self, columns: u16, rows: u16) -> Self {
        self.size = (columns, rows);
        self
    }

    /// Standard error goes to a file instead of the terminal.
    pub fn stderr_apart(mut self) -> Self {
        self.stderr_apart = true;
        self
    }

    /// The terminal is at the other end of that line, and answers when it is asked how it is.
    pub fn over(mut self, link: Link) -> Self {
        self.link = Some(link);
        self
    }

    /// The terminal answers nothing of itself.
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    /// Working in another folder than its own.
    pub fn in_folder(mut self, folder: &str) -> Self {
        self.elsewhere = Some(PathBuf::from(folder));
        self
    }

    /// Its working directory.
    pub fn folder(&self) -> &Path {
        self.home.path()
    }

    /// A file in its working directory.
    pub fn file(self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.folder().join(name), content).unwrap();
        self
    }

    fn command(&self) -> CommandBuilder {
        let mut command = if self.stderr_apart {
            let mut shell = CommandBuilder::new("sh");
            // `exec` so that the pid is the program's.
            shell.args(["-c", "exec \"$0\" \"$@\" 2> stderr.txt"]);
            shell.arg(&self.path);
            shell
        } else {
            CommandBuilder::new(&self.path)
        };
        command.args(&self.args);
        command.cwd(self.elsewhere.as_deref().unwrap_or(self.folder()));
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("TERM", "xterm-256color");
        command.env("HOME", self.folder());
        command.env("XDG_CONFIG_HOME", self.folder().join("config"));
        for (name, value) in &self.env {
            command.env(name, value);
        }
        command
    }

    /// Starts it.
    pub fn start(self) -> Terminal {
        let pair = native_pty_system().openpty(pty_size(self.size)).unwrap();
        let mode_before = mode_of(&*pair.master);
        let mut child = pair.slave.spawn_command(self.command()).unwrap();
        // The program's end has to be the end of the stream.
        drop(pair.slave);
        let pid = child.process_id().unwrap();
        // What claims to be larger than any screen is no larger here.
        let (columns, rows) = (cells(self.size.0.min(1000)), cells(self.size.1.min(300)));
        let parser = vt100::Parser::new_with_callbacks(rows, columns, 0, Frames::default());
        let shared = Arc::new(Shared::new(parser));
        let reader = pair.master.try_clone_reader().unwrap();
        let writer = Arc::new(Mutex::new(pair.master.take_writer().unwrap()));
        let shown = Arc::clone(&shared);
        match self.link {
            None => {
                let answers = Arc::clone(&writer);
                thread::spawn(move || {
                    read_all(reader, &shown, |bytes| {
                        if shown.show(bytes) && !self.silent {
                            answer(&answers);
                        }
                    });
                    shown.change(|seen| seen.closed = true);
                });
            }
            Some(link) => {
                let (sent, coming) = std::sync::mpsc::channel();
                let arrives = Arc::clone(&shown);
                let answers = Arc::clone(&writer);
                thread::spawn(move || link.carry(&coming, &arrives, &answers));
                thread::spawn(move || {
                    read_all(reader, &shown, |bytes| drop(sent.send((Instant::now(), bytes.to_vec()))));
                });
            }
        }
        let ended = Arc::clone(&shared);
        thread::spawn(move || {
            let status = child.wait().unwrap();
            ended.change(|seen| seen.status = Some(status));
        });
        Terminal { shared, master: Some(pair.master), writer: Some(writer), pid, mode_before, home: self.home }
    }
}

/// Passes on all that a program writes.
fn read_all(mut reader: Box<dyn Read + Send>, shown: &Shared, mut pass_on: impl FnMut(&[u8])) {
    let mut buffer = [0; 65536];
    while let Ok(length @ 1..) = reader.read(&mut buffer) {
        shown.hold();
        if shown.lock().hung_up {
            return;
        }
        pass_on(&buffer[..length]);
    }
}

type Writer = Arc<Mutex<Box<dyn Write + Send>>>;

/// Tells the program that everything before its question has arrived, as terminals do. A program that has ended
/// needs no answer.
fn answer(writer: &Writer) {
    drop(writer.lock().unwrap().write_all(b"\x1b[0n"));
}

impl Link {
    /// Bytes that arrive together.
    const PACKET: usize = 200;

    /// Has everything arrive when it does, and answers what the terminal is asked (DSR 5).
    fn carry(self, coming: &Receiver<(Instant, Vec<u8>)>, shown: &Shared, answers: &Writer) {
        let mut free = Instant::now();
        while let Ok((sent, bytes)) = coming.recv() {
            for packet in bytes.chunks(Self::PACKET) {
                free = free.max(sent) + Duration::from_secs_f64(packet.len() as f64 / self.bytes_per_s);
                thread::sleep((free + self.delay).saturating_duration_since(Instant::now()));
                let asked = shown.show(packet);
                let (answers, delay) = (Arc::clone(answers), self.delay);
                if asked {
                    thread::spawn(move || {
                        thread::sleep(delay);
                        answer(&answers);
                    });
                }
            }
        }
        shown.change(|seen| seen.closed = true);
    }
}

fn pty_size((cols, rows): (u16, u16)) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

fn cells(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

/// How the terminal driver treats input and output: raw mode shows here.
fn mode_of(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().unwrap())
}

/// A started program and its terminal.
pub struct Terminal {
    shared: Arc<Shared>,
    master: Option<Box<dyn MasterPty + Send>>,
    writer: Option<Writer>,
    pid: u32,
    mode_before: String,
    home: TempDir,
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
