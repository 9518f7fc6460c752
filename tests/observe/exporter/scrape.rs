//! One page: what is in it, what is not, and how long it takes.

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::{Exporter, get, hold, installed, value};
use crate::support::catalog;
use crate::support::standin::{RealProcess, Scenario, wait_for};
use memwall::observe::{Access, Prometheus, Source};
use memwall::reading::{Absence, DeviceSample, Moment, ReadingKind};
use memwall::units::{Bytes, Celsius, Watts};

/// A GPU that tells everything but its power, and one that tells little.
const GPUS: &str = "
log: LOG
driver: '550.54.15'
gpus:
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-1
    pci: '00000000:1B:00.0'
    memory: { total: 85520809984, reserved: 617611264, used: 21474836480 }
    busy: 97
    memory_busy: 40
    power_limit: 700000
    temperature: 67
    sm_clock: 1755
    sm_clock_max: 1980
    memory_clock: 2619
    memory_clock_max: 2619
    bus_width: 5120
    throttle: 4
    ecc: { on: true, corrected: 2, uncorrected: 0 }
    xids: [{ code: 79, from_ms: 0 }]
    PROCESSES
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-2
    memory: { total: 85520809984, used: 1073741824 }
    busy: 3
";

fn gpus(processes: &str) -> String {
    GPUS.replace("PROCESSES", processes)
}

#[test]
fn a_page_has_what_the_driver_tells_in_base_units_and_nothing_that_it_does_not() {
    let process = RealProcess::start(&["train"]);
    let pid = process.pid();
    let scenario = Scenario::new(&gpus(&format!("processes: [{{ pid: {pid}, memory: 21474836480 }}]")));
    let exporter = Exporter::over(&scenario, &["plan.yaml", "--run", "r1", "--attach", &pid.to_string()]);
    let page = exporter.metrics();
    let gpu = "{gpu=\"0\",uuid=\"GPU-1\"}";
    for (name, expected) in [
        ("memwall_gpu_up", 1.0),
        ("memwall_gpu_memory_used_bytes", 21_474_836_480.0),
        ("memwall_gpu_memory_total_bytes", 85_520_809_984.0),
        ("memwall_gpu_memory_reserved_bytes", 617_611_264.0),
        ("memwall_gpu_busy_ratio", 0.97),
        // 700 000 mW, 1 755 MHz; 5120 bits / 8 x 2 x 2619 MHz.
        ("memwall_gpu_power_limit_watts", 700.0),
        ("memwall_gpu_sm_clock_hertz", 1_755e6),
        ("memwall_gpu_dram_bandwidth_peak_bytes_per_second", 640.0 * 2.0 * 2_619e6),
        ("memwall_gpu_throttle_reasons", 1.0),
    ] {
        assert_eq!(value(&page, &format!("{name}{gpu}")), Some(expected), "{name}\n{page}");
    }
    let labelled = |name: &str, more: &str| value(&page, &format!("{name}{{gpu=\"0\",uuid=\"GPU-1\",{more}}}"));
    assert_eq!(labelled("memwall_gpu_throttled", "reason=\"power cap\""), Some(1.0));
    assert_eq!(labelled("memwall_gpu_ecc_errors_total", "type=\"corrected\""), Some(2.0));
    // Memory busy for 40 % of the time bounds the bandwidth, and measures nothing.
    let bound = labelled("memwall_gpu_dram_bandwidth_bytes_per_second", "kind=\"upper_bound\"");
    assert!((bound.unwrap() - 0.4 * 640.0 * 2.0 * 2_619e6).abs() < 1.0, "{bound:?}");
    // Not in the scenario, so the driver does not support it: no series, and no 0.
    assert!(!page.contains("memwall_gpu_power_watts"), "{page}");
    assert!(!page.contains("memwall_gpu_temperature_celsius{gpu=\"1\""), "{page}");
    let rank = "{run=\"r1\",rank=\"0\",gpu=\"0\",uuid=\"GPU-1\"}";
    assert_eq!(value(&page, &format!("memwall_rank_device_memory_bytes{rank}")), Some(21_474_836_480.0), "{page}");
    let predicted = value(&page, "memwall_predicted_device_memory_bytes{run=\"r1\",stage=\"0\"}").unwrap();
    assert_eq!(value(&page, &format!("memwall_rank_predicted_device_memory_bytes{rank}")), Some(predicted));
    let parts = page.lines().filter(|line| line.starts_with("memwall_predicted_memory_component_bytes{"));
    let sum: f64 = parts.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
    // The terms of a prediction sum to its total.
    assert!((sum - predicted).abs() < 0.5, "{sum} of {predicted}");
    assert!(page.contains("source=\"nvml\"") && page.contains("simulated=\"false\""), "{page}");
    if installed("promtool") {
        hold(&["check", "metrics"], &page);
    }
}

