//! A cluster through a real Prometheus, and through its exporters' pages.

mod exporters;
mod server;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exporters::{Answer, Exporters, Fleet, GPUS};
use memwall::observe::{Access, Authorization, Prometheus, Secret, SharedRequirements, Source};
use memwall::reading::{Absence, Activity, DetailTarget, DeviceSample, Moment, RequiredMetrics, Sample};
use memwall::units::{Bytes, Fraction, Seconds, Watts};
use server::Server;

use crate::support::catalog;
use crate::support::standin::wait_for;

const NOW: Moment = Moment(1_790_000_000_000);

/// `s3cret` as bcrypt, with four rounds.
const BCRYPT: &str = "$2b$04$abcdefghijklmnopqrstuuLZYjhNQAOdpbzt4WxWlUHjv1wsyH5DG";

/// The system's time, which the server's is.
fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Moment(u64::try_from(since.as_millis()).unwrap())
}

fn open(url: &str, access: Access) -> Result<Prometheus, String> {
    Prometheus::open(url, access, catalog().clone()).map_err(|why| why.to_string())
}

/// Opens it as soon as it has so many GPUs that all say their power.
fn opened(url: &str, access: &Access, gpus: usize) -> (Prometheus, Sample) {
    let mut found = None;
    wait_for("Prometheus to have scraped every node", || {
        let Ok(mut source) = open(url, access.clone()) else { return false };
        let sample = source.sample(NOW);
        let whole = sample.devices.len() == gpus && sample.devices.iter().all(|device| device.power.value().is_some());
        found = whole.then_some((source, sample));
        whole
    });
    found.unwrap()
}

fn at<'a>(sample: &'a Sample, node: &str, gpu: u32) -> &'a DeviceSample {
    let is_it = |device: &&DeviceSample| {
        device.location.as_ref().is_some_and(|location| location.node == node && location.gpu == gpu)
    };
    sample.devices.iter().find(is_it).unwrap()
}

#[test]
fn a_real_prometheus_tells_of_1024_gpus() {
    if !server::is_installed() {
        return;
    }
    let mut fleet = Fleet::default();
    for node in 0..64 {
        fleet.pods.insert(node, format!("llama-worker-{node}"));
    }
    fleet.values.insert((7, 3, "DCGM_FI_DEV_POWER_USAGE"), "431.5".to_owned());
    fleet.values.insert((7, 4, "DCGM_FI_DEV_GPU_TEMP"), "NaN".to_owned());
    // DCGM_INT64_BLANK + 2: not supported.
    fleet.values.insert((7, 5, "DCGM_FI_DEV_FB_USED"), "9223372036854775794".to_owned());
    fleet.values.insert((7, 6, "DCGM_FI_DEV_XID_ERRORS"), "79".to_owned());
    let exporters = Exporters::start(fleet);
    let server = Server::start(&exporters, 128, None);
    let url = format!("{}", server.address);
    let (source, sample) = opened(&url, &Access::default(), 1024);
    assert!(source.info().detail.contains("query API"), "{:?}", source.info());
    let device = at(&sample, "node0007", 3);
    assert_eq!(device.power.value(), Some(&Watts(431.5)));
    assert_eq!(device.name.value().unwrap(), "NVIDIA H100 80GB HBM3");
    assert_eq!(device.uuid.value().unwrap(), "GPU-0007-3");
    assert_eq!(device.memory.value().unwrap().used, Bytes::from_mib(60_960));
    // 700 W: the H100 SXM's board power, which no metric says.
    assert_eq!((device.power_limit.value(), device.power_limit.kind().unwrap().mark()), (Some(&Watts(700.0)), "~"));
    let location = device.location.as_ref().unwrap();
    assert_eq!((location.pod.as_deref(), location.namespace.as_deref()), (Some("llama-worker-7"), Some("ml")));
    assert_eq!(location.pci.as_deref(), Some("00000000:03:00.0"));
    assert_eq!(at(&sample, "node0100", 0).location.as_ref().unwrap().pod, None);
    assert_eq!(at(&sample, "node0007", 4).temperature.absence(), Some(&Absence::NotSupported));
    assert_eq!(at(&sample, "node0007", 5).memory.absence(), Some(&Absence::NotSupported));
    let xid = at(&sample, "node0007", 6).health.xids.value().unwrap().last.unwrap();
    assert_eq!(xid.code, Some(79));
    // The past of the GPU that is looked at is asked for once.
    let requirements = SharedRequirements::nothing();
    let mut source = source.with_requirements(requirements.clone());
    requirements.set(RequiredMetrics { closely: DetailTarget::Device(device.index), ..RequiredMetrics::default() });
    // A range ends with a whole second, which the only scrape so far may be behind of.
    let later = now().plus_millis(2000);
    let past = source.sample(later).past.unwrap();
    assert_eq!(sample.devices[past.position].uuid, device.uuid);
    let (_, newest) = past.samples.last().unwrap();
    assert_eq!((newest.power.value(), newest.index), (Some(&Watts(431.5)), device.index));
    assert_eq!(source.sample(later).past, None);
    // A node whose exporter fails is gone from the answers, and keeps its place; the rest goes on.
    exporters.change(|fleet| {
        fleet.answers.insert(7, Answer::Status(503));
    });
    wait_for("node 7 to be gone", || {
        let sample = source.sample(NOW);
        assert_eq!(sample.devices.len(), 1024);
        at(&sample, "node0007", 3).power.absence() == Some(&Absence::Gone)
            && at(&sample, "node0008", 3).power.value().is_some()
    });
    exporters.change(|fleet| fleet.answers.clear());
    wait_for("node 7 to be back", || at(&source.sample(NOW), "node0007", 3).power.value().is_some());
    drop(server);
    let sample = source.sample(NOW);
    assert!(sample.devices.iter().all(|device| matches!(device.power.absence(), Some(Absence::Failed(_)))));
}

