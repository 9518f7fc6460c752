//! The GPUs of a job that want a look: ranks that do less than their equals, and GPUs that an alert is about.

use std::collections::HashMap;

use crate::app::alerts::RaisedAlert;
use crate::app::state::State;
use crate::compare::Straggler;

/// A GPU that wants a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffGpu<'a> {
    /// Its place in the samples.
    pub place: usize,
    /// Why.
    pub why: OffReason<'a>,
}

/// Why a GPU wants a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OffReason<'a> {
    /// It does less than its equals.
    Straggles(&'a Straggler),
    /// An alert is about it.
    Alerts(&'a RaisedAlert),
}

/// All of them: the ranks that are farthest off first, then those that alerts are about.
#[must_use]
pub fn off_gpus(state: &State) -> Vec<OffGpu<'_>> {
    let cluster = &state.monitor.cluster;
    let straggling = cluster.stragglers().iter().filter_map(|straggler| {
        let place = *cluster.layout().ranks.get(straggler.rank)?;
        Some(OffGpu { place, why: OffReason::Straggles(straggler) })
    });
    let mut off: Vec<OffGpu<'_>> = straggling.collect();
    // The gravest stand first, and are put in last.
    let raised = state.run.alerts.raised.iter().rev();
    let alerts: HashMap<&str, &RaisedAlert> =
        raised.filter_map(|raised| Some((raised.gpu.as_deref()?, raised))).collect();
    if alerts.is_empty() {
        return off;
    }
    let mut is_known = vec![false; state.monitor.devices().len()];
    for known in &off {
        if let Some(mark) = is_known.get_mut(known.place) {
            *mark = true;
        }
    }
    for place in &cluster.layout().ranks {
        let Some(device) = state.monitor.devices().get(*place) else { continue };
        let raised = alerts.get(state.monitor.gpu_name(device).as_str());
        if let Some(raised) = raised.filter(|_| !is_known[*place]) {
            off.push(OffGpu { place: *place, why: OffReason::Alerts(raised) });
        }
    }
    off
}
