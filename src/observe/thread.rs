//! A source on a thread of its own, because NVML blocks in the driver and a hung
//! driver must cost nobody a key press.

use std::io;
use std::sync::mpsc::{self as std_mpsc, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::{Source, SourceError, SourceReport};
use crate::reading::playback::PlaybackCommand;
use crate::reading::{DeviceSample, Moment};

/// Samples of a recording that are handed over together at most, and the time after which
/// what there is is handed over: a long way is shown as it goes.
const TOGETHER: (usize, Duration) = (256, Duration::from_millis(40));

/// Intervals between two tries to open a source.
const BETWEEN_TRIES: u32 = 5;

/// Steers the thread of a source, and ends it when it is dropped or told to.
///
/// The thread is never joined: it may be stuck in the driver for good, and the program
/// has to be able to leave all the same.
#[derive(Debug)]
pub struct Handle {
    // Its going away is the signal to end.
    steers: std_mpsc::Sender<PlaybackCommand>,
}

impl Handle {
    /// Asks the thread to end. It does so as soon as the driver lets go of it.
    pub fn stop(self) {}

    /// Passes on what somebody wants of a recording.
    pub fn steer(&self, steer: PlaybackCommand) {
        // A source that has ended cannot be steered, and its end has been told.
        let _ = self.steers.send(steer);
    }
}

/// Opens a source on a new thread and has it sample every `interval`.
///
/// `open` runs on that thread, because loading a driver's library may block as well. While it fails, it is tried again;
/// each other reason is reported once.
/// `clock` gives the time that samples carry. When `reports` is full, a live sample is
/// dropped rather than queued: the reader wants the newest, and
/// [`Sample::dropped`](crate::reading::Sample::dropped) tells it how many it has missed
/// since the start. A recording waits: nothing of it is lost. The thread ends when the
/// receiver or the [`Handle`] is gone.
///
/// # Errors
/// When the system gives no thread.
pub fn spawn<O, C>(mut open: O, interval: Duration, clock: C, reports: Sender<SourceReport>) -> io::Result<Handle>
where
    O: FnMut() -> Result<Box<dyn Source>, SourceError> + Send + 'static,
    C: Fn() -> Moment + Send + 'static,
{
    let (steers, steered) = std_mpsc::channel();
    thread::Builder::new().name("source".to_owned()).spawn(move || {
        match opened(&mut open, interval, &reports, &steered) {
            None => {}
            Some(source) if reports.blocking_send(SourceReport::Started(source.info())).is_err() => {}
            Some(source) if source.playback().is_some() => play(source, interval, &clock, &reports, &steered),
            Some(source) => watch(source, interval, &clock, &reports, &steered),
        }
    })?;
    Ok(Handle { steers })
}

/// Tries until the source opens: a driver is loaded, an exporter started, a GPU put back while the dashboard runs. None
/// where nobody waits any more.
fn opened(
    open: &mut impl FnMut() -> Result<Box<dyn Source>, SourceError>,
    interval: Duration,
    reports: &Sender<SourceReport>,
    steered: &std_mpsc::Receiver<PlaybackCommand>,
) -> Option<Box<dyn Source>> {
    let mut told = None;
    loop {
        let why = match open() {
            Ok(source) => return Some(source),
            Err(why) => why.to_string(),
        };
        if told.as_ref() != Some(&why) {
            reports.blocking_send(SourceReport::Failed(why.clone())).ok()?;
            told = Some(why);
        }
        let due = Instant::now() + interval * BETWEEN_TRIES;
        while let Some(pause) = due.checked_duration_since(Instant::now()) {
            let stopped = steered.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected);
            if stopped || reports.is_closed() {
                return None;
            }
        }
    }
}

