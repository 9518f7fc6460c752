//! What a tape must be for the walk to read it: every index within its list, every number within reason.

use std::collections::HashSet;

use super::{Segment, Trace, TracedLink, TracedModel, TracedPassing, VERSION};

/// Most segments of a step, and tensors, operators and weights of one.
const SEGMENTS: usize = 20_000;
const ENTRIES: usize = 200_000;
/// Highest power of an axis.
const POWER: u32 = 4;
/// Where a tensor is whose memory an operator of its own segment takes.
const MADE_HERE: u32 = 0;

impl TracedModel {
    /// Why it is no tape that can be read.
    pub(super) fn fault(&self) -> Option<String> {
        if !(1..=VERSION).contains(&self.memwall_tape) {
            return Some(format!("a tape of version {}: this program reads up to {VERSION}", self.memwall_tape));
        }
        if self.traces.all().next().is_none() {
            return Some("no precision was traced".to_owned());
        }
        let terms = self.terms.len();
        let sound = |term: &Vec<u32>| term.len() == self.axes.len() && term.iter().all(|power| *power <= POWER);
        if terms > 64 || !self.terms.iter().all(sound) {
            return Some("its terms do not go with its axes".to_owned());
        }
        let is_size = |size: &Vec<i64>| {
            size.first().is_some_and(|below| *below > 0) && (2..=terms.max(1) + 1).contains(&size.len())
        };
        if let Some(at) = self.sizes.iter().position(|size| !is_size(size)) {
            return Some(format!("size {at} is no polynomial of {terms} terms"));
        }
        let inside = |sides: &[u32]| sides.len() <= 16 && sides.iter().all(|side| (*side as usize) < self.sizes.len());
        if !self.inputs.iter().all(|input| inside(&input.3)) {
            return Some("an input's shape names a size that is not there".to_owned());
        }
        if self.parameters.total > 1 << 50 || self.image.is_some_and(|side| side > 1 << 16) {
            return Some("it has more parameters or pixels than any model".to_owned());
        }
        self.traces.all().find_map(|trace| self.fault_of(trace))
    }

    fn fault_of(&self, trace: &Trace) -> Option<String> {
        let count = trace.order.len();
        if !(2..=SEGMENTS).contains(&count) || trace.kinds.len() > count {
            return Some(format!("a step of {count} segments"));
        }
        if trace.order.iter().any(|kind| *kind as usize >= trace.kinds.len()) {
            return Some("the order names a segment that is not there".to_owned());
        }
        let pending = trace.pending.iter().map(|(from, to, shape, _)| (from, to, shape));
        let passing = trace.passing.iter().map(|TracedPassing(from, to, shape, ..)| (from, to, shape));
        for (from, to, shape) in pending.chain(passing) {
            if *from as usize >= count || *to as usize >= count || !self.is_shape(shape) {
                return Some("what segments hold for each other is not there".to_owned());
            }
        }
        let is_tensor = |place: u32, id: u32| {
            let kind = trace.order.get(place as usize).and_then(|kind| trace.kinds.get(*kind as usize));
            kind.is_some_and(|segment| (id as usize) < segment.tensors.len())
        };
        let links = trace.links.iter().flatten();
        let is_link = |link: &TracedLink| link.2 < link.0 && is_tensor(link.0, link.1) && is_tensor(link.2, link.3);
        let of_pending = trace.pending_of.iter().flatten();
        let is_named = |named: &TracedLink| {
            is_tensor(named.0, named.1) && [named.2, named.3].iter().all(|at| (*at as usize) < count)
        };
        if ![0, count].contains(&trace.paths.len())
            || !links.clone().all(is_link)
            || !trace.named.iter().all(is_named)
            || !links.is_sorted_by_key(|link| link.0)
            || !of_pending.into_iter().all(|(place, id)| is_tensor(*place, *id))
        {
            return Some("what segments read of each other is not there".to_owned());
        }
        let fault = |segment: &Segment| self.segment_fault(segment).map(|why| format!("{}: {why}", segment.name));
        trace.kinds.iter().find_map(fault)
    }

    fn is_shape(&self, sides: &[u32]) -> bool {
        sides.len() <= 16 && sides.iter().all(|side| (*side as usize) < self.sizes.len())
    }

    fn segment_fault(&self, segment: &Segment) -> Option<&'static str> {
        let (tensors, weights) = (segment.tensors.len(), segment.weights.len());
        if tensors > ENTRIES || weights > ENTRIES || segment.ops.len() > ENTRIES {
            return Some("more tensors or operators than any block");
        }
        let is_tensor = |id: &u32| (*id as usize) < tensors;
        for weight in &segment.weights {
            let elements = weight.1.iter().try_fold(1_u64, |product, side| product.checked_mul(*side));
            if weight.1.len() > 16 || elements.is_none_or(|elements| elements > 1 << 45) {
                return Some("a parameter that is larger than any");
            }
        }
        for (at, tensor) in segment.tensors.iter().enumerate() {
            let home = tensor.3 < 3 || (tensor.3 as usize - 3) < weights;
            // A view stands behind what it is a view of, which is none itself.
            let root = tensor.6.is_none_or(|root| {
                (root as usize) < at && segment.tensors.get(root as usize).is_some_and(|root| root.6.is_none())
            });
            if !home || !root || !self.is_shape(&tensor.0) {
                return Some("a tensor whose memory is nowhere");
            }
        }
        for op in &segment.ops {
            let ids = op.5.iter().map(|(id, _)| id).chain(&op.6).chain(&op.7);
            let numbers = [op.8, op.9, op.10, op.11];
            let work = op.4.as_ref().is_none_or(|(work, sizes)| work.sizes() == sizes.len() && self.is_shape(sizes));
            if !ids.into_iter().all(is_tensor)
                || !self.is_shape(&numbers)
                || !work
                || op.5.iter().any(|(_, flow)| *flow > 3)
            {
                return Some("an operator on tensors that are not there");
            }
        }
        let ends = segment.inner.iter().flat_map(|(from, to, _)| [*from, *to]);
        if !ends.clone().is_sorted() || ends.max().is_some_and(|to| to as usize > segment.ops.len()) {
            return Some("a checkpoint in it that is not there");
        }
        let leaving = || segment.output.iter().chain(&segment.also);
        if !leaving().all(is_tensor) {
            return Some("what leaves is not there");
        }
        let made: HashSet<u32> = segment.ops.iter().flat_map(|op| &op.6).copied().collect();
        let is_made = |id: &u32| {
            let root = segment.tensors[*id as usize].6.unwrap_or(*id);
            segment.tensors[root as usize].3 != MADE_HERE || made.contains(&root)
        };
        if !leaving().all(is_made) {
            return Some("what leaves is made by no operator");
        }
        None
    }
}
