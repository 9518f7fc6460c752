//! The host's part of sharding: each module that is sharded by itself gathers its weights before it runs and gives them back
//! behind, in Python. FSDP's are layers (PyTorch 2.9, torch/distributed/fsdp/_runtime_utils.py), and the matrices of adapters,
//! which peft has wrapped alone (peft/utils/other.py, `fsdp_auto_wrap_policy`, which transformers' Trainer takes); of
//! DeepSpeed's third stage each module with weights of its own is one (runtime/zero/parameter_offload.py,
//! `_register_deepspeed_module`).

use std::collections::VecDeque;

use crate::model::{Op, Tape, Work};
use crate::plan::keywords::{Engine, Sharding};
use crate::predict::job::Job;
use crate::predict::time::pass_costs::PassCosts;
use crate::units::Seconds;

use super::detailed_pass::Launches;

/// The host's time for a module, in launches of a linear layer: streams, events and collectives are part of it. And more for
/// each of its parameters and for the gradient of each that is trained, which is Python alone and takes the time that it was
/// measured to take, in launches of [`LINEAR`].
struct HostTime {
    module: Launches,
    parameter: Launches,
    gradient: f64,
}

/// Microseconds that PyTorch's frameworks take for a linear layer (configs/efficiency.yaml, `host_us`).
const LINEAR: f64 = 13.5;

/// Parameters of a module: all, and those with gradients.
#[derive(Clone, Copy)]
struct ParameterCount {
    all: f64,
    trained: f64,
}

/// `FullyShardedDataParallel` about 24 modules of 1 to 12 linear layers of 8 x 8 against the bare modules' passes, on one host,
/// with a process group that sends nothing and bf16 beside fp32 gradients (PyTorch 2.9.1, least of 60 steps: 198 to 318 us
/// forward, 226 to 352 backward, beside 4.75 for a layer).
const FSDP1: HostTime = HostTime {
    module: Launches { forward: 39.3, backward: 45.0 },
    parameter: Launches { forward: 11.0 / LINEAR, backward: 11.5 / LINEAR },
    gradient: 0.0,
};
/// The same of `fully_shard` (185 to 290 us, 195 to 403): it goes through the parameters one by one, and through the gradients
/// of those that are trained (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py; 283 and 290 where eleven of twelve are
/// frozen). With 400 parameters it took 4.7 and 11.1 ms, on a busy machine; by these it is 4.0 and 7.8.
const FSDP2: HostTime = HostTime {
    module: Launches { forward: 36.9, backward: 37.1 },
    parameter: Launches { forward: 9.5 / LINEAR, backward: 9.0 / LINEAR },
    gradient: 10.0 / LINEAR,
};
/// DeepSpeed's modules, which have one parameter each, in a group of one (0.19.8: 183 and 254 us beside 7.0 for a layer).
const ZERO: HostTime = HostTime {
    module: Launches { forward: 26.0, backward: 36.0 },
    parameter: Launches { forward: 0.0, backward: 0.0 },
    gradient: 0.0,
};

impl HostTime {
    /// Of so many modules, with their parameters together.
    fn of(&self, modules: f64, parameters: ParameterCount) -> Launches {
        let ParameterCount { all, trained } = parameters;
        Launches {
            forward: self.module.forward * modules + self.parameter.forward * all,
            backward: self.module.backward * modules + self.parameter.backward * all + self.gradient * trained,
        }
    }
}

/// Modules that the host may be ahead of the GPU (_limiter_utils.py, `_max_num_inflight_all_gathers`).
const AHEAD: usize = 2;
/// Layers behind each other until each waits as long as the one before it.
const SETTLED: usize = 4;

/// Who shards modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::predict) enum ModuleSharder {
    /// `FullyShardedDataParallel`.
    Fsdp1,
    /// `fully_shard`.
    Fsdp2,
    /// DeepSpeed's third stage.
    Zero,
}

impl ModuleSharder {
    /// The job's; none where weights are whole, or gathered by what is no Python.
    pub fn of(job: &Job) -> Option<Self> {
        let degrees = &job.degrees;
        let zero =
            degrees.engine == Engine::Deepspeed && degrees.sharding == Sharding::Zero3 && degrees.shard_ranks > 1;
        // Hooks run whatever is shared out: weights that stay gathered are looked at too.
        let sharded = degrees.sharding != Sharding::None && degrees.shard_ranks > 1;
        let of = |engine| degrees.engine == engine && sharded;
        let python = [(of(Engine::Fsdp1), Self::Fsdp1), (of(Engine::Fsdp2), Self::Fsdp2), (zero, Self::Zero)];
        python.into_iter().find_map(|(is, sharder)| is.then_some(sharder))
    }

    const fn host_time(self) -> HostTime {
        match self {
            Self::Fsdp1 => FSDP1,
            Self::Fsdp2 => FSDP2,
            Self::Zero => ZERO,
        }
    }
}

/// What of a sharded layer the backward pass runs again first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModuleRerun {
    /// Nothing.
    Nothing,
    /// What it is made of: it is whole by then, and its own hooks do nothing (torch/distributed/fsdp/_runtime_utils.py,
    /// `_pre_forward`; _fully_shard/_fsdp_state.py, `_pre_forward`) or stand outside of the checkpoint.
    Inside,
    /// The layer with its own gathering.
    Whole,
}

