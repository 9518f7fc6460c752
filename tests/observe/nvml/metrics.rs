//! Every metric of the table, from the function that the table names, and only when it is wanted.

use std::collections::BTreeSet;

use memwall::observe::{METRICS, QueryInterval};
use memwall::reading::{NvLinks, Peer, Xid, Xids};
use memwall::units::Joules;

use super::*;

/// What [`H100`] has beyond its load, and a second GPU.
const MORE: &str = "
    energy: 512345678
    fan: 40
    performance_state: 2
    architecture: 9
    capability: [9, 0]
    vbios: 96.00.61.00.01
    numa_node: 1
    pci: '00000000:1B:00.0'
    pcie: { generation: 4, generation_max: 5, width: 8, width_max: 16, sent: 1000, received: 2500000, replays: 7 }
    nvlink: { all: 18, down: [3, 17], version: 6 }
    ecc: { on: true, corrected: 12, uncorrected: 1, sram: 3 }
    fields: { 82: 78, 142: 2, 143: 1, 144: 1, 145: 0, 161: 5, 59: 2, 38: 4, 45: 3 }
    topology: 40
    processes: [{ pid: 4194400, memory: 76000000000, busy: 93 }]
    xids: [{ code: 48 }, { code: 79 }]
    gpm: { metrics: { 2: 91.5, 3: 40, 5: 44, 7: 43, 9: 1, 6: 0.5, 10: 39, 11: 2, 12: 11, 13: 3, 20: 512, 21: 1024, 60: 100000, 61: 90000 } }
  - name: NVIDIA H100 80GB HBM3
    mig: 1
    memory: { total: 85520809984, used: 10000000000 }
    parts:
      - { name: NVIDIA H100 80GB HBM3 MIG 1g.10gb, uuid: MIG-1, memory: { total: 10468982784, used: 9000000000 }, processes: [{ pid: 4194401, memory: 8000000000 }] }
      - { name: NVIDIA H100 80GB HBM3 MIG 2g.20gb, uuid: MIG-2, memory: { total: 20937965568, used: 1000000000 } }
";

fn full() -> String {
    format!("{H100}{}", MORE.trim_start_matches('\n'))
}

fn symbols(asked: impl Fn(QueryInterval) -> bool) -> BTreeSet<String> {
    let metrics = METRICS.iter().filter(|metric| asked(metric.asked));
    metrics.flat_map(|metric| metric.symbols).map(|symbol| (*symbol).to_owned()).collect()
}

