//! The owner of the state: takes in what sources tell, has the GPUs read when somebody asks, and writes the page.
//!
//! The GPUs are read once for all who ask at the same time. Whoever asks is answered in time: a source that is slow or
//! broken is left out of the page, which says so.

use std::time::Duration;

use procfs::process::Process;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep_until};

use super::server::ScrapeRequest;
use super::{families as f, gpus, plan_metrics, ranks, run_metrics, sources};
use crate::app::{Effect, Event, Question, State, follow_last, update};
use crate::cli::dashboard::Clock;
use crate::cli::termination::TerminationSignals;
use crate::observe::{OnDemand, RunFollower, SharedRequirements, SourceReport};
use crate::reading::{DetailTarget, RequiredMetrics, RunNews, SourceInfo};
use crate::report::metrics::MetricsPage;

/// A reading that is younger serves the next one who asks, too: two Prometheus servers that scrape the same exporter
/// cost as much as one.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// What a collector works with.
pub struct CollectorParts {
    /// The GPUs.
    pub source: OnDemand,
    /// The log and the hooks.
    pub following: RunFollower,
    /// What the source shall read.
    pub requirements: SharedRequirements,
    /// Time.
    pub clock: Clock,
    /// Where searches for explanations answer.
    pub events: Sender<Event>,
}

/// What a page says of the run besides its state.
#[derive(Debug)]
pub struct RunIdentity {
    /// Its name, in the label `run`.
    pub name: String,
    /// Somebody has given a plan, or the run is simulated from one: it is exported.
    pub has_plan: bool,
    /// The process was named: no other is followed.
    pub is_chosen: bool,
    /// A log or a hook is listened to.
    pub log: bool,
}

/// Where what is told comes in.
pub struct CollectorInputs {
    /// Who wants the page.
    pub scrapes: Receiver<ScrapeRequest>,
    /// What the source answers.
    pub reports: Receiver<SourceReport>,
    /// What log and hooks tell.
    pub news: Receiver<RunNews>,
    /// What searches have found.
    pub events: Receiver<Event>,
}

/// Whether the GPUs could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceStatus {
    /// Just now.
    Up,
    /// They could not, and why.
    Down(String),
}

/// The owner of the state.
pub struct Collector {
    state: State,
    run: RunIdentity,
    parts: CollectorParts,
    info: Option<SourceInfo>,
    status: SourceStatus,
    /// Since when the source is at work.
    asked: Option<Instant>,
    /// When it answered last.
    answered: Option<Instant>,
    waiting: Vec<(ScrapeRequest, Instant)>,
}

impl Collector {
    /// Before anything was read.
    pub fn new(state: State, run: RunIdentity, parts: CollectorParts) -> Self {
        let status = SourceStatus::Down("nothing has been read so far".to_owned());
        let collector =
            Self { state, run, parts, info: None, status, asked: None, answered: None, waiting: Vec::new() };
        collector.require();
        collector
    }

    /// Answers until the system asks it to end.
    pub async fn collect(mut self, mut inputs: CollectorInputs, mut ending: TerminationSignals) {
        loop {
            let due = self.waiting.iter().map(|(_, due)| *due).min();
            tokio::select! {
                Some(request) = inputs.scrapes.recv() => self.on_scrape(request),
                Some(report) = inputs.reports.recv() => self.on_report(report),
                Some(news) = inputs.news.recv() => self.on_news(news),
                Some(event) = inputs.events.recv() => self.apply(event),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.answer_overdue(),
                () = ending.asked() => return,
            }
        }
    }

    fn on_scrape(&mut self, request: ScrapeRequest) {
        let now = Instant::now();
        let is_fresh = self.answered.is_some_and(|at| now.duration_since(at) < SHARED_FOR);
        let is_stuck = self.asked.is_some_and(|at| now.duration_since(at) >= request.patience);
        let due = if is_fresh || is_stuck { now } else { now + request.patience };
        self.waiting.push((request, due));
        if is_fresh || is_stuck {
            return self.answer_overdue();
        }
        if self.asked.is_none() {
            self.asked = Some(now);
            self.parts.source.request();
        }
    }

    /// Steps are noted when they are told: nobody may ask for the page for a minute.
    fn on_news(&mut self, news: RunNews) {
        self.apply(Event::Tick(self.parts.clock.now()));
        self.apply(Event::Run(Box::new(news)));
    }

