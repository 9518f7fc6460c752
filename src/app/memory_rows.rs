//! The rows of the VRAM pane's list of components.

use crate::app::state::Plans;
use crate::predict::{Component, StageMemory};
use crate::units::Bytes;

/// A row of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRow {
    /// Bytes of one component.
    Component(Component),
    /// All tensors.
    Allocated,
    /// The caching allocator's memory.
    Reserved,
    /// All of the device's, or the process's resident set.
    DeviceUsed,
}

/// The rows of a stage, in the order of the list.
#[must_use]
pub fn memory_rows(plans: &Plans, stage: &StageMemory) -> Vec<MemoryRow> {
    let is_listed =
        |component: &Component| is_always_listed(plans, *component) || stage.component(*component) > Bytes::ZERO;
    let components = Component::ALL.into_iter().filter(is_listed).map(MemoryRow::Component);
    components.chain([MemoryRow::Allocated, MemoryRow::Reserved, MemoryRow::DeviceUsed]).collect()
}

/// Whether a component has its row without bytes too.
fn is_always_listed(plans: &Plans, component: Component) -> bool {
    match component {
        Component::KvCache => false,
        Component::Gradients | Component::OptimizerStates => !plans.editor.serves(),
        _ => true,
    }
}