fn called(scenario: &Steered) -> BTreeSet<String> {
    scenario.calls().iter().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

#[test]
fn what_is_called_is_what_the_table_says() {
    in_child("nvml::metrics::what_is_called_is_what_the_table_says", &full(), None, |scenario| {
        let mut source = nvml(&SharedRequirements::everything());
        let start = now();
        drop(source.sample(start));
        // Counters want two samples, and a time between.
        wait_for("the counters", || source.sample(now()).devices[0].sm_activity.value().is_some());
        // Without counters the traffic is asked for; without a wish the samples are freed.
        scenario.write(&full().replace("gpm:", "gpm: { unsupported: true } #"));
        drop(nvml(&SharedRequirements::everything()).sample(now()));
        drop(source);
        // The source is never closed: the table has everything else.
        assert_eq!(called(scenario), symbols(|_| true));
    });
}

#[test]
fn nothing_is_asked_that_nobody_wants() {
    in_child("nvml::metrics::nothing_is_asked_that_nobody_wants", &full(), None, |scenario| {
        let mut source = nvml(&SharedRequirements::nothing());
        for tick in 0..3 {
            drop(source.sample(Moment(tick * 1000)));
        }
        let unwanted = symbols(|asked| {
            matches!(
                asked,
                QueryInterval::Counters | QueryInterval::Health | QueryInterval::Closely | QueryInterval::Processes
            )
        });
        assert_eq!(called(scenario).intersection(&unwanted).collect::<Vec<_>>(), Vec::<&String>::new());
    });
}

#[test]
fn one_card_is_looked_at_closely_and_slow_facts_slowly() {
    in_child("nvml::metrics::one_card_is_looked_at_closely_and_slow_facts_slowly", &full(), None, |scenario| {
        let requirements = SharedRequirements::nothing();
        requirements.set(RequiredMetrics {
            closely: DetailTarget::Device(0),
            health: true,
            ..RequiredMetrics::default()
        });
        let mut source = nvml(&requirements);
        for tick in 0..11 {
            drop(source.sample(Moment(tick * 1000)));
        }
        let calls = scenario.calls();
        let count = |call: &str| calls.iter().filter(|line| line.as_str() == call).count();
        assert_eq!(count("nvmlDeviceGetTotalEnergyConsumption 0"), 11);
        assert_eq!(count("nvmlDeviceGetTotalEnergyConsumption 1"), 0);
        assert_eq!(count("nvmlDeviceGetVbiosVersion 0"), 1);
        assert_eq!(count("nvmlDeviceGetTopologyCommonAncestor 0"), 1);
        // At 0 s and at 10 s.
        assert_eq!((count("nvmlDeviceGetEccMode 0"), count("nvmlDeviceGetEccMode 1")), (2, 2));
        assert_eq!(count("nvmlDeviceGetMigMode 1"), 2);
    });
}

#[test]
fn board_links_and_errors_arrive_in_the_units_of_the_house() {
    let text = full().replace("gpm:", "gpm: { unsupported: true } #");
    in_child("nvml::metrics::board_links_and_errors_arrive_in_the_units_of_the_house", &text, None, |_| {
        let device = nvml(&SharedRequirements::everything()).sample(Moment(5000)).devices.remove(0);
        assert_eq!(device.memory_reserved, Reading::measured(Bytes(617_611_264), Moment(5000)));
        let board = &device.board;
        assert_eq!(board.pci.value().unwrap(), "00000000:1B:00.0");
        assert_eq!(board.architecture.value().unwrap(), "Hopper");
        assert_eq!(board.capability.value().unwrap(), "9.0");
        assert_eq!(board.vbios.value().unwrap(), "96.00.61.00.01");
        assert_eq!(board.numa_node.value(), Some(&1));
        assert_eq!(board.performance_state.value(), Some(&2));
        assert_eq!(board.fan.value(), Some(&Fraction(0.4)));
        assert_eq!(board.energy.value(), Some(&Joules(512_345.678)));
        assert_eq!(board.memory_temperature.value(), Some(&Celsius(78.0)));
        assert_eq!(board.memory_clock_max.value(), Some(&Megahertz(2619.0)));
        let links = &device.links;
        assert_eq!((links.pcie_generation.value(), links.pcie_generation_max.value()), (Some(&4), Some(&5)));
        assert_eq!((links.pcie_width.value(), links.pcie_width_max.value()), (Some(&8), Some(&16)));
        // KB a second.
        assert_eq!(links.pcie_sent.value(), Some(&BytesPerSec(1e6)));
        assert_eq!(links.pcie_received.value(), Some(&BytesPerSec(2.5e9)));
        assert_eq!(links.pcie_replays.value(), Some(&7));
        assert_eq!(links.nvlinks.value(), Some(&NvLinks { active: 16, all: 18, version: Some(4) }));
        // 5 replays, 2 recoveries, 7 checksums.
        assert_eq!(links.nvlink_errors.value(), Some(&14));
        assert_eq!(links.nvlink_received.absence(), Some(&Absence::NotSupported));
        let peer = Peer { index: 1, between: "same NUMA node".to_owned() };
        assert_eq!(links.peers.value(), Some(&vec![peer]));
        let health = &device.health;
        assert_eq!(health.ecc.value(), Some(&true));
        assert_eq!((health.corrected.value(), health.uncorrected.value()), (Some(&12), Some(&1)));
        assert_eq!(health.sram_uncorrected.value(), Some(&3));
        assert_eq!(health.retired_pages.absence(), Some(&Absence::NotSupported));
        // 2 + 1 rows.
        assert_eq!(health.remapped_rows.value(), Some(&3));
        // Of the newer counter where there is one, else of the older: 4 flits + 3 packets.
        let errors = [&health.nvlink_replays, &health.nvlink_recoveries, &health.nvlink_crc_errors];
        assert_eq!(errors.map(Reading::value), [Some(&5), Some(&2), Some(&7)]);
        assert_eq!((health.repair_pending.value(), health.repair_failed.value()), (Some(&true), Some(&false)));
        assert_eq!(health.xids.value(), Some(&Xids { count: 2, last: Some(Xid { code: Some(79), at: Moment(5000) }) }));
        let busy = &device.processes.value().unwrap()[0].busy;
        assert_eq!(busy, &Reading::measured(Fraction::from_percent(93.0), Moment(5000)));
    });
}

/// `nvmlNvlinkVersion_t` of nvml.h: 2.2 is 3, 3.1 is 5, 4.0 is 6, 5.0 is 7; a number that is not in it is unknown.
#[test]
fn the_generation_of_nvlink_is_the_one_that_the_driver_means() {
    let text = full().replace("architecture: 9", "architecture: 10");
    in_child("nvml::metrics::the_generation_of_nvlink_is_the_one_that_the_driver_means", &text, None, |scenario| {
        for (number, generation) in [(1, Some(1)), (3, Some(2)), (5, Some(3)), (6, Some(4)), (7, Some(5)), (99, None)] {
            scenario.write(&text.replace("version: 6", &format!("version: {number}")));
            let device = nvml(&SharedRequirements::everything()).sample(now()).devices.remove(0);
            assert_eq!(device.links.nvlinks.value().unwrap().version, generation, "{number}");
        }
        // What some drivers answer of Hopper, whose links are of the fourth.
        scenario.write(&full().replace("version: 6", "version: 7"));
        let device = nvml(&SharedRequirements::everything()).sample(now()).devices.remove(0);
        assert_eq!(device.links.nvlinks.value().unwrap().version, Some(4));
    });
}

/// A link that lost lanes is no matter of what is on the screen.
#[test]
fn the_link_is_known_of_every_card_while_errors_are_wanted() {
    in_child("nvml::metrics::the_link_is_known_of_every_card_while_errors_are_wanted", &full(), None, |_| {
        let requirements = SharedRequirements::nothing();
        requirements.set(RequiredMetrics { health: true, ..RequiredMetrics::default() });
        let device = nvml(&requirements).sample(now()).devices.remove(0);
        assert_eq!(device.narrow_link().unwrap(), "PCIe x8 of x16");
    });
}

#[test]
fn counters_tell_types_and_traffic() {
    in_child("nvml::metrics::counters_tell_types_and_traffic", &full(), None, |scenario| {
        let mut source = nvml(&SharedRequirements::everything());
        let device = sample_until(&mut source, "the second sample", |device| device.sm_activity.value().is_some());
        let counters = &device.counters;
        for (reading, percent) in [
            (&counters.occupancy, 40.0),
            (&counters.tensor_half, 43.0),
            (&counters.tensor_integer, 1.0),
            (&counters.tensor_double, 0.5),
            (&counters.fp64, 2.0),
            (&counters.fp32, 11.0),
            (&counters.fp16, 3.0),
        ] {
            assert_eq!(reading.value(), Some(&Fraction::from_percent(percent)));
        }
        // MiB a second; 20 and 60 read from nvml.h: PCIe sent, NVLink received.
        let links = &device.links;
        assert_eq!(links.pcie_sent.value(), Some(&BytesPerSec(512.0 * 1_048_576.0)));
        assert_eq!(links.pcie_received.value(), Some(&BytesPerSec(1024.0 * 1_048_576.0)));
        assert_eq!(links.nvlink_received.value(), Some(&BytesPerSec(100_000.0 * 1_048_576.0)));
        assert_eq!(links.nvlink_sent.value(), Some(&BytesPerSec(90_000.0 * 1_048_576.0)));
        assert_eq!(scenario.called_like("nvmlDeviceGetPcieThroughput 0"), 0);
    });
}

#[test]
fn parts_of_a_card_are_devices_after_it() {
    in_child("nvml::metrics::parts_of_a_card_are_devices_after_it", &full(), None, |scenario| {
        let mut source = nvml(&SharedRequirements::nothing());
        let devices = source.sample(now()).devices;
        let labels: Vec<String> = devices.iter().map(DeviceSample::label).collect();
        assert_eq!(labels, ["0", "1", "1:0", "1:1"]);
        assert_eq!(devices[2].name.value().unwrap(), "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
        assert_eq!(devices[2].memory.value().unwrap().used, Bytes(9_000_000_000));
        assert_eq!(devices[2].processes.value().unwrap()[0].pid, 4_194_401);
        // Not twice.
        assert_eq!(devices[1].processes.value(), Some(&Vec::new()));
        assert_eq!(devices[3].power.absence(), Some(&Absence::NotSupported));
        // Counters of a split GPU are left alone: they have made drivers refuse other calls.
        assert_eq!(scenario.called_like("nvmlGpmSampleGet 1"), 0);
    });
}

#[test]
fn an_error_is_remembered_when_its_card_is_gone() {
    in_child("nvml::metrics::an_error_is_remembered_when_its_card_is_gone", &full(), None, |scenario| {
        let mut source = nvml(&SharedRequirements::everything());
        drop(source.sample(Moment(1000)));
        scenario.write(&full().replace("    energy:", "    lost: {}\n    energy:"));
        let device = source.sample(Moment(2000)).devices.remove(0);
        assert_eq!(device.power, Reading::Absent(Absence::Gone));
        let last = Some(Xid { code: Some(79), at: Moment(1000) });
        assert_eq!(device.health.xids, Reading::measured(Xids { count: 2, last }, Moment(2000)));
    });
}

#[test]
fn a_card_without_events_says_so() {
    let text = full().replace("xids: [{ code: 48 }, { code: 79 }]", "no_events: true");
    in_child("nvml::metrics::a_card_without_events_says_so", &text, None, |_| {
        let devices = nvml(&SharedRequirements::everything()).sample(Moment(1000)).devices;
        assert_eq!(devices[0].health.xids, Reading::Absent(Absence::NotSupported));
        // The others are listened to all the same.
        assert_eq!(devices[1].health.xids, Reading::measured(Xids::default(), Moment(1000)));
    });
}

#[test]
fn every_call_may_fail_with_every_code() {
    // nvmlReturn_t: all that nvml.h has, and one that it has not.
    let codes: Vec<u32> = (1..=30).chain([77, 999]).collect();
    let functions = symbols(|asked| asked != QueryInterval::Once);
    in_child("nvml::metrics::every_call_may_fail_with_every_code", &full(), None, |scenario| {
        let mut source = nvml(&SharedRequirements::everything());
        for function in &functions {
            for code in &codes {
                scenario.write(&format!("{}faults: [{{ call: {function}, error: {code} }}]\n", full()));
                let devices = source.sample(now()).devices;
                // A GPU stays in its place, with its name, and no value is made up.
                assert!(devices.len() >= 2, "{function} {code}");
                assert!(devices[0].name.value().is_some(), "{function} {code}");
            }
        }
        scenario.write(&full());
        let device = sample_until(&mut source, "the card as before", |device| device.power.value().is_some());
        assert_eq!(device.memory.value().unwrap().used, Bytes(76_450_000_000));
    });
}

#[test]
fn what_only_grows_is_told_as_what_it_grew_by() {
    // 50 s of 100 s held down by power, none by heat; 10^6 KiB a second in over the first link, half of it out.
    let fields = "fields: { 74: { ramp: [0, 5.0e10, 100000] }, 75: 7, 139: { ramp: [0, 1.0e8, 100000] }, \
                  138: { ramp: [0, 5.0e7, 100000] } }";
    let text = full().replace("gpm:", "gpm: { unsupported: true } #").replace("fields: {", &format!("{fields} #"));
    in_child("nvml::metrics::what_only_grows_is_told_as_what_it_grew_by", &text, None, |_| {
        let mut source = nvml(&SharedRequirements::everything());
        let first = source.sample(now()).devices.remove(0);
        assert_eq!(first.board.slowed_by_power, Reading::Absent(Absence::TooShort));
        assert_eq!(first.links.nvlink_received, Reading::Absent(Absence::TooShort));
        let started = std::time::Instant::now();
        wait_for("half a second", || started.elapsed().as_millis() >= 500);
        let device = source.sample(now()).devices.remove(0);
        let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.05, "{value} {expected}");
        near(device.board.slowed_by_power.value().unwrap().0, 0.5);
        assert_eq!(device.board.slowed_by_heat.value(), Some(&Fraction(0.0)));
        // 16 of 18 links are up.
        let links = &device.links;
        near(links.nvlink_received.value().unwrap().0, 16.0 * 1e6 * 1024.0);
        near(links.nvlink_sent.value().unwrap().0, 16.0 * 5e5 * 1024.0);
        assert_eq!(links.nvlink_sent.kind(), Some(ReadingKind::Estimated));
    });
}
