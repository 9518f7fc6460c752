//! A run that is left alone at night: what it is about, where its memory is going, what alerts, what this machine
//! is known to show; all through what is seen and through keys.

mod ended;

use crate::support::catalog;
use crate::support::demo::{START, happen, look, open, press, screen, watch};
use memwall::app::{Alert, AlertRules, Calibrations, Effect, Event, KeyPress, SavedCalibration, State, run_verdict};
use memwall::compare::{Calibration, Factor, Forecast, GrowthKind, RunPhase};
use memwall::observe::{Demo, Source};
use memwall::plan::{EXAMPLES, LoadedPlan};
use memwall::reading::{
    DeviceMemory, DeviceProcess, DeviceSample, Health, Links, Moment, Progress, ProgressSource, Reading, Sample,
    SourceInfo, SourceKind,
};
use memwall::ui::required_metrics;
use memwall::units::{Bytes, Celsius, Fraction, Seconds};

const EXAMPLE: &str = "13b_long_sequence";
const SIZE: (u16, u16) = (120, 40);

fn second_line(state: &State) -> String {
    screen(state, &look(), SIZE).lines().nth(1).unwrap().to_owned()
}

fn demo_of(state: &State) -> Demo {
    Demo::new(state.plans.editor.prediction().unwrap(), &state.plans.editor.job().unwrap().hardware.gpu)
}

/// A live run as one would be on real devices: a process on each of eight, the first of which tells of its steps.
struct Live {
    state: State,
    now: Moment,
    step: u64,
    /// Of the second GPU.
    health: Health,
    links: Links,
}

impl Live {
    fn start(rules: &str) -> Self {
        // A plan of one's own: the example is nobody's plan for a real run.
        let (_, text) = EXAMPLES.iter().find(|(name, _)| *name == EXAMPLE).unwrap();
        let loaded = LoadedPlan::from_text("own", text).unwrap();
        let mut state = State::new(loaded, catalog().clone(), None, START);
        state.run.alerts.rules = AlertRules::parse(rules).unwrap();
        state.run.calibrations.machine = "node7".to_owned();
        happen(&mut state, Event::SourceStarted(SourceInfo { kind: SourceKind::Nvml, detail: "driver".to_owned() }));
        state.monitor.toggle_attach(7);
        Self { state, now: START, step: 100, health: Health::default(), links: Links::default() }
    }

    /// One second with so much memory in use and at so many degrees; what is to be done about it.
    fn second(&mut self, gib: f64, degrees: f64, progress: Option<Progress>) -> Vec<Effect> {
        self.now = self.now.plus_millis(1000);
        let at = self.now;
        let (total, used) = (Bytes::from_gib(79.6), Bytes::from_gib(gib));
        // The others have nothing to alert of.
        let of = |index: u32| if index == 0 { (used, degrees) } else { (used.min(Bytes::from_gib(55.0)), 60.0) };
        let memory = |used| DeviceMemory { total, used, free: total.saturating_sub(used) };
        let device = |index: u32| DeviceSample {
            index,
            name: Reading::measured("NVIDIA H100 80GB HBM3".to_owned(), at),
            memory: Reading::measured(memory(of(index).0), at),
            busy: Reading::measured(Fraction(1.0), at),
            temperature: Reading::measured(Celsius(of(index).1), at),
            processes: Reading::measured(
                vec![DeviceProcess::holding(7 + index, Reading::measured(of(index).0, at))],
                at,
            ),
            health: if index == 1 { self.health.clone() } else { Health::default() },
            links: if index == 1 { self.links.clone() } else { Links::default() },
            ..DeviceSample::default()
        };
        let progress = progress.map(Box::new);
        happen(
            &mut self.state,
            Event::Sample(Box::new(Sample {
                at,
                devices: (0..8).map(device).collect(),
                progress,
                ..Sample::default()
            })),
        )
    }

    /// So many seconds of steps of one second each.
    fn train(&mut self, seconds: u64) -> Vec<Effect> {
        self.train_at(seconds, 1.0)
    }

