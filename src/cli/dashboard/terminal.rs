//! The terminal, taken over and given back.

use std::io::{self, IsTerminal, Write, stdin, stdout};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::queue;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use tokio::sync::mpsc::Receiver;

use super::cells::write_cells;
use super::input::InputGate;
use super::output::Output;
use super::supervisor::is_supervised;
use crate::app::State;
use crate::cli::Failure;
use crate::ui::{Look, Screen};

/// A terminal in raw mode on its alternate screen. Dropping it gives it back as it was,
/// on a panic too.
pub struct TerminalScreen {
    /// What it shows, once it has read all that was written.
    screen: Screen,
    /// What it shows may be another program's.
    unknown: bool,
    output: Output,
    gate: InputGate,
    mouse: bool,
    /// What was to be drawn while the terminal was not ready.
    late: bool,
    taken: bool,
}

impl TerminalScreen {
    /// Takes the terminal over, which is read through `gate`. Its answers come in `answers`.
    pub fn take(gate: InputGate, answers: Receiver<()>) -> Result<Self, Failure> {
        if !stdout().is_terminal() || !stdin().is_terminal() {
            return Err(Failure::failed(
                "the dashboard needs a terminal; `memwall predict PLAN` writes a report anywhere",
            ));
        }
        Self::open(gate, answers).map_err(|error| {
            drop(disable_raw_mode());
            Failure::failed(format!("the terminal cannot be used: {error}"))
        })
    }

    fn open(gate: InputGate, answers: Receiver<()>) -> io::Result<Self> {
        enable_raw_mode()?;
        let output = Output::start(answers)?;
        let screen = Screen::blank(size());
        let mut screen = Self { screen, unknown: true, output, gate, mouse: false, late: false, taken: true };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        queue!(bytes, EnterAlternateScreen, EnableBracketedPaste)?;
        if self.mouse {
            queue!(bytes, EnableMouseCapture)?;
        }
        self.output.send(&bytes);
        Ok(())
    }

    /// Takes the mouse's clicks from the terminal, or leaves them to it.
    pub fn take_mouse(&mut self, taken: bool) -> Result<(), Failure> {
        self.mouse = taken;
        let mut bytes = Vec::new();
        let told = if taken { queue!(bytes, EnableMouseCapture) } else { queue!(bytes, DisableMouseCapture) };
        self.output.send(&bytes);
        told.map_err(gone)
    }

    /// Sends the terminal something that it does not draw.
    pub fn send(&mut self, bytes: &str) {
        self.output.send(bytes.as_bytes());
    }

    /// The next frame has more to show than what was observed meanwhile.
    pub fn disturb(&mut self) {
        self.screen.forget();
    }

    /// Whether [`Self::turn`] has anything to wait for.
    pub const fn is_under_way(&self) -> bool {
        self.output.is_under_way()
    }

    /// Returns when the terminal has got further.
    pub async fn turn(&mut self) -> Result<(), Failure> {
        self.output.turn().await.map_err(gone)
    }

    /// Whether what could not be drawn before can be now.
    pub const fn is_due(&self) -> bool {
        self.late && self.output.is_ready()
    }

    /// Draws one frame, which the terminal shows at once or not at all; or, while it has not shown the one before,
    /// later, as everything is by then.
    pub fn draw(&mut self, state: &State, look: &Look) -> Result<(), Failure> {
        self.late = !self.output.is_ready();
        if self.late {
            // What has changed since is not known then.
            self.screen.forget();
            return Ok(());
        }
        self.draw_frame(state, look).map_err(gone)
    }

    fn draw_frame(&mut self, state: &State, look: &Look) -> io::Result<()> {
        let mut bytes = Vec::new();
        queue!(bytes, BeginSynchronizedUpdate)?;
        // Told of its size and not asked for it before every frame: that costs two calls of the system.
        if self.unknown || state.views.size != self.screen.size() {
            // In its own colours, whatever another program left on: the cleared screen has the colour behind.
            bytes.extend_from_slice(b"\x1b[m");
            queue!(bytes, Clear(ClearType::All), Hide)?;
            self.screen = Screen::blank(state.views.size);
            self.unknown = false;
        }
        let changed = self.screen.update(state, look);
        write_cells(&mut bytes, self.screen.shown(), &changed);
        queue!(bytes, EndSynchronizedUpdate)?;
        self.output.write(&bytes);
        Ok(())
    }

    /// The next frame draws everything anew, over whatever another program has written.
    pub const fn repaint(&mut self) {
        self.unknown = true;
    }

    /// Undoes every change of the terminal. Nobody is left to be told where that fails.
    pub async fn give_back(&mut self) {
        self.output.settle().await;
        self.gate.close();
        // Where the last bytes are stuck the supervisor sees by the mode that they are still to be written.
        if self.output.end(&leaving()).await || !is_supervised() {
            drop(disable_raw_mode());
        }
        self.taken = false;
    }

    /// Takes over again what was given back, or what another program has changed meanwhile.
    pub fn take_again(&mut self) -> Result<(), Failure> {
        drop(disable_raw_mode());
        self.taken = true;
        self.gate.open();
        enable_raw_mode().and_then(|()| self.enter()).map_err(gone)?;
        self.repaint();
        Ok(())
    }
}

fn gone(error: io::Error) -> Failure {
    Failure::failed(format!("the terminal is gone: {error}"))
}

/// No screen has more columns and lines; a terminal may claim 65 535 of each, which are four thousand million cells.
const MOST: (u16, u16) = (800, 250);

/// Columns and lines of the terminal that are drawn. One that does not tell is taken for the smallest usual one.
pub fn size() -> (u16, u16) {
    let (columns, lines) = crossterm::terminal::size().unwrap_or((80, 24));
    (columns.clamp(1, MOST.0), lines.clamp(1, MOST.1))
}

impl Drop for TerminalScreen {
    /// On a panic and after a fault: nobody waits for the terminal then.
    fn drop(&mut self) {
        if self.taken {
            self.output.write(&leaving());
            self.output.rest();
            drop(disable_raw_mode());
        }
    }
}

/// What undoes every change of the screen.
pub fn leaving() -> Vec<u8> {
    let mut bytes = Vec::new();
    // Into memory, nothing fails.
    let _ =
        queue!(bytes, EndSynchronizedUpdate, DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, Show);
    // Colours and their like, in which an unfinished frame may have left it.
    let _ = bytes.write_all(b"\x1b[0m");
    bytes
}
