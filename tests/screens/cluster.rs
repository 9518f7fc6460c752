//! A job of 1 024 GPUs on 128 nodes, as the screen shows it.

use std::sync::Arc;

use crate::fleet::{GPUS, NODES, expected, healthy, open, opened, sample, watched};
use crate::snapshots::assert_drawn;
use crate::support::demo::{START, happen, look, press, screen};
use memwall::app::{ClusterMetric, Event, Gravity, Grouping, KeyPress, MonitorView, Pane, SelectedRow, run_verdict};
use memwall::compare::StragglerCause;
use memwall::reading::{
    Absence, Activity, ActivityShare, DeviceLocation, DeviceMemory, DeviceSample, RankReport, Reading, Sample, Xid,
    Xids,
};
use memwall::units::{Bytes, Fraction, Seconds};

#[test]
fn a_cluster_with_three_stragglers() {
    let mut state = watched();
    assert_eq!(state.monitor.view, MonitorView::Cluster);
    let named: Vec<(usize, StragglerCause)> =
        state.monitor.cluster.stragglers().iter().map(|one| (one.rank, one.cause)).collect();
    let expected =
        [(1000, StragglerCause::NoAnswer), (59, StragglerCause::Hot), (700, StragglerCause::LowDramBandwidth)];
    assert_eq!(named, expected);
    // The plan's job was found among what runs.
    assert_eq!(state.monitor.cluster.selector.as_ref().unwrap().to_string(), "namespace=ml,pod=llama-*");
    state.views.zoomed = true;
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        assert_drawn(&format!("cluster_{width}x{height}"), &screen(&state, &look(), (width, height)));
    }
    press(&mut state, &[KeyPress::Char('s'), KeyPress::Char('m'), KeyPress::Char('f'), KeyPress::Char('f')]);
    // The second of the list is rank 59.
    assert_eq!(state.monitor.selected, SelectedRow::Device(59));
    assert_drawn("cluster_stages_120x40", &screen(&state, &look(), (120, 40)));
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(state.monitor.view, MonitorView::Device);
    assert!(screen(&state, &look(), (120, 40)).contains("node8/3"));
    press(&mut state, &[KeyPress::Esc]);
    assert_eq!(state.monitor.view, MonitorView::Cluster);
}

#[test]
fn the_second_line_names_the_host_that_is_off() {
    let state = watched();
    for size in [(80, 24), (120, 40), (200, 50)] {
        let drawn = screen(&state, &look(), size);
        let second = drawn.lines().nth(1).unwrap();
        // Rank 1000 is GPU 0 of the 126th node: its alert comes before the ranks that are slow.
        assert!(second.contains("! GPU node126/0: gone"), "{second}");
    }
    let mut state = open();
    for interval in 0..4 {
        let mut sample = sample(&state, interval);
        sample.devices[1000] = healthy(&state, 1000, sample.at);
        happen(&mut state, Event::Sample(Box::new(sample)));
    }
    let drawn = screen(&state, &look(), (80, 24));
    // The GPUs 59 (node8/3, hot) and 700 (node88/4) are off.
    assert!(drawn.lines().nth(1).unwrap().contains("! GPU node8/3: hot, 14 % less work"), "{drawn}");
    assert!(drawn.lines().nth(1).unwrap().contains("(+1)"), "{drawn}");
}

/// GPU 1 of the 41st node has raised an alert and works as its equals do: it is off as they are who do less.
#[test]
fn a_gpu_that_an_alert_is_about_is_off_as_well() {
    let mut state = open();
    for interval in 0..4 {
        let mut sample = sample(&state, interval);
        sample.devices[1000] = healthy(&state, 1000, sample.at);
        let last = Some(Xid { code: Some(79), at: sample.at });
        sample.devices[321].health.xids = Reading::measured(Xids { count: 1, last }, sample.at);
        happen(&mut state, Event::Sample(Box::new(sample)));
    }
    state.views.zoomed = true;
    let drawn = screen(&state, &look(), (120, 40));
    assert!(drawn.contains(" 3 off │ 1 024 GPUs") && !drawn.contains("outlier"), "{drawn}");
    assert!(drawn.lines().any(|line| line.contains("alert ") && line.contains("node41/1 ")), "{drawn}");
    assert!(drawn.contains("Xid 79") && drawn.contains("% less work than its equals"), "{drawn}");
    let mut visited = Vec::new();
    for _ in 0..3 {
        press(&mut state, &[KeyPress::Char('f')]);
        visited.push(state.monitor.selected);
    }
    assert_eq!(visited, [59, 700, 321].map(SelectedRow::Device));
    // One name everywhere.
    press(&mut state, &[KeyPress::Char('h')]);
    let drawn = screen(&state, &look(), (120, 40));
    assert!(drawn.contains(" GPU node41/1 ") && !drawn.contains("GPU 321"), "{drawn}");
}

