//! What may befall a run that does what its plan says: the machine, its neighbours, its data.

use crate::compare::evidence::Evidence;
use crate::compare::expected::Expectation;
use crate::units::{Bytes, Fraction, Seconds};

/// Something outside the plan that changes what a run shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Circumstance {
    /// Another process holds memory on the same device.
    OtherProcess,
    /// A run on a CPU waits for a core of it: other programs, or too many threads and workers of its own, have them.
    BusyCpu,
    /// The GPUs wait for their samples.
    DataLoading,
    /// The training thread is in code beside the step's work.
    OwnCode,
    /// Heat or the board slows the clocks.
    Throttling,
    /// Collectives take longer than the links should.
    SlowLink,
    /// The caching allocator holds more than it should need.
    Fragmentation,
}

/// What a figure that is free to take any value costs: a cause with one explains anything,
/// so it must explain more. About the logarithm of the range that it could have taken
/// over the width that the evidence leaves it.
const FREE: f64 = 2.5;

/// Allocators have been seen to hold a third more than was asked of them (Megatron-Bridge's
/// 70B fine-tuning ran out of 80 GB with 58.8 GB allocated).
const WORST_FRAGMENTATION: f64 = 0.36;

/// How far beyond the worst a figure may lie and be taken for it: reserved bytes stray by some percent of all, a
/// quarter of what fragments.
const BEYOND: f64 = 1.25;

/// A wait for data that adds less than this to a step is no cause of anything.
const WORTH_A_WAIT: f64 = 0.02;

impl Circumstance {
    /// All of them: those whose size is observed come before those that take what is left.
    pub const ALL: [Self; 7] = [
        Self::OtherProcess,
        Self::BusyCpu,
        Self::Throttling,
        Self::OwnCode,
        Self::DataLoading,
        Self::SlowLink,
        Self::Fragmentation,
    ];

    /// Those that a run may meet: a CPU has neither a caching allocator nor a clock that anyone reads.
    pub(super) const fn of(on_cpu: bool) -> &'static [Self] {
        if on_cpu { &[Self::BusyCpu, Self::OwnCode, Self::DataLoading, Self::SlowLink] } else { &Self::ALL }
    }

    /// What one would say.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::OtherProcess => "another process on the GPU",
            Self::BusyCpu => "waiting for a free CPU core",
            Self::DataLoading => "waiting for data",
            Self::OwnCode => "code beside the step's work",
            Self::Throttling => "clocks slowed down",
            Self::SlowLink => "collectives slower than the links",
            Self::Fragmentation => "fragmented allocator",
        }
    }

    /// The same, with the place where the stack tells one.
    pub(super) fn words_of(self, evidence: &Evidence) -> String {
        match evidence.own_code.value() {
            Some(place) if self == Self::OwnCode => place.of_step(),
            _ => self.words().to_owned(),
        }
    }

    /// What to look at, or do.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::OtherProcess => "end the other process, or lower hardware.memory_limit_gb to what is left",
            Self::BusyCpu => "end other programs, or use fewer threads and workers: top shows who has the cores",
            Self::OwnCode => "do it less often, in another thread, or in the data loader's workers",
            Self::DataLoading => "more data-loader workers, prefetching, a faster store",
            Self::Throttling => "look at the GPU's temperature, airflow and power limit",
            Self::SlowLink => "look at NVLink and network errors, at NCCL's rings, at who shares the switch",
            Self::Fragmentation => "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        }
    }

    /// What `plain` becomes under it, with how far that stretches belief: the size of the
    /// effect is read from the evidence. None where the evidence speaks against it.
    pub fn applied(self, plain: &Expectation, evidence: &Evidence, on_cpu: bool) -> Option<(Expectation, f64)> {
        match self {
            Self::OtherProcess => other_process(plain, evidence),
            Self::BusyCpu => busy_cpu(plain, evidence),
            Self::OwnCode => own_code(plain, evidence, on_cpu),
            Self::DataLoading => data_loading(plain, evidence),
            Self::Throttling => throttling(plain, evidence),
            Self::SlowLink => slow_link(plain, evidence),
            Self::Fragmentation => fragmentation(plain, evidence),
        }
    }
}

/// How much longer a step takes than it should, from the step or, without one, from the
/// rate at which the matrix units work.
fn delay(plain: &Expectation, evidence: &Evidence) -> Option<Seconds> {
    let step = evidence.step.value().copied();
    let by_tokens = || evidence.tokens.value().filter(|rate| rate.0 > 0.0).map(|rate| Seconds(plain.tokens / rate.0));
    let by_rate = || evidence.compute.value().filter(|rate| rate.0 > 0.0).map(|rate| Seconds(plain.flops.0 / rate.0));
    let step = step.or_else(by_tokens).or_else(by_rate)?;
    Some(step - plain.step).filter(|delay| delay.0 > 0.0)
}

