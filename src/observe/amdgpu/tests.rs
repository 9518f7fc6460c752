use std::os::unix::fs::symlink;

use super::*;
use crate::reading::{DeviceProcess, ReadingKind};

const NOW: Moment = Moment(1_790_000_000_000);
const GIB: u64 = 1 << 30;

/// A simulated machine: files as amdgpu and the kernel have them.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.root.path().join("proc")).unwrap();
        machine
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    /// An MI300X as GPU `number`, at that PCI bus. Figures as its driver tells them: no edge
    /// temperature, the power of the moment instead of a mean.
    fn mi300x(&self, number: u32, bus: &str) {
        let device = format!("sys/class/drm/card{number}/device");
        for (file, text) in [
            ("vendor", "0x1002"),
            ("device", "0x74a1"),
            ("product_name", "AMD Instinct MI300X OAM"),
            ("unique_id", "8f8a1ba6b3a1c2d3"),
            ("mem_info_vram_total", "206141652992"),
            ("mem_info_vram_used", "103079215104"),
            ("gpu_busy_percent", "98"),
            ("mem_busy_percent", "40"),
            ("current_link_speed", "32.0 GT/s PCIe"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("current_link_width", "16"),
            ("max_link_width", "16"),
            ("pp_dpm_sclk", "0: 132Mhz\n1: 1834Mhz *\n2: 2100Mhz"),
            ("hwmon/hwmon7/power1_input", "612000000"),
            ("hwmon/hwmon7/power1_cap", "750000000"),
            ("hwmon/hwmon7/temp2_label", "junction"),
            ("hwmon/hwmon7/temp2_input", "67000"),
            ("hwmon/hwmon7/temp3_label", "mem"),
            ("hwmon/hwmon7/temp3_input", "58000"),
            ("hwmon/hwmon7/freq1_label", "sclk"),
            ("hwmon/hwmon7/freq1_input", "1834000000"),
            ("hwmon/hwmon7/freq2_label", "mclk"),
            ("hwmon/hwmon7/freq2_input", "1300000000"),
        ] {
            self.put(&format!("{device}/{file}"), text);
        }
        self.put(
            &format!("{device}/uevent"),
            &format!("DRIVER=amdgpu\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=0000:{bus}:00.0"),
        );
        self.put(&format!("sys/class/drm/card{number}-DP-1/status"), "disconnected");
    }

    /// A process with an open file of a GPU.
    fn opens(&self, pid: u32, file: u32, target: &str, info: &str) {
        let fd = self.root.path().join(format!("proc/{pid}/fd"));
        fs::create_dir_all(&fd).unwrap();
        symlink(target, fd.join(file.to_string())).unwrap();
        self.put(&format!("proc/{pid}/fdinfo/{file}"), info);
    }

    fn open(&self) -> Result<Amdgpu, NoAmdGpu> {
        Amdgpu::open(self.root.path(), &Catalog::embedded().unwrap())
    }
}

fn client(id: u32, bus: &str, mib: u32) -> String {
    format!("drm-driver:\tamdgpu\ndrm-client-id:\t{id}\ndrm-pdev:\t0000:{bus}:00.0\ndrm-resident-vram:\t{mib} MiB")
}

