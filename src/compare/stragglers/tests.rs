use super::*;
use crate::reading::{Absence, Activity, ActivityShare, RankReport, RankStall};
use crate::units::{BytesPerSec, Celsius, Fraction, Megahertz, Watts};

const RANKS: usize = 1024;
/// Ranks of a stage.
const STAGE: usize = 256;

/// Numbers of a normal distribution, the same in each run (a linear congruential generator, Knuth's MMIX constants;
/// twelve uniform numbers make a normal one).
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// What a GPU does, before noise: the first stage works a little more than the others.
#[derive(Debug, Clone, Copy)]
struct Gpu {
    /// How much of the work of its equals it does.
    pace: f64,
    clock: f64,
    dram: f64,
    busy: f64,
    degrees: f64,
    limit: f64,
    replays: u64,
}

const HEALTHY: Gpu = Gpu { pace: 1.0, clock: 1755.0, dram: 1.0, busy: 0.99, degrees: 64.0, limit: 700.0, replays: 0 };

const NOISE: f64 = 0.05;

fn device(gpu: &Gpu, stage: usize, noise: &mut Noise) -> DeviceSample {
    let at = Moment(1);
    let mut around = |value: f64, spread: f64| value * (1.0 + spread * noise.normal());
    let more = if stage == 0 { 1.1 } else { 1.0 };
    let mut sample = DeviceSample {
        tensor_activity: Reading::measured(Fraction(around(0.46 * gpu.pace * more, NOISE)), at),
        sm_activity: Reading::measured(Fraction(around(0.80 * gpu.pace, NOISE)), at),
        dram_bandwidth: Reading::estimated(BytesPerSec(around(1.4e12 * gpu.pace * gpu.dram * more, NOISE)), at),
        power: Reading::measured(Watts(around(600.0 * gpu.pace.min(gpu.limit / 600.0), NOISE).min(gpu.limit)), at),
        power_limit: Reading::measured(Watts(gpu.limit), at),
        busy: Reading::measured(Fraction(around(gpu.busy, 0.01)), at),
        sm_clock: Reading::measured(Megahertz(around(gpu.clock, 0.01)), at),
        temperature: Reading::measured(Celsius(around(gpu.degrees, 0.02)), at),
        ..DeviceSample::absent(0, &Absence::NotExported)
    };
    sample.links.pcie_replays = Reading::measured(gpu.replays, at);
    sample
}

/// Watches so many intervals; calls `seen` after each with those that are named.
fn watch(intervals: u64, seed: u64, gpu: impl Fn(usize, u64) -> Gpu, mut seen: impl FnMut(u64, &[Straggler])) {
    let mut noise = Noise(seed);
    let mut watch = StragglerWatch::default();
    for interval in 1..=intervals {
        let devices: Vec<DeviceSample> =
            (0..RANKS).map(|rank| device(&gpu(rank, interval), rank / STAGE, &mut noise)).collect();
        let ranks: Vec<(&DeviceSample, usize)> =
            devices.iter().enumerate().map(|(rank, device)| (device, rank / STAGE)).collect();
        watch.push(&ranks, Moment(interval * 5000));
        seen(interval, watch.named());
    }
}

#[test]
fn one_slow_gpu_of_1024_is_named_within_three_intervals() {
    // Over many runs, because the noise of three intervals may hide any GPU.
    let mut named = 0;
    for seed in 1..=40 {
        let slow = (seed as usize * 97) % RANKS;
        let gpu = |rank, _| if rank == slow { Gpu { pace: 0.85, ..HEALTHY } } else { HEALTHY };
        watch(3, seed, gpu, |interval, stragglers| {
            if interval < 3 {
                assert!(stragglers.is_empty(), "named before it has held for three intervals");
            } else if let Some(first) = stragglers.first() {
                assert_eq!((first.rank, first.cause), (slow, StragglerCause::Slow), "seed {seed}");
                assert!((first.off.unwrap() + 0.15).abs() < 0.06, "{first:?}");
                named += 1;
            }
        });
    }
    assert!(named >= 39, "{named} of 40");
}

#[test]
fn nobody_is_named_in_a_thousand_healthy_intervals() {
    watch(1000, 7, |_, _| HEALTHY, |interval, stragglers| assert!(stragglers.is_empty(), "{interval}: {stragglers:?}"));
}

#[test]
fn three_kinds_at_once_are_the_first_five_with_their_causes() {
    let gpu = |rank, interval| match rank {
        17 => Gpu { pace: 0.82, clock: 1380.0, degrees: 88.0, ..HEALTHY },
        300 => Gpu { pace: 0.80, clock: 1290.0, limit: 450.0, ..HEALTHY },
        801 => Gpu { dram: 0.70, ..HEALTHY },
        _ => Gpu { replays: interval, ..HEALTHY },
    };
    watch(4, 3, gpu, |interval, stragglers| {
        if interval < 3 {
            return;
        }
        let first: Vec<(usize, StragglerCause)> =
            stragglers.iter().take(5).map(|straggler| (straggler.rank, straggler.cause)).collect();
        for expected in
            [(17, StragglerCause::Hot), (300, StragglerCause::PowerCapped), (801, StragglerCause::LowDramBandwidth)]
        {
            assert!(first.contains(&expected), "{expected:?} in {first:?}");
        }
        assert_eq!(first.len(), 3);
    });
}

