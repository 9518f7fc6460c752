//! What a healthy driver says.

use super::*;

#[test]
fn values_arrive_as_the_driver_gives_them() {
    in_child("nvml::values::values_arrive_as_the_driver_gives_them", H100, None, |_| {
        let mut source = nvml(&SharedRequirements::nothing());
        assert_eq!(source.info().kind, SourceKind::Nvml);
        assert_eq!(source.info().detail, "driver 550.54.15, CUDA 12.4");
        let sample = source.sample(Moment(5000));
        assert_eq!(sample.at, Moment(5000));
        let device = &sample.devices[0];
        assert_eq!(device.name.value().unwrap(), "NVIDIA H100 80GB HBM3");
        assert_eq!(device.uuid.value().unwrap(), "GPU-5c93f0ea");
        assert_eq!(at(&device.memory), Some(Moment(5000)));
        let memory = device.memory.value().unwrap();
        assert_eq!(memory.total, Bytes(85_520_809_984));
        // What the driver reserves is neither used nor free.
        assert_eq!(memory.used, Bytes(76_450_000_000));
        assert_eq!(memory.free, Bytes(85_520_809_984 - 617_611_264 - 76_450_000_000));
        assert_eq!(device.busy, Reading::measured(Fraction(0.97), Moment(5000)));
        assert_eq!(device.memory_busy, Reading::measured(Fraction(0.4), Moment(5000)));
        assert_eq!(device.power.value(), Some(&Watts(612.345)));
        assert_eq!(device.power_limit.value(), Some(&Watts(700.0)));
        assert_eq!(device.temperature.value(), Some(&Celsius(67.0)));
        assert_eq!(device.sm_clock.value(), Some(&Megahertz(1755.0)));
        assert_eq!(device.sm_clock_max.value(), Some(&Megahertz(1980.0)));
        assert_eq!(device.memory_clock.value(), Some(&Megahertz(2619.0)));
        assert_eq!(device.throttle.value().unwrap(), &["power cap"]);
        // The datasheet says 3352 GB/s.
        assert_eq!(device.dram_peak, Reading::estimated(BytesPerSec(PEAK), Moment(5000)));
        assert_eq!(device.dram_peak.value().unwrap().to_string(), "3.35 TB/s");
        assert_eq!(device.processes.value(), Some(&Vec::new()));
    });
}

#[test]
fn without_counters_the_bandwidth_is_a_bound() {
    in_child("nvml::values::without_counters_the_bandwidth_is_a_bound", H100, None, |_| {
        let device = nvml(&SharedRequirements::everything()).sample(now()).devices.remove(0);
        assert_eq!(device.dram_bandwidth.kind(), Some(ReadingKind::UpperBound));
        assert!((device.dram_bandwidth.value().unwrap().0 - 0.4 * PEAK).abs() < 1.0);
        assert_eq!(device.sm_activity, Reading::Absent(Absence::NotSupported));
        assert_eq!(device.tensor_activity, Reading::Absent(Absence::NotSupported));
    });
}

#[test]
fn fixed_facts_are_asked_once() {
    in_child("nvml::values::fixed_facts_are_asked_once", H100, None, |scenario| {
        let mut source = nvml(&SharedRequirements::nothing());
        for tick in 0..5 {
            drop(source.sample(Moment(tick * 1000)));
        }
        assert_eq!(scenario.called("nvmlDeviceGetMemoryInfo_v2"), 5);
        for fact in [
            "nvmlDeviceGetHandleByIndex_v2",
            "nvmlDeviceGetName",
            "nvmlDeviceGetUUID",
            "nvmlDeviceGetMemoryBusWidth",
            "nvmlDeviceGetCount_v2",
        ] {
            assert_eq!(scenario.called(fact), 1, "{fact}");
        }
        // SM and memory.
        assert_eq!(scenario.called("nvmlDeviceGetMaxClockInfo"), 2);
        // Two names of one call: one is enough.
        assert_eq!(scenario.called_like("nvmlDeviceGetCurrentClocks"), 5);
    });
}

fn with_processes(processes: &str) -> String {
    format!("{H100}    processes: {processes}\n")
}