/// The modules of a layer, as its operators are gone through.
pub(super) struct ShardedModules {
    sharder: ModuleSharder,
    /// Where those begin that the host waits for.
    begun: Vec<(PassCosts, Launches)>,
}

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
    /// None so far.
    pub fn of(job: &Job) -> Option<Self> {
        ModuleSharder::of(job).map(|sharder| Self { sharder, begun: Vec::new() })
    }

    /// `op` comes, after so much of both passes.
    pub fn pass(&mut self, op: &Op, card: PassCosts, launches: Launches) {
        let is_one = matches!((op.name, op.work), ("lora.a" | "lora.b", Work::Product(_)));
        if is_one && self.sharder == ModuleSharder::Fsdp1 {
            self.begun.push((card, launches));
        }
    }

    /// What the host does for all modules of `tape`.
    pub fn launches(&self, tape: &Tape, rerun: ModuleRerun) -> Launches {
        // Each matrix of adapters is a module by itself; the layer is one with what is left.
        let alone = self.begun.len() as f64;
        let parameters = parameters_of(tape);
        let none = ParameterCount { all: 0.0, trained: 0.0 };
        let (modules, inside) = match self.sharder {
            ModuleSharder::Fsdp1 => ((1.0 + alone, parameters), (alone, ParameterCount { all: alone, trained: alone })),
            ModuleSharder::Fsdp2 => ((1.0, parameters), (0.0, none)),
            ModuleSharder::Zero => ((linear_layers(tape) as f64, none), (linear_layers(tape) as f64, none)),
        };
        let time = self.sharder.host_time();
        let of = |(modules, parameters)| time.of(modules, parameters);
        let again = match rerun {
            ModuleRerun::Nothing => Launches::default(),
            ModuleRerun::Inside => of(inside),
            ModuleRerun::Whole => of(modules),
        };
        let Launches { forward, backward } = of(modules);
        Launches { forward, backward: backward + again.forward }
    }

    /// Time that the GPU waits in each pass because the host stays so few modules ahead of it. `end` is what the whole layer takes.
    pub fn waits(&self, tape: &Tape, end: (PassCosts, Launches), rerun: ModuleRerun, launch: Seconds) -> PassCosts {
        if self.begun.is_empty() {
            return PassCosts::default();
        }
        // The layer has what no matrix of adapters is.
        let (held, alone) = (parameters_of(tape), self.begun.len() as f64);
        let rest = ParameterCount { all: (held.all - alone).max(0.0), trained: (held.trained - alone).max(0.0) };
        let [layer, matrix] = [rest, ParameterCount { all: 1.0, trained: 1.0 }].map(|held| FSDP1.of(1.0, held));
        let again = rerun != ModuleRerun::Nothing;
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let mut before = (PassCosts::default(), Launches::default());
        for (at, next) in self.begun.iter().chain(std::iter::once(&end)).enumerate() {
            let (card, launches) =
                (next.0 - before.0, [next.1.forward - before.1.forward, next.1.backward - before.1.backward]);
            let is_layer = at == 0;
            let alone = if is_layer { layer } else { matrix };
            let run = |card, unit: f64, launches: f64| ModuleRun {
                card,
                unit: launch * unit,
                launches: launch * launches,
                is_layer,
            };
            let rerun = if again { (card.forward, launches[0]) } else { (Seconds::ZERO, 0.0) };
            forward.push(run(card.forward, alone.forward, launches[0]));
            backward.push(run(card.backward - rerun.0, alone.backward, launches[1] - rerun.1));
            before = *next;
        }
        // What comes last forward comes first backward.
        backward.reverse();
        if again {
            let unit =
                |run: &ModuleRun| if run.is_layer && rerun == ModuleRerun::Inside { Seconds::ZERO } else { run.unit };
            backward.splice(0..0, forward.iter().map(|run| ModuleRun { unit: unit(run), ..*run }));
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

/// The parameters that a layer holds: experts in one tensor are one.
fn parameters_of(tape: &Tape) -> ParameterCount {
    let own = || tape.weights.iter().filter(|weight| !weight.tied);
    ParameterCount { all: own().count() as f64, trained: own().filter(|weight| weight.trained).count() as f64 }
}

/// Modules with a matrix of their own: norms' weights are below DeepSpeed's threshold and stay.
fn linear_layers(tape: &Tape) -> u64 {
    let repeats =
        |at: usize| tape.repeat.filter(|of| (of.from..of.from + of.ops).contains(&at)).map_or(1, |of| of.times as u64);
    let is_one = |op: &Op| matches!(op.work, Work::Product(product) if product.layer);
    tape.ops.iter().enumerate().filter(|(_, op)| is_one(op)).map(|(at, _)| repeats(at)).sum()
}

#[cfg(test)]
mod tests {
    use super::{FSDP2, LINEAR, ModuleRun, ParameterCount, waited};
    use crate::units::Seconds;

    /// A layer that takes the GPU so long, and behind its beginning three modules of its own without work; each takes the
    /// host a second.
    fn layer(card: f64) -> [ModuleRun; 4] {
        let run =
            |card, is_layer| ModuleRun { card: Seconds(card), unit: Seconds(1.0), launches: Seconds::ZERO, is_layer };
        [run(card, true), run(0.0, false), run(0.0, false), run(0.0, false)]
    }

    /// A module of twelve, of which one is trained: 36.9 x 4.75 + 12 x 9.5 us forward, 37.1 x 4.75 + 12 x 9.0 + 10.0 backward,
    /// 289 and 294, where 283 and 290 were measured beside 4.75 us for a layer.
    #[test]
    fn gradients_of_frozen_parameters_take_no_time() {
        let alone = FSDP2.of(1.0, ParameterCount { all: 0.0, trained: 0.0 });
        let time = FSDP2.of(1.0, ParameterCount { all: 12.0, trained: 1.0 });
        let us = |alone: f64, all: f64| alone * 4.75 + (all - alone) * LINEAR;
        assert!((us(alone.forward, time.forward) - 283.0).abs() < 9.0, "{time:?}");
        assert!((us(alone.backward, time.backward) - 290.0).abs() < 9.0, "{time:?}");
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
