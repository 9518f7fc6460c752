use super::*;
use crate::reading::PendingCollective;

fn place(activity: Activity, call: &str, line: u32, share: f64) -> CodePlace {
    CodePlace { activity, call: call.to_owned(), file: "/w/train.py".to_owned(), line, share: Fraction(share) }
}

/// Late steps of 0.3 s, a second apart, at those places; the usual one takes 0.1 s.
fn late(places: Vec<CodePlace>, at: &[usize], samples: u64) -> HookPlaces {
    let late = at.iter().enumerate().map(|(index, place)| LateStep {
        step: index as u64,
        took: Seconds(0.3),
        place: *place,
        ago: Seconds((at.len() - 1 - index) as f64),
    });
    HookPlaces {
        usual: Some(Seconds(0.1)),
        samples,
        late: late.collect(),
        late_steps: at.len() as u64,
        places,
        ..HookPlaces::default()
    }
}

#[test]
fn a_place_that_late_steps_have_in_common_is_named() {
    let loader = || place(Activity::Data, "DataLoader.__next__", 88, 0.02);
    let forward = || place(Activity::Forward, "forward", 90, 0.6);
    let told = late(vec![loader(), forward()], &[0, 0, 1, 0, 0], 100);
    let cause = late_steps(&told, Seconds(1.0)).unwrap();
    assert_eq!(cause.words, "DataLoader.__next__, train.py:88: in 4 of 5 late steps, 200 ms more each");
    // 4 x 0.2 s of the 4 s between the first and the last, its own 0.3 s, and a second since.
    assert!((cause.lost.unwrap().0 - 0.8 / 5.3).abs() < 1e-9);
    // Over for a minute and more; of a run that has ended it is told all the same.
    assert_eq!(late_steps(&told, Seconds(61.0)), None);
    assert_eq!(
        late_steps_of_run(&[&told]),
        ["late steps: DataLoader.__next__, train.py:88: in 4 of 5 late steps, 200 ms more each"]
    );
}

#[test]
fn a_rank_that_waits_is_late_by_what_makes_another_late() {
    let waits = late(vec![place(Activity::Collective, "barrier", 14, 0.01)], &[0, 0, 0], 100);
    let saves = late(vec![place(Activity::Checkpoint, "save", 13, 0.0)], &[0, 0, 0], 100);
    let (waits, saves) = (HookPlaces { rank: Some(1), ..waits }, HookPlaces { rank: Some(0), ..saves });
    let ranks = [rank(0, &saves), rank(1, &waits)];
    let words = "checkpoint saving (save), train.py:13: in 3 of 3 late steps, 200 ms more each";
    assert_eq!(late_steps_among(&ranks[0], &ranks).unwrap().words, words);
    let said = late_steps_among(&ranks[1], &ranks).unwrap();
    assert_eq!((said.words, said.activity), (format!("rank 0: {words}"), Activity::Checkpoint));
    assert_eq!(late_steps_of_run(&[&saves, &waits]), [format!("rank 0: late steps: {words}")]);
    // Nobody knows yet what the other does.
    let silent = HookPlaces::default();
    let alone = [rank(0, &silent), rank(1, &waits)];
    let words = "waits for other ranks: barrier, train.py:14: in 3 of 3 late steps, 200 ms more each";
    assert_eq!(late_steps_among(&alone[1], &alone).unwrap().words, words);
    assert_eq!(late_steps_of_run(&[&silent, &waits]), [format!("rank 1: late steps: {words}")]);
}

#[test]
fn what_chance_may_bring_is_not_named() {
    let loader = |share| place(Activity::Data, "DataLoader.__next__", 88, share);
    // Where half of each step waits for data, so do half of the late ones: 0.5^10 = 0.00098.
    assert_eq!(late_steps(&late(vec![loader(0.5)], &[0; 10], 100), Seconds(0.0)), None);
    // Two say nothing, however rare the place.
    assert_eq!(late_steps(&late(vec![loader(0.0)], &[0, 0], 1000), Seconds(0.0)), None);
    // Work is what steps consist of.
    let forward = place(Activity::Forward, "forward", 90, 0.01);
    assert_eq!(late_steps(&late(vec![forward], &[0; 10], 1000), Seconds(0.0)), None);
}