    fn on_report(&mut self, report: SourceReport) {
        match report {
            SourceReport::Started(info) => {
                self.info = Some(info.clone());
                return self.apply(Event::SourceStarted(info));
            }
            SourceReport::Sample(sample) => {
                self.status = SourceStatus::Up;
                self.apply(Event::Sample(Box::new(sample)));
            }
            SourceReport::Failed(why) => {
                self.status = SourceStatus::Down(why.clone());
                self.apply(Event::SourceFailed(why));
            }
            SourceReport::Played(..) => {}
        }
        self.asked = None;
        self.answered = Some(Instant::now());
        let waiting = std::mem::take(&mut self.waiting);
        self.answer(waiting);
    }

    /// Answers those who have waited long enough.
    fn answer_overdue(&mut self) {
        let now = Instant::now();
        let (overdue, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|(_, due)| *due <= now);
        self.waiting = waiting;
        let overdue: Vec<_> = overdue;
        if let Some(since) = self.asked {
            let waited = now.duration_since(since).as_secs_f64();
            self.status = SourceStatus::Down(format!("no answer for {waited:.0} s: the driver may hang"));
        }
        self.answer(overdue);
    }

    fn answer(&mut self, waiting: Vec<(ScrapeRequest, Instant)>) {
        if waiting.is_empty() {
            return;
        }
        self.apply(Event::Tick(self.parts.clock.now()));
        let page = self.page();
        for (request, _) in waiting {
            // Whoever has hung up needs no page.
            drop(request.answer.send(page.text(request.format)));
        }
    }

    fn page(&self) -> MetricsPage {
        let mut page = MetricsPage::default();
        let (state, run) = (&self.state, self.run.name.as_str());
        put_process(&mut page);
        sources::put(&mut page, state, self.info.as_ref(), &self.status, self.run.log);
        let compared = state.plans.compared();
        let prediction = compared.prediction().filter(|_| self.run.has_plan);
        if self.run.has_plan {
            plan_metrics::put(&mut page, compared, run);
        }
        run_metrics::put_progress(&mut page, state, run);
        ranks::put(&mut page, state, run, prediction, self.status == SourceStatus::Up);
        if self.status == SourceStatus::Up {
            gpus::put(&mut page, state.monitor.devices());
            run_metrics::put_judgement(&mut page, state, run);
        }
        page
    }

    /// Lets an event happen, and follows the run that it may tell of.
    fn apply(&mut self, event: Event) {
        let mut effects = update(&mut self.state, event);
        if !self.run.is_chosen {
            effects.extend(follow_last(&mut self.state));
        }
        for effect in effects {
            // Whatever else a dashboard would do is somebody's wish at a terminal.
            if let Effect::Explain(number) = effect {
                self.explain(number);
            }
        }
        self.require();
        self.parts.following.attend(self.state.monitor.attached_by_user());
    }

    /// What the GPUs are asked for: nothing that takes milliseconds each, as a look at one GPU closely does.
    fn require(&self) {
        let process = self.state.monitor.attached.as_ref().map(|attached| attached.pid);
        let closely = DetailTarget::None;
        let wanted = RequiredMetrics { counters: true, health: true, closely, processes: false, process };
        self.parts.requirements.set(wanted);
    }

    fn explain(&self, number: u64) {
        let (question, events) = (Question::of(&self.state), self.parts.events.clone());
        tokio::task::spawn_blocking(move || {
            let found = question.as_ref().map_or_else(Vec::new, Question::answer);
            // An exporter that has ended meanwhile needs no telling.
            drop(events.blocking_send(Event::Explained { number, found }));
        });
    }
}

/// Adds the exporter's build and process. What the system does not tell is left out.
fn put_process(page: &mut MetricsPage) {
    page.put(&f::BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let Ok(process) = Process::myself() else { return };
    if let Ok(descriptors) = process.fd_count() {
        page.put(&f::PROCESS_FDS, &[], descriptors as f64);
    }
    let Ok(stat) = process.stat() else { return };
    let ticks = procfs::ticks_per_second() as f64;
    page.put(&f::PROCESS_CPU, &[], (stat.utime + stat.stime) as f64 / ticks);
    page.put(&f::PROCESS_MEMORY, &[], stat.rss as f64 * procfs::page_size() as f64);
    if let Ok(boot) = procfs::boot_time_secs() {
        page.put(&f::PROCESS_START, &[], boot as f64 + stat.starttime as f64 / ticks);
    }
}