    /// The same with steps that take so long.
    fn train_at(&mut self, seconds: u64, step: f64) -> Vec<Effect> {
        (0..seconds)
            .flat_map(|_| {
                self.step += 1;
                let told = progress(self.step, step, 2.0, self.now);
                self.second(55.0, 60.0, Some(told))
            })
            .collect()
    }
}

fn progress(step: u64, seconds: f64, loss: f64, at: Moment) -> Progress {
    Progress {
        told_by: ProgressSource::Hook,
        step: Reading::measured(step, at),
        total_steps: Reading::measured(12_000, at),
        step_time: Reading::measured(Seconds(seconds), at),
        loss: Reading::measured(loss, at),
        ..Progress::default()
    }
}

fn alarms(effects: &[Effect]) -> Vec<String> {
    let told = |effect: &Effect| match effect {
        Effect::Alert(alarm) => Some(alarm.text.clone()),
        _ => None,
    };
    effects.iter().filter_map(told).collect()
}

#[test]
fn a_leak_is_told_from_a_flat_run_with_when_memory_will_be_full() {
    let mut state = open(EXAMPLE);
    let mut run = demo_of(&state);
    watch(&mut state, &mut run, 0..400);
    assert_eq!(state.run.outlook.memory, Forecast::Flat);
    assert!(!screen(&state, &look(), SIZE).lines().next().unwrap().contains("full"));
    // That it grew while it loaded and through its first step was no alert either.
    assert_eq!((state.run.alerts.raised.len(), state.run.alerts.past.len()), (0, 0));

    // 24 GiB in 1500 s of stepping: what is left after 400 s takes about 1100 s more.
    let mut state = open(EXAMPLE);
    let mut run = demo_of(&state).leaking(Seconds(1500.0));
    watch(&mut state, &mut run, 0..400);
    let Forecast::Growing(growth) = state.run.outlook.memory else { panic!("{:?}", state.run.outlook.memory) };
    assert!((growth.left.0 / 1110.0 - 1.0).abs() < 0.1, "{growth:?}");
    assert!(growth.soonest.0 <= growth.left.0);
    assert_eq!(state.run.outlook.grows, Some(GrowthKind::Leak));
    let line = second_line(&state);
    assert!(line.contains("why: a leak: tensors are kept from step to step"), "{line}");
    let first = screen(&state, &look(), SIZE).lines().next().unwrap().to_owned();
    assert!(first.contains(" GROWING: full in 1"), "{first}");
    press(&mut state, &[KeyPress::Char('5')]);
    let shown = screen(&state, &look(), SIZE);
    assert!(shown.contains("a leak: tensors are kept"), "{shown}");
}

#[test]
fn an_evaluation_and_the_first_steps_are_no_steady_training() {
    let mut live = Live::start("");
    live.step = 0;
    live.second(50.0, 60.0, Some(progress(1, 20.0, 9.0, live.now)));
    assert_eq!(live.state.run.telemetry.phases().phase(live.now), RunPhase::WarmingUp);
    assert!(screen(&live.state, &look(), SIZE).lines().next().unwrap().contains("warming up"));
    assert!(live.state.run.comparison.as_ref().unwrap().step.observed.value().is_none());
    live.step = 1;
    live.train(60);
    assert_eq!(live.state.run.telemetry.phases().phase(live.now), RunPhase::Steady);
    assert_eq!(live.state.run.comparison.as_ref().unwrap().step.observed.value(), Some(&Seconds(1.0)));
    // Half a minute without a step: an evaluation. The step stays what it is in training.
    for _ in 0..30 {
        live.second(55.0, 60.0, None);
    }
    assert!(screen(&live.state, &look(), SIZE).lines().next().unwrap().contains("between steps"));
    let told = progress(live.step + 1, 31.0, 2.0, live.now);
    live.second(55.0, 60.0, Some(told));
    assert_eq!(live.state.run.comparison.as_ref().unwrap().step.observed.value(), Some(&Seconds(1.0)));
}

