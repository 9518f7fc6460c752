//! What the loop waits for, besides the terminal's output and the shell's job control.

use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::Clock;
use crate::app::{Event, State};
use crate::cli::termination::TerminationSignals;
use crate::observe::SourceReport;
use crate::reading::RunNews;
use crate::ui::{Pointer, hit};

/// How long the time stands still on the screen where nothing else moves it.
const TICK: Duration = Duration::from_secs(1);

/// The same after a report, which moves it: were it no longer than reports take, every one would
/// come with a tick.
const LATE: Duration = Duration::from_millis(1250);

/// Where events come from.
pub struct LoopInputs {
    happening: Receiver<Event>,
    reported: Receiver<SourceReport>,
    heard: Receiver<RunNews>,
    pointing: Receiver<Pointer>,
    ending: TerminationSignals,
    ticks: Interval,
}

impl LoopInputs {
    /// Keys and the rest of what happens, what the source reports, what runs tell, the mouse, the signals that end it.
    pub fn new(
        happening: Receiver<Event>,
        reported: Receiver<SourceReport>,
        heard: Receiver<RunNews>,
        pointing: Receiver<Pointer>,
        ending: TerminationSignals,
    ) -> Self {
        Self { happening, reported, heard, pointing, ending, ticks: ticks_after(Duration::ZERO) }
    }

    /// Waits for the next events; none where it was nothing. Cancelled, nothing is lost.
    pub async fn next(&mut self, state: &State, clock: Clock) -> Option<Vec<Event>> {
        tokio::select! {
            event = self.happening.recv() => event.map(|event| vec![event]),
            pointer = self.pointing.recv(), if !self.pointing.is_closed() => {
                pointer.and_then(|pointer| hit(state, pointer)).map(|target| vec![Event::Click(target)])
            }
            report = self.reported.recv(), if !self.reported.is_closed() => {
                // One that is put off wakes the loop at its old time all the same; a new one does not.
                self.ticks = ticks_after(LATE);
                report.map(events_of)
            }
            news = self.heard.recv(), if !self.heard.is_closed() => news.map(|news| vec![Event::Run(Box::new(news))]),
            _ = self.ticks.tick() => Some(vec![Event::Tick(clock.now())]),
            () = self.ending.asked() => Some(vec![Event::TerminalGone]),
        }
    }

    /// What has happened already.
    pub fn try_next(&mut self) -> Option<Vec<Event>> {
        self.happening.try_recv().ok().map(|event| vec![event]).or_else(|| self.reported.try_recv().ok().map(events_of))
    }
}

fn ticks_after(first: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + first, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

fn events_of(report: SourceReport) -> Vec<Event> {
    let sample = |sample| Event::Sample(Box::new(sample));
    match report {
        SourceReport::Started(info) => vec![Event::SourceStarted(info)],
        SourceReport::Sample(seen) => vec![sample(seen)],
        SourceReport::Played(playback, samples) => {
            std::iter::once(Event::Played(playback)).chain(samples.into_iter().map(sample)).collect()
        }
        SourceReport::Failed(why) => vec![Event::SourceFailed(why)],
    }
}
