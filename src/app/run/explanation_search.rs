//! Why the run differs from its plan: searched for in the background whenever what is seen of it has
//! changed, and taken into the plan where the user says so.

use std::sync::Arc;

use super::mismatch;
use super::outlook;
use super::settings::ToldSettings;
use crate::app::event::Effect;
use crate::app::monitor::attached::AttachedState;
use crate::app::notice::{info, problem};
use crate::app::state::State;
use crate::catalog::{Catalog, Generation};
use crate::compare::{self, Bands, Calibration, Candidates, Comparison, Evidence, Explanation, Subject, explain};
use crate::predict::{Job, Prediction};
use crate::reading::Moment;
use crate::units::Seconds;

/// The search for explanations of what is seen now, and what the last one found.
#[derive(Debug, Clone, Default)]
pub struct ExplanationSearch {
    /// How many searches were begun.
    number: u64,
    /// What the newest one is of.
    asked: Option<QuestionKey>,
    under_way: bool,
    /// Somebody asked for it and wants to be told how it went.
    by_key: bool,
    /// The plan that was asked about last, and what changed versions of it show.
    plan: Option<Arc<Candidates>>,
    /// The best explanations, most likely first.
    pub found: Vec<Explanation>,
}

impl ExplanationSearch {
    /// Forgets what was found. What a search that is under way finds is of no use any more.
    pub fn restart(&mut self) {
        *self = Self { number: self.number + 1, ..Self::default() };
    }

    /// Whether a search has not come back yet.
    #[must_use]
    pub const fn under_way(&self) -> bool {
        self.under_way
    }
}

/// What a row of the Compare pane stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareRow {
    /// An explanation; where there is none, the first is the top of the pane.
    Why(usize),
    /// How the run goes otherwise.
    Run,
    /// What kind each figure is of.
    Kinds,
    /// What the prediction assumes.
    Assumption(usize),
}

impl CompareRow {
    /// The row of that number.
    #[must_use]
    pub fn of(state: &State) -> Self {
        let above = Self::explanations(state);
        match state.views.compared.checked_sub(above) {
            None => Self::Why(state.views.compared),
            Some(0) => Self::Run,
            Some(1) => Self::Kinds,
            Some(below) => Self::Assumption(below - 2),
        }
    }

    /// How many rows there are, of a prediction with so many assumptions.
    #[must_use]
    pub fn count(state: &State, assumptions: usize) -> usize {
        Self::explanations(state) + 2 + assumptions
    }

    /// The number of the row, as the selection counts.
    #[must_use]
    pub fn number(self, state: &State) -> usize {
        let above = Self::explanations(state);
        match self {
            Self::Why(index) => index,
            Self::Run => above,
            Self::Kinds => above + 1,
            Self::Assumption(index) => above + 2 + index,
        }
    }

    /// Rows of explanations; where there is none, the top of the pane is one.
    fn explanations(state: &State) -> usize {
        state.run.explaining.found.len().max(1)
    }
}

/// What a search depends on.
#[derive(Debug, Clone, PartialEq)]
struct QuestionKey {
    text: String,
    stage: Option<u64>,
    calibration: Calibration,
    grows: bool,
    evidence: Evidence,
    told: ToldFacts,
    at: Moment,
}

/// What the run is known to do: no cause has it do otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
struct ToldFacts {
    stated: Vec<(&'static str, String)>,
    same_tokens: bool,
}

/// What moves a little, back and forth, is answered once in this time: a run on a busy machine is never quite steady,
/// and a search takes some hundredths of a second of a core that it may need.
const CALM: Seconds = Seconds(10.0);

impl QuestionKey {
    fn of(state: &State) -> Option<Self> {
        let comparison = state.run.comparison.as_ref()?;
        let plan = state.plans.run.as_ref()?.plan();
        let (job, prediction) = plan.job().zip(plan.prediction())?;
        if lacks_hook(state, job) {
            return None;
        }
        let evidence = comparison.held_against_plans();
        Some(Self {
            text: plan.text().to_owned(),
            stage: comparison.stage(),
            calibration: state.run.calibration,
            grows: state.run.outlook.is_growing(),
            evidence: outlook::without_growth(state, evidence),
            told: ToldFacts::of(state, job, prediction),
            at: state.now,
        })
    }

    /// Whether both are of one plan, and of memory that grows or does not.
    fn asks_the_same_as(&self, before: &Self) -> bool {
        let of = |key: &Self| (key.stage, key.calibration, key.grows);
        self.text == before.text && of(self) == of(before)
    }

    /// Whether an answer to `before` is the better one, though what is seen is not the same any more: a run that
    /// warms up again after its first steps, or is between steps, has fewer figures for a while.
    fn is_poorer_than(&self, before: &Self) -> bool {
        self.asks_the_same_as(before) && self.evidence.is_poorer_than(&before.evidence)
    }

