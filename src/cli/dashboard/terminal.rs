//! The terminal, taken over and given back.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write, stdin, stdout};

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::execute;
use crossterm::queue;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::app::State;
use crate::ui::{Look, draw};

/// A terminal in raw mode on its alternate screen. Dropping it gives it back as it was,
/// on a panic too.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    /// Takes the terminal over.
    pub fn take() -> Result<Self, String> {
        if !stdout().is_terminal() || !stdin().is_terminal() {
            return Err("the dashboard needs a terminal; `memwall predict PLAN` writes a report anywhere".to_owned());
        }
        Self::open().map_err(|error| {
            give_back();
            format!("the terminal cannot be used: {error}")
        })
    }

    fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(stdout())))?;
        Ok(Self { terminal })
    }

    /// Takes the mouse's clicks from the terminal, or leaves them to it.
    pub fn take_mouse(&mut self, taken: bool) -> Result<(), String> {
        let told = if taken { execute!(stdout(), EnableMouseCapture) } else { execute!(stdout(), DisableMouseCapture) };
        told.map_err(|error| format!("the terminal is gone: {error}"))
    }

    /// Sends the terminal something that it does not draw.
    pub fn send(&mut self, bytes: &str) -> Result<(), String> {
        let out = self.terminal.backend_mut();
        let sent = out.write_all(bytes.as_bytes()).and_then(|()| Write::flush(out));
        sent.map_err(|error| format!("the terminal is gone: {error}"))
    }

    /// Columns and lines.
    pub fn size(&self) -> (u16, u16) {
        // A terminal that does not tell its size is taken for the smallest usual one.
        self.terminal.size().map_or((80, 24), |size| (size.width, size.height))
    }

    /// Draws one frame, which the terminal shows at once or not at all.
    pub fn draw(&mut self, state: &State, look: &Look) -> Result<(), String> {
        self.draw_frame(state, look).map_err(|error| format!("the terminal is gone: {error}"))
    }

    fn draw_frame(&mut self, state: &State, look: &Look) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| draw(state, look, frame))?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.terminal.backend_mut().flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Undoes every change of the terminal. Nobody is left to be told where that fails.
fn give_back() {
    let left = execute!(
        stdout(),
        EndSynchronizedUpdate,
        DisableMouseCapture,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        Show
    );
    drop((left, disable_raw_mode()));
}
