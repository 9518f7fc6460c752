//! The processes on a GPU: who computes and who draws, their memory and their share of the time.

use std::collections::{BTreeMap, HashMap};

use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};

use super::absence::{MetricReader, absence};
use crate::order::StableOrder;
use crate::reading::{Absence, DeviceProcess, Moment, ProcessWork, Reading};
use crate::units::{Bytes, Fraction};

/// A share of the time that is older says nothing about now, in milliseconds.
const STALE: u64 = 5_000;

/// What is remembered of the processes of one GPU.
#[derive(Debug, Default)]
pub struct Processes {
    /// Drivers before 510 know the second version of the lists alone.
    second_version: bool,
    /// The newest sample of the driver's that was seen, by its clock in microseconds.
    seen: u64,
    busy: HashMap<u32, (Fraction, Moment)>,
}

impl Processes {
    /// Compute and graphics processes, each once; where asked for, with each one's share of the time.
    pub fn list(
        &mut self,
        device: &Device<'static>,
        reader: &mut MetricReader,
        now: Moment,
        with_shares: bool,
    ) -> Reading<Vec<DeviceProcess>> {
        let mut list = reader.read(|| self.ask(device)).map(|(computing, drawing)| merged(computing, drawing, now));
        if with_shares {
            self.put_busy(device, reader, now, &mut list);
        }
        list
    }

    fn ask(&mut self, device: &Device<'static>) -> Result<(Vec<ProcessInfo>, Vec<ProcessInfo>), NvmlError> {
        let mut computing = Err(NvmlError::NotSupported);
        if !self.second_version {
            computing = device.running_compute_processes();
            self.second_version = computing.as_ref().is_err_and(|error| absence(error) == Absence::NotSupported);
        }
        // Not all GPUs have a graphics list: what computes is what matters here.
        if self.second_version {
            let computing = device.running_compute_processes_v2()?;
            return Ok((computing, device.running_graphics_processes_v2().unwrap_or_default()));
        }
        Ok((computing?, device.running_graphics_processes().unwrap_or_default()))
    }

    /// Fills in each process's share of the time.
    fn put_busy(
        &mut self,
        device: &Device<'static>,
        reader: &mut MetricReader,
        now: Moment,
        list: &mut Reading<Vec<DeviceProcess>>,
    ) {
        let Reading::Known { value: processes, .. } = list else { return };
        let answer = reader.read(|| match device.process_utilization_stats(self.seen) {
            // No sample since the last one: nothing new, no failure.
            Err(NvmlError::NotFound) => Ok(Vec::new()),
            answer => answer,
        });
        match answer {
            Reading::Known { value: samples, .. } => self.note(samples, now),
            Reading::Absent(why) => {
                for process in processes {
                    process.busy = Reading::Absent(why.clone());
                }
                return;
            }
        }
        for process in processes {
            process.busy = match self.busy.get(&process.pid) {
                Some((share, at)) => Reading::measured(*share, *at),
                None => Reading::Absent(Absence::Idle),
            };
        }
    }

    /// Keeps the newest of each process.
    fn note(&mut self, mut samples: Vec<ProcessUtilizationSample>, now: Moment) {
        samples.order_by_key(|sample| sample.timestamp);
        for sample in samples.iter().filter(|sample| sample.timestamp > self.seen && sample.sm_util <= 100) {
            self.busy.insert(sample.pid, (Fraction::from_percent(f64::from(sample.sm_util)), now));
        }
        self.seen = self.seen.max(samples.last().map_or(0, |sample| sample.timestamp));
        self.busy.retain(|_, (_, at)| now.0.saturating_sub(at.0) < STALE);
    }
}

fn merged(computing: &[ProcessInfo], drawing: &[ProcessInfo], now: Moment) -> Vec<DeviceProcess> {
    let mut known: BTreeMap<u32, (Option<u64>, ProcessWork)> = BTreeMap::new();
    let lists = [(computing, ProcessWork::Compute), (drawing, ProcessWork::Graphics)];
    for (process, work) in lists.into_iter().flat_map(|(list, work)| list.iter().map(move |process| (process, work))) {
        let memory = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        // A process in both lists has the same memory in each; one of them may not know it.
        let (most, works) = known.entry(process.pid).or_insert((memory, work));
        *most = (*most).max(memory);
        if *works != work {
            *works = ProcessWork::Both;
        }
    }
    known
        .into_iter()
        .map(|(pid, (memory, work))| {
            let held =
                memory.map_or(Reading::Absent(Absence::NotSupported), |memory| Reading::measured(Bytes(memory), now));
            DeviceProcess { work, ..DeviceProcess::holding(pid, held) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, used_gpu_memory: UsedGpuMemory) -> ProcessInfo {
        ProcessInfo { pid, used_gpu_memory, gpu_instance_id: None, compute_instance_id: None }
    }

    #[test]
    fn a_process_in_both_lists_counts_once_and_an_unknown_is_no_zero() {
        let computing = [
            process(9, UsedGpuMemory::Unavailable),
            process(7, UsedGpuMemory::Used(5)),
            process(8, UsedGpuMemory::Used(0)),
        ];
        let drawing = [process(7, UsedGpuMemory::Used(5)), process(6, UsedGpuMemory::Unavailable)];
        let unknown = || Reading::Absent(Absence::NotSupported);
        let expected = [
            DeviceProcess { work: ProcessWork::Graphics, ..DeviceProcess::holding(6, unknown()) },
            DeviceProcess {
                work: ProcessWork::Both,
                ..DeviceProcess::holding(7, Reading::measured(Bytes(5), Moment(1)))
            },
            DeviceProcess::holding(8, Reading::measured(Bytes(0), Moment(1))),
            DeviceProcess::holding(9, unknown()),
        ];
        assert_eq!(merged(&computing, &drawing, Moment(1)), expected);
    }

    #[test]
    fn the_newest_share_counts_and_goes_stale() {
        let sample = |timestamp, sm_util| ProcessUtilizationSample {
            pid: 7,
            timestamp,
            sm_util,
            mem_util: 0,
            enc_util: 0,
            dec_util: 0,
        };
        let mut processes = Processes::default();
        processes.note(vec![sample(30, 40), sample(20, 90)], Moment(1_000));
        assert_eq!(processes.busy[&7], (Fraction(0.4), Moment(1_000)));
        // The same again, and a figure that is none.
        processes.note(vec![sample(30, 99), sample(40, 4_000)], Moment(2_000));
        assert_eq!(processes.busy[&7], (Fraction(0.4), Moment(1_000)));
        processes.note(Vec::new(), Moment(6_000));
        assert!(processes.busy.is_empty());
    }
}