#[test]
fn an_mi300x_is_watched() {
    let machine = Machine::new();
    machine.mi300x(1, "c1");
    let mut source = machine.open().unwrap();
    assert_eq!(source.info().kind, SourceKind::Amdgpu);
    let sample = source.sample(NOW);
    let [card] = sample.devices.as_slice() else { panic!("{sample:?}") };
    assert_eq!(card.name.value().unwrap(), "AMD Instinct MI300X OAM");
    let memory = card.memory.value().unwrap();
    // 206141652992 bytes are 191.98 GiB, 103079215104 are 96.
    assert_eq!((memory.total, memory.used), (Bytes(206_141_652_992), Bytes(96 * GIB)));
    assert_eq!(memory.free, Bytes(206_141_652_992 - 96 * GIB));
    assert_eq!(card.busy, Reading::measured(Fraction(0.98), NOW));
    assert_eq!(card.power.map(|watts| watts.0.round()), Reading::measured(612.0, NOW));
    assert_eq!(card.power_limit.map(|watts| watts.0.round()), Reading::measured(750.0, NOW));
    assert_eq!(card.temperature, Reading::measured(Celsius(67.0), NOW));
    assert_eq!(card.board.memory_temperature, Reading::measured(Celsius(58.0), NOW));
    assert_eq!(card.sm_clock.map(|clock| clock.0.round()), Reading::measured(1834.0, NOW));
    assert_eq!(card.sm_clock_max, Reading::measured(Megahertz(2100.0), NOW));
    assert_eq!(card.memory_clock.map(|clock| clock.0.round()), Reading::measured(1300.0, NOW));
    assert_eq!((card.links.pcie_generation.value(), card.links.pcie_width.value()), (Some(&5), Some(&16)));
    // The data sheet's 5.3 TB/s, 40 % of the time busy: a bound of 2.12 TB/s.
    assert_eq!(card.dram_bandwidth.kind(), Some(ReadingKind::UpperBound));
    assert!((card.dram_bandwidth.value().unwrap().0 / 2.12e12 - 1.0).abs() < 0.01);
    assert_eq!(card.tensor_activity, Reading::Absent(Absence::NotSupported));
    assert_eq!(card.processes, Reading::measured(Vec::new(), NOW));
}

#[test]
fn cards_are_in_the_order_of_their_addresses_and_others_are_left_out() {
    let machine = Machine::new();
    machine.mi300x(1, "c1");
    machine.mi300x(2, "0a");
    machine.put("sys/class/drm/card0/device/vendor", "0x10de");
    machine.put("sys/class/drm/card0/device/mem_info_vram_total", "1");
    machine.put("sys/class/drm/renderD128/device/vendor", "0x1002");
    let devices = machine.open().unwrap().sample(NOW).devices;
    let addresses: Vec<_> = devices.iter().map(|card| (card.index, card.board.pci.value().unwrap().as_str())).collect();
    assert_eq!(addresses, [(0, "0000:0a:00.0"), (1, "0000:c1:00.0")]);
}

#[test]
fn a_card_with_an_edge_sensor_and_a_mean_power_shows_those() {
    let machine = Machine::new();
    machine.mi300x(0, "c1");
    let device = "sys/class/drm/card0/device";
    machine.put(&format!("{device}/hwmon/hwmon7/temp1_label"), "edge");
    machine.put(&format!("{device}/hwmon/hwmon7/temp1_input"), "51000");
    machine.put(&format!("{device}/hwmon/hwmon7/power1_average"), "300000000");
    let card = machine.open().unwrap().sample(NOW).devices.remove(0);
    assert_eq!(card.temperature.value(), Some(&Celsius(51.0)));
    assert_eq!(card.power.map(|watts| watts.0.round()).value(), Some(&300.0));
}

#[test]
fn what_a_card_lacks_has_its_reason_and_is_no_zero() {
    let machine = Machine::new();
    machine.mi300x(0, "c1");
    let device = machine.root.path().join("sys/class/drm/card0/device");
    fs::remove_dir_all(device.join("hwmon")).unwrap();
    for file in ["mem_busy_percent", "product_name", "unique_id", "pp_dpm_sclk"] {
        fs::remove_file(device.join(file)).unwrap();
    }
    machine.put("sys/class/drm/card0/device/gpu_busy_percent", "much");
    let card = machine.open().unwrap().sample(NOW).devices.remove(0);
    let lacks = Absence::NotSupported;
    assert_eq!(card.power, Reading::Absent(lacks.clone()));
    assert_eq!(card.temperature, Reading::Absent(lacks.clone()));
    assert_eq!(card.sm_clock_max, Reading::Absent(lacks.clone()));
    assert_eq!(card.dram_bandwidth, Reading::Absent(lacks.clone()));
    assert_eq!(card.uuid, Reading::Absent(lacks));
    assert_eq!(card.busy, Reading::Absent(Absence::Failed("gpu_busy_percent has no number".into())));
    // The number of the chip is known.
    assert_eq!(card.name.value().unwrap(), "AMD Instinct MI300X");
    machine.put("sys/class/drm/card0/device/device", "0x1234");
    assert_eq!(machine.open().unwrap().sample(NOW).devices[0].name.value().unwrap(), "AMD GPU 0x1234");
}

