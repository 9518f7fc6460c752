//! A program that a pseudo-terminal is made for: with a size, an environment and a home of its own, and a line to it that
//! may be slow.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use tempfile::TempDir;

use super::screen::{Frames, Shared};
use super::standin::Scenario;
use super::terminal::Terminal;

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

pub(super) type Writer = Arc<Mutex<Box<dyn Write + Send>>>;

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

pub(super) fn pty_size((cols, rows): (u16, u16)) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

pub(super) fn cells(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

/// How the terminal driver treats input and output: raw mode shows here.
pub(super) fn mode_of(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().unwrap())
}
