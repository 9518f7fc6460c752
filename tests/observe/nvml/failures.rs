//! Drivers that fail, hang, lose a GPU, are too old or do not start.

use super::*;

#[test]
fn each_call_fails_alone_and_says_how() {
    let faults = "
faults:
  - { call: nvmlDeviceGetMemoryInfo_v2, error: 999 }
  - { call: nvmlDeviceGetUtilizationRates, error: 3 }
  - { call: nvmlDeviceGetPowerUsage, error: 4 }
  - { call: nvmlDeviceGetTemperature, error: 10 }
  - { call: nvmlDeviceGetEnforcedPowerLimit, error: 13 }
  - { call: nvmlDeviceGetMemoryBusWidth, error: 25 }
  - { call: nvmlDeviceGetCurrentClocksThrottleReasons, error: 16 }
  - { call: nvmlDeviceGetComputeRunningProcesses_v3, error: 77 }
";
    in_child("nvml::failures::each_call_fails_alone_and_says_how", &format!("{H100}{faults}"), None, |_| {
        let device = nvml(&SharedRequirements::nothing()).sample(now()).devices.remove(0);
        let failed = |why: &str| Some(Absence::Failed(why.to_owned().into()));
        assert_eq!(device.memory.absence().cloned(), failed("an internal driver error occurred"));
        assert_eq!(device.busy.absence(), Some(&Absence::NotSupported));
        assert_eq!(device.memory_busy.absence(), Some(&Absence::NotSupported));
        assert_eq!(device.power.absence(), Some(&Absence::NoPermission));
        assert_eq!(device.temperature.absence().cloned(), failed("the provided timeout was reached"));
        assert_eq!(device.power_limit.absence(), Some(&Absence::NotSupported));
        let reset = failed("device requires a reset before it can be used again");
        assert_eq!(device.throttle.absence().cloned(), reset);
        assert_eq!(device.processes.absence().cloned(), failed("NVML error 77"));
        // Without a bus width the peak is that of the catalogue: 3.352 TB/s in NVIDIA's H100 whitepaper.
        assert_eq!(device.dram_peak.kind(), Some(ReadingKind::Estimated));
        assert!((device.dram_peak.value().unwrap().0 / 3.352e12 - 1.0).abs() < 1e-9);
        // Without a share of the time that memory is busy there is no bandwidth.

        assert_eq!(device.dram_bandwidth.absence(), Some(&Absence::NotSupported));
        // The rest is as ever.
        assert_eq!(device.sm_clock.value(), Some(&Megahertz(1755.0)));
        assert_eq!(device.name.value().unwrap(), "NVIDIA H100 80GB HBM3");
    });
}

#[test]
fn a_failure_passes_when_the_driver_recovers() {
    let faults = "
faults:
  - { call: nvmlDeviceGetMemoryInfo_v2, when: { from_call: 2, until_call: 4 }, error: 999 }
  - { call: nvmlDeviceGetName, when: { until_call: 3 }, error: 999 }
";
    in_child("nvml::failures::a_failure_passes_when_the_driver_recovers", &format!("{H100}{faults}"), None, |_| {
        let mut source = nvml(&SharedRequirements::nothing());
        let samples: Vec<Sample> = (0..4).map(|tick| source.sample(Moment(tick * 1000))).collect();
        let memory: Vec<bool> = samples.iter().map(|sample| sample.devices[0].memory.value().is_some()).collect();
        assert_eq!(memory, [true, false, false, true]);
        let name: Vec<bool> = samples.iter().map(|sample| sample.devices[0].name.value().is_some()).collect();
        assert_eq!(name, [false, false, true, true]);
    });
}

const TWO: &str = "
log: LOG
gpus:
  - { name: first, uuid: GPU-1, memory: { total: 100, used: 10 }, power: 1000, memory_busy: 1, busy: 1 LOST }
  - { name: second, uuid: GPU-2, memory: { total: 200, used: 20 }, power: 2000 }
";