#[test]
fn a_card_that_goes_keeps_its_place() {
    let machine = Machine::new();
    machine.mi300x(0, "c1");
    machine.mi300x(1, "c2");
    let mut source = machine.open().unwrap();
    fs::remove_dir_all(machine.root.path().join("sys/class/drm/card0")).unwrap();
    let devices = source.sample(NOW).devices;
    assert_eq!(devices.len(), 2);
    assert!(devices[0].memory.absence().is_some() && devices[1].memory.value().is_some());
    assert!(devices[0].name.value().is_some());
}

#[test]
fn processes_hold_what_their_files_of_the_gpu_say_each_once() {
    let machine = Machine::new();
    machine.mi300x(0, "c1");
    machine.mi300x(1, "c2");
    // Training with two files of the same client and one of another, on two GPUs.
    machine.opens(100, 5, "/dev/dri/renderD128", &client(17, "c1", 1000));
    machine.opens(100, 6, "/dev/dri/renderD128", &client(17, "c1", 1000));
    machine.opens(100, 7, "/dev/dri/renderD128", &client(18, "c1", 24));
    machine.opens(100, 8, "/dev/dri/renderD129", &client(19, "c2", 7));
    machine.opens(100, 9, "/home/me/data.bin", "pos:\t0");
    // A data loader that inherited a file, and another user's program.
    machine.opens(101, 5, "/dev/dri/renderD128", &client(17, "c1", 1000));
    machine.opens(200, 3, "/dev/dri/card0", "drm-driver:\tamdgpu\ndrm-client-id:\t30\ndrm-pdev:\t0000:c1:00.0");
    machine.opens(300, 3, "/dev/null", "pos:\t0");
    let mut source = machine.open().unwrap();
    let devices = source.sample(NOW).devices;
    let held = |pid, mib| DeviceProcess::holding(pid, Reading::measured(Bytes::from_mib(mib), NOW));
    let unknown = DeviceProcess::holding(200, Reading::Absent(Absence::NotSupported));
    assert_eq!(devices[0].processes.value().unwrap(), &[held(100, 1024), unknown]);
    assert_eq!(devices[1].processes.value().unwrap(), &[held(100, 7)]);
    // Known files are read at every sample; new ones are looked for now and then.
    machine.put("proc/100/fdinfo/8", &client(19, "c2", 9));
    machine.opens(400, 3, "/dev/dri/renderD129", &client(40, "c2", 1));
    let soon = source.sample(NOW.plus_millis(1_000));
    assert_eq!(soon.devices[1].processes.value().unwrap()[0].memory.value(), Some(&Bytes::from_mib(9)));
    assert_eq!(soon.devices[1].processes.value().unwrap().len(), 1);
    let later = source.sample(NOW.plus_millis(5_000));
    assert_eq!(later.devices[1].processes.value().unwrap().len(), 2);
}

#[test]
fn without_a_card_or_without_proc_a_line_says_so() {
    let machine = Machine::new();
    let line = machine.open().err().unwrap().to_string();
    assert!(line.contains("no AMD GPU") && line.contains("sys/class/drm") && !line.contains('\n'), "{line}");
    machine.mi300x(0, "c1");
    fs::remove_dir(machine.root.path().join("proc")).unwrap();
    let card = machine.open().unwrap().sample(NOW).devices.remove(0);
    assert_eq!(card.processes, Reading::Absent(Absence::NotSupported));
    assert!(card.memory.value().is_some());
}