/// An exporter that tells of memory and power alone leaves no blank maps to step through.
#[test]
fn metrics_that_no_gpu_tells_are_passed_over() {
    let mut state = open();
    let mut told = sample(&state, 0);
    for device in &mut told.devices {
        let (memory, power) = (device.memory.clone(), device.power.clone());
        let location = device.location.clone();
        *device = DeviceSample { location, memory, power, ..DeviceSample::absent(device.index, &Absence::NotExported) };
    }
    happen(&mut state, Event::Sample(Box::new(told)));
    let mut seen = Vec::new();
    for _ in 0..4 {
        press(&mut state, &[KeyPress::Char('m')]);
        seen.push(state.monitor.cluster.metric);
    }
    use ClusterMetric::{Memory, OffPlan, Power};
    assert_eq!(seen, [Memory, OffPlan, Power, Memory]);
}

#[test]
fn memory_off_the_plan_names_the_host_that_holds_it() {
    let mut state = opened("mine");
    for interval in 0..4 {
        let at = START.plus_millis(interval * 5000);
        let mut devices: Vec<DeviceSample> = (0..NODES * GPUS).map(|rank| healthy(&state, rank, at)).collect();
        let total = Bytes::from_mib(81_559);
        let used = Bytes::from_mib(78_000);
        devices[301].memory = Reading::measured(DeviceMemory { total, used, free: total.saturating_sub(used) }, at);
        happen(&mut state, Event::Sample(Box::new(Sample { at, devices, ..Sample::default() })));
    }
    let drawn = screen(&state, &look(), (120, 40));
    // 301 is GPU 5 of the 38th node.
    assert!(drawn.lines().nth(1).unwrap().contains("memory node38/5 "), "{drawn}");
    state.views.focus = Pane::Compare;
    state.views.zoomed = true;
    let drawn = screen(&state, &look(), (120, 40));
    assert!(drawn.contains("all of GPU node38/5, which has held most"), "{drawn}");
}

#[test]
fn each_gpu_is_compared_with_the_prediction_of_its_own_stage() {
    let mut state = watched();
    state.views.zoomed = true;
    let (first, last) = (expected(&state, 0), expected(&state, 1023));
    assert_ne!(first, last, "the stages of this plan hold different amounts");
    for (rank, bytes) in [(0, first), (1023, last)] {
        state.monitor.selected = SelectedRow::Device(rank);
        let drawn = screen(&state, &look(), (120, 40));
        let words = format!("rank {rank}, stage {}", rank / 256);
        assert!(drawn.contains(&words) && drawn.contains(&format!("memory {0}→{0} GiB", bytes.in_gib())), "{drawn}");
    }
    // Every GPU holds what its own stage should: none is off the plan.
    press(&mut state, &[KeyPress::Char('m'); 5]);
    let drawn = screen(&state, &look(), (120, 40));
    assert!(drawn.contains("memory off plan min +0%") && drawn.contains("max +0%"), "{drawn}");
}

#[test]
fn jobs_are_chosen_and_arrows_move_over_nodes_and_gpus() {
    let mut state = watched();
    state.views.zoomed = true;
    press(&mut state, &[KeyPress::Down, KeyPress::Right]);
    assert_eq!(state.monitor.selected, SelectedRow::Device(9), "GPU 1 of the second node");
    press(&mut state, &[KeyPress::Char('/')]);
    assert!(screen(&state, &look(), (120, 40)).contains("1024 GPUs on 128 nodes"));
    let typed: Vec<KeyPress> = "node=node1,node=node2".chars().map(KeyPress::Char).collect();
    press(&mut state, &typed);
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(state.monitor.cluster.layout().ranks.len(), 16);
    let drawn = screen(&state, &look(), (120, 40));
    assert!(drawn.contains("16 GPUs on 2 nodes") && drawn.contains("no ranks: the plan has 1 024 GPUs"), "{drawn}");
    press(&mut state, &[KeyPress::Char('s')]);
    assert_eq!(state.monitor.cluster.grouping, Grouping::Node);
    assert!(screen(&state, &look(), (120, 40)).contains("no rack is known"));
}