/// Samples until somebody says stop.
fn watch(
    mut source: Box<dyn Source>,
    interval: Duration,
    clock: &impl Fn() -> Moment,
    reports: &Sender<SourceReport>,
    steered: &std_mpsc::Receiver<PlaybackCommand>,
) {
    let mut dropped = 0;
    let mut due = Instant::now();
    loop {
        let mut sample = source.sample(clock());
        sample.dropped = dropped;
        sample.devices.iter_mut().for_each(DeviceSample::drop_impossible);
        match reports.try_send(SourceReport::Sample(sample)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => dropped += 1,
            Err(TrySendError::Closed(_)) => return,
        }
        due += interval;
        let now = Instant::now();
        if due < now {
            // A driver that is slower than the interval is not asked without a break.
            due = now + interval;
        }
        // What is live cannot be steered.
        while let Some(pause) = due.checked_duration_since(Instant::now()) {
            if steered.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) || reports.is_closed() {
                return;
            }
        }
    }
}

/// Plays a recording until somebody says stop.
fn play(
    mut source: Box<dyn Source>,
    interval: Duration,
    clock: &impl Fn() -> Moment,
    reports: &Sender<SourceReport>,
    steered: &std_mpsc::Receiver<PlaybackCommand>,
) {
    loop {
        let began = Instant::now();
        let mut samples = Vec::new();
        while samples.len() < TOGETHER.0
            && began.elapsed() < TOGETHER.1
            && source.pause(interval) == Some(Duration::ZERO)
        {
            samples.push(source.sample(clock()));
        }
        let Some(playback) = source.playback() else { return };
        if reports.blocking_send(SourceReport::Played(playback, samples)).is_err() {
            return;
        }
        let wanted = match source.pause(interval) {
            Some(pause) => steered.recv_timeout(pause),
            None => steered.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match wanted {
            Ok(steer) => source.steer(steer),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::mpsc;

    use super::super::NvmlOpenError;
    use super::*;
    use crate::reading::{Sample, SourceInfo, SourceKind};

    const DEADLINE: Duration = Duration::from_secs(20);

    /// Counts how often it was asked; hangs from then on where a test wants that.
    struct Counter {
        asked: Arc<AtomicU64>,
        hang_from: u64,
    }

    impl Source for Counter {
        fn info(&self) -> SourceInfo {
            SourceInfo { kind: SourceKind::Demo, detail: "a counter".to_owned() }
        }

        fn sample(&mut self, now: Moment) -> Sample {
            let asked = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
            if asked >= self.hang_from {
                loop {
                    thread::park();
                }
            }
            Sample { at: now, ..Sample::default() }
        }
    }

    fn wait_until(what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < DEADLINE, "waited too long for {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn counter(hang_from: u64) -> (Arc<AtomicU64>, impl FnMut() -> Result<Box<dyn Source>, SourceError> + Send) {
        let asked = Arc::new(AtomicU64::new(0));
        let mut source = Some(Counter { asked: Arc::clone(&asked), hang_from });
        (asked, move || Ok(Box::new(source.take().ok_or(SourceError::Spent)?) as Box<dyn Source>))
    }

    /// A clock that moves a second each time somebody looks.
    fn steps() -> impl Fn() -> Moment + Send {
        let seconds = AtomicU64::new(0);
        move || Moment(seconds.fetch_add(1, Ordering::SeqCst) * 1000)
    }

    #[test]
    fn it_says_what_it_is_and_then_samples_with_the_clocks_time() {
        let (_, open) = counter(u64::MAX);
        let (sender, mut receiver) = mpsc::channel(64);
        let _stopper = spawn(open, Duration::from_millis(1), steps(), sender).unwrap();
        assert!(matches!(receiver.blocking_recv(), Some(SourceReport::Started(info)) if info.detail == "a counter"));
        for second in 0..3 {
            let Some(SourceReport::Sample(sample)) = receiver.blocking_recv() else { panic!("no sample") };
            assert_eq!(sample.at, Moment(second * 1000));
            assert_eq!(sample.dropped, 0);
        }
    }

    #[test]
    fn samples_that_find_no_room_are_counted() {
        let (asked, open) = counter(u64::MAX);
        let (sender, mut receiver) = mpsc::channel(2);
        let _stopper = spawn(open, Duration::from_millis(1), steps(), sender).unwrap();
        // `Started` and the first sample fill the channel.
        wait_until("ten samples", || asked.load(Ordering::SeqCst) >= 10);
        receiver.blocking_recv().unwrap();
        let Some(SourceReport::Sample(first)) = receiver.blocking_recv() else { panic!("no sample") };
        assert_eq!((first.at, first.dropped), (Moment(0), 0));
        let Some(SourceReport::Sample(second)) = receiver.blocking_recv() else { panic!("no sample") };
        // The clock counts samples: all between the two were dropped.
        assert_eq!(second.dropped, second.at.0 / 1000 - 1);
        assert!(second.dropped >= 8);
    }

    #[test]
    fn it_ends_with_its_receiver_and_with_its_stopper() {
        let (asked, open) = counter(u64::MAX);
        let alive = Arc::downgrade(&asked);
        drop(asked);
        let (sender, receiver) = mpsc::channel(4);
        let stopper = spawn(open, Duration::from_millis(1), steps(), sender).unwrap();
        drop(receiver);
        wait_until("the end without a receiver", || alive.strong_count() == 0);
        drop(stopper);

        let (asked, open) = counter(u64::MAX);
        let alive = Arc::downgrade(&asked);
        drop(asked);
        let (sender, _receiver) = mpsc::channel(4);
        // The interval is an hour: stopping does not wait for it.
        let stopper = spawn(open, Duration::from_secs(3600), steps(), sender).unwrap();
        wait_until("the first sample", || alive.upgrade().is_some_and(|asked| asked.load(Ordering::SeqCst) == 1));
        stopper.stop();
        wait_until("the end after a stop", || alive.strong_count() == 0);
    }

    #[test]
    fn a_source_that_cannot_be_opened_says_why_and_is_tried_again() {
        let (sender, mut receiver) = mpsc::channel(4);
        let mut tries = 0;
        let open = move || {
            tries += 1;
            match tries {
                1 | 2 => Err(NvmlOpenError::NoLibrary.into()),
                3 => Err(NvmlOpenError::NoDevices.into()),
                _ => Ok(Box::new(Counter { asked: Arc::default(), hang_from: u64::MAX }) as Box<dyn Source>),
            }
        };
        let _stopper = spawn(open, Duration::from_millis(1), steps(), sender).unwrap();
        assert_eq!(receiver.blocking_recv(), Some(SourceReport::Failed(NvmlOpenError::NoLibrary.to_string())));
        assert_eq!(
            receiver.blocking_recv(),
            Some(SourceReport::Failed(NvmlOpenError::NoDevices.to_string())),
            "each reason once"
        );
        assert!(matches!(receiver.blocking_recv(), Some(SourceReport::Started(_))));
        assert!(matches!(receiver.blocking_recv(), Some(SourceReport::Sample(_))));
    }

    #[test]
    fn a_source_that_never_opens_ends_with_its_receiver() {
        let (asked, receiver) = (Arc::new(AtomicU64::new(0)), mpsc::channel(4));
        let (sender, receiver) = receiver;
        let alive = Arc::downgrade(&asked);
        let open = move || {
            asked.fetch_add(1, Ordering::SeqCst);
            Err(NvmlOpenError::NoLibrary.into())
        };
        let _stopper = spawn(open, Duration::from_millis(1), steps(), sender).unwrap();
        wait_until("two tries", || alive.upgrade().is_some_and(|asked| asked.load(Ordering::SeqCst) >= 2));
        drop(receiver);
        wait_until("the end", || alive.strong_count() == 0);
    }

    #[test]
    fn a_hung_source_holds_up_nobody() {
        let (asked, open) = counter(2);
        let (sender, mut receiver) = mpsc::channel(4);
        let stopper = spawn(open, Duration::from_millis(1), steps(), sender).unwrap();
        assert!(matches!(receiver.blocking_recv(), Some(SourceReport::Started(_))));
        assert!(matches!(receiver.blocking_recv(), Some(SourceReport::Sample(_))));
        wait_until("the call that hangs", || asked.load(Ordering::SeqCst) == 2);
        assert!(receiver.try_recv().is_err());
        // Returns although the thread is stuck.
        stopper.stop();
    }
}
