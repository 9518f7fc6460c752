//! Sources beside NVIDIA's driver, as the screen shows them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use crate::terminal::{Program, Terminal};

fn header(screen: &str) -> &str {
    screen.lines().next().unwrap_or_default()
}

/// One MI300X under `root`, at 96 of 192 GiB and 612 W.
fn mi300x(root: &Path) {
    let device = root.join("sys/class/drm/card0/device");
    fs::create_dir_all(device.join("hwmon/hwmon0")).unwrap();
    fs::create_dir_all(root.join("proc")).unwrap();
    for (file, text) in [
        ("vendor", "0x1002"),
        ("device", "0x74a1"),
        ("uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c1:00.0"),
        ("mem_info_vram_total", "206141652992"),
        ("mem_info_vram_used", "103079215104"),
        ("gpu_busy_percent", "98"),
        ("mem_busy_percent", "40"),
        ("hwmon/hwmon0/power1_input", "612000000"),
    ] {
        fs::write(device.join(file), format!("{text}\n")).unwrap();
    }
}

fn watch(args: &[&str], root: &Path) -> Terminal {
    Program::memwall().args(args).args(&["--interval", "100ms"]).env("MEMWALL_SYS_ROOT", root).start()
}

#[test]
fn an_amd_card_is_watched_by_choice_and_where_there_is_no_other() {
    let root = tempfile::tempdir().unwrap();
    mi300x(root.path());
    for args in [&["--source", "amdgpu"][..], &[]] {
        let mut terminal = watch(args, root.path());
        let screen = terminal.wait_for("612");
        // 5.3 TB/s busy for 40 % of the time: at most 2.12.
        assert!(header(&screen).contains("amdgpu live") && screen.contains("≤2.12"), "{screen}");
        assert!(screen.contains("96.0") && screen.contains("98%"), "{screen}");
        terminal.keys("q");
        terminal.assert_left_well();
    }
    let mut terminal = watch(&["--source", "amdgpu"], &root.path().join("none"));
    terminal.wait_for("no AMD GPU");
    terminal.keys("q");
    terminal.assert_left_well();
}

/// Serves one page to whoever asks, until the test's process ends; its address.
fn serve(page: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).unwrap() > 0);
            // A program that has been left asks for nothing more.
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len());
        }
    });
    address
}

