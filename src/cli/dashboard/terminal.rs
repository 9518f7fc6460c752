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
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use crate::app::State;
use crate::ui::{Look, PaneCache, draw_again};

/// A terminal in raw mode on its alternate screen. Dropping it gives it back as it was,
/// on a panic too.
pub struct TerminalScreen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    still: PaneCache,
}

impl TerminalScreen {
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
        // Told of its size and not asked for it before every frame: that costs two calls of the system.
        let (width, height) = size();
        let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
        let backend = CrosstermBackend::new(BufWriter::new(stdout()));
        let terminal = Terminal::with_options(backend, TerminalOptions { viewport })?;
        Ok(Self { terminal, still: PaneCache::default() })
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

    /// The next frame has more to show than what was observed meanwhile.
    pub fn disturb(&mut self) {
        self.still.forget();
    }

    /// Draws one frame, which the terminal shows at once or not at all.
    pub fn draw(&mut self, state: &State, look: &Look) -> Result<(), String> {
        self.draw_frame(state, look).map_err(|error| format!("the terminal is gone: {error}"))
    }

    fn draw_frame(&mut self, state: &State, look: &Look) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        let area = Rect::new(0, 0, state.views.size.0, state.views.size.1);
        if area != self.terminal.get_frame().area() {
            self.terminal.resize(area)?;
        }
        let still = &mut self.still;
        self.terminal.draw(|frame| draw_again(state, look, still, frame))?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.terminal.backend_mut().flush()
    }
}

/// Columns and lines of the terminal. One that does not tell is taken for the smallest usual one.
pub fn size() -> (u16, u16) {
    crossterm::terminal::size().unwrap_or((80, 24))
}

impl Drop for TerminalScreen {
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
