use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::*;
use crate::reading::ReadingKind;
use crate::units::{Bytes, BytesPerSec, Fraction, Joules, Megahertz, Watts};

const NOW: Moment = Moment(1_790_000_000_000);

/// A page as dcgm-exporter 4 writes it, of two GPUs. The figures of the first are those of a busy
/// H100; the second has no profiling and a blank temperature.
const PAGE: &str = r#"
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a",pci_bus_id="00000000:19:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 1755
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-b",pci_bus_id="00000000:3B:00.0",device="nvidia1",modelName="Tesla X9",Hostname="node1"} 300
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 20480
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 60527
DCGM_FI_DEV_FB_RESERVED{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 552
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 97
DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 60
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 612.345000
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 67
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-b",modelName="Tesla X9",Hostname="node1"} NaN
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 0.44
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 0.25
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"} 5000
go_gc_duration_seconds{quantile="0"} 2.3e-05
"#;

/// Serves answers, one a connection; the last one again and again. Ends with the test's process.
fn serve(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (ready, served): (Sender<()>, _) = channel();
    thread::spawn(move || {
        drop(ready);
        let mut answers = answers.into_iter().peekable();
        let mut last = String::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // To the end: what is closed with something unread in it is reset, and the answer lost.
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut part = [0; 4096];
                let length = stream.read(&mut part).unwrap();
                assert!(length > 0, "{}", String::from_utf8_lossy(&request));
                request.extend_from_slice(&part[..length]);
            }
            assert!(request.starts_with(b"GET /"), "{}", String::from_utf8_lossy(&request));
            last = answers.next().unwrap_or(last);
            // A client that has seen enough goes.
            let _ = stream.write_all(last.as_bytes());
        }
    });
    assert!(served.recv().is_err(), "the server runs");
    format!("http://{address}")
}

fn ok(page: &str) -> String {
    let length = page.len();
    format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{page}"
    )
}

fn open(answers: Vec<String>) -> Result<Prometheus, PrometheusError> {
    Prometheus::open(&format!("{}/metrics", serve(answers)), Access::default(), Catalog::embedded().unwrap())
}

#[test]
fn a_page_of_dcgms_exporter_is_read() {
    let mut source = open(vec![ok(PAGE)]).unwrap();
    assert_eq!(source.info().kind, SourceKind::Prometheus);
    assert!(source.info().detail.ends_with("/metrics"), "{}", source.info().detail);
    let sample = source.sample(NOW);
    let [first, second] = sample.devices.as_slice() else { panic!("{sample:?}") };
    assert_eq!(first.name.value().unwrap(), "NVIDIA H100 80GB HBM3");
    let memory = first.memory.value().unwrap();
    // 20480 + 60527 + 552 = 81559 MiB, as nvidia-smi shows it.
    assert_eq!((memory.used, memory.total), (Bytes::from_mib(20_480), Bytes::from_mib(81_559)));
    assert_eq!(first.memory_reserved, Reading::measured(Bytes::from_mib(552), NOW));
    assert_eq!(first.board.energy, Reading::measured(Joules(5.0), NOW));
    assert_eq!(first.busy, Reading::measured(Fraction(0.97), NOW));
    assert_eq!(first.power, Reading::measured(Watts(612.345), NOW));
    assert_eq!(first.sm_clock, Reading::measured(Megahertz(1755.0), NOW));
    assert_eq!(first.tensor_activity, Reading::measured(Fraction(0.44), NOW));
    // A quarter of the H100's 3.35 TB/s, derived: not measured as bytes.
    assert_eq!(first.dram_bandwidth.kind(), Some(ReadingKind::Estimated));
    assert!((first.dram_bandwidth.value().unwrap().0 / 0.25 / 3.35e12 - 1.0).abs() < 0.01);
    assert_eq!(first.processes, Reading::Absent(Absence::NotExported));
    // No limit is on the page: 700 W is the board power of NVIDIA's data sheet.
    assert_eq!(first.power_limit, Reading::estimated(Watts(700.0), NOW));
    assert_eq!((second.index, &second.temperature), (1, &Reading::Absent(Absence::NotSupported)));
    assert_eq!(second.memory, Reading::Absent(Absence::NotExported));
    assert!(sample.processes.is_empty());
}

#[test]
fn without_profiling_the_busy_share_is_a_bound() {
    let page: String = PAGE.lines().filter(|line| !line.contains("_PROF_")).map(|line| format!("{line}\n")).collect();
    let mut source = open(vec![ok(&page)]).unwrap();
    let sample = source.sample(NOW);
    let first = &sample.devices[0];
    let peak = first.dram_peak.value().copied().unwrap();
    assert_eq!(first.dram_bandwidth, Reading::upper_bound(BytesPerSec(peak.0 * 0.6), NOW));
    assert_eq!(first.tensor_activity, Reading::Absent(Absence::NotExported));
}

#[test]
fn a_gpu_that_leaves_the_page_keeps_its_place_and_an_exporter_that_fails_is_the_reason() {
    let without = PAGE.lines().filter(|line| !line.contains("gpu=\"0\"")).collect::<Vec<_>>().join("\n");
    let failing = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_owned();
    let mut source = open(vec![ok(PAGE), ok(&without), failing, ok(PAGE)]).unwrap();
    let sample = source.sample(NOW);
    assert_eq!((sample.devices.len(), &sample.devices[0].power), (2, &Reading::Absent(Absence::Gone)));
    assert_eq!(sample.devices[0].name.value().unwrap(), "NVIDIA H100 80GB HBM3");
    assert_eq!(sample.devices[1].sm_clock, Reading::measured(Megahertz(300.0), NOW));
    let failed = source.sample(NOW);
    let why = Absence::Failed("HTTP 503 Service Unavailable".into());
    assert!(failed.devices.iter().all(|device| device.memory == Reading::Absent(why.clone())), "{failed:?}");
    assert_eq!(source.sample(NOW).devices[0].power.value(), Some(&Watts(612.345)));
}

