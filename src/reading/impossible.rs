//! Values that cannot be: counters that were reset between two readings, sensors that answer with their largest number,
//! exporters that mix up units. Each is absent with what it said.

use std::fmt::Display;

use super::{Absence, DeviceSample, Links, NvLinks, Reading};
use crate::units::{BytesPerSec, Fraction};

/// Above its bound by this much a value is a matter of rounding or of the clock that it is taken by.
const SLACK: f64 = 1.02;

/// Above the power limit by more than this nothing draws: a board's peaks of microseconds reach twice its limit.
const POWER: f64 = 3.0;

/// Degrees at which no chip is left; a sensor that is not there answers 255.
const HOTTEST: f64 = 150.0;

/// GB/s of one lane each way from the first generation of PCIe on: 8b/10b coding up to the second, 128b/130b from the
/// third, FLITs from the sixth (PCI Express Base Specification 6.0).
const LANE: [f64; 6] = [0.25, 0.5, 0.985, 1.969, 3.938, 7.563];

/// GB/s of one NVLink each way from the first generation on: 160, 300, 600, 900 and 1800 GB/s both ways over 4, 6, 12,
/// 18 and 18 links (NVIDIA's architecture papers of P100, V100, A100, H100; Blackwell's data sheet).
const NVLINK: [f64; 5] = [20.0, 25.0, 25.0, 25.0, 50.0];

impl DeviceSample {
    /// Takes away what cannot be: shares above 100 %, more memory than there is, more bytes than DRAM, PCIe or NVLink can
    /// move, a power or a temperature beyond any board's.
    pub fn drop_impossible(&mut self) {
        let shares = [&mut self.busy, &mut self.memory_busy, &mut self.sm_activity, &mut self.tensor_activity];
        let counters = &mut self.counters;
        let pipes = [
            &mut counters.occupancy,
            &mut counters.tensor_half,
            &mut counters.tensor_integer,
            &mut counters.tensor_double,
            &mut counters.fp64,
            &mut counters.fp32,
            &mut counters.fp16,
        ];
        for share in shares.into_iter().chain(pipes) {
            drop_where(share, |share| !(0.0..=SLACK).contains(&share.0), |share| percent(*share));
        }
        let total = self.memory.value().map(|memory| memory.total).filter(|total| total.0 > 0);
        let too_much = |held| total.filter(|total| held > *total);
        drop_where(
            &mut self.memory,
            |memory| too_much(memory.used).is_some(),
            |memory| format!("{} of {}", memory.used, memory.total),
        );
        if let Reading::Known { value: processes, .. } = &mut self.processes {
            for process in processes {
                drop_where(&mut process.memory, |held| too_much(*held).is_some(), ToString::to_string);
                drop_where(&mut process.busy, |share| !(0.0..=SLACK).contains(&share.0), |share| percent(*share));
            }
        }
        let peak = self.dram_peak.value().copied();
        drop_rate(&mut self.dram_bandwidth, peak);
        let limit = self.power_limit.value().map(|limit| limit.0).filter(|limit| *limit > 0.0);
        let most = limit.map_or(f64::INFINITY, |limit| limit * POWER);
        drop_where(&mut self.power, |power| !(0.0..=most).contains(&power.0), ToString::to_string);
        drop_where(&mut self.temperature, |now| now.0 > HOTTEST, ToString::to_string);
        let most = pcie_each_way(&self.links);
        drop_rate(&mut self.links.pcie_received, most);
        drop_rate(&mut self.links.pcie_sent, most);
        let most = nvlink_each_way(&self.links);
        drop_rate(&mut self.links.nvlink_received, most);
        drop_rate(&mut self.links.nvlink_sent, most);
    }
}

/// What a device's PCIe link moves each way at its highest generation and with all its lanes; none where they are not
/// known.
fn pcie_each_way(links: &Links) -> Option<BytesPerSec> {
    let generation = *links.pcie_generation_max.value().or(links.pcie_generation.value())?;
    let lanes = *links.pcie_width_max.value().or(links.pcie_width.value())?;
    let lane = LANE.get(usize::try_from(generation.checked_sub(1)?).ok()?)?;
    Some(BytesPerSec(lane * f64::from(lanes) * 1e9))
}

/// What its NVLinks move each way, those that are down included; none where their number or generation is not known.
fn nvlink_each_way(links: &Links) -> Option<BytesPerSec> {
    let NvLinks { all, version, .. } = links.nvlinks.value()?;
    let link = NVLINK.get(usize::try_from(version.as_ref()?.checked_sub(1)?).ok()?)?;
    Some(BytesPerSec(link * f64::from(*all) * 1e9))
}