#[test]
fn an_alert_comes_once_a_crossing_and_again_after_it_went_back() {
    let mut live = Live::start("temperature: 88\nnotify: [bell]\n");
    live.train(5);
    let mut told = Vec::new();
    // Up to the threshold, around it, well below, and over it again.
    for degrees in [87.0, 88.0, 89.0, 87.0, 88.0, 84.0, 90.0, 82.0, 89.0, 90.0] {
        let more = live.second(55.0, degrees, None);
        told.push(alarms(&more).len());
    }
    // 84 is not 5 below 88; 82 is.
    assert_eq!(told, [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]);
    let line = second_line(&live.state);
    assert!(line.starts_with(" ! GPU 0: 90 °C"), "{line}");
    press(&mut live.state, &[KeyPress::Char('A')]);
    assert!(!second_line(&live.state).contains('!'));
    assert!(live.state.run.alerts.raised.iter().any(|raised| raised.alert == Alert::Temperature && raised.seen));
}

#[test]
fn what_is_wrong_with_a_gpu_is_told_once_the_gravest_first() {
    fn known<T>(value: T) -> Reading<T> {
        Reading::measured(value, START)
    }
    let mut live = Live::start("notify: [bell]\n");
    let mut told = |change: &dyn Fn(&mut Health, &mut Links)| {
        change(&mut live.health, &mut live.links);
        let alerts = alarms(&live.second(55.0, 60.0, None));
        (alerts, live.state.run.alerts.raised.first().map(|raised| raised.text.clone()))
    };
    let none = (Vec::new(), None);
    // What its links had recovered from before anybody looked is no alarm; nor is what says nothing.
    assert_eq!(told(&|health, _| health.nvlink_recoveries = known(3)), none);
    assert_eq!(told(&|health, _| health.sram_uncorrected = known(2)), none);
    let text = "GPU 1: NVLink recovered from 2 errors".to_owned();
    assert_eq!(told(&|health, _| health.nvlink_recoveries = known(5)), (vec![text.clone()], Some(text)));
    // The same alert says what is gravest now.
    let raised = |text: &str| (Vec::new(), Some(text.to_owned()));
    assert_eq!(told(&|health, _| health.repair_failed = known(true)), raised("GPU 1: no spare memory row left"));
    assert_eq!(
        told(&|health, _| health.sram_exceeded = known(true)),
        raised("GPU 1: SRAM errors beyond the threshold")
    );
    // A driver that was loaded anew counts from nothing.
    assert_eq!(told(&|health, _| *health = Health { nvlink_recoveries: known(0), ..Health::default() }), none);
    let text = "GPU 1: PCIe x8 of x16".to_owned();
    let narrow = |_: &mut Health, links: &mut Links| (links.pcie_width, links.pcie_width_max) = (known(8), known(16));
    assert_eq!(told(&narrow), (vec![text.clone()], Some(text)));
}

#[test]
fn a_gpu_is_asked_for_its_errors_whatever_is_on_the_screen() {
    let mut live = Live::start("");
    press(&mut live.state, &[KeyPress::Char('1'), KeyPress::Char('z')]);
    live.second(55.0, 60.0, None);
    assert_eq!(screen(&live.state, &look(), SIZE).matches('╭').count(), 1, "one pane alone");
    assert!(required_metrics(&live.state).health);
    let mut live = Live::start("gpu: off\n");
    press(&mut live.state, &[KeyPress::Char('1'), KeyPress::Char('z')]);
    live.second(55.0, 60.0, None);
    assert!(!required_metrics(&live.state).health, "nobody wants to know");
}

#[test]
fn a_loss_that_is_no_number_and_a_run_that_hangs_are_told() {
    let mut live = Live::start("notify: [desktop]\nstalled: 2\n");
    live.train(30);
    let broken = progress(live.step + 1, 1.0, f64::NAN, live.now);
    let effects = live.second(55.0, 60.0, Some(broken));
    assert_eq!(alarms(&effects), ["the loss is NaN, last finite 2.00"]);
    assert_eq!(run_verdict(&live.state).words, "LOSS NaN");
    let shown = screen(&live.state, &look(), SIZE);
    let second = shown.lines().nth(1).unwrap();
    assert!(second.contains("why: loss NaN, last finite 2.00") && !second.contains('!'), "{shown}");
    let effects: Vec<Effect> = (0..180).flat_map(|_| live.second(55.0, 60.0, None)).collect();
    assert_eq!(alarms(&effects), ["no step for 2 min"]);
}

