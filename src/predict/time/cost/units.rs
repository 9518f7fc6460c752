//! The host's part of FSDP: each module that is sharded by itself gathers its weights before it runs and gives them back
//! behind, in Python (PyTorch 2.9, torch/distributed/fsdp/_runtime_utils.py). Adapters are such modules: peft has each of
//! their matrices wrapped alone (peft/utils/other.py, `fsdp_auto_wrap_policy`, which transformers' Trainer takes).

use std::collections::VecDeque;

use crate::model::{Op, Work};
use crate::predict::job::Job;
use crate::predict::memory::replay;
use crate::predict::time::pass_costs::PassCosts;
use crate::units::Seconds;

use super::detailed_pass::Launches;

/// The host's time for one of them, forward and backward, in launches of a linear layer: `FullyShardedDataParallel` about
/// layers of 8 x 8 against the bare layers' forward pass, on one host, with a process group that sends nothing (PyTorch
/// 2.9.1: 268 and 350 us each beside 6.85).
const EACH: Launches = Launches { forward: 39.0, backward: 51.0 };
/// Modules that the host may be ahead of the GPU (_limiter_utils.py, `_max_num_inflight_all_gathers`).
const AHEAD: usize = 2;
/// Layers behind each other until each waits as long as the one before it.
const SETTLED: usize = 4;

/// Where the modules of a layer begin, as its operators are gone through.
#[derive(Default)]
pub(super) struct ShardedModules(Vec<(PassCosts, Launches)>);

/// A module's time of the GPU until the next one begins, the host's own for it, and that to launch what is between.
#[derive(Clone, Copy)]
struct ModuleRun {
    card: Seconds,
    unit: Seconds,
    launches: Seconds,
    /// The whole layer, which is given back at its end.
    is_layer: bool,
}

impl ShardedModules {
    /// Whether `op` multiplies by the matrix of a module that is sharded by itself.
    pub fn is_one(op: &Op) -> bool {
        matches!((op.name, op.work), ("lora.a" | "lora.b", Work::Product(_)))
    }

    /// Another begins, after so much of both passes.
    pub fn begin(&mut self, card: PassCosts, launches: Launches) {
        self.0.push((card, launches));
    }

    /// What the host does for all of them and the layer about them.
    pub fn launches(&self, again: bool) -> Launches {
        let modules = (1 + self.0.len()) as f64;
        let reruns = if again { EACH.forward } else { 0.0 };
        Launches { forward: EACH.forward * modules, backward: (EACH.backward + reruns) * modules }
    }

    /// Time that the GPU waits in each pass because the host stays so few modules ahead of it; `again` where the backward
    /// pass runs all of the forward pass first. `end` is what the whole layer takes.
    pub fn waits(&self, end: (PassCosts, Launches), again: bool, launch: Seconds) -> PassCosts {
        if self.0.is_empty() {
            return PassCosts::default();
        }
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let mut before = (PassCosts::default(), Launches::default());
        for (at, next) in self.0.iter().chain(std::iter::once(&end)).enumerate() {
            let (card, launches) =
                (next.0 - before.0, [next.1.forward - before.1.forward, next.1.backward - before.1.backward]);
            let is_layer = at == 0;
            let run = |card, unit: f64, launches: f64| ModuleRun {
                card,
                unit: launch * unit,
                launches: launch * launches,
                is_layer,
            };
            let rerun = if again { (card.forward, launches[0]) } else { (Seconds::ZERO, 0.0) };
            forward.push(run(card.forward, EACH.forward, launches[0]));
            backward.push(run(card.backward - rerun.0, EACH.backward, launches[1] - rerun.1));
            before = *next;
        }
        // What comes last forward comes first backward.
        backward.reverse();
        if again {
            backward.splice(0..0, forward.iter().copied());
        }
        PassCosts { forward: waited(&forward), backward: waited(&backward) }
    }
}

/// How much longer than the GPU's own time one of many such layers takes.
fn waited(layer: &[ModuleRun]) -> Seconds {
    let (mut host, mut card, mut begun) = (Seconds::ZERO, Seconds::ZERO, Seconds::ZERO);
    let mut given_back: VecDeque<Seconds> = VecDeque::new();
    for _ in 0..SETTLED {
        begun = card;
        for module in layer {
            if given_back.len() >= AHEAD {
                host = host.max(given_back.pop_front().unwrap_or_default());
            }
            host += module.unit;
            card = card.max(host);
            if !module.is_layer {
                given_back.push_back(card);
            }
            card += module.card;
            host += module.launches;
        }
        given_back.push_back(card);
    }
    let own = layer.iter().map(|module| module.card).fold(Seconds::ZERO, |sum, card| sum + card);
    (card - begun - own).max(Seconds::ZERO)
}

/// Whether modules are sharded by themselves, and gathered as they come.
pub(super) fn gathers_each(job: &Job) -> bool {
    replay::is_fsdp(job)
}

#[cfg(test)]
mod tests {
    use super::{ModuleRun, waited};
    use crate::units::Seconds;

    /// A layer that takes the GPU so long, and behind its beginning three modules of its own without work; each takes the
    /// host a second.
    fn layer(card: f64) -> [ModuleRun; 4] {
        let run =
            |card, is_layer| ModuleRun { card: Seconds(card), unit: Seconds(1.0), launches: Seconds::ZERO, is_layer };
        [run(card, true), run(0.0, false), run(0.0, false), run(0.0, false)]
    }

    #[test]
    fn a_gpu_without_work_waits_for_each_module() {
        assert_eq!(waited(&layer(0.0)), Seconds(4.0));
    }

    /// The host may gather for the second module while the GPU is still in the layer's own part, but not for the third, nor
    /// for the next layer: both of those seconds the GPU waits.
    #[test]
    fn a_host_two_modules_ahead_is_waited_for_behind_long_work() {
        assert_eq!(waited(&layer(10.0)), Seconds(2.0));
        // Work between all of them that takes as long as the host hides it.
        let even = layer(1.0).map(|module| ModuleRun { card: Seconds(1.0), ..module });
        assert_eq!(waited(&even), Seconds(0.0));
    }
}
