//! Where the run's memory is going, and what it is that grows.

use super::state::State;
use crate::compare::{Counts, Forecast, Grows, forecast};
use crate::reading::Moment;
use crate::units::{Bytes, Seconds};

/// Time between two looks: memory that grows in less is seen with bare eyes.
const EVERY: Seconds = Seconds(5.0);

/// What the memory of the watched device does over time.
#[derive(Debug, Clone, Default)]
pub struct Outlook {
    /// Flat, or growing and when it will be all used.
    pub memory: Forecast,
    /// What it is that grows, where that can be told.
    pub grows: Option<Grows>,
    /// What was left of the device's memory when it held most; none before anything was seen.
    pub headroom: Option<Bytes>,
    counts: Counts,
    looked: Option<Moment>,
    /// The device that all this is of.
    device: Option<u32>,
}

/// Takes in the newest sample, and looks from time to time.
pub fn look(state: &mut State) {
    let position = state.monitor.attached_device();
    let Some(sample) = &state.monitor.sample else { return };
    let Some(device) = sample.devices.get(position) else { return };
    let outlook = &mut state.outlook;
    if outlook.device != Some(device.index) {
        *outlook = Outlook { device: Some(device.index), ..Outlook::default() };
    }
    let Some(memory) = device.memory.value() else { return };
    let progress = state.run.progress(&state.monitor, state.now).map(|(_, progress)| progress).unwrap_or_default();
    outlook.counts.note(&progress, memory.used, sample.at);
    if outlook.looked.is_some_and(|looked| sample.at.since(looked).0 < EVERY.0) {
        return;
    }
    outlook.looked = Some(sample.at);
    let peak = state.monitor.peaks.get(position).copied().flatten();
    outlook.headroom = peak.map(|peak| memory.total.saturating_sub(peak));
    let steady = |at: Moment| state.run.phases().is_steady(at, state.now);
    let recent = state.monitor.history.points(position).filter_map(|point| Some((point.at, point.memory?)));
    let recent = recent.filter(|(at, _)| steady(*at));
    let whole = outlook.counts.points().filter(|(at, _)| steady(*at));
    // What grows slowly shows over the whole run alone.
    outlook.memory = match (forecast(recent, memory.total), forecast(whole, memory.total)) {
        (recent @ Forecast::Growing(_), _) => recent,
        (_, whole @ Forecast::Growing(_)) => whole,
        (recent, _) => recent,
    };
    outlook.grows = match outlook.memory {
        Forecast::Growing(growth) => outlook.counts.grows(growth.since),
        Forecast::TooShort | Forecast::Flat => None,
    };
}