#[test]
fn a_server_with_tls_and_a_password_is_asked_with_both() {
    if !server::is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some((ca, certificate, key)) = server::certificate(folder.path()) else { return };

    let web = format!(
        "tls_server_config: {{cert_file: {}, key_file: {}}}\nbasic_auth_users:\n  me: {BCRYPT}\n",
        certificate.display(),
        key.display()
    );
    let exporters = Exporters::start(Fleet::default());
    let server = Server::start(&exporters, 2, Some(&web));
    let url = format!("https://localhost:{}", server.address.port());
    let basic =
        |password: &str| Authorization::Basic { user: "me".to_owned(), password: Secret::Text(password.to_owned()) };
    let access = |password: &str| Access { authorization: basic(password), ca: Some(ca.clone()), ..Access::default() };
    let (mut source, _) = opened(&url, &access("s3cret"), 2 * GPUS as usize);
    assert_eq!(source.sample(NOW).devices.len(), 16);
    for (access, said) in [
        (access("wr0ng"), "HTTP 401"),
        (Access { ca: Some(ca.clone()), ..Access::default() }, "HTTP 401"),
        (Access { authorization: basic("s3cret"), ..Access::default() }, "`access.ca` names yours"),
    ] {
        let line = open(&url, access).err().unwrap();
        assert!(line.contains(said) && !line.contains("s3cret") && !line.contains("wr0ng"), "{line}");
    }
    assert!(server.folder().exists());
}

#[test]
fn exporters_that_fail_take_nothing_with_them() {
    let exporters = Exporters::start(Fleet::default());
    let urls: Vec<String> = (0..6).map(|node| exporters.url(node)).collect();
    let mut source = Prometheus::open_pages(&urls, Access::default(), catalog().clone()).unwrap();
    assert_eq!(source.info().detail, "6 exporters");
    assert_eq!(source.sample(NOW).devices.len(), 48);
    exporters.change(|fleet| {
        fleet.answers = BTreeMap::from([
            (0, Answer::Status(503)),
            (1, Answer::Cut),
            (2, Answer::Late(Duration::from_secs(60))),
            (3, Answer::Endless(200 << 20)),
        ]);
        fleet.values.insert((5, 0, "DCGM_FI_PROF_SM_ACTIVE"), "-1".to_owned());
    });
    let sample = source.sample(NOW);
    assert_eq!(sample.devices.len(), 48);
    for (node, said) in [
        ("node0000", "HTTP 503"),
        ("node0001", "breaks off"),
        ("node0002", "in time"),
        ("node0003", "larger than 128 MiB"),
    ] {
        let why = at(&sample, node, 7).power.absence().unwrap().to_string();
        assert!(why.contains(said), "{node}: {why}");
    }
    assert_eq!(at(&sample, "node0004", 7).sm_activity.value(), Some(&Fraction(0.81)));
    assert_eq!(at(&sample, "node0005", 0).sm_activity.absence(), Some(&Absence::NotSupported));
    exporters.change(|fleet| fleet.answers.clear());
    assert!(source.sample(NOW).devices.iter().all(|device| device.power.value().is_some()));
}

#[test]
fn the_same_gpu_twice_is_one_gpu() {
    let exporters = Exporters::start(Fleet::default());
    let urls = vec![exporters.url(3), exporters.url(3)];
    let mut source = Prometheus::open_pages(&urls, Access::default(), catalog().clone()).unwrap();
    assert_eq!(source.sample(NOW).devices.len(), GPUS as usize);
}

#[test]
fn gpus_that_are_gone_at_the_start_are_named() {
    if !server::is_installed() {
        return;
    }
    let exporters = Exporters::start(Fleet::default());
    let server = Server::start(&exporters, 2, None);
    let (source, _) = opened(&server.address.to_string(), &Access::default(), 2 * GPUS as usize);
    drop(source);
    exporters.change(|fleet| fleet.answers = (0..2).map(|node| (node, Answer::Status(503))).collect());
    // The server drops what it no longer scrapes, and still lists it.
    let expected = "no metrics of a GPU now; in the last day there were some of node0000 and 1 other host";
    wait_for("the GPUs to be gone", || {
        open(&server.address.to_string(), Access::default()).err().is_some_and(|line| line.contains(expected))
    });
}