#[test]
fn racks_are_those_that_labels_name() {
    let mut state = open();
    let mut told = sample(&state, 0);
    // Four racks of 32 nodes; the last node has no label.
    for (rank, device) in told.devices.iter_mut().enumerate().take(1016) {
        let rack = Some(format!("r{}", 8 + rank / 256));
        let location = device.location.as_deref().cloned().unwrap();
        device.location = Some(Arc::new(DeviceLocation { rack, ..location }));
    }
    happen(&mut state, Event::Sample(Box::new(told)));
    state.views.zoomed = true;
    press(&mut state, &[KeyPress::Char('s'); 3]);
    assert_eq!(state.monitor.cluster.grouping, Grouping::Rack);
    let groups: Vec<(String, usize)> =
        state.monitor.cluster.groups().into_iter().map(|group| (group.label, group.devices.len())).collect();
    let expected = [("rack r8", 256), ("rack r9", 256), ("rack r10", 256), ("rack r11", 248), ("no rack known", 8)];
    assert_eq!(groups, expected.map(|(label, gpus)| (label.to_owned(), gpus)));
    assert!(screen(&state, &look(), (120, 40)).contains("no rack known"));
    // By the names of nodes: 9 of one digit, 90 of two, 29 of three.
    state.monitor.cluster.rack_pattern = Some(r"^node(\d)".parse().unwrap());
    let first = state.monitor.cluster.groups().swap_remove(0);
    // node1, node10 to node19, node100 to node128.
    assert_eq!((first.label.as_str(), first.devices.len()), ("rack 1", 40 * GPUS));
}

#[test]
fn a_rank_file_orders_the_ranks_and_tells_what_it_lacks() {
    let mut state = open();
    // Nodes in the other order: rank 0 is on the last one.
    let hosts: String = (0..128).rev().map(|node| format!("node{} slots=8\n", node + 1)).collect();
    state.monitor.cluster.rank_file = Some(hosts.parse().unwrap());
    let told = sample(&state, 0);
    happen(&mut state, Event::Sample(Box::new(told)));
    state.views.zoomed = true;
    assert_eq!(state.monitor.cluster.layout().rank_at(1016), Some(0));
    state.monitor.selected = SelectedRow::Device(1016);
    assert!(screen(&state, &look(), (120, 40)).contains("rank 0, stage 0"));
    let mut state = open();
    state.monitor.cluster.rank_file = Some(format!("{hosts}node999 slots=8\n").parse().unwrap());
    let told = sample(&state, 0);
    happen(&mut state, Event::Sample(Box::new(told)));
    state.views.zoomed = true;
    state.monitor.selected = SelectedRow::Device(1016);
    let drawn = screen(&state, &look(), (120, 40));
    assert!(drawn.contains("no ranks: 1 line of --hosts without GPU") && !drawn.contains("rank 0,"), "{drawn}");
}

#[test]
fn what_ranks_tell_is_a_metric_and_a_cause() {
    let mut state = open();
    for interval in 0..4 {
        let mut sample = sample(&state, interval);
        for (rank, device) in sample.devices.iter_mut().enumerate() {
            let data = if rank == 300 { 0.41 } else { 0.02 };
            let activities = [(Activity::Data, data), (Activity::Forward, 0.3), (Activity::Backward, 0.68 - data)];
            device.rank = Some(Box::new(RankReport {
                run: "811".to_owned(),
                rank: rank as u32,
                steps: Some(120),
                step_time: Some(Seconds(7.75)),
                activities: activities
                    .map(|(activity, share)| ActivityShare { activity, share: Fraction(share) })
                    .to_vec(),
                stall: None,
            }));
        }
        happen(&mut state, Event::Sample(Box::new(sample)));
    }
    let named: Vec<(usize, StragglerCause)> =
        state.monitor.cluster.stragglers().iter().map(|one| (one.rank, one.cause)).collect();
    assert!(named.contains(&(300, StragglerCause::WaitingForData)), "{named:?}");
    state.views.zoomed = true;
    // The last two metrics of the list are what ranks tell.
    state.monitor.cluster.metric = ClusterMetric::Clock;
    press(&mut state, &[KeyPress::Char('m'), KeyPress::Char('m')]);
    assert_eq!(state.monitor.cluster.metric, ClusterMetric::Aside);
    while state.monitor.selected != SelectedRow::Device(300) {
        press(&mut state, &[KeyPress::Char('f')]);
    }
    assert_drawn("cluster_ranks_120x40", &screen(&state, &look(), (120, 40)));
    // Without them, the keys go on to the first metric.
    let mut state = watched();
    state.monitor.cluster.metric = ClusterMetric::Clock;
    press(&mut state, &[KeyPress::Char('m')]);
    assert_eq!(state.monitor.cluster.metric, ClusterMetric::Tensor);
}

