//! Mamba's selective scan.

use super::DecoderContext;
use crate::model::architecture::{ScanNorms, StateSpace};
use crate::model::builder::Builder;
use crate::model::tape::TensorId;

impl DecoderContext<'_> {
    pub(super) fn scan_of_channels(
        &self,
        _b: &mut Builder<'_>,
        x: TensorId,
        _space: &StateSpace,
        _rank: (u64, ScanNorms),
    ) -> TensorId {
        x
    }
}