#[test]
fn what_the_machine_makes_late_as_well_hides_no_cause() {
    let places = || vec![place(Activity::Checkpoint, "torch.save", 29, 0.01), place(Activity::Backward, "", 22, 0.6)];
    // 9 of 30, and more of them at work: C(30,9) 0.01^9 0.99^21 = 1.2e-11.
    let told: Vec<usize> = (0..30).map(|step| usize::from(step % 10 > 2)).collect();
    let cause = late_steps(&late(places(), &told, 500), Seconds(0.0)).unwrap();
    assert_eq!(cause.words, "checkpoint saving (torch.save), train.py:29: in 9 of 30 late steps, 200 ms more each");
    // A few of many are not what makes them late, however little chance brings them there.
    let few: Vec<usize> = (0..30).map(|step| usize::from(step % 6 != 0)).collect();
    assert_eq!(late_steps(&late(places(), &few, 500), Seconds(0.0)), None);
    // It is over: others are late, for the machine, a minute and more after.
    let over: Vec<usize> = (0..100).map(|step| usize::from(step > 30)).collect();
    assert_eq!(late_steps(&late(places(), &over, 500), Seconds(0.0)), None);
    // Each place has its chance: 6 of 11 at one that takes 8.5 % of steps is 1.2e-4, twice that of two, six times of six.
    let among = |others: u32| {
        let places = (0..=others).map(|line| place(Activity::Code, "f", line, 0.085)).collect();
        let at: Vec<usize> = (0..11).map(|step| if step < 6 { 0 } else { 1 + step % others as usize }).collect();
        late_steps(&late(places, &at, 500), Seconds(0.0)).is_some()
    };
    assert_eq!((among(1), among(5)), (true, false));
}

#[test]
fn one_long_step_is_told_at_once() {
    let mut told = late(vec![place(Activity::Checkpoint, "save", 120, 0.0)], &[0], 10);
    told.late[0].took = Seconds(41.0);
    let cause = late_steps(&told, Seconds(0.0)).unwrap();
    assert_eq!(cause.words, "checkpoint saving (save), 41 s, train.py:120");
    told.late[0].took = Seconds(1.05);
    assert_eq!(late_steps(&told, Seconds(0.0)), None, "less than a second more");
}

#[test]
fn the_tail_is_the_binomial_one() {
    // 1 - 0.9^3; three of three; C(5,4) 0.2^4 0.8 + 0.2^5.
    for (least, count, chance, expected) in [(1, 3, 0.1, 0.271), (3, 3, 0.1, 0.001), (4, 5, 0.2, 0.00672)] {
        assert!((tail(least, count, chance) - expected).abs() < 1e-12);
    }
}

fn stall(place: CodePlace, here: f64, collective: Option<PendingCollective>) -> HookPlaces {
    let stall = HookStall { lasting: Seconds(41.0), place: 0, here: Seconds(here), collective };
    HookPlaces { places: vec![place], stall: Some(stall), ..HookPlaces::default() }
}

fn rank(rank: u32, places: &HookPlaces) -> StalledRank<'_> {
    StalledRank { rank: Some(rank), places, has_ended: false, age: Seconds(0.0) }
}