#[test]
fn without_a_file_of_alerts_the_screen_alone_tells() {
    let mut live = Live::start("");
    live.train(5);
    let effects = live.second(79.0, 95.0, None);
    assert_eq!(alarms(&effects), Vec::<String>::new());
    // 79 of 79.6 GiB, and the hot GPU as one more.
    assert!(second_line(&live.state).starts_with(" ! GPU 0: memory 99 % full (+1)"), "{}", second_line(&live.state));
}

#[test]
fn a_made_up_run_wakes_nobody() {
    let mut state = open(EXAMPLE);
    state.run.alerts.rules = AlertRules::parse("memory: 10\nnotify: [bell]\ncommand: [page]\n").unwrap();
    let mut run = demo_of(&state);
    let mut effects = happen(&mut state, Event::SourceStarted(run.info()));
    for second in 0..30 {
        effects.extend(happen(&mut state, Event::Sample(Box::new(run.sample(START.plus_millis(second * 1000))))));
    }
    assert_eq!(alarms(&effects), Vec::<String>::new());
    assert!(!state.run.alerts.raised.is_empty());
}

#[test]
fn a_calibration_is_kept_used_visibly_and_dropped() {
    let mut live = Live::start("");
    // As fast as its plan says: what differs otherwise has causes, and a factor would hide them.
    live.train_at(60, 7.3);
    let planned = live.state.run.comparison.as_ref().unwrap().memory.predicted;
    press(&mut live.state, &[KeyPress::Char('5')]);
    let effects = happen(&mut live.state, Event::Key(KeyPress::Char('c')));
    let Some(Effect::Calibrate(kept, true)) = effects.first() else { panic!("{effects:?} {:?}", live.state.notice) };
    assert_eq!(
        (kept.machine.as_str(), kept.gpu.as_str(), kept.framework.as_str()),
        ("node7", "NVIDIA H100 80GB HBM3", "megatron")
    );
    // What the file holds then, with more runs in it.
    let factors = Calibration { memory: Some(Factor { times: 1.04, runs: 3 }), time: None };
    let known = Calibrations::default().with(SavedCalibration { factors, ..(**kept).clone() });
    happen(&mut live.state, Event::Calibrated(Ok(known)));
    let now = live.state.run.comparison.as_ref().unwrap().memory.predicted;
    assert_eq!(now, Bytes::from_f64(planned.as_f64() * 1.04));
    assert!(second_line(&live.state).contains("calibrated"));
    let shown = screen(&live.state, &look(), SIZE);
    assert!(shown.contains("memory ×1.04 (3 runs) on NVIDIA H100 80GB HBM3, kept 2026-09-21"), "{shown}");
    // The same run teaches once.
    assert!(happen(&mut live.state, Event::Key(KeyPress::Char('c'))).is_empty());
    let effects = happen(&mut live.state, Event::Key(KeyPress::Char('C')));
    assert!(matches!(effects.first(), Some(Effect::Calibrate(_, false))), "{effects:?}");
    happen(&mut live.state, Event::Calibrated(Ok(Calibrations::default())));
    assert_eq!(live.state.run.comparison.as_ref().unwrap().memory.predicted, planned);
    assert!(!second_line(&live.state).contains("calibrated"));
}

#[test]
fn what_is_made_up_or_played_neither_teaches_nor_uses_a_calibration() {
    let mut state = open(EXAMPLE);
    let mut run = demo_of(&state);
    watch(&mut state, &mut run, 0..60);
    press(&mut state, &[KeyPress::Char('5')]);
    let effects = happen(&mut state, Event::Key(KeyPress::Char('c')));
    assert!(effects.is_empty() && state.notice.as_ref().unwrap().text.contains("this machine"));
}
