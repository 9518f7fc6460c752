//! What is to be said of the run in a word or two: the gravest first.

use super::ending::RunOutcome;
use super::inferred::is_nobodys;
use super::loss;
use super::mismatch::{self, Mismatch};
use super::pause;
use crate::app::monitor::SourceState;
use crate::app::monitor::attached::AttachedState;
use crate::app::state::State;
use crate::compare::{Comparison, Forecast, Residual, RunPhase, StragglerCause};
use crate::reading::playback::Playback;
use crate::reading::{Activity, ReadingKind};
use crate::units::{Bytes, Fraction, Seconds, counted};

/// How much a verdict wants a hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gravity {
    /// All is well.
    Good,
    /// Nothing can be said, or nothing needs to be.
    Quiet,
    /// Something is not as planned.
    Warning,
    /// The run is lost, or soon will be.
    Danger,
}

/// The verdict about the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunVerdict {
    /// In capitals, with its figure.
    pub words: String,
    /// How much it wants a hand.
    pub gravity: Gravity,
}

impl RunVerdict {
    /// The words without their figure: what stays the same while that moves.
    ///
    /// ```
    /// use memwall::app::{Gravity, RunVerdict};
    ///
    /// let verdict = RunVerdict { words: "MEMORY +3.2 GiB".to_owned(), gravity: Gravity::Warning };
    /// assert_eq!(verdict.subject(), "MEMORY");
    /// ```
    #[must_use]
    pub fn subject(&self) -> &str {
        let figure = |letter: char| letter.is_ascii_digit() || matches!(letter, '+' | '-' | ':' | '~');
        match self.words.find(figure) {
            // `3 OF 8 GPUS`
            Some(0) => "OTHER NUMBER OF GPUS",
            Some(end) => self.words[..end].trim_end().trim_end_matches(" FOR"),
            None => &self.words,
        }
    }
}

fn verdict(words: impl Into<String>, gravity: Gravity) -> RunVerdict {
    RunVerdict { words: words.into(), gravity }
}

/// Memory that will be full within this time is the verdict.
pub const SOON: Seconds = Seconds(24.0 * 3600.0);

/// A source that says nothing for so long is the verdict.
const LATE: Seconds = Seconds(10.0);

/// What is to be said of the run now.
#[must_use]
pub fn of(state: &State) -> RunVerdict {
    lost(state)
        .or_else(|| learns_nothing(state))
        .or_else(|| growing(state))
        .or_else(|| unseen(state))
        .or_else(|| silent(state))
        .or_else(|| mismatch::of(state).map(|mismatch| verdict(mismatch.short(), gravity(&mismatch))))
        .or_else(|| compared(state))
        .map(|found| straggling(state, late(state, found)))
        .unwrap_or_else(|| verdict(if is_over(state) { "REPLAY OVER" } else { "MEASURING" }, Gravity::Quiet))
}

/// Whether a recording has been played to its end: nothing more will be measured.
fn is_over(state: &State) -> bool {
    state.recordings.playback.as_ref().is_some_and(Playback::ended)
}

/// Late steps that take this share of the time are the verdict where nothing else is.
const MUCH_LOST: f64 = 0.1;

/// A run that is as planned but for single steps that are late. Where their batches are larger, nothing is wrong.
fn late(state: &State, found: RunVerdict) -> RunVerdict {
    let much = |lost: &Fraction| lost.0 >= MUCH_LOST;
    let lost = || state.run.telemetry.step_cause(&state.monitor, state.now)?.wasted().filter(much);
    match found.gravity {
        Gravity::Good => {
            lost().map_or(found, |lost| verdict(format!("LATE STEPS {:.0} %", lost.percent()), Gravity::Warning))
        }
        _ => found,
    }
}

/// GPUs of the job that do not answer while others do.
fn silent(state: &State) -> Option<RunVerdict> {
    let stragglers = state.monitor.cluster.stragglers();
    let silent = stragglers.iter().filter(|one| one.cause == StragglerCause::NoAnswer).count() as u64;
    (silent > 0).then(|| verdict(format!("NO ANSWER: {}", counted(silent, "GPU", "GPUS")), Gravity::Danger))
}

/// A run that is as planned but for ranks that do less than their equals: all wait for the slowest.
fn straggling(state: &State, found: RunVerdict) -> RunVerdict {
    let is_calm = matches!(found.words.as_str(), AS_PLANNED | MEMORY_AS_PLANNED);
    let stragglers = state.monitor.cluster.stragglers();
    let Some(first) = stragglers.first().filter(|_| is_calm) else { return found };
    let off = stragglers.iter().filter_map(|one| one.training.or(one.off)).min_by(f64::total_cmp);
    let words = match off.filter(|_| !first.cause.is_stopped()) {
        Some(off) => format!("STRAGGLER {}{}", if off < 0.0 { "-" } else { "+" }, percent(off)),
        None => format!("STRAGGLER {}", first.cause.to_string().to_uppercase()),
    };
    verdict(words, Gravity::Warning)
}