    /// Whether an answer to `before` is none to this.
    fn is_news_to(&self, before: &Self) -> bool {
        let calm = self.at.since(before.at) >= CALM;
        // A cause that was found before the run told of it may be ruled out by now.
        self.told != before.told
            || !self.asks_the_same_as(before)
            || if calm {
                self.evidence.is_news_to(&before.evidence)
            } else {
                self.evidence.is_far_from(&before.evidence)
            }
    }
}

/// That nothing which was tried explains what is observed, and in brackets what was, or what would tell more; none while
/// something may.
#[must_use]
pub fn unexplained(state: &State) -> Option<[String; 2]> {
    let explaining = &state.run.explaining;
    let open = is_meant(state) && state.run.comparison.as_ref().is_some_and(Comparison::is_notable);
    if !open || explaining.under_way || state.run.outlook.is_growing() || !explaining.found.is_empty() {
        return None;
    }
    let job = state.plans.run.as_ref()?.plan().job()?;
    match &explaining.asked {
        Some(asked) => {
            let tried = compare::tried(job, &asked.told.stated, &asked.evidence).join(", ");
            let brackets = format!(" (none better than chance; tried: {tried})");
            Some([core_wait(state).unwrap_or_else(|| "nothing tried explains it".to_owned()), brackets])
        }
        None if lacks_hook(state, job) => {
            let words = core_wait(state).unwrap_or_else(|| "its step time alone names no cause".to_owned());
            Some([words, " (memwall run -- COMMAND has it tell more)".to_owned()])
        }
        None => None,
    }
}

/// Of a run on the CPU without the hook nobody tells the peak: a step time alone names no cause.
fn lacks_hook(state: &State, job: &Job) -> bool {
    let on_cpu = job.hardware.gpu.generation == Generation::Cpu;
    on_cpu && state.run.telemetry.hooked(&state.monitor, state.now).is_none()
}

/// A run on the CPU that has no core for this share of the time is the slower for it.
const WORTH_A_WORD: f64 = 0.1;

/// That the run waits for a core, where that makes it slower than planned: it need not be all that does.
#[must_use]
pub fn core_wait(state: &State) -> Option<String> {
    state.run.comparison.as_ref().and_then(waits_for_core)
}

/// That it waits for a core, where it does so for a good part of the time and is slower than planned.
fn waits_for_core(comparison: &Comparison) -> Option<String> {
    let share = comparison.evidence.cpu_wait.value().filter(|share| share.0 >= WORTH_A_WORD)?;
    let is_slower = comparison.pace().is_some_and(|more| more > 0.0);
    is_slower.then(|| format!("waiting for a free CPU core {:.0} % of the time", share.percent()))
}

/// Explanations that hardly anything speaks for are not shown.
const WORTH: f64 = 0.01;

/// Everything that a search reads: it can be answered anywhere.
#[derive(Debug, Clone)]
pub struct Question {
    plan: Arc<Candidates>,
    catalog: Arc<Catalog>,
    asked: QuestionKey,
    bands: Bands,
}

impl Question {
    /// What there is to explain now; none where nothing is observed of a run that has a plan.
    #[must_use]
    pub fn of(state: &State) -> Option<Self> {
        let plan = state.plans.run.as_ref()?.plan();
        let job = plan.job()?;
        Some(Self {
            plan: state.run.explaining.plan.clone()?,
            catalog: Arc::clone(&state.catalog),
            asked: QuestionKey::of(state)?,
            bands: Bands::of(job),
        })
    }