#[test]
fn a_dashboard_reads_the_page_as_it_reads_other_exporters() {
    let scenario = Scenario::new(&gpus(""));
    let exporter = Exporter::over(&scenario, &[]);
    let url = format!("http://{}/metrics", exporter.address);
    let mut source = Prometheus::open(&url, Access::default(), catalog().clone()).unwrap();
    let sample = source.sample(Moment(1_790_000_000_000));
    let [first, second] = sample.devices.as_slice() else { panic!("{:?}", sample.devices) };
    assert_eq!(first.name.value().unwrap(), "NVIDIA H100 80GB HBM3");
    assert_eq!(first.uuid.value().unwrap(), "GPU-1");
    assert_eq!(first.board.pci.value().unwrap(), "00000000:1B:00.0");
    let memory = first.memory.value().unwrap();
    assert_eq!((memory.total, memory.used), (Bytes(85_520_809_984), Bytes(21_474_836_480)));
    assert_eq!(first.memory_reserved.value(), Some(&Bytes(617_611_264)));
    assert!((first.busy.value().unwrap().0 - 0.97).abs() < 1e-9);
    assert_eq!(first.power_limit.value(), Some(&Watts(700.0)));
    assert_eq!(first.temperature.value(), Some(&Celsius(67.0)));
    let clocks = [&first.sm_clock, &first.sm_clock_max, &first.memory_clock].map(|clock| clock.value().unwrap().0);
    for (clock, expected) in clocks.into_iter().zip([1755.0, 1980.0, 2619.0]) {
        assert!((clock - expected).abs() < 1e-6, "{clock}");
    }
    assert_eq!(first.throttle.value().unwrap(), &["power cap"]);
    assert_eq!((first.health.corrected.value(), first.health.uncorrected.value()), (Some(&2), Some(&0)));
    assert_eq!(first.health.xids.value().unwrap().last.unwrap().code, Some(79));
    // Memory busy for 40 % of the time: still a bound, and no measurement.
    let (rate, kind) = (first.dram_bandwidth.value().unwrap().0, first.dram_bandwidth.kind());
    assert!((rate - 0.4 * 640.0 * 2.0 * 2_619e6).abs() < 1.0, "{rate}");
    assert_eq!(kind, Some(ReadingKind::UpperBound));
    // What the driver does not tell is as absent over the page.
    assert_eq!(first.power.absence(), Some(&Absence::NotExported));
    assert_eq!(second.temperature.absence(), Some(&Absence::NotExported));
    assert!(second.rank.is_none());
}

#[test]
fn a_client_that_asks_for_openmetrics_gets_it() {
    let scenario = Scenario::new(&gpus(""));
    let exporter = Exporter::over(&scenario, &[]);
    let (head, page) = get(&exporter.address, "/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
    assert!(head.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    assert!(page.ends_with("\n# EOF\n") && page.contains("# UNIT memwall_gpu_memory_used_bytes bytes\n"), "{page}");
    let (head, page) = get(&exporter.address, "/metrics", "");
    assert!(head.contains("text/plain; version=0.0.4; charset=utf-8") && !page.contains("# EOF"), "{head}");
    let (head, body) = get(&exporter.address, "/-/healthy", "");
    assert!(head.contains(" 200 ") && body == "ok\n", "{head}\n{body}");
    assert!(get(&exporter.address, "/other", "").0.contains(" 404 "));
    // No plan was given: nothing is predicted, and nothing compared with an example.
    assert!(!page.contains("memwall_predicted") && !page.contains("memwall_plan_info"), "{page}");
    assert!(page.contains("verdict=\"NO PLAN\"") || page.contains("verdict=\"IDLE\""), "{page}");
}

#[test]
fn without_a_driver_it_answers_and_says_why_and_makes_nothing_up() {
    let missing = PathBuf::from("/nonexistent/libnvidia-ml.so.1");
    let exporter = Exporter::start(&["plan.yaml"], &[("MEMWALL_NVML_LIB", missing)]);
    let page = exporter.metrics();
    assert_eq!(value(&page, "memwall_source_up{source=\"gpu\"}"), Some(0.0), "{page}");
    assert!(page.contains("memwall_source_failure_info{source=\"gpu\",reason=\"") && page.contains("/nonexistent/"));
    assert!(!page.contains("memwall_gpu_") && !page.contains("memwall_run_deviation"), "{page}");
    // The plan needs no GPU.
    assert!(value(&page, "memwall_predicted_device_memory_bytes{run=\"plan\",stage=\"0\"}").unwrap() > 0.0);
}

#[test]
fn a_demo_says_that_it_is_one() {
    let exporter = Exporter::start(&["plan.yaml", "--source", "demo"], &[]);
    let page = exporter.metrics();
    assert!(page.contains("source=\"demo\"") && page.contains("simulated=\"true\""), "{page}");
    assert_eq!(value(&page, "memwall_source_up{source=\"gpu\"}"), Some(1.0));
    assert!(page.contains("memwall_run_verdict_info{run=\"plan\""), "{page}");
    if installed("promtool") {
        hold(&["check", "metrics"], &page);
    }
    // Who watches it from elsewhere knows it, too.
    let url = format!("http://{}/metrics", exporter.address);
    let mut source = Prometheus::open(&url, Access::default(), catalog().clone()).unwrap();
    let devices = source.sample(Moment(1_790_000_000_000)).devices;
    assert!(!devices.is_empty() && devices.iter().all(DeviceSample::is_simulated));
}

#[test]
fn those_who_ask_at_once_share_one_pass_over_the_gpus() {
    const CLIENTS: usize = 8;
    // Slow enough that all of them ask before it is done.
    let slow = gpus("") + "\nfaults: [{ call: nvmlDeviceGetUtilizationRates, gpu: 0, hang_s: 1 }]\n";
    let scenario = Scenario::new(&slow);
    let exporter = Exporter::over(&scenario, &[]);
    let start = Barrier::new(CLIENTS);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                start.wait();
                let page = exporter.metrics();
                assert_eq!(value(&page, "memwall_source_up{source=\"gpu\"}"), Some(1.0), "{page}");
            });
        }
    });
    let passes = scenario.calls().iter().filter(|call| *call == "nvmlDeviceGetUtilizationRates 1").count();
    assert_eq!(passes, 1);
}