/// A run on a CPU is nothing wrong.
const fn gravity(mismatch: &Mismatch) -> Gravity {
    if matches!(mismatch, Mismatch::NoGpu(_)) { Gravity::Quiet } else { Gravity::Warning }
}

/// A run that is over.
fn lost(state: &State) -> Option<RunVerdict> {
    if state.run.ran_out.is_some() {
        return Some(verdict("OUT OF MEMORY", Gravity::Danger));
    }
    let attached = state.monitor.attached.as_ref().map(|attached| attached.state);
    if attached == Some(AttachedState::Replaced) {
        return Some(verdict("PID REUSED", Gravity::Danger));
    }
    Some(match state.run.telemetry.outcome(&state.monitor, state.now)? {
        // Nobody needs to look at a run that has done what it should.
        RunOutcome::Finished => verdict("FINISHED", Gravity::Quiet),
        RunOutcome::Failed => verdict("FAILED", Gravity::Danger),
        RunOutcome::Killed => verdict("KILLED", Gravity::Danger),
        RunOutcome::Unknown => verdict("ENDED", Gravity::Danger),
    })
}

/// A loss that is no number: whatever the run still uses, it learns nothing.
fn learns_nothing(state: &State) -> Option<RunVerdict> {
    Some(verdict(format!("LOSS {}", loss::broken(state)?.loss), Gravity::Danger))
}

fn growing(state: &State) -> Option<RunVerdict> {
    match state.run.outlook.memory {
        Forecast::Growing(growth) if growth.left.0 < SOON.0 => {
            Some(verdict(format!("GROWING: full in {}", growth.left.roughly()), Gravity::Danger))
        }
        _ => None,
    }
}

/// Why nothing is compared.
fn unseen(state: &State) -> Option<RunVerdict> {
    let quiet = |words: &str| Some(verdict(words, Gravity::Quiet));
    match &state.monitor.source {
        SourceState::Failed(_) => return Some(verdict("NO SOURCE", Gravity::Danger)),
        SourceState::Starting => return quiet("STARTING"),
        SourceState::Unwatched => return quiet("LESSON"),
        SourceState::Running(_) => {}
    }
    if state.monitor.is_unanswered() {
        return Some(verdict("NO ANSWER", Gravity::Danger));
    }
    if !state.run.telemetry.news.runs_below.is_empty() {
        return quiet("SEVERAL RUNS");
    }
    match state.monitor.attached.as_ref().map(|attached| attached.state) {
        Some(AttachedState::Missing) => return Some(verdict("NO SUCH PROCESS", Gravity::Danger)),
        Some(AttachedState::Awaited) if !state.run.telemetry.uses_no_gpu(&state.monitor, state.now) => {
            return quiet("NOT ON A GPU");
        }
        Some(_) => {}
        None if state.monitor.sample.is_none() => return quiet("STARTING"),
        None if state.run.telemetry.is_logged(&state.monitor) => {}
        None if state.run.telemetry.news.no_log.is_some() => return quiet("NO STEP YET"),
        None if state.monitor.is_idle() && !state.monitor.has_no_gpu_of_job() => return quiet("IDLE"),
        None => {}
    }
    if state.plans.run.is_none() {
        return still(state).or_else(|| quiet(if is_nobodys(state) { "NO PLAN" } else { "NO PREDICTION" }));
    }
    if let Some(age) = state.monitor.age(state.now).filter(|age| age.0 > LATE.0.max(3.0 * state.monitor.interval.0)) {
        return Some(verdict(format!("NO DATA FOR {}", age.roughly()), Gravity::Danger));
    }
    if is_no_training(state) {
        // One that waits before its first step makes none, whatever else it is.
        if let Some(still) = still(state) {
            return Some(still);
        }
        return match mismatch::of(state) {
            // What its command and its log state it is, before they tell a step.
            Some(Mismatch::Model(_) | Mismatch::Settings(_)) => None,
            _ if super::commanded::is_training(state) => quiet("NO STEP SEEN"),
            _ => quiet("NO TRAINING SEEN"),
        };
    }
    match state.run.telemetry.phases().phase(state.now) {
        // What is never compared has nothing to wait for.
        RunPhase::WarmingUp if matches!(mismatch::of(state), Some(Mismatch::NoGpu(_))) => still(state),
        RunPhase::WarmingUp => still(state).or_else(|| quiet("WARMING UP")),
        RunPhase::Between | RunPhase::Steady | RunPhase::Untold => still(state),
    }
}

