//! The traces of a tape: one for each way in which types are mixed, and which of them is a run's.

use serde::Deserialize;

use super::{Segment, Trace};

/// The step in each precision.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Traces {
    /// Everything fp32.
    pub fp32: Option<Trace>,
    /// autocast over fp32 weights.
    pub mixed: Option<Trace>,
    /// Everything 16 bit.
    pub half: Option<Trace>,
    /// autocast over 16-bit weights, as FSDP gathers them for mixed precision. Older tapes have none.
    #[serde(default)]
    pub gathered: Option<Trace>,
    /// The same with what comes into each block cast to 16 bit, as FSDP2 casts it; none where it is that already.
    #[serde(default)]
    pub cast: Option<Trace>,
}

/// The types of a run, as far as they decide which of a tape's traces is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceTypes {
    /// autocast is on.
    pub autocast: bool,
    /// The modules see weights of fewer than 32 bits.
    pub narrow_weights: bool,
    /// What comes into a block is cast to 16 bit (FSDP2).
    pub casts_inputs: bool,
}

impl Traces {
    /// The trace in these types, where there is one, and what the types are called.
    #[must_use]
    pub fn of(&self, types: TraceTypes) -> (Option<&Trace>, &'static str) {
        let cast = self.cast.as_ref().filter(|_| types.casts_inputs);
        match (types.autocast, types.narrow_weights) {
            (true, false) => (self.mixed.as_ref(), "mixed precision"),
            // Where everything is 16 bit already, the cast changes nothing and has no trace of its own.
            (true, true) => {
                (cast.or(self.gathered.as_ref()), "mixed precision with the 16-bit weights that FSDP gathers")
            }
            (false, false) => (self.fp32.as_ref(), "fp32"),
            (false, true) => (self.half.as_ref(), "16-bit weights"),
        }
    }

    /// Leaves the traces that have as many segments.
    pub fn retain_segments(&mut self, segments: usize) {
        for trace in self.each_mut() {
            if trace.as_ref().is_some_and(|trace| trace.order.len() != segments) {
                *trace = None;
            }
        }
    }

    /// Each, there or not.
    pub fn each_mut(&mut self) -> [&mut Option<Trace>; 5] {
        [&mut self.fp32, &mut self.mixed, &mut self.half, &mut self.gathered, &mut self.cast]
    }

    /// All that there are.
    pub fn all(&self) -> impl Iterator<Item = &Trace> {
        [&self.fp32, &self.mixed, &self.half, &self.gathered, &self.cast].into_iter().flatten()
    }
}

impl Trace {
    /// The segments in the order of the forward pass, each with where it stands; in an older tape that is where the first of its kind
    /// stands.
    pub fn places(&self) -> impl Iterator<Item = (&str, &Segment)> {
        self.order.iter().enumerate().filter_map(|(place, kind)| {
            let segment = self.kinds.get(*kind as usize)?;
            Some((self.paths.get(place).map_or(segment.path.as_str(), String::as_str), segment))
        })
    }
}