#[test]
fn every_other_kind_has_its_cause() {
    let gpu = |rank, interval| match rank {
        1 => Gpu { pace: 0.1, busy: 0.0, ..HEALTHY },
        2 => Gpu { pace: 0.75, busy: 0.70, ..HEALTHY },
        3 => Gpu { replays: 100 * interval, ..HEALTHY },
        4 => Gpu { pace: 0.8, clock: 1400.0, ..HEALTHY },
        _ => HEALTHY,
    };
    watch(4, 11, gpu, |interval, stragglers| {
        if interval < 4 {
            return;
        }
        let mut found: Vec<(usize, StragglerCause)> =
            stragglers.iter().map(|straggler| (straggler.rank, straggler.cause)).collect();
        found.sort_by_key(|(rank, _)| *rank);
        let expected = [
            (1, StragglerCause::Idle),
            (2, StragglerCause::WaitingForData),
            (3, StragglerCause::LinkErrors),
            (4, StragglerCause::Throttled),
        ];
        assert_eq!(found, expected);
    });
}

#[test]
fn who_does_not_answer_is_named_and_who_is_well_again_is_not() {
    let mut noise = Noise(5);
    let mut watch = StragglerWatch::default();
    for interval in 1..=8 {
        let mut devices: Vec<DeviceSample> = (0..16).map(|_| device(&HEALTHY, 1, &mut noise)).collect();
        if interval <= 4 {
            devices[9] = DeviceSample::absent(9, &Absence::Gone);
        }
        let ranks: Vec<(&DeviceSample, usize)> = devices.iter().map(|device| (device, 0)).collect();
        watch.push(&ranks, Moment(interval * 5000));
        let named: Vec<_> = watch.named().iter().map(|one| (one.rank, one.cause, one.lasted)).collect();
        match interval {
            3 => assert_eq!(named, [(9, StragglerCause::NoAnswer, Seconds(0.0))]),
            4 => assert_eq!(named, [(9, StragglerCause::NoAnswer, Seconds(5.0))]),
            _ => assert!(named.is_empty(), "{interval}: {named:?}"),
        }
    }
}

#[test]
fn a_stage_that_works_differently_is_no_straggler() {
    // The last stage does half the work of the others: that is the plan's, not the GPUs'.
    let gpu = |rank, _| if rank >= 3 * STAGE { Gpu { pace: 0.5, ..HEALTHY } } else { HEALTHY };
    watch(20, 9, gpu, |_, stragglers| assert!(stragglers.is_empty(), "{stragglers:?}"));
}

/// What a rank's process tells: its thread waits for data and saves checkpoints for so much of the time, with a sampler's
/// noise.
fn report(rank: usize, data: f64, checkpoint: f64, noise: &mut Noise) -> RankReport {
    let mut around = |value: f64| Fraction((value + 0.005 * noise.normal()).clamp(0.0, 1.0));
    let (data, checkpoint) = (around(data), around(checkpoint));
    let activities = [
        (Activity::Data, data),
        (Activity::Checkpoint, checkpoint),
        (Activity::Forward, Fraction(1.0 - data.0 - checkpoint.0)),
    ];
    RankReport {
        run: "7b".to_owned(),
        rank: rank as u32,
        step_time: Some(Seconds(7.75)),
        activities: activities.map(|(activity, share)| ActivityShare { activity, share }).to_vec(),
        ..RankReport::default()
    }
}

#[test]
fn what_a_process_tells_names_a_rank_whose_gpu_looks_like_the_others() {
    let mut noise = Noise(5);
    let mut watch = StragglerWatch::default();
    for interval in 1..=1000_u64 {
        let devices: Vec<DeviceSample> = (0..64)
            .map(|rank| {
                let (data, checkpoint) = match rank {
                    9 if interval > 900 => (0.30, 0.0),
                    40 if interval > 900 => (0.02, 0.25),
                    _ => (0.02, 0.0),
                };
                let report = Box::new(report(rank, data, checkpoint, &mut noise));
                DeviceSample { rank: Some(report), ..device(&HEALTHY, 1, &mut noise) }
            })
            .collect();
        let ranks: Vec<(&DeviceSample, usize)> = devices.iter().map(|device| (device, 0)).collect();
        watch.push(&ranks, Moment(interval * 5000));
        let named: Vec<(usize, StragglerCause)> = watch.named().iter().map(|one| (one.rank, one.cause)).collect();
        match interval {
            ..=900 => assert_eq!(named, [], "{interval}"),
            903.. => {
                assert!(named.contains(&(9, StragglerCause::WaitingForData)), "{named:?}");
                assert!(named.contains(&(40, StragglerCause::Checkpoint)), "{named:?}");
                assert_eq!(named.len(), 2);
            }
            _ => {}
        }
    }
}

#[test]
fn the_rank_that_others_wait_for_is_named_and_they_are_not() {
    let mut noise = Noise(6);
    let mut watch = StragglerWatch::default();
    let mut named_with = |stalled: &dyn Fn(usize) -> Option<Activity>| {
        watch.restart();
        for interval in 1..=3 {
            let stopped = Gpu { pace: 0.01, busy: 1.0, ..HEALTHY };
            let devices: Vec<DeviceSample> = (0..64)
                .map(|rank| {
                    let stall =
                        stalled(rank).map(|activity| RankStall { lasting: Seconds(90.0), activity: Some(activity) });
                    let report = RankReport { stall, ..report(rank, 0.02, 0.0, &mut noise) };
                    DeviceSample { rank: Some(Box::new(report)), ..device(&stopped, 1, &mut noise) }
                })
                .collect();
            let ranks: Vec<(&DeviceSample, usize)> = devices.iter().map(|device| (device, 0)).collect();
            watch.push(&ranks, Moment(interval * 5000));
        }
        watch.named().iter().map(|one| (one.rank, one.cause)).collect::<Vec<_>>()
    };
    let one = named_with(&|rank| Some(if rank == 31 { Activity::Data } else { Activity::Collective }));
    assert_eq!(one, [(31, StragglerCause::Stalled)]);
    // A file system that keeps all waiting makes no rank a straggler.
    assert_eq!(named_with(&|_| Some(Activity::Data)), []);
}