#[test]
fn a_driver_that_hangs_hangs_no_scrape_and_is_said() {
    let scenario = Scenario::new(&(gpus("") + "\nfaults: [{ call: nvmlDeviceGetUtilizationRates, hang_s: 600 }]\n"));
    let exporter = Exporter::over(&scenario, &["plan.yaml"]);
    for _ in 0..2 {
        let start = Instant::now();
        let (_, page) = get(&exporter.address, "/metrics", "X-Prometheus-Scrape-Timeout-Seconds: 1\r\n");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(value(&page, "memwall_source_up{source=\"gpu\"}"), Some(0.0), "{page}");
        assert!(page.contains("the driver may hang") && !page.contains("memwall_gpu_memory"), "{page}");
        assert!(page.contains("memwall_predicted_device_memory_bytes"), "{page}");
    }
}

#[test]
fn a_driver_that_comes_up_later_is_found_and_a_lost_gpu_is_said() {
    let scenario = Scenario::new("init: 9\n");
    let exporter = Exporter::over(&scenario, &[]);
    let up = |page: &str| value(page, "memwall_source_up{source=\"gpu\"}");
    assert_eq!(up(&exporter.metrics()), Some(0.0));
    scenario.write(&gpus(""));
    wait_for("the driver", || up(&exporter.metrics()) == Some(1.0));
    scenario.write(&gpus("lost: { from_ms: 0 }"));
    wait_for("the loss", || value(&exporter.metrics(), "memwall_gpu_up{gpu=\"0\",uuid=\"GPU-1\"}") == Some(0.0));
    let page = exporter.metrics();
    assert!(page.contains("memwall_gpu_failure_info{gpu=\"0\",uuid=\"GPU-1\",reason=\"gone\"} 1"), "{page}");
    assert_eq!(value(&page, "memwall_gpu_up{gpu=\"1\",uuid=\"GPU-2\"}"), Some(1.0), "{page}");
}

#[test]
fn the_log_of_a_run_is_exported_with_a_loss_that_is_no_number() {
    let scenario = Scenario::new(&gpus(""));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    std::fs::write(
        &log,
        "iter 40: loss 2.5000, time 400.00ms, mfu 30.00%\niter 41: loss nan, time 410.00ms, mfu 30.00%\n",
    )
    .unwrap();
    let exporter = Exporter::over(&scenario, &["--log", log.to_str().unwrap(), "--run", "r1"]);
    wait_for("the log", || value(&exporter.metrics(), "memwall_run_steps_total{run=\"r1\"}").is_some());
    let page = exporter.metrics();
    assert_eq!(value(&page, "memwall_run_steps_total{run=\"r1\"}"), Some(41.0), "{page}");
    assert_eq!(value(&page, "memwall_run_step_duration_seconds{run=\"r1\"}"), Some(0.41), "{page}");
    assert!(value(&page, "memwall_run_loss{run=\"r1\"}").is_some_and(f64::is_nan), "{page}");
    assert_eq!(value(&page, "memwall_source_up{source=\"log\"}"), Some(1.0), "{page}");
}
