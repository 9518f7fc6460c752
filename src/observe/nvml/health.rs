//! Errors of a GPU's memory (ECC, retired pages, remapped rows) and of its NVLinks.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError, MemoryLocation};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::structs::device::FieldId;

use super::absence::{MetricReader, absence};
use crate::reading::{Absence, Health, Reading};

/// `NVML_FI_DEV_RETIRED_SBE`, `_DBE`, `_PENDING`; `NVML_FI_DEV_REMAPPED_COR`, `_UNC`, `_PENDING`, `_FAILURE`.
const REPAIRS: [FieldId; 7] =
    [FieldId(29), FieldId(30), FieldId(31), FieldId(142), FieldId(143), FieldId(144), FieldId(145)];

/// `NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY`, `_RECOVERY`, `_CRC`, of all links (Hopper and later).
const LINK_ERRORS: [FieldId; 3] = [FieldId(161), FieldId(162), FieldId(163)];

/// `NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL`, `_RECOVERY_…`, `_CRC_FLIT_…`, `_CRC_DATA_…`: those before.
const LINK_TOTALS: [FieldId; 4] = [FieldId(52), FieldId(59), FieldId(38), FieldId(45)];

/// What the GPU says of its errors. Its last Xid is somebody else's to tell.
pub fn health(device: &Device<'static>, reader: &mut MetricReader) -> Health {
    let errors = |kind| device.total_ecc_errors(kind, EccCounter::Volatile);
    let [single, double, waiting, corrected, uncorrected, pending, failure] = field_values(device, reader, REPAIRS);
    let [replays, recoveries, crc] = field_values(device, reader, LINK_ERRORS);
    let [all_replays, all_recoveries, flits, packets] = field_values(device, reader, LINK_TOTALS);
    Health {
        ecc: reader.read(|| device.is_ecc_enabled()).map(|mode| mode.currently_enabled),
        corrected: reader.read(|| errors(MemoryError::Corrected)),
        uncorrected: reader.read(|| errors(MemoryError::Uncorrected)),
        retired_pages: sum(single, double),
        remapped_rows: sum(corrected, uncorrected),
        sram_uncorrected: reader.read(|| {
            device.memory_error_counter(MemoryError::Uncorrected, EccCounter::Aggregate, MemoryLocation::SRAM)
        }),
        // Of `nvmlDeviceGetSramEccErrorStatus` the library has no safe call; DCGM's exporter tells it.
        sram_exceeded: Reading::not_read(),
        // A GPU has pages or rows, not both.
        repair_pending: known_or(pending, waiting).map(|flag| *flag != 0),
        repair_failed: failure.map(|flag| *flag != 0),
        nvlink_replays: known_or(replays, all_replays),
        nvlink_recoveries: known_or(recoveries, all_recoveries),
        nvlink_crc_errors: known_or(crc, sum(flits, packets)),
        xids: Reading::not_read(),
    }
}

/// Values of fields, in their order. A field alone may be missing.
pub fn field_values<const N: usize>(
    device: &Device<'static>,
    reader: &mut MetricReader,
    ids: [FieldId; N],
) -> [Reading<u64>; N] {
    let mut answers = match reader.read(|| device.field_values_for(&ids)) {
        Reading::Known { value, at, kind } => Ok((value.into_iter(), at, kind)),
        Reading::Absent(why) => Err(why),
    };
    ids.map(|_| match &mut answers {
        Err(why) => Reading::Absent(why.clone()),
        Ok((fields, at, kind)) => match fields.next().map(|field| field.and_then(|field| field.value)) {
            Some(Ok(value)) => Reading::Known { value: whole(&value), at: *at, kind: *kind },
            Some(Err(error)) => Reading::Absent(absence(&error)),
            None => Reading::Absent(Absence::NotSupported),
        },
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: &SampleValue) -> u64 {
    match value {
        SampleValue::F64(value) => *value as u64,
        SampleValue::U32(value) => u64::from(*value),
        SampleValue::U64(value) => *value,
        SampleValue::I64(value) => u64::try_from(*value).unwrap_or(0),
    }
}

fn sum(one: Reading<u64>, other: Reading<u64>) -> Reading<u64> {
    match (&one, &other) {
        (Reading::Known { value, .. }, Reading::Known { .. }) => other.map(|more| more + value),
        (Reading::Absent(_), _) => one,
        (_, Reading::Absent(_)) => other,
    }
}

fn known_or<T>(one: Reading<T>, other: Reading<T>) -> Reading<T> {
    if one.value().is_some() { one } else { other }
}
