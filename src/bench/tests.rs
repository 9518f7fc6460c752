//! Machines whose curves are known: rows made by arithmetic that is written out here, from which the fit must find the
//! constants again.

use std::fmt::Write as _;

use super::*;
use crate::catalog::Catalog;

/// An H100 that is none: 900 TFLOP/s in 16 bit, 50 in fp32, a tile's start worth 40 elements, 3 us before the first tile,
/// 2.5 TB/s, 2 us a kernel.
const RATE: f64 = 900e12;
const VECTOR: f64 = 50e12;
const FILL: f64 = 40.0;
const START: f64 = 3e-6;
const BANDWIDTH: f64 = 2.5e12;
const KERNEL: f64 = 2e-6;
const SMS: f64 = 132.0;

/// Seconds of whole waves of 256 x 128 tiles: with as many tiles as there are multiprocessors or a multiple of it, each
/// takes 2 x 256 x 128 operations for each element of the inner size and of the fill, at its share of the rate. Shapes are
/// chosen so that every wave is full and no smaller tile is quicker.
fn matmul(rate: f64, fill: f64, element: f64, [rows, inner, columns]: [f64; 3]) -> f64 {
    let tiles = (rows / 256.0) * (columns / 128.0);
    assert!((tiles / SMS).fract() == 0.0, "{rows} x {columns}: waves that are not full");
    let compute = tiles / SMS * 2.0 * 256.0 * 128.0 * SMS / rate * (inner + fill) + START;
    let bytes = element * (rows * inner + inner * columns + rows * columns);
    compute.hypot(bytes / BANDWIDTH) + KERNEL
}

/// 132 tiles are 12 of 256 rows by 11 of 128 columns; 1056 are 32 by 33.
const SHAPES: [[f64; 3]; 6] = [
    [3072.0, 8192.0, 1408.0],
    [3072.0, 2048.0, 1408.0],
    [3072.0, 512.0, 1408.0],
    [3072.0, 64.0, 1408.0],
    [8192.0, 4096.0, 4224.0],
    [8192.0, 256.0, 4224.0],
];

