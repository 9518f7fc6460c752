//! Any sample that a source could give.

use std::borrow::Cow;

use proptest::prelude::*;

use super::START;
use crate::reading::{
    Absence, DeviceMemory, DeviceProcess, DeviceSample, Health, HostProcess, Links, MigInstance, Moment, NvLinks, Peer,
    Reading, ReadingKind, Sample, Xid, Xids,
};
use crate::units::{Bytes, BytesPerSec, Celsius, Fraction, Watts};

fn kind() -> impl Strategy<Value = ReadingKind> {
    prop_oneof![Just(ReadingKind::Measured), Just(ReadingKind::UpperBound), Just(ReadingKind::Estimated)]
}

fn absence() -> impl Strategy<Value = Absence> {
    prop_oneof![
        Just(Absence::NotRead),
        Just(Absence::NotSupported),
        Just(Absence::NoPermission),
        Just(Absence::NotThere),
        Just(Absence::Idle),
        Just(Absence::TooShort),
        Just(Absence::Gone),
        ".*".prop_map(|why| Absence::Failed(Cow::Owned(why))),
    ]
}

fn reading<T: std::fmt::Debug + Clone>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Reading<T>> {
    let known = (value, 0..4_u64, kind()).prop_map(|(value, late, kind)| Reading::Known {
        value,
        at: START.plus_millis(late / 2),
        kind,
    });
    prop_oneof![3 => known, 1 => absence().prop_map(Reading::Absent)]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), -1e300..1e300_f64, 0.0..1.0_f64]
}

fn device() -> impl Strategy<Value = DeviceSample> {
    let memory = (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(total, used, free)| DeviceMemory {
        total: Bytes(total),
        used: Bytes(used),
        free: Bytes(free),
    });
    let process = (any::<u32>(), reading(any::<u64>().prop_map(Bytes))).prop_map(|(pid, memory)| DeviceProcess {
        pid,
        memory,
        ..DeviceProcess::default()
    });
    (
        (any::<u32>(), reading(".*"), reading(memory), reading(number().prop_map(Fraction))),
        (reading(number().prop_map(BytesPerSec)), reading(number().prop_map(Watts))),
        (reading(number().prop_map(Celsius)), reading(prop::collection::vec(process, 0..3))),
        reading(prop::collection::vec(".*".prop_map(Cow::Owned), 0..3)),
    )
        .prop_map(|((index, name, memory, busy), (dram_bandwidth, power), (temperature, processes), throttle)| {
            DeviceSample {
                index,
                name,
                memory,
                busy,
                dram_bandwidth,
                power,
                temperature,
                processes,
                throttle,
                ..DeviceSample::default()
            }
        })
}

/// What sources tell beyond the main figures: groups, options and lists within readings.
fn beyond(device: DeviceSample) -> impl Strategy<Value = DeviceSample> {
    let xid = (prop::option::of(any::<u64>()), any::<u64>()).prop_map(|(code, at)| Xid { code, at: Moment(at) });
    let xids = (any::<u64>(), prop::option::of(xid)).prop_map(|(count, last)| Xids { count, last });
    let links = (any::<u32>(), any::<u32>(), prop::option::of(any::<u32>()));
    let links = links.prop_map(|(active, all, version)| NvLinks { active, all, version });
    let peer = (any::<u32>(), ".*").prop_map(|(index, between)| Peer { index, between });
    (prop::option::of(any::<u32>()), reading(xids), reading(links), reading(prop::collection::vec(peer, 0..2)))
        .prop_map(move |(part, xids, nvlinks, peers)| DeviceSample {
            mig: part.map(|number| MigInstance { number }),
            health: Health { xids, ..Health::default() },
            links: Links { nvlinks, peers, ..Links::default() },
            ..device.clone()
        })
}

fn host() -> impl Strategy<Value = HostProcess> {
    (any::<u32>(), reading(any::<u64>()), reading(".*"), reading(number().prop_map(Fraction)))
        .prop_map(|(pid, started, command, cpu)| HostProcess { pid, started, command, cpu, ..HostProcess::default() })
}

/// A recording's worth of them, in order of time.
pub fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let one = (
        0..3_000_u64,
        prop::collection::vec(device().prop_flat_map(beyond), 0..3),
        prop::collection::vec(host(), 0..3),
        any::<u64>(),
    );
    prop::collection::vec(one, 1..12).prop_map(|samples| {
        let mut at = START;
        let each = samples.into_iter().map(|(later, devices, processes, dropped)| {
            at = at.plus_millis(later);
            Sample { at, devices, processes, dropped, ..Sample::default() }
        });
        each.collect()
    })
}