#[test]
fn parts_of_a_gpu_and_other_hosts_are_devices_of_their_own() {
    let page = r#"
DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="b"} 1
DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"} 2
DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="8"} 3
"#;
    let mut source = open(vec![ok(page)]).unwrap();
    let devices = source.sample(NOW).devices;
    let seen: Vec<_> = devices.iter().map(|device| (device.index, device.temperature.value().unwrap().0)).collect();
    assert_eq!(seen, [(0, 2.0), (1, 3.0), (2, 1.0)]);
}

#[test]
fn what_cannot_be_had_is_told_in_a_line() {
    let catalog = || Catalog::embedded().unwrap();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, said) in [
        ("http://me:secret@host/metrics".to_owned(), "name or password"),
        ("http://".to_owned(), "no address"),
        ("a b".to_owned(), "no address"),
        (unused.to_string(), "refused"),
        (serve(vec!["HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()]), "HTTP 404 Not Found"),
        (serve(vec![ok("up 1\n")]), "no metrics of a GPU"),
        (serve(vec!["nonsense".to_owned()]), "127.0.0.1"),
    ] {
        let line = Prometheus::open(&url, Access::default(), catalog()).err().unwrap().to_string();
        assert!(line.contains(said) && !line.contains('\n'), "{url}: {line}");
    }
}

#[test]
fn a_connection_that_the_server_ends_at_the_next_request_costs_no_sample() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let kept = ok(PAGE).replace("Connection: close\r\n", "");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream.write_all(kept.as_bytes()).unwrap();
            // The next request on it finds nobody.
            let _ = stream.read(&mut request);
        }
    });
    let mut source = Prometheus::open(&url, Access::default(), Catalog::embedded().unwrap()).unwrap();
    for _ in 0..3 {
        assert!(source.sample(NOW).devices[0].sm_clock.value().is_some());
    }
}

#[test]
fn a_host_that_is_called_something_else_doubles_nothing() {
    let renamed = PAGE.replace("node1", "node1.cluster.local");
    let mut source = open(vec![ok(PAGE), ok(&renamed)]).unwrap();
    let devices = source.sample(NOW).devices;
    let numbers: Vec<_> = devices.iter().map(|device| (device.index, device.sm_clock.value().is_some())).collect();
    assert_eq!(numbers, [(0, true), (1, true)]);
}

#[test]
fn a_host_that_is_gone_is_forgotten_in_time() {
    let two = PAGE.to_owned() + &PAGE.replace("node1", "node2").replace("GPU-a", "GPU-c").replace("GPU-b", "GPU-d");
    let mut source = open(vec![ok(&two), ok(&two), ok(PAGE)]).unwrap();
    assert_eq!(source.sample(NOW).devices.len(), 4);
    let gone = |sample: Sample| {
        sample.devices.iter().filter(|device| device.sm_clock.absence() == Some(&Absence::Gone)).count()
    };
    assert_eq!(gone(source.sample(NOW)), 2, "it may come back");
    assert_eq!(gone(source.sample(NOW.plus_millis(599_000))), 2);
    let after = source.sample(NOW.plus_millis(601_000));
    assert_eq!(after.devices.iter().map(|device| device.index).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn errors_of_sram_and_whether_they_are_too_many_are_read_under_both_names() {
    // dcgm_fields.h: 345, and 346, which later releases of DCGM call otherwise.
    for name in ["DCGM_FI_DEV_THRESHOLD_SRM", "DCGM_FI_DEV_SRAM_EXCEEDED"] {
        let labels = r#"{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"}"#;
        let page = format!("{PAGE}DCGM_FI_DEV_ECC_DBE_AGG_SRM{labels} 4\n{name}{labels} 1\n");
        let devices = open(vec![ok(&page)]).unwrap().sample(NOW).devices;
        let health = &devices[0].health;
        assert_eq!((health.sram_uncorrected.value(), health.sram_exceeded.value()), (Some(&4), Some(&true)), "{name}");
        assert_eq!(devices[1].health.sram_exceeded.absence(), Some(&Absence::NotExported));
    }
}

#[test]
fn dcgms_blank_values_are_no_values() {
    // dcgm_structs.h: DCGM_INT32_BLANK 0x7ffffff0, DCGM_INT64_BLANK 0x7ffffffffffffff0, DCGM_FP64_BLANK 2^47; two more
    // is "not supported", three "not permissioned".
    for (value, why) in [
        ("2147483632", Absence::NotSupported),
        ("2147483634", Absence::NotSupported),
        ("9223372036854775792", Absence::NotSupported),
        ("9223372036854775794", Absence::NotSupported),
        ("140737488355328.000000", Absence::NotSupported),
        ("140737488355331.000000", Absence::NoPermission),
        ("NaN", Absence::NotSupported),
    ] {
        let page = PAGE.replace("612.345000", value);
        let sample = open(vec![ok(&page)]).unwrap().sample(NOW);
        assert_eq!(sample.devices[0].power, Reading::Absent(why), "{value}");
    }
}
