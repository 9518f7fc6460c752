//! Which exchange of experts' tokens runs beside which part of another micro-batch's passes.

use crate::predict::time::pass_costs::PassCosts;

/// What of a layer's dispatch and combine, `one` each, runs behind another micro-batch's passes through the same layer:
/// `experts` of them in the experts' matrices, `others` before the dispatch. Of four exchanges each has one partner, and
/// none waits for a pass that is not its own (megatron-core, models/common/model_chunk_schedule_plan.py,
/// `TransformerLayerSchedulePlan.run`):
///
/// ```text
/// combine backward        | dispatch forward, then backward                     | combine forward
/// before dispatch forward | experts backward (dispatch forward), then forward   | before dispatch backward
/// ```
pub(super) fn hidden(one: PassCosts, experts: PassCosts, others: PassCosts) -> PassCosts {
    let PassCosts { forward, backward } = one;
    PassCosts {
        forward: forward.min(experts.backward) + forward.min(others.backward),
        backward: backward.min(others.forward) + backward.min(experts.forward),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Seconds;

    /// Dispatch and combine of 3 s each, forward and backward. Experts take 2 s forward and 4 s backward, what is before
    /// them 1 s and 5 s: the dispatch forward has 4 s beside it and the combine 5 s, both 3 s are hidden; backward the
    /// combine has 1 s and the dispatch 2 s. So 3 s of 12 s wait, though the passes take 12 s as well.
    #[test]
    fn an_exchange_is_hidden_by_its_own_partner_alone() {
        let both = |forward: f64, backward: f64| PassCosts { forward: Seconds(forward), backward: Seconds(backward) };
        assert_eq!(hidden(both(3.0, 3.0), both(2.0, 4.0), both(1.0, 5.0)), both(6.0, 3.0));
        assert_eq!(hidden(both(1.0, 1.0), both(2.0, 4.0), both(1.0, 5.0)), both(2.0, 2.0));
        assert_eq!(hidden(both(9.0, 9.0), both(2.0, 4.0), both(1.0, 5.0)).all(), Seconds(12.0));
    }
}