/// Whether the attached process is on no GPU and neither a log nor a hook tells of any training: it may be a shell.
pub(super) fn is_no_training(state: &State) -> bool {
    let telemetry = &state.run.telemetry;
    let tells = || {
        telemetry.hooked(&state.monitor, state.now).is_some()
            || telemetry.progress(&state.monitor, state.now).is_some()
            || telemetry.ended(&state.monitor, state.now).is_some()
    };
    state.monitor.attached.is_some() && telemetry.uses_no_gpu(&state.monitor, state.now) && !tells()
}

/// A run that makes no step, whatever its plan says: where that is meant to be so, it is no fault.
fn still(state: &State) -> Option<RunVerdict> {
    let (pause, wants_hand) = pause::of(state)?;
    let words = match pause.activity() {
        Some(Activity::Evaluation) => "EVALUATING",
        Some(Activity::Checkpoint) => "CHECKPOINT",
        _ => "NO STEP",
    };
    let long = pause.lasting.map_or_else(String::new, |lasting| format!(" FOR {}", lasting.roughly()));
    Some(verdict(format!("{words}{long}"), if wants_hand { Gravity::Warning } else { Gravity::Quiet }))
}

/// The gravest difference between the run and its plan.
fn compared(state: &State) -> Option<RunVerdict> {
    let comparison = state.run.comparison.as_ref()?;
    // What is only derived from the first one comes after the pace, which is measured.
    let is_derived = |residual: &&Residual<Bytes>| residual.observed.kind() == Some(ReadingKind::Estimated);
    let parts = [&comparison.reserved, &comparison.allocated];
    let told = parts.into_iter().filter(|residual| !is_derived(residual));
    let memory: Vec<&Residual<Bytes>> = std::iter::once(&comparison.memory).chain(told).collect();
    let memory = || memory.iter().copied();
    let derived = || parts.into_iter().filter(is_derived).find_map(notable);
    let above = memory().filter_map(notable).find(|(relative, _)| *relative > 0.0);
    let below = memory().filter_map(notable).find(|(relative, _)| *relative < 0.0);
    let pace = comparison.pace();
    let words = match (above, pace, below) {
        // Memory that still fits costs less than time that is gone.
        (Some((more, _)), Some(slower), _) if slower > FAR && slower > more => slower_by(slower),
        (Some((_, words)), ..) => words,
        (None, Some(slower), _) if slower > 0.0 => slower_by(slower),
        (None, _, Some((_, words))) => words,
        (None, Some(faster), None) => format!("FASTER {}", percent(faster)),
        (None, None, None) => match derived() {
            Some((_, words)) => words,
            None => return other(comparison),
        },
    };
    Some(verdict(words, Gravity::Warning))
}

/// A step that takes so much longer than planned, as a share, is told before memory that is above the plan.
const FAR: f64 = 0.5;

fn slower_by(share: f64) -> String {
    if share < 2.0 { format!("SLOWER {}", percent(share)) } else { format!("SLOWER {:.0}x", 1.0 + share) }
}

const AS_PLANNED: &str = "AS PLANNED";

/// Where nobody knows whether the run makes any step.
const MEMORY_AS_PLANNED: &str = "MEMORY AS PLANNED";

/// What only counters tell.
fn other(comparison: &Comparison) -> Option<RunVerdict> {
    let rates = [("DRAM", &comparison.bandwidth.relative, comparison.bandwidth.notable)];
    let compute = [("COMPUTE", &comparison.compute.relative, comparison.compute.notable)];
    let off = rates.into_iter().chain(compute).find_map(|(name, relative, notable)| {
        let relative = relative.filter(|_| notable)?;
        Some(format!("{name} {}{}", if relative < 0.0 { "-" } else { "+" }, percent(relative)))
    });
    if let Some(words) = off {
        return Some(verdict(words, Gravity::Warning));
    }
    let said = comparison.memory.conclusive || comparison.step.conclusive || comparison.bandwidth.conclusive;
    // Of a run that tells no step, and of which no counter tells what it does, nobody knows whether it makes any.
    let works = comparison.step.observed.value().is_some()
        || comparison.tokens.as_ref().is_some_and(|tokens| tokens.observed.value().is_some())
        || comparison.bandwidth.observed.value().is_some();
    let words = if works { AS_PLANNED } else { MEMORY_AS_PLANNED };
    (comparison.evidence.settled && said).then(|| verdict(words, if works { Gravity::Good } else { Gravity::Quiet }))
}

/// A difference of memory that says something.
fn notable(residual: &Residual<Bytes>) -> Option<(f64, String)> {
    let (relative, seen) = residual.relative.filter(|_| residual.notable).zip(residual.observed.value())?;
    let gib = seen.gib() - residual.predicted.gib();
    let figure = match gib.abs() {
        // Less than a tenth: nobody is told of `+0.0 GiB`.
        ..0.05 => format!("{:+.0} MiB", gib * 1024.0),
        ..9.95 => format!("{gib:+.1} GiB"),
        _ => format!("{gib:+.0} GiB"),
    };
    Some((relative, format!("MEMORY {figure}")))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", (share * 100.0).abs())
}