#[test]
fn who_has_not_come_is_named() {
    let waits = stall(place(Activity::Collective, "all_reduce", 50, 0.1), 40.0, None);
    let sleeps = stall(place(Activity::Code, "time.sleep", 47, 0.0), 41.0, None);
    let ranks = [rank(0, &waits), rank(1, &sleeps)];
    let words = "all_reduce: rank 1 has not come: 41 s in time.sleep, train.py:47; rank 0 waits, train.py:50";
    // Whichever of them is followed.
    for own in &ranks {
        assert_eq!(stalled(own, &ranks).unwrap().words, words);
    }
    let all = [rank(0, &waits), rank(1, &waits)];
    let words = stalled(&all[0], &all).unwrap().words;
    assert_eq!(words, "all 2 ranks wait 40 s in all_reduce, train.py:50");
    // Neither waits for the other's call: both are named, whoever is followed.
    let asks = stall(place(Activity::Collective, "barrier", 52, 0.0), 90.0, None);
    let apart = [rank(0, &waits), rank(1, &asks)];
    let said = "all 2 ranks wait 40 s: rank 0 in all_reduce, train.py:50; rank 1 in barrier, train.py:52";
    for own in &apart {
        assert_eq!(stalled(own, &apart).unwrap().words, said);
    }
    assert_eq!(stalled(&ranks[1], &ranks[1..]).unwrap().words, "41 s in time.sleep, train.py:47");
    assert_eq!(stalled(&rank(0, &HookPlaces::default()), &[]), None);
}

#[test]
fn the_flight_recorder_tells_who_is_behind() {
    let backward = || place(Activity::Backward, "backward", 46, 0.3);
    let pending = |call: Option<&str>, newest| PendingCollective {
        call: call.map(str::to_owned),
        group: "0".to_owned(),
        sequence: 17,
        enqueued: vec![("0".to_owned(), newest)],
    };
    let first = stall(backward(), 40.0, Some(pending(Some("nccl:all_reduce"), 17)));
    let behind = stall(backward(), 40.0, Some(pending(None, 16)));
    let ranks = [rank(0, &first), rank(1, &behind)];
    assert_eq!(
        stalled(&ranks[0], &ranks).unwrap().words,
        "nccl:all_reduce 17 of group 0: rank 1 has not come: 40 s in backward, train.py:46; rank 0 waits, \
         train.py:46"
    );
}

#[test]
fn what_healthy_steps_wait_for_has_its_share() {
    let places =
        vec![place(Activity::Forward, "forward", 90, 0.5), place(Activity::Data, "DataLoader.__next__", 88, 0.38)];
    let told = HookPlaces { samples: 100, places, ..HookPlaces::default() };
    assert_eq!(step_share(&[&told]).unwrap(), "38 % of the step in DataLoader.__next__, train.py:88");
    assert_eq!(step_share(&[&HookPlaces { samples: 10, ..told }]), None);
}

#[test]
fn of_ranks_the_one_is_named_that_the_others_wait_for() {
    let busy = vec![place(Activity::Code, "tokenize", 11, 0.4), place(Activity::Backward, "backward", 24, 0.4)];
    let waits = vec![place(Activity::Backward, "backward", 24, 0.8)];
    let asked = vec![place(Activity::Collective, "barrier", 30, 0.7)];
    let told = |rank, places| HookPlaces { rank: Some(rank), samples: 100, places, ..HookPlaces::default() };
    let (first, busy, last) = (told(0, waits), told(1, busy), told(2, asked));
    assert_eq!(step_share(&[&first, &busy, &last]).unwrap(), "rank 1: 40 % of the step in tokenize, train.py:11");
    assert_eq!(step_share(&[&first]), None);
    // Nobody knows what the others do.
    assert_eq!(step_share(&[&first, &last]).unwrap(), "rank 2: 70 % of the step in barrier, train.py:30");
    // Late steps of a rank that waits in its backward pass are those of the one it waits for.
    let works = late(vec![place(Activity::Backward, "backward", 24, 0.6)], &[0; 9], 100);
    let tokenizes = late(vec![place(Activity::Code, "tokenize", 11, 0.0)], &[0; 9], 100);
    let ranks = [rank(0, &works), rank(1, &tokenizes)];
    let said = "rank 1: tokenize, train.py:11: in 9 of 9 late steps, 200 ms more each";
    assert_eq!(late_steps_among(&ranks[0], &ranks).unwrap().words, said);
    assert_eq!(late_steps_among(&ranks[0], &ranks[..1]), None);
}