/// The server is gone, and every GPU keeps its place without a value: that is no idle cluster.
#[test]
fn gpus_that_nobody_tells_of_are_not_idle() {
    let mut state = watched();
    let at = state.now.plus_millis(5_000);
    let why = Absence::Failed("Connection refused".into());
    let lost = |rank: usize| {
        let location = healthy(&state, rank, at).location;
        DeviceSample { location, ..DeviceSample::absent(rank as u32, &why) }
    };
    let devices: Vec<DeviceSample> = (0..NODES * GPUS).map(lost).collect();
    happen(&mut state, Event::Sample(Box::new(Sample { at, devices, ..Sample::default() })));
    let verdict = run_verdict(&state);
    assert_eq!((verdict.words.as_str(), verdict.gravity), ("NO ANSWER", Gravity::Danger));
    let shown = screen(&state, &look(), (120, 40));
    let first = shown.lines().next().unwrap();
    assert!(first.contains("prometheus no answer") && first.ends_with("NO ANSWER"), "{first}");
    assert!(!shown.contains("IDLE") && !shown.contains("idle"), "{shown}");
    let second = screen(&state, &look(), (80, 24)).lines().nth(1).unwrap().to_owned();
    assert!(second.contains("! no GPU answers: Connection refused"), "{second}");
    state.views.zoomed = true;
    let drawn = screen(&state, &look(), (120, 40));
    assert!(drawn.contains(" no GPU answers") && !drawn.contains("does as much as"), "{drawn}");
}

#[test]
fn a_demo_on_another_machine_is_said_to_be_one() {
    let mut state = watched();
    assert!(!screen(&state, &look(), (120, 40)).lines().next().unwrap().contains("demo"));
    let at = state.now.plus_millis(5_000);
    let simulated = |rank: usize| DeviceSample {
        uuid: Reading::measured(format!("GPU-demo-{rank}"), at),
        ..healthy(&state, rank, at)
    };
    let devices: Vec<DeviceSample> = (0..NODES * GPUS).map(simulated).collect();
    happen(&mut state, Event::Sample(Box::new(Sample { at, devices, ..Sample::default() })));
    for size in [(80, 24), (120, 40)] {
        let shown = screen(&state, &look(), size);
        assert!(shown.lines().next().unwrap().contains("prometheus of a demo live"), "{shown}");
    }
}

/// Names of hosts with their domain are longer than the pane: the cells that they name stay on the screen.
#[test]
fn long_names_leave_room_for_what_they_name() {
    let mut state = open();
    let long = "a-very-long-node-name-of-a-cluster-0123456789.example.internal";
    let named = |name: &str, rank: usize| {
        let at = START;
        let device = healthy(&state, rank, at);
        let location = DeviceLocation { node: name.to_owned(), ..(**device.location.as_ref().unwrap()).clone() };
        DeviceSample { location: Some(Arc::new(location)), ..device }
    };
    let devices: Vec<DeviceSample> =
        (0..16).map(|rank| named(if rank < GPUS { long } else { "short" }, rank)).collect();
    happen(&mut state, Event::Sample(Box::new(Sample { at: START, devices, ..Sample::default() })));
    for size in [(80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        // A name in a line of its own or beside the other, and its eight cells.
        for end in ["nternal ", "short "] {
            let cells = |line: &str| Some(line.split_once(end)?.1.split_whitespace().next()?.chars().count());
            assert!(shown.lines().any(|line| cells(line) == Some(GPUS)), "{end} {size:?}\n{shown}");
        }
        assert!(shown.contains(" a-very-"), "{shown}");
        // How many ranks there are, the plan says otherwise: none is another's equal.
        assert!(shown.contains("every GPU does as much as the others"), "{shown}");
        let spread = shown.lines().find(|line| line.contains(" median ")).unwrap();
        assert!(spread.contains(" max "), "{spread}");
    }
}