#[test]
fn processes_are_real_until_they_vanish() {
    in_child("nvml::values::processes_are_real_until_they_vanish", H100, None, |scenario| {
        let mut source = nvml(&SharedRequirements::nothing());
        let trainer = RealProcess::start(&["train.py", "--config", "13b.yaml"]);
        let viewer = RealProcess::start(&["viewer"]);
        let (train, view) = (trainer.pid(), viewer.pid());
        scenario.write(&with_processes(&format!(
            "[{{ pid: {train}, memory: 76000000000, graphics: true }}, {{ pid: {view}, compute: false, graphics: true }}]"
        )));
        let sample = source.sample(Moment(1000));
        let mut expected = vec![
            DeviceProcess {
                work: ProcessWork::Both,
                ..DeviceProcess::holding(train, Reading::measured(Bytes(76_000_000_000), Moment(1000)))
            },
            // The driver does not tell: not 0.
            DeviceProcess {
                work: ProcessWork::Graphics,
                ..DeviceProcess::holding(view, Reading::Absent(Absence::NotSupported))
            },
        ];
        expected.sort_by_key(|process| process.pid);
        assert_eq!(sample.devices[0].processes.value(), Some(&expected));
        let host = |sample: &Sample, pid| sample.processes.iter().find(|process| process.pid == pid).cloned().unwrap();
        assert_eq!(sample.processes.len(), 2);
        let seen = host(&sample, train);
        assert_eq!(seen.command.value().unwrap(), "sh -c read line; : sh train.py --config 13b.yaml");
        assert!(seen.resident.value().unwrap().0 > 0);
        let started = *seen.started.value().unwrap();
        assert!(now().0 / 1000 + 5 > started && started + 60 > now().0 / 1000, "started {started}");

        // Gone from the host, still in the driver's list: as after a crash.
        trainer.end();
        let sample = source.sample(Moment(2000));
        assert_eq!(host(&sample, train).command, Reading::Absent(Absence::Gone));
        assert!(host(&sample, view).command.value().unwrap().ends_with("viewer"));

        // Gone from both.
        scenario.write(&with_processes("[]"));
        let sample = source.sample(Moment(3000));
        assert_eq!(sample.devices[0].processes.value(), Some(&Vec::new()));
        assert!(sample.processes.is_empty());
    });
}

#[test]
fn the_variable_names_the_library() {
    in_child("nvml::values::the_variable_names_the_library", H100, Some(&library()), |_| {
        let mut source = Nvml::open(None, SharedRequirements::nothing()).unwrap();
        assert_eq!(source.sample(now()).devices[0].power.value(), Some(&Watts(612.345)));
    });
}

#[test]
fn values_change_as_the_scenario_says() {
    let text = "
gpus:
  - memory: { total: 100, used: { by_call: [10, 20, 30] } }
    temperature: { noise: [60, 5], seed: 3, every_ms: 1 }
    power: { steps: [[0, 1000], [3600000, 2000]] }
    power_limit: { ramp: [5000, 5000, 10] }
";
    in_child("nvml::values::values_change_as_the_scenario_says", text, None, |scenario: &Steered| {
        let mut source = nvml(&SharedRequirements::nothing());
        let samples: Vec<Sample> = (0..5).map(|tick| source.sample(Moment(tick))).collect();
        let used: Vec<u64> = samples.iter().map(|sample| sample.devices[0].memory.value().unwrap().used.0).collect();
        assert_eq!(used, [10, 20, 30, 30, 30]);
        for device in samples.iter().map(|sample| &sample.devices[0]) {
            assert!((55.0..=65.0).contains(&device.temperature.value().unwrap().0));
            assert_eq!(device.power.value(), Some(&Watts(1.0)));
            assert_eq!(device.power_limit.value(), Some(&Watts(5.0)));
            assert_eq!(device.name, Reading::Absent(Absence::NotSupported));
        }
        // A file that is no scenario fails every call and says why beside itself.
        scenario.write("gpus: [{ powr: 3 }]");
        assert!(matches!(source.sample(Moment(9)).devices[0].power, Reading::Absent(Absence::Failed(_))));
        let why = std::fs::read_to_string(scenario.folder().join("scenario.yaml.error")).unwrap();
        assert!(why.contains("powr"), "{why}");
    });
}

/// DGX Spark: the driver answers "Not Supported" for memory, bus and memory clock (rossumai/nvgpu pull request 37).
#[test]
fn a_gpu_on_the_hosts_memory_has_that_of_the_host() {
    let text = "gpus: [{name: NVIDIA GB10, uuid: GPU-10, pci: '0000000F:01:00.0', busy: 90}]";
    in_child("nvml::values::a_gpu_on_the_hosts_memory_has_that_of_the_host", text, None, |_| {
        let device = nvml(&SharedRequirements::nothing()).sample(Moment(5000)).devices.remove(0);
        let host = std::fs::read_to_string("/proc/meminfo").unwrap();
        let total = host.lines().find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB")).unwrap();
        let memory = device.memory.value().unwrap();
        assert_eq!(memory.total, Bytes(total.trim().parse::<u64>().unwrap() * 1024));
        assert_eq!(memory.used.0 + memory.free.0, memory.total.0);
        assert_eq!(device.dram_peak, Reading::estimated(BytesPerSec(273e9), Moment(5000)));
        assert_eq!(device.dram_bandwidth.absence(), Some(&Absence::NotSupported));
    });
}
