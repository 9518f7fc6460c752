//! Files that loggers write beside a run's output: TensorBoard's events, and W&B's log and summary of a run. They tell
//! steps and losses where the output goes to a terminal.

mod source;
mod summary;
mod tensorboard;
mod wandb;

use std::path::Path;

pub use source::EventSource;

use super::follow::LogPiece;
use crate::reading::LogFormat;

/// Numbers by their names, all of one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// With the step among them.
    pub fields: Vec<(String, f64)>,
    /// Milliseconds since 1970, by the clock of the run's machine.
    pub stamp: Option<u64>,
}

/// Reads one such file on and on.
pub enum EventDecoder {
    /// Of TensorBoard.
    TensorBoard(tensorboard::TensorBoardDecoder),
    /// Of W&B.
    Wandb(wandb::WandbDecoder),
    /// Of W&B, where its log was not kept.
    Summary(summary::SummaryDecoder),
}

impl EventDecoder {
    /// For the file at `path`, which its name tells; none for any other.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        if name.contains(".tfevents.") {
            return Some(Self::TensorBoard(tensorboard::TensorBoardDecoder::default()));
        }
        if name == summary::NAME {
            return Some(Self::Summary(summary::SummaryDecoder::of(path)));
        }
        name.ends_with(".wandb").then(|| Self::Wandb(wandb::WandbDecoder::default()))
    }

    /// Whose file it is.
    pub const fn format(&self) -> LogFormat {
        match self {
            Self::TensorBoard(_) => LogFormat::TensorBoard,
            Self::Wandb(_) | Self::Summary(_) => LogFormat::Wandb,
        }
    }

    /// Takes in what the file goes on with.
    pub fn push(&mut self, piece: &LogPiece, row: impl FnMut(EventRow)) {
        match self {
            Self::TensorBoard(decoder) => decoder.push(piece, row),
            Self::Wandb(decoder) => decoder.push(piece, row),
            Self::Summary(decoder) => decoder.push(row),
        }
    }
}

/// Milliseconds of seconds since 1970; none where that is no time from 2001 to 2286.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn millis(seconds: f64) -> Option<u64> {
    (1e9..1e10).contains(&seconds).then_some((seconds * 1000.0) as u64)
}