#[test]
fn a_page_of_metrics_is_watched_and_what_is_not_on_it_says_so() {
    let address = serve(
        "DCGM_FI_DEV_FB_USED{gpu=\"3\",modelName=\"NVIDIA H100 80GB HBM3\"} 20480\n\
         DCGM_FI_DEV_FB_FREE{gpu=\"3\",modelName=\"NVIDIA H100 80GB HBM3\"} 60527\n\
         DCGM_FI_DEV_POWER_USAGE{gpu=\"3\",modelName=\"NVIDIA H100 80GB HBM3\"} 612.3\n\
         DCGM_FI_PROF_DRAM_ACTIVE{gpu=\"3\",modelName=\"NVIDIA H100 80GB HBM3\"} 0.25\n",
    );
    let root = tempfile::tempdir().unwrap();
    let mut terminal = watch(&["--source", &format!("prometheus:{address}")], root.path());
    let screen = terminal.wait_for("612");
    // 20480 MiB are 20 GiB; a quarter of 3.35 TB/s is derived.
    assert!(header(&screen).contains("prometheus live") && screen.contains("20.0"), "{screen}");
    assert!(screen.contains("~0.84") && screen.contains("processes: not exported"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut terminal = watch(&["--source", &format!("prometheus:{nobody}")], root.path());
    let screen = terminal.wait_for("refused");
    assert!(header(&screen).contains("no source"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
}

/// Rows of a CPU's measurement: 100 GFLOP/s, 15 GB/s.
const CPU_ROWS: &str = r#"{"kernel":"machine","device":"cpu","name":"CPU","date":"2026-11-23","torch":"2.9.1","multiprocessors":2,"memory_bytes":25e9}
{"kernel":"matmul","element":"fp32","batch":1,"rows":1024,"inner":1024,"columns":1024,"seconds":0.02147}
{"kernel":"matmul","element":"fp32","batch":1,"rows":512,"inner":768,"columns":768,"seconds":0.00604}
{"kernel":"matmul","element":"fp32","batch":1,"rows":512,"inner":768,"columns":3072,"seconds":0.02416}
{"kernel":"matmul","element":"fp32","batch":1,"rows":2048,"inner":768,"columns":768,"seconds":0.02416}
{"kernel":"matmul","element":"fp32","batch":1,"rows":512,"inner":512,"columns":512,"seconds":0.00268}
{"kernel":"matmul","element":"fp32","batch":1,"rows":256,"inner":3072,"columns":768,"seconds":0.01208}
{"kernel":"elements","bytes":1e9,"seconds":0.0667}
{"kernel":"elements","bytes":5e8,"seconds":0.0333}
{"kernel":"rows","bytes":1e9,"seconds":0.1}
{"kernel":"rows","bytes":5e8,"seconds":0.05}
{"kernel":"launch","device_us":5}
{"kernel":"process","name":"torch","bytes":300e6}
{"kernel":"done","spread":0.05,"clock_mhz":null}
"#;

/// A plan for the CPU of those rows in that folder, and where the program has their curves from.
fn plan_for_a_cpu(folder: &std::path::Path) -> [std::path::PathBuf; 2] {
    let config = folder.join("config");
    fs::write(folder.join("rows.jsonl"), CPU_ROWS).unwrap();
    let mut bench = std::process::Command::new(env!("CARGO_BIN_EXE_memwall"));
    let bench = bench.args(["bench", "--rows"]).arg(folder.join("rows.jsonl")).env("XDG_CONFIG_HOME", &config);
    assert!(bench.output().unwrap().status.success());
    let plan = folder.join("plan.yaml");
    let text = "model: {preset: gpt2, batch_size: 1}\ntraining: {precision: fp32}\nhardware: {gpu_type: cpu}\n";
    fs::write(&plan, text).unwrap();
    [plan, config]
}

/// A plan for a CPU has no GPU to watch, and none is simulated for it.
#[test]
fn a_cpu_has_no_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let [plan, config] = plan_for_a_cpu(folder.path());
    let program = Program::memwall().args(&[plan.to_str().unwrap()]).size(120, 40);
    let mut terminal = program.env("XDG_CONFIG_HOME", &config).env("MEMWALL_SYS_ROOT", folder.path()).start();
    let screen = terminal.wait_for("--attach PID");
    assert!(header(&screen).contains("no GPU") && !screen.contains("demo"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
}

/// A run on the CPU is compared with the CPU's own plan: the resident set of its process, here a shell's, and the steps of
/// its log. What only a GPU has is said to be absent.
#[test]
fn a_run_on_the_cpu_is_compared_with_its_own_plan() {
    const STEPS: &str =
        "i=0; while :; do echo \"iter $i: loss 2.0000, time 100.00ms, mfu 1.00%\"; i=$((i+1)); sleep 0.1; done";
    let folder = tempfile::tempdir().unwrap();
    let [plan, config] = plan_for_a_cpu(folder.path());
    let log = fs::File::create(folder.path().join("run.log")).unwrap();
    let mut training = std::process::Command::new("sh").args(["-c", STEPS]).stdout(log).spawn().unwrap();
    let pid = training.id().to_string();
    let program = Program::memwall().args(&[plan.to_str().unwrap(), "--attach", &pid]).size(120, 40);
    let mut terminal = program.env("XDG_CONFIG_HOME", &config).env("MEMWALL_SYS_ROOT", folder.path()).start();
    let screen = terminal.wait_for("→0.10 s");
    let line = screen.lines().nth(1).unwrap();
    assert!(line.contains("→0.00 GiB -100 %") && !line.contains("DRAM"), "{screen}");
    assert!(screen.contains("no GPU is used"), "{screen}");
    assert!(header(&screen).contains("on the CPU"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
    training.kill().unwrap();
    training.wait().unwrap();
}