#[test]
fn what_ranks_tell_comes_to_the_gpus_of_the_same_name() {
    if !server::is_installed() {
        return;
    }
    let ranks = Some(BTreeMap::from([(11, 0.4)]));
    let exporters = Exporters::start(Fleet { ranks, ..Fleet::default() });
    let server = Server::start(&exporters, 2, None);
    let (mut source, sample) = opened(&server.address.to_string(), &Access::default(), 2 * GPUS as usize);
    let told = |sample: &Sample, node: &str, gpu: u32| at(sample, node, gpu).rank.clone().unwrap();
    // Rank 11 is the fourth GPU of the second node: the names of GPUs say so, because all pages have one address here.
    let rank = told(&sample, "node0001", 3);
    assert_eq!((rank.rank, rank.run.as_str(), rank.steps), (11, "811", Some(120)));
    assert_eq!(rank.step_time, Some(Seconds(7.75)));
    assert_eq!(rank.share_of(Activity::Data), Some(Fraction(0.4)));
    assert!((rank.aside().unwrap().0 - 0.4).abs() < 1e-9);
    assert_eq!(told(&sample, "node0000", 3).share_of(Activity::Data), Some(Fraction(0.01)));
    // The run is the job, because no other label names one.
    wait_for("the labels to be asked for again", || {
        at(&source.sample(NOW), "node0001", 3).location.as_ref().unwrap().job.as_deref() == Some("811")
    });
}

#[test]
fn a_server_that_refuses_queries_is_federated() {
    if !server::is_installed() {
        return;
    }
    let exporters = Exporters::start(Fleet::default());
    let server = Server::start(&exporters, 2, None);
    for refusal in [403, 404] {
        let url = format!("http://{}", server::federation_alone(&server, refusal));
        let (mut source, _) = opened(&url, &Access::default(), 2 * GPUS as usize);
        assert_eq!(source.info().detail, format!("{url}/federate (federation)"));
        let sample = source.sample(NOW);
        let device = at(&sample, "node0001", 3);
        assert_eq!(device.power.value(), Some(&Watts(612.345)));
        assert_eq!(device.uuid.value().unwrap(), "GPU-0001-3");
    }
    // Where none of the three answers, each is named with its reason.
    let alone = server::federation_alone(&server, 404);
    let line = open(&format!("http://{alone}/elsewhere"), Access::default()).err().unwrap();
    for said in ["no query API (HTTP 404", "no page of metrics (HTTP 404", "no federation (HTTP 404"] {
        assert!(line.contains(said), "{line}");
    }
}

#[test]
fn counters_that_reset_and_clocks_that_differ_give_no_wrong_values() {
    if !server::is_installed() {
        return;
    }
    const VIOLATION: &str = "DCGM_FI_DEV_POWER_VIOLATION";
    let exporters = Exporters::start(Fleet::default());
    let server = Server::start(&exporters, 2, None);
    let (source, _) = opened(&server.address.to_string(), &Access::default(), 2 * GPUS as usize);
    let requirements = SharedRequirements::nothing();
    let mut source = source.with_requirements(requirements.clone());
    let mut share = |seen: &str, is_it: &dyn Fn(Option<f64>) -> bool| {
        wait_for(seen, || {
            let sample = source.sample(now());
            let slowed = at(&sample, "node0001", 2).board.slowed_by_power.value().map(|share| share.0);
            assert!(slowed.is_none_or(|share| (0.0..=1.0).contains(&share)), "{slowed:?}");
            is_it(slowed)
        });
    };
    // A power violation of 40 s, in nanoseconds; then the driver is loaded anew, and counts on from nothing.
    let says = |value: &str| {
        let value = value.to_owned();
        exporters.change(|fleet| drop(fleet.values.insert((1, 2, VIOLATION), value)));
    };
    says("40000000000");
    share("the counter to grow", &|slowed| slowed.is_some_and(|share| share > 0.0));
    says("0");
    share("the counter to begin anew", &|slowed| slowed.is_none());
    says("100000000");
    share("the counter to grow again", &|slowed| slowed.is_some_and(|share| share > 0.0));
    // A clock a day ahead of the server's, and one a day behind: what is now is told all the same.
    for clock in [now().0 + 86_400_000, now().0 - 86_400_000] {
        requirements.set(RequiredMetrics::default());
        let index = at(&source.sample(Moment(clock)), "node0001", 2).index;
        requirements.set(RequiredMetrics { closely: DetailTarget::Device(index), ..RequiredMetrics::default() });
        let sample = source.sample(Moment(clock));
        assert_eq!(sample.devices.len(), 2 * GPUS as usize);
        assert!(sample.devices.iter().all(|device| device.power.value() == Some(&Watts(612.345))));
        assert_eq!(sample.past, None, "the server has nothing of that day");
    }
}