#[test]
fn a_card_off_the_bus_keeps_its_place_and_is_taken_back() {
    let there = TWO.replace(" LOST", "");
    in_child("nvml::failures::a_card_off_the_bus_keeps_its_place_and_is_taken_back", &there, None, |scenario| {
        let mut source = nvml(&SharedRequirements::nothing());
        assert_eq!(source.sample(now()).devices[0].power.value(), Some(&Watts(1.0)));

        scenario.write(&TWO.replace(" LOST", ", lost: {}"));
        for _ in 0..3 {
            let sample = source.sample(now());
            assert_eq!(sample.devices.len(), 2);
            let lost = &sample.devices[0];
            assert_eq!(lost.name.value().unwrap(), "first");
            for why in [lost.memory.absence(), lost.busy.absence(), lost.power.absence(), lost.throttle.absence()] {
                assert_eq!(why, Some(&Absence::Gone));
            }
            assert_eq!(lost.dram_bandwidth.absence(), Some(&Absence::Gone));
            assert_eq!(lost.processes.absence(), Some(&Absence::Gone));
            assert_eq!(sample.devices[1].power.value(), Some(&Watts(2.0)));
        }

        // Another GPU comes back in its place.
        scenario.write(&there.replace("first", "third").replace("1000", "3000"));
        let sample = source.sample(now());
        assert_eq!(sample.devices[0].power.value(), Some(&Watts(3.0)));
        assert_eq!(sample.devices[0].name.value().unwrap(), "third");
    });
}

#[test]
fn a_lost_card_is_not_asked_call_by_call() {
    in_child(
        "nvml::failures::a_lost_card_is_not_asked_call_by_call",
        &TWO.replace(" LOST", ", lost: {}"),
        None,
        |scenario| {
            let requirements = SharedRequirements::nothing();
            requirements.set(RequiredMetrics { closely: DetailTarget::None, ..RequiredMetrics::everything() });
            let mut source = nvml(&requirements);
            for tick in 0..3 {
                let sample = source.sample(Moment(tick * 1000));
                assert_eq!(sample.devices[0].name, Reading::Absent(Absence::Gone));
            }
            // Each tick looks for it, and that is all.
            assert_eq!(scenario.called_like("nvmlDeviceGetHandleByIndex_v2 0"), 3);
            assert_eq!(scenario.called_like("nvmlDeviceGetPowerUsage 0"), 0);
            assert_eq!(scenario.called_like("nvmlDeviceGetPowerUsage 1"), 3);
        },
    );
}

#[test]
fn a_card_that_may_not_be_touched_says_so() {
    let faults = "
faults:
  - { call: nvmlDeviceGetHandleByIndex_v2, gpu: 1, error: 4 }
";
    let text = format!("{}{faults}", TWO.replace(" LOST", ""));
    in_child("nvml::failures::a_card_that_may_not_be_touched_says_so", &text, None, |_| {
        let sample = nvml(&SharedRequirements::nothing()).sample(now());
        assert_eq!(sample.devices[0].power.value(), Some(&Watts(1.0)));
        assert_eq!(sample.devices[1].name.absence(), Some(&Absence::NoPermission));
        assert_eq!(sample.devices[1].memory.absence(), Some(&Absence::NoPermission));
    });
}

#[test]
fn a_call_that_hangs_holds_up_its_thread_alone() {
    let hang = "
faults:
  - { call: nvmlDeviceGetPowerUsage, when: { from_call: 3 }, hang_s: 3600 }
";
    in_child(
        "nvml::failures::a_call_that_hangs_holds_up_its_thread_alone",
        &format!("{H100}{hang}"),
        None,
        |scenario| {
            let open = || {
                let source: Box<dyn Source> = Box::new(nvml(&SharedRequirements::nothing()));
                Ok(source)
            };
            let (sender, mut receiver) = mpsc::channel(16);
            let stopper = spawn(open, Duration::from_millis(1), now, sender).unwrap();
            assert!(matches!(receiver.blocking_recv(), Some(SourceReport::Started(_))));
            for _ in 0..2 {
                assert!(matches!(receiver.blocking_recv(), Some(SourceReport::Sample(_))));
            }
            wait_for("the call that hangs", || scenario.called("nvmlDeviceGetPowerUsage") == 3);
            assert!(receiver.try_recv().is_err());
            // Neither stopping nor ending the program waits for the driver.
            stopper.stop();
        },
    );
}