fn drop_rate(rate: &mut Reading<BytesPerSec>, most: Option<BytesPerSec>) {
    let most = most.filter(|most| most.0 > 0.0);
    let beyond = |rate: &BytesPerSec| rate.0 < 0.0 || most.is_some_and(|most| rate.0 > most.0 * SLACK);
    drop_where(rate, beyond, |rate| match most {
        Some(most) => format!("{rate} of {most}"),
        None => rate.to_string(),
    });
}

fn percent(share: Fraction) -> String {
    format!("{:.0} %", share.percent())
}

/// A value that is not even a number cannot be either.
fn drop_where<T, S: Display>(reading: &mut Reading<T>, cannot_be: impl Fn(&T) -> bool, shown: impl Fn(&T) -> S) {
    if let Reading::Known { value, .. } = reading
        && cannot_be(value)
    {
        *reading = Reading::Absent(Absence::Failed(format!("impossible: {}", shown(value)).into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{DeviceMemory, DeviceProcess, Moment};
    use crate::units::{Bytes, Celsius, Watts};

    fn known<T>(value: T) -> Reading<T> {
        Reading::measured(value, Moment(0))
    }

    /// A board as data sheets have it: 80 GB, 3.35 TB/s, 700 W, sixteen lanes of PCIe 5 (63 GB/s), 900 GB/s over NVLink both ways.
    fn board() -> DeviceSample {
        let memory = DeviceMemory { total: Bytes(80 << 30), used: Bytes(70 << 30), free: Bytes(10 << 30) };
        let mut sample = DeviceSample {
            memory: known(memory),
            busy: known(Fraction(1.0)),
            tensor_activity: known(Fraction(0.5)),
            dram_bandwidth: known(BytesPerSec(3.0e12)),
            dram_peak: known(BytesPerSec(3.35e12)),
            power: known(Watts(720.0)),
            power_limit: known(Watts(700.0)),
            temperature: known(Celsius(90.0)),
            processes: known(vec![DeviceProcess::holding(7, known(Bytes(60 << 30)))]),
            ..DeviceSample::default()
        };
        sample.links.pcie_generation_max = known(5);
        sample.links.pcie_width_max = known(16);
        sample.links.pcie_sent = known(BytesPerSec(55e9));
        sample.links.nvlinks = known(NvLinks { active: 18, all: 18, version: Some(4) });
        sample.links.nvlink_sent = known(BytesPerSec(440e9));
        sample
    }

    fn why<T>(reading: &Reading<T>) -> String {
        match reading {
            Reading::Absent(why) => why.to_string(),
            Reading::Known { .. } => "known".to_owned(),
        }
    }

    #[test]
    fn what_can_be_stays() {
        let mut sample = board();
        sample.drop_impossible();
        assert_eq!(sample, board());
    }

    #[test]
    fn what_cannot_be_is_absent_with_what_it_said() {
        let mut sample = board();
        sample.busy = known(Fraction(2.55));
        sample.tensor_activity = known(Fraction(f64::NAN));
        sample.memory = known(DeviceMemory { used: Bytes(96 << 30), ..*sample.memory.value().unwrap() });
        sample.processes = known(vec![DeviceProcess::holding(7, known(Bytes(90 << 30)))]);
        sample.dram_bandwidth = known(BytesPerSec(9e12));
        sample.power = known(Watts(4_294_967.0));
        sample.temperature = known(Celsius(255.0));
        sample.links.pcie_sent = known(BytesPerSec(90e9));
        sample.links.nvlink_sent = known(BytesPerSec(500e9));
        sample.drop_impossible();
        assert_eq!(why(&sample.links.nvlink_sent), "failed: impossible: 500 GB/s of 450 GB/s");
        assert_eq!(why(&sample.busy), "failed: impossible: 255 %");
        assert!(why(&sample.tensor_activity).contains("impossible"));
        assert_eq!(why(&sample.memory), "failed: impossible: 96.0 GiB of 80.0 GiB");
        assert_eq!(why(&sample.processes.value().unwrap()[0].memory), "failed: impossible: 90.0 GiB");
        assert_eq!(why(&sample.dram_bandwidth), "failed: impossible: 9.00 TB/s of 3.35 TB/s");
        assert!(why(&sample.power).contains("impossible") && why(&sample.temperature).contains("255"));
        assert_eq!(why(&sample.links.pcie_sent), "failed: impossible: 90.0 GB/s of 63.0 GB/s");
    }
}