    /// The best explanations, most likely first; none where the plan itself does. Takes milliseconds.
    #[must_use]
    pub fn answer(&self) -> Vec<Explanation> {
        let subject = Subject {
            plan: &self.plan,
            catalog: &self.catalog,
            stage: self.asked.stage,
            calibration: self.asked.calibration,
            stated: &self.asked.told.stated,
            same_tokens: self.asked.told.same_tokens,
        };
        explain(&subject, &self.asked.evidence, &self.bands)
    }
}

impl ToldFacts {
    /// By its command, files and environment, by its log, and by its hook.
    fn of(state: &State, job: &Job, prediction: &Prediction) -> Self {
        let telemetry = &state.run.telemetry;
        let run = telemetry.hooked(&state.monitor, state.now);
        let model = run.and_then(|run| mismatch::planned_model(run.about.as_ref()?, job, prediction));
        let hooked = run.map(|run| ToldSettings::of(run, job));
        let same_tokens =
            hooked.as_ref().is_some_and(ToldSettings::same_tokens) || super::stated::tokens_as_planned(state, job);
        let logged = super::stated::as_planned(state, job, prediction);
        let hooked = hooked.map(|told| told.as_planned()).into_iter().flatten();
        let commanded = telemetry.stated(&state.monitor).iter().cloned();
        Self { stated: commanded.chain(logged).chain(hooked).chain(model).collect(), same_tokens }
    }
}

/// Begins a search where what is seen has changed since the last one and lies outside of what
/// predictions stray by, or where it did: then it says that nothing is wrong any more.
pub fn look(state: &mut State) -> Option<Effect> {
    let text = state.plans.run.as_ref()?.plan().text();
    let wrong = state.run.comparison.as_ref()?.is_notable();
    let explaining = &mut state.run.explaining;
    if explaining.asked.as_ref().is_some_and(|asked| asked.text != text) {
        // They are of another plan.
        explaining.found.clear();
        explaining.asked = None;
    }
    let known = !explaining.found.is_empty();
    // This is looked at after every event: what is seen is copied only where there may be something to ask.
    if explaining.under_way || is_over(state) || !(known || (wrong && is_meant(state))) {
        return None;
    }
    let now = QuestionKey::of(state)?;
    let answered = state
        .run
        .explaining
        .asked
        .as_ref()
        .is_some_and(|asked| !now.is_news_to(asked) || known && now.is_poorer_than(asked));
    (!answered).then(|| ask(state, now))
}

/// Whether the run is gone: what was found out about it stays.
fn is_over(state: &State) -> bool {
    let attached = state.monitor.attached.as_ref().map(|attached| attached.state);
    attached == Some(AttachedState::Replaced) || state.run.telemetry.ended(&state.monitor, state.now).is_some()
}

/// Whether the run is meant to do what its plan says, and has done so for whole steps. What another model does, or other
/// GPUs, needs no other cause.
fn is_meant(state: &State) -> bool {
    let settled = state.run.comparison.as_ref().is_some_and(|comparison| comparison.evidence.settled);
    settled && mismatch::of(state).is_none()
}

fn ask(state: &mut State, now: QuestionKey) -> Effect {
    let explaining = &mut state.run.explaining;
    if let Some((plan, document)) = state.plans.run.as_ref().and_then(|run| Some((run.plan(), run.plan().document()?)))
    {
        let parts = (plan.hf_config(), plan.trace());
        explaining.plan = explaining.plan.take().filter(|known| known.are_of(document, parts.0, parts.1));
        explaining.plan.get_or_insert_with(|| Arc::new(Candidates::of(document, parts.0, parts.1)));
    }
    explaining.number += 1;
    explaining.asked = Some(now);
    explaining.under_way = true;
    Effect::Explain(explaining.number)
}

/// Begins a search because somebody wants one.
pub fn ask_now(state: &mut State) -> Vec<Effect> {
    let Some(now) = QuestionKey::of(state) else {
        state.notice = Some(problem("nothing is observed of a run that has a plan"));
        return Vec::new();
    };
    if let Some(mismatch) = mismatch::of(state) {
        state.notice = Some(problem(format!("nothing to search for: {}", mismatch.words())));
        return Vec::new();
    }
    state.run.explaining.by_key = true;
    if state.run.explaining.under_way {
        return Vec::new();
    }
    vec![ask(state, now)]
}

/// A search has come back.
pub fn arrived(state: &mut State, number: u64, found: Vec<Explanation>) {
    let explaining = &mut state.run.explaining;
    if number != explaining.number {
        return;
    }
    explaining.under_way = false;
    let run = state.plans.run.as_ref();
    let of_this = explaining.asked.as_ref().is_some_and(|asked| run.is_some_and(|run| run.plan().text() == asked.text));
    if of_this {
        explaining.found = found;
        explaining.found.retain(|explanation| explanation.share.0 >= WORTH);
    }
    if std::mem::take(&mut explaining.by_key) && of_this {
        state.notice = Some(info(match compare::verdict(&explaining.found) {
            Some(verdict) => verdict,
            None if state.run.comparison.as_ref().is_some_and(Comparison::is_notable) => {
                "no other plan and no known fault of the machine explains what is observed".to_owned()
            }
            None => "the plan explains what is observed: no other one does so better".to_owned(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::waits_for_core;
    use crate::catalog::Catalog;
    use crate::compare::{Bands, Calibration, Evidence, MemoryOwner, Observation, compare};
    use crate::plan::{Document, plan_of};
    use crate::predict::{Job, predict};
    use crate::reading::{Moment, Reading};
    use crate::units::Fraction;

    #[test]
    fn a_run_without_the_hook_is_slow_by_its_wait_for_a_core() {
        let plan = plan_of(&Document::parse("model: {preset: gpt2, batch_size: 8}").unwrap(), "".as_ref()).unwrap();
        let job = Job::resolve(&plan, &Catalog::embedded().unwrap()).unwrap();
        let prediction = predict(&job);
        let told = |times: f64, wait: f64| {
            let step = Reading::measured(prediction.time.step * times, Moment(1));
            let cpu_wait = Reading::measured(Fraction(wait), Moment(1));
            let evidence = Evidence { step, cpu_wait, ..Evidence::default() };
            let seen =
                Observation { whose: MemoryOwner::Log, memory: Reading::not_read(), devices: 0, stage: None, evidence };
            waits_for_core(&compare(&prediction, &seen, &Bands::of(&job), &Calibration::default()))
        };
        assert_eq!(told(4.0, 0.75).as_deref(), Some("waiting for a free CPU core 75 % of the time"));
        // It has its cores; it is as planned; it is faster.
        assert_eq!((told(4.0, 0.02), told(1.0, 0.75), told(0.1, 0.75)), (None, None, None));
    }
}