/// What NVML reports as the total of an H100 of 80 GB (81559 MiB).
const H100_SIZE: Bytes = Bytes(81_559 * 1_048_576);

/// What an older driver has: everything of H100 that its functions cover.
fn check_old(device: &DeviceSample) {
    // What its processes hold, of what the catalogue says that such a GPU has.
    let memory = DeviceMemory { total: H100_SIZE, used: Bytes(20), free: Bytes(H100_SIZE.0 - 20) };
    assert_eq!((device.memory.value(), device.memory.kind()), (Some(&memory), Some(ReadingKind::Estimated)));
    assert_eq!(device.processes.value().unwrap()[0].pid, 4_194_400);
    assert_eq!(device.sm_activity, Reading::Absent(Absence::NotSupported));
    assert_eq!(device.dram_bandwidth.kind(), Some(ReadingKind::UpperBound));
    assert_eq!(device.power.value(), Some(&Watts(612.345)));
}

#[test]
fn an_older_driver_lacks_functions() {
    let text = format!("{H100}    processes: [{{ pid: 4194400, memory: 20 }}]\n");
    in_child("nvml::failures::an_older_driver_lacks_functions", &text, None, |scenario| {
        let missing = ["nvmlGpm", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3"];
        let old = library_without(&missing, scenario.folder());
        let mut source = Nvml::open(Some(old), SharedRequirements::everything()).unwrap();
        check_old(&source.sample(now()).devices[0]);
    });
}

#[test]
fn functions_that_answer_that_they_are_missing_are_missing() {
    let missing =
        "missing: [nvmlGpmQueryDeviceSupport, nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetComputeRunningProcesses_v3]";
    let text = format!("{H100}    processes: [{{ pid: 4194400, memory: 20 }}]\n{missing}\n");
    in_child("nvml::failures::functions_that_answer_that_they_are_missing_are_missing", &text, None, |_| {
        check_old(&nvml(&SharedRequirements::everything()).sample(now()).devices[0]);
    });
}

#[test]
fn a_driver_that_does_not_start_says_why() {
    in_child("nvml::failures::a_driver_that_does_not_start_says_why", "init: 9", None, |scenario| {
        let error = || Nvml::open(Some(library()), SharedRequirements::nothing()).err().unwrap();
        assert!(matches!(error(), NvmlOpenError::NotLoaded));
        assert_eq!(error().plain(), "NVIDIA driver not loaded");
        scenario.write("init: 18");
        assert!(matches!(error(), NvmlOpenError::Mismatch));
        scenario.write("init: 4");
        assert!(matches!(error(), NvmlOpenError::NoPermission));
        scenario.write("init: 999");
        assert!(matches!(error(), NvmlOpenError::Other(why) if why == "an internal driver error occurred"));
        scenario.write("gpus: []");
        assert!(matches!(error(), NvmlOpenError::NoDevices));
        scenario.write(H100);
        assert!(Nvml::open(Some(library()), SharedRequirements::nothing()).is_ok());
    });
}

#[test]
fn a_library_that_is_none_is_named() {
    in_child("nvml::failures::a_library_that_is_none_is_named", H100, None, |scenario| {
        let error = |path: &Path| Nvml::open(Some(path.to_owned()), SharedRequirements::nothing()).err().unwrap();
        let text = scenario.folder().join("text.so");
        std::fs::write(&text, "not a library").unwrap();
        assert!(matches!(error(&text), NvmlOpenError::BadLibrary { path, .. } if path == text));
        // A library, but of something else.
        let other = library_without(&["nvml"], scenario.folder());
        let refused = error(&other);
        assert!(matches!(&refused, NvmlOpenError::BadLibrary { .. }), "{refused}");
        assert!(refused.to_string().contains("nvmlInit_v2"), "{refused}");
    });
}
