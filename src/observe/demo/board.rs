//! What a simulated GPU says beyond its load: what a real one of its generation would.

use super::{Demo, Tick, has_counters};
use crate::catalog::Generation;
use crate::reading::{Absence, Board, Counters, DeviceSample, Health, Links, NvLinks, Peer, Reading, Xids};
use crate::units::{Bytes, BytesPerSec, Celsius, Fraction, Joules, MIB};

/// What the driver keeps of a GPU.
const RESERVED: Bytes = Bytes(600 * MIB);

/// Fills in counters, board, links and errors.
pub fn put(demo: &Demo, sample: &mut DeviceSample, index: u32, now: &Tick) {
    let at = now.at;
    sample.memory_reserved = Reading::measured(RESERVED, at);
    if has_counters(demo.card.generation) {
        put_counters(sample, now);
    } else {
        sample.counters = Counters::absent(&Absence::NotSupported);
    }
    sample.links = links(demo, sample, index, now);
    sample.board = Board {
        serial: Reading::Absent(Absence::NotSupported),
        pci: Reading::measured(format!("00000000:{:02X}:00.0", 0x1b + index * 0x10), at),
        architecture: Reading::measured(format!("{:?}", demo.card.generation), at),
        // Simulated GPUs come without a number.
        capability: Reading::Absent(Absence::NotSupported),
        vbios: Reading::Absent(Absence::NotSupported),
        numa_node: Reading::measured(index / 4, at),
        performance_state: Reading::measured(0, at),
        fan: Reading::Absent(Absence::NotSupported),
        slowed_by_power: sample.throttle.map(|reasons| Fraction(if reasons.is_empty() { 0.0 } else { 1.0 })),
        slowed_by_heat: Reading::measured(Fraction(0.0), at),
        energy: sample.power.map(|power| Joules((power.0 * now.seconds).round())),
        memory_temperature: sample.temperature.map(|degrees| Celsius(degrees.0 + 8.0)),
        memory_clock_max: Reading::Absent(Absence::NotSupported),
    };
    sample.health = Health {
        ecc: Reading::measured(true, at),
        corrected: Reading::measured(0, at),
        uncorrected: Reading::measured(0, at),
        sram_uncorrected: Reading::measured(0, at),
        sram_exceeded: Reading::measured(false, at),
        retired_pages: Reading::Absent(Absence::NotSupported),
        remapped_rows: Reading::measured(0, at),
        repair_pending: Reading::measured(false, at),
        repair_failed: Reading::measured(false, at),
        nvlink_replays: Reading::measured(0, at),
        nvlink_recoveries: Reading::measured(0, at),
        nvlink_crc_errors: Reading::measured(0, at),
        xids: Reading::measured(Xids::default(), at),
    };
}

/// What its links carry: the more, the busier its tensor cores are.
fn links(demo: &Demo, sample: &DeviceSample, index: u32, now: &Tick) -> Links {
    let at = now.at;
    let tensor = sample.tensor_activity.value().map_or(0.0, |share| share.0);
    let traffic = |share: f64| match has_counters(demo.card.generation) {
        true => Reading::measured(BytesPerSec(share * tensor), at),
        false => Reading::Absent(Absence::NotSupported),
    };
    let peers = demo.gpus.iter().map(|gpu| gpu.index).filter(|other| *other != index);
    Links {
        pcie_generation: Reading::measured(5, at),
        pcie_generation_max: Reading::measured(5, at),
        pcie_width: Reading::measured(16, at),
        pcie_width_max: Reading::measured(16, at),
        pcie_received: traffic(2e9),
        pcie_sent: traffic(1e9),
        pcie_replays: Reading::measured(0, at),
        nvlinks: match demo.card.generation {
            Generation::Hopper | Generation::Blackwell => {
                Reading::measured(NvLinks { active: 18, all: 18, version: Some(4) }, at)
            }
            _ => Reading::Absent(Absence::NotSupported),
        },
        nvlink_received: traffic(90e9),
        nvlink_sent: traffic(90e9),
        nvlink_errors: Reading::measured(0, at),
        peers: Reading::measured(peers.map(|index| Peer { index, between: "PCIe switches".to_owned() }).collect(), at),
    }
}

/// Tensor work is 16 bit; the pipes do what lies between matrix multiplications.
fn put_counters(sample: &mut DeviceSample, now: &Tick) {
    let share = |of: &Reading<Fraction>, factor: f64| of.map(|share| Fraction(share.0 * factor));
    let none = || Reading::measured(Fraction(0.0), now.at);
    sample.counters = Counters {
        occupancy: share(&sample.sm_activity, 0.3),
        tensor_half: sample.tensor_activity.clone(),
        tensor_integer: none(),
        tensor_double: none(),
        fp64: none(),
        fp32: share(&sample.tensor_activity, 0.15),
        fp16: share(&sample.tensor_activity, 0.05),
    };
}
