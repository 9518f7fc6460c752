//! What a recording that is made without a screen holds beside the devices: the run's log and its hook.

use tokio::sync::mpsc::{self, Receiver};

use super::Failure;
use super::args::RecordArgs;
use super::dashboard::Clock;
use crate::app::{Monitor, Telemetry};
use crate::observe::{self, FollowOptions, RunFollower};
use crate::reading::{RunNews, Sample};

/// News that may wait for the next sample: newer ones replace what finds no room.
const NEWS: usize = 4;

/// The run that is followed.
pub struct FollowedRun {
    following: RunFollower,
    news: Receiver<RunNews>,
    run: Telemetry,
    monitor: Monitor,
}

impl FollowedRun {
    /// Follows the run that is named; none where none is.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn of(args: &RecordArgs, clock: Clock) -> Result<Option<Self>, Failure> {
        if args.attach.is_none() && args.log.is_none() {
            return Ok(None);
        }
        let (sender, news) = mpsc::channel(NEWS);
        let wanted = FollowOptions { log: args.log.clone(), pattern: None, pid: args.attach, live: true };
        let following = observe::follow(wanted, |name| std::env::var_os(name), move || clock.now(), sender)
            .map_err(|error| Failure::failed(format!("no thread for the log and the hook: {error}")))?;
        Ok(Some(Self { following, news, run: Telemetry::default(), monitor: Monitor::new(args.attach) }))
    }

    /// The sample with what the run has told by then.
    pub fn told(&mut self, sample: &Sample) -> Sample {
        self.monitor.take(sample.clone());
        while let Ok(news) = self.news.try_recv() {
            self.monitor.follow_rank(&self.run.news.ranks, &news.ranks);
            self.run.take(news);
        }
        // In a container the process has another pid here than the driver's.
        self.following.attend(self.monitor.attached_by_user());
        self.run.told_in(sample, &self.monitor, sample.at)
    }
}
