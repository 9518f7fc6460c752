//! The demo's run: of the plan, or departing from it as `--source demo:…` asks.

use std::sync::mpsc::Sender;

use super::Failure;
use super::plans;
use crate::advise::follow::give_way;
use crate::app::{self, Editor, State};
use crate::catalog::Catalog;
use crate::observe::{Demo, SourceChoice};
use crate::plan::Fault;
use crate::predict::Verdict;
use crate::units::Seconds;

/// How long the demo's leak takes to fill the GPU.
const LEAK: Seconds = Seconds(1500.0);

/// A demo that waits for a plan that can be predicted.
#[derive(Debug)]
pub struct PendingDemo {
    /// What its run does otherwise than the plan.
    pub choice: SourceChoice,
    /// How long it will have been going on.
    pub head_start: Seconds,
    /// Where it is waited for.
    pub hand: Sender<Demo>,
}

impl PendingDemo {
    /// Hands the run of the plan in front over, where that makes a prediction by now. Whether it did.
    pub fn look(&self, state: &mut State) -> bool {
        if state.plans.editor.prediction().is_none() {
            return false;
        }
        let Ok(Some(demo)) = run(&self.choice, &state.plans.editor, self.head_start, &state.catalog) else {
            return false;
        };
        app::plan_of_simulation(state);
        // Nobody waits where another source was found.
        drop(self.hand.send(demo));
        true
    }
}

/// The simulated run of `plan`, met after it has been going on for `head_start`; none where the plan makes no
/// prediction.
///
/// # Errors
/// Where it cannot depart from the plan as it is asked to.
pub fn run(
    choice: &SourceChoice,
    plan: &Editor,
    head_start: Seconds,
    catalog: &Catalog,
) -> Result<Option<Demo>, Failure> {
    let said = |fault: Fault| Failure::usage(format!("--source demo: {}", plans::line(None, fault)));
    let departure = if let SourceChoice::Demo(departure) = choice { departure.clone() } else { Default::default() };
    let mut run = plan.clone();
    if !departure.changes.is_empty() {
        let mut change = plans::change(&departure.changes).map_err(said)?;
        // As in a sweep, what was only right together with the old value is derived anew.
        let keys: Vec<&str> = change.set.iter().map(|(key, _)| *key).collect();
        change.remove.extend(run.plan().map(|plan| give_way(plan, &keys)).unwrap_or_default());
        run.apply(run.with(&change).map_err(said)?, catalog);
        if let Some(fault) = run.faults().first() {
            return Err(said(fault.clone()));
        }
    }
    let Some((prediction, job)) = run.prediction().zip(run.job()) else { return Ok(None) };
    let mut demo = Demo::new(prediction, &job.hardware.gpu);
    if departure.leak {
        demo = demo.leaking(LEAK);
    }
    if let Some(words) = departure.words() {
        demo = demo.because(&format!("a simulated run of the plan, with {words}"));
    }
    // A run that is under way says more at first sight than one that is loading.
    let fits = prediction.capacity.verdict() != Verdict::DoesNotFit;
    Ok(Some(if fits { demo.after(head_start) } else { demo }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Departure;

    /// The manual's own examples (configs/help/sources.md) on the plan that opens.
    #[test]
    fn departures_of_the_manual_run() {
        let catalog = std::sync::Arc::new(Catalog::embedded().unwrap());
        let text = include_str!("../../configs/plans/13b_long_sequence.yaml").to_owned();
        let plan = Editor::open_text("13b_long_sequence".to_owned(), None, text, &catalog);
        for words in
            ["sequence_parallel=false", "micro_batch_size=2,leak", "batch_size=8", "activation_checkpointing=full"]
        {
            let choice = SourceChoice::Demo(Departure::parse(words).unwrap());
            assert!(run(&choice, &plan, Seconds(0.0), &catalog).unwrap().is_some(), "{words}");
        }
    }
}