fn gpu_rows() -> String {
    let mut text = String::from(
        r#"{"kernel": "machine", "device": "gpu", "name": "NVIDIA H100 80GB HBM3", "vendor": "nvidia", "date": "2026-11-23",
        "torch": "2.9.1", "toolkit": "CUDA 13.0", "multiprocessors": 132, "memory_bytes": 85e9}"#,
    )
    .replace('\n', " ");
    text.push('\n');
    let mut line = |row: String| {
        let _ = writeln!(text, "{row}");
    };
    for [rows, inner, columns] in SHAPES {
        for (element, bytes, seconds) in [
            ("bf16", 2.0, matmul(RATE, FILL, 2.0, [rows, inner, columns])),
            // Slower units take no longer over a tile's start: 40 x 50 / 900 elements of theirs.
            ("fp32", 4.0, matmul(VECTOR, FILL * VECTOR / RATE, 4.0, [rows, inner, columns])),
        ] {
            let _ = bytes;
            line(format!(
                r#"{{"kernel":"matmul","element":"{element}","batch":1,"rows":{rows},"inner":{inner},"columns":{columns},"seconds":{seconds}}}"#
            ));
        }
    }
    line(r#"{"kernel":"between","element":"bf16","alone":0.9e-3,"seconds":1e-3}"#.to_owned());
    for bytes in [1e9, 5e8, 2.5e8] {
        line(format!(r#"{{"kernel":"elements","bytes":{bytes},"seconds":{}}}"#, bytes / BANDWIDTH + KERNEL));
        line(format!(r#"{{"kernel":"rows","bytes":{bytes},"seconds":{}}}"#, bytes / 2e12 + KERNEL));
    }
    line(format!(r#"{{"kernel":"launch","device_us":{}}}"#, KERNEL * 1e6));
    // The gradient of the input at a tenth of the rate, the weight's at four fifths.
    for [rows, inner, columns] in SHAPES {
        for (of, share) in [("of_input", 0.1), ("of_weight", 0.8)] {
            let seconds = matmul(RATE * share, FILL, 2.0, [rows, inner, columns]);
            line(format!(
                r#"{{"kernel":"gradient","of":"{of}","element":"bf16","batch":1,"rows":{rows},"inner":{inner},"columns":{columns},"seconds":{seconds}}}"#
            ));
        }
    }
    line(r#"{"kernel":"host","host_us":9}"#.to_owned());
    // 36 bytes an element at 2 TB/s, and 3 us a tensor.
    for (tensors, elements) in [(8.0, 134_217_728.0), (200.0, 13_107_200.0)] {
        let seconds = elements * 36.0 / 2e12 + tensors * 3e-6;
        line(format!(r#"{{"kernel":"optimizer","tensors":{tensors},"elements":{elements},"seconds":{seconds}}}"#));
    }
    // Rings of 300 of 450 GB/s, 20 us and 2 us a step.
    for ranks in [2.0_f64, 4.0, 8.0] {
        for bytes in [65536.0, 1_048_576.0, 268_435_456.0] {
            for (kind, scale) in [("all_reduce", 2.0), ("all_gather", 1.0)] {
                let seconds = 20e-6 + scale * (ranks - 1.0) * 2e-6 + bytes * scale * (ranks - 1.0) / ranks / 300e9;
                line(format!(
                    r#"{{"kernel":"collective","scope":"node","kind":"{kind}","ranks":{ranks},"bytes":{bytes},"seconds":{seconds}}}"#
                ));
            }
        }
    }
    line(r#"{"kernel":"done","spread":0.01,"clock_mhz":1755}"#.to_owned());
    text
}

fn near(found: f64, made: f64, within: f64) {
    assert!((found / made - 1.0).abs() < within, "found {found}, made with {made}");
}

#[test]
fn the_constants_that_made_a_machines_times_are_found_again() {
    let catalog = Catalog::embedded().unwrap();
    let rows = Rows::read(&gpu_rows()).unwrap();
    let fitted = fit(&rows, &catalog, MeasuredLinks::default()).unwrap();
    assert_eq!(fitted.name, "NVIDIA H100 SXM 80GB");
    let gpu = catalog.gpu("h100").unwrap();
    let matrix = &fitted.curves.matrix;
    near(matrix.half * gpu.peaks.bf16.unwrap().0, RATE, 0.02);
    near(matrix.fp32 * gpu.peaks.fp32.unwrap().0, VECTOR, 0.02);
    near(matrix.fill, FILL, 0.05);
    near(matrix.start_us, START * 1e6, 0.05);
    near(matrix.in_training, 0.9, 1e-9);
    let (element, input, weight) = &matrix.backward[0];
    assert_eq!(element, "bf16");
    near(*input, 0.1, 0.02);
    near(*weight, 0.8, 0.02);
    let memory = &fitted.curves.memory;
    near(memory.share * gpu.bandwidth.0, BANDWIDTH, 1e-6);
    near(memory.rows * gpu.bandwidth.0, 2e12, 1e-6);
    near(memory.kernel_us, 2.0, 1e-9);
    near(memory.optimizer.unwrap() * gpu.bandwidth.0, 2e12, 1e-6);
    near(memory.optimizer_tensor_us.unwrap(), 3.0, 1e-6);
    // PyTorch's host as measured, the others in the ratio that they have to it: Megatron's 80 to 13.5.
    let host = |name: &str| fitted.stacks.iter().find(|stack| stack.framework == name).unwrap().host_us;
    near(host("pytorch"), 9.0, 1e-9);
    near(host("megatron"), 9.0 * 80.0 / 13.5, 1e-9);
    let link = &fitted.links[0];
    assert_eq!((link.scope.as_str(), link.link.as_deref()), ("node", Some("nvlink_4")));
    near(link.ring * 450e9, 300e9, 0.02);
    near(link.start_us, 20.0, 0.05);
    near(link.hop_us, 2.0, 0.05);
}

/// A machine on which something else ran while memory was measured: 0.6 GB/s, so that moving its bytes alone would take any
/// matmul longer than it took. The fastest one, 2 x 1024^3 operations in 20 ms, made 0.107 TFLOP/s.
#[test]
fn a_rate_that_no_time_depends_on_stays_near_the_fastest_measured() {
    let mut text = String::from(
        r#"{"kernel": "machine", "device": "cpu", "name": "AMD EPYC", "vendor": "cpu", "date": "2026-11-29", "torch": "2.9.1", "toolkit": "threads: 2", "multiprocessors": 2, "memory_bytes": 25e9}"#,
    );
    text.push('\n');
    for (element, share) in [("fp32", 1.0), ("bf16", 0.5)] {
        for size in [256.0_f64, 512.0, 1024.0] {
            let seconds = 0.02 * share * (size / 1024.0).powi(3);
            let _ = writeln!(
                text,
                r#"{{"kernel":"matmul","element":"{element}","batch":1,"rows":{size},"inner":{size},"columns":{size},"seconds":{seconds}}}"#
            );
        }
    }
    for bytes in [64e6, 128e6] {
        let _ = writeln!(text, r#"{{"kernel":"elements","bytes":{bytes},"seconds":{}}}"#, bytes / 0.6e9);
        let _ = writeln!(text, r#"{{"kernel":"rows","bytes":{bytes},"seconds":{}}}"#, bytes / 0.6e9);
    }
    text.push_str("{\"kernel\":\"launch\",\"device_us\":5}\n");
    let catalog = Catalog::embedded().unwrap();
    let fitted = fit(&Rows::read(&text).unwrap(), &catalog, MeasuredLinks::default()).unwrap();
    let fastest = 2.0 * 1024.0_f64.powi(3) / 0.02;
    for (element, peak) in fitted.own.unwrap().peaks {
        let most = if element == "fp32" { 2.2 * fastest } else { 4.4 * fastest };
        assert!(peak < most, "{element}: {peak} of {fastest}");
    }
}

#[test]
fn fused_attention_is_found_by_head_size() {
    // 600 and 400 of 989.4 TFLOP/s where blocks fill the GPU: half of it with one block of 128 queries for each
    // multiprocessor (fill 1), and with 100 queries (ramp 100).
    let mut text = gpu_rows();
    for (heads, queries) in
        [(16.0, 16384.0), (64.0, 4096.0), (64.0, 1024.0), (64.0, 512.0), (8.0, 2048.0), (4.0, 512.0)]
    {
        let blocks: f64 = heads * queries / 128.0 / SMS;
        let flops = 4.0 * heads * queries * queries * 128.0;
        let reached = queries / (queries + 100.0) * blocks / (blocks + 1.0);
        let [forward, backward] = [1.0 / 600e12, 2.5 / 400e12].map(|each| flops * each / reached + KERNEL);
        let _ = writeln!(
            text,
            r#"{{"kernel":"attention","element":"bf16","heads":{heads},"queries":{queries},"dim":128,"causal":false,"forward":{forward},"backward":{backward}}}"#
        );
    }
    let catalog = Catalog::embedded().unwrap();
    let peak = catalog.gpu("h100").unwrap().peaks.bf16.unwrap().0;
    let fitted = fit(&Rows::read(&text).unwrap(), &catalog, MeasuredLinks::default()).unwrap();
    let flash = &fitted.curves.flash;
    let (_, forward, backward) = flash.heads[0];
    near(forward * peak, 600e12, 0.03);
    near(backward * peak, 400e12, 0.03);
    near(flash.fill.0, 1.0, 0.1);
    near(flash.fill.1, 1.0, 0.1);
    near(flash.ramp, 100.0, 0.15);
    assert_eq!(flash.source, "bench-nvidia-h100-sxm-80gb");
    assert_eq!(fitted.curves.vendor.as_ref().unwrap().source, "bundled", "nobody measured cuDNN's");
}

/// The same rows of a CPU, which takes whole blocks of keys: 256 queries under a causal mask compute all pairs, at 0.8 of
/// the rate in fp32, forward, and 0.7 backward. In bf16 it takes twice as long. Pages come at 2 GB/s.
#[test]
fn a_cpus_attention_and_pages_are_found() {
    let mut text = gpu_rows().replace(r#""device": "gpu""#, r#""device": "cpu""#);
    for (heads, queries) in [(16.0, 256.0), (8.0, 128.0)] {
        let computed: f64 = 4.0 * heads * queries * queries * 64.0;
        for (element, times) in [("fp32", 1.0), ("bf16", 2.0)] {
            let [forward, backward] = [1.0 / 0.8, 2.5 / 0.7].map(|each| times * computed * each / VECTOR + KERNEL);
            let _ = writeln!(
                text,
                r#"{{"kernel":"attention","element":"{element}","heads":{heads},"queries":{queries},"dim":64,"causal":true,"forward":{forward},"backward":{backward}}}"#
            );
        }
    }
    for bytes in [4e7, 8e7] {
        let _ = writeln!(text, r#"{{"kernel":"fresh","bytes":{bytes},"seconds":{}}}"#, bytes / 2e9);
    }
    let fitted = fit(&Rows::read(&text).unwrap(), &Catalog::embedded().unwrap(), MeasuredLinks::default()).unwrap();
    let (flash, own) = (&fitted.curves.flash, fitted.own.as_ref().unwrap());
    let peak = |name: &str| own.peaks.iter().find(|(element, _)| element == name).unwrap().1;
    let (_, forward, backward) = flash.heads[0];
    near(forward * peak("fp32"), 0.8 * VECTOR, 0.03);
    near(backward * peak("fp32"), 0.7 * VECTOR, 0.03);
    let (keeps_forward, keeps_backward) = flash.keeps("bf16");
    near(forward * keeps_forward * peak("bf16"), 0.4 * VECTOR, 0.03);
    near(backward * keeps_backward * peak("bf16"), 0.35 * VECTOR, 0.03);
    near(fitted.curves.memory.fresh.unwrap() * own.bandwidth, 2e9, 1e-6);
}

#[test]
fn a_measured_file_is_read_back_and_replaces_its_own_entries_alone() {
    let mut catalog = Catalog::embedded().unwrap();
    let fitted = fit(&Rows::read(&gpu_rows()).unwrap(), &catalog, MeasuredLinks::default()).unwrap();
    let own = "sources: {mine: by hand}\nlink_curves:\n- {scope: network, link: ethernet_100, source: mine, ring: 0.4, \
               all_to_all: 0.4, point_to_point: 0.5, start_us: 50, hop_us: 30}\n";
    let text = MeasuredFile::merged(Some(own), &fitted).unwrap();
    let again = MeasuredFile::merged(Some(&text), &fitted).unwrap();
    assert_eq!(text, again, "a second measurement takes the first one's place");
    assert!(text.contains("ethernet_100"), "{text}");
    catalog.extend("efficiency.yaml", &text).unwrap();
    let (h100, h200) = (catalog.gpu("h100").unwrap().clone(), catalog.gpu("h200").unwrap().clone());
    assert_eq!(catalog.curves(&h100).unwrap().measured.as_ref().unwrap().date, "2026-11-23");
    assert!(catalog.curves(&h200).unwrap().measured.is_none(), "the same generation, another GPU");
    assert!(MeasuredFile::merged(Some("- a list"), &fitted).is_err());
    assert!(MeasuredFile::merged(Some("curves: 3"), &fitted).is_err());
}

#[test]
fn rows_that_are_none_are_refused() {
    let machine = gpu_rows().lines().next().unwrap().to_owned();
    for (row, word) in [
        (r#"{"kernel":"launch","device_us":0}"#, "launch"),
        (r#"{"kernel":"tea"}"#, "line 2"),
        (r#"{"kernel":"elements","bytes":1e9,"seconds":-1}"#, "elements"),
        (r#"{"kernel":"matmul","element":"bf16","batch":1,"rows":0,"inner":1,"columns":1,"seconds":1}"#, "matmul"),
    ] {
        let told = Rows::read(&format!("{machine}\n{row}")).unwrap_err().to_string();
        assert!(told.contains(word), "{told}");
    }
    assert!(Rows::read("").is_err());
    assert!(Rows::read(r#"{"kernel":"launch","device_us":1}"#).is_err(), "of which machine?");
    let catalog = Catalog::embedded().unwrap();
    let few = Rows::read(&machine).unwrap();
    assert!(fit(&few, &catalog, MeasuredLinks::default()).unwrap_err().to_string().contains("too few"));
}