fn other_process(plain: &Expectation, evidence: &Evidence) -> Option<(Expectation, f64)> {
    let others = evidence.others.value().copied().filter(|others| *others > Bytes::ZERO)?;
    let device_used = plain.device_used + others;
    // Whether it computes too nobody can tell: its memory is what is certain.
    Some((Expectation { device_used, others, ..*plain }, 0.0))
}

fn busy_cpu(plain: &Expectation, evidence: &Evidence) -> Option<(Expectation, f64)> {
    let cpu_wait = evidence.cpu_wait.value().copied().filter(|wait| wait.0 > 0.0 && wait.0 < 1.0)?;
    // Work that is done in what is left of the time takes longer by as much: at most, as other programs come and go, and
    // the steps may be older than the share.
    let most = plain.step * (1.0 / (1.0 - cpu_wait.0)) - plain.step;
    let step = plain.step + delay(plain, evidence)?.min(most);
    Some((Expectation { step, cpu_wait, ..*plain }, 0.0))
}

fn data_loading(plain: &Expectation, evidence: &Evidence) -> Option<(Expectation, f64)> {
    let mut delay = delay(plain, evidence)?;
    // That steps are long is all that speaks for it then, as for anything else.
    if evidence.data_wait.value().is_none() && evidence.busy.value().is_none() {
        return None;
    }
    let free = if evidence.data_wait.value().is_some() { 0.0 } else { FREE };
    if let Some(share) = evidence.data_wait.value() {
        // Where its stack is seen it waits for no longer than that.
        let waited = (plain.step + delay) * share.0;
        if waited.0 < WORTH_A_WAIT * plain.step.0 {
            return None;
        }
        delay = delay.min(waited);
    }
    let step = plain.step + delay;
    let busy = Fraction(plain.busy.0 * plain.step.0 / step.0);
    Some((Expectation { step, busy, ..*plain }, free))
}

fn own_code(plain: &Expectation, evidence: &Evidence, on_cpu: bool) -> Option<(Expectation, f64)> {
    let place = evidence.own_code.value()?;
    let delay = delay(plain, evidence)?;
    // Kernels run on while the thread is there, and it may wait for them there unseen: by how much it delays them shows in
    // how busy the device is, where there is one.
    if !on_cpu && evidence.busy.value().is_none() {
        return None;
    }
    let step = plain.step + delay.min((plain.step + delay) * place.share.0);
    let busy = Fraction(plain.busy.0 * plain.step.0 / step.0);
    Some((Expectation { step, busy, ..*plain }, 0.0))
}

fn throttling(plain: &Expectation, evidence: &Evidence) -> Option<(Expectation, f64)> {
    if evidence.slowed.value() == Some(&false) {
        return None;
    }
    let said = evidence.slowed.value().is_some();
    let clock = match evidence.clock.value().copied().filter(|clock| clock.0 > 0.0) {
        Some(clock) => clock,
        // Without a clock the delay says how slow it must be.
        None => {
            let delay = delay(plain, evidence).filter(|_| plain.compute.0 > 0.0)?;
            Fraction(plain.compute.0 / (plain.compute.0 + delay.0))
        }
    };
    if clock.0 >= plain.clock.0 {
        return None;
    }
    let step = plain.step + plain.compute * (plain.clock.0 / clock.0 - 1.0);
    let free = if evidence.clock.value().is_some() { 0.0 } else { FREE };
    Some((Expectation { step, clock, ..*plain }, if said { free } else { free + 1.0 }))
}

fn slow_link(plain: &Expectation, evidence: &Evidence) -> Option<(Expectation, f64)> {
    if plain.gpus < 2 {
        return None;
    }
    let delay = delay(plain, evidence)?;
    let (step, communication) = (plain.step + delay, plain.communication + delay);
    // Kernels of collectives spin while they wait: the device looks busy.
    Some((Expectation { step, communication, ..*plain }, FREE))
}

fn fragmentation(plain: &Expectation, evidence: &Evidence) -> Option<(Expectation, f64)> {
    let observed = evidence.reserved.value().zip(Some(plain.reserved));
    let (seen, expected) = observed.or_else(|| evidence.device_used.value().zip(Some(plain.device_used)))?;
    let worst = plain.reserved.as_f64() * WORST_FRAGMENTATION;
    let extra = seen.saturating_sub(expected);
    // What lies a little beyond may be the prediction's own error, which is held against it.
    if extra == Bytes::ZERO || extra.as_f64() > worst * BEYOND {
        return None;
    }
    let extra = extra.min(Bytes::from_f64(worst));
    let (device_used, reserved) = (plain.device_used + extra, plain.reserved + extra);
    // Seen from outside alone, fragmentation is a name for anything that holds more memory.
    let blind = if evidence.allocated.value().is_some() { 0.0 } else { 2.0 };
    Some((Expectation { device_used, reserved, ..*plain }, FREE + blind))
}
