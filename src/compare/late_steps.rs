//! Which place of the code makes steps late, or holds one up: judged from samples of training threads' stacks.
//!
//! A place is named only if late steps are there far more often than healthy ones: any of it could be chance, and the
//! test is a binomial one. Work that every step consists of (forward, backward, optimizer) is never named for late steps.

use crate::order::StableOrder;
use crate::reading::{Activity, CodePlace, FEWEST_SAMPLES, HookPlaces, HookStall, LateStep, StepCause};
use crate::units::{Fraction, Seconds};

/// A place is named when chance alone would put it into so many late steps with less than this probability.
const CHANCE: f64 = 5e-4;

/// … and in so many of them, and no smaller share: the machine's other work makes steps late as well.
const LEAST: usize = 3;
const LEAST_SHARE: f64 = 0.2;

/// Where few healthy samples are known, a place that none of them met takes at most this share of the time.
const UNSEEN: f64 = 0.1;

/// One step alone is told of if it takes this many times the usual one, and so many seconds more, at a place that
/// takes less than this share of healthy steps.
const ONCE: f64 = 3.0;
const ONCE_MORE: Seconds = Seconds(1.0);
const ONCE_SHARE: f64 = 0.05;

/// Late steps are told of for this long after the last one, or twice the time between them.
const REMEMBERED: Seconds = Seconds(60.0);

/// A place that takes less than this share of the step is not worth a word.
const WORTH: f64 = 0.05;

/// Why the newest late steps are late, `age` after the message came; none where no place stands out.
#[must_use]
pub fn late_steps(places: &HookPlaces, age: Seconds) -> Option<StepCause> {
    let chosen = chosen_place(places)?;
    let mut here = places.late.iter().filter(|late| late.place == chosen);
    let oldest = here.next()?;
    let (newest, count) = here.fold((oldest, 1), |(_, count), late| (late, count + 1));
    let between = if count > 1 { (oldest.ago - newest.ago).0 / f64::from(count - 1) } else { 0.0 };
    let recent = (newest.ago + age).0 <= REMEMBERED.0.max(2.0 * between);
    if recent { late_until(places, age) } else { None }
}

/// The place that makes late steps late: the one that chance explains least, else that of a step that is long.
fn chosen_place(places: &HookPlaces) -> Option<usize> {
    let usual = places.usual?;
    let count = places.late.len();
    let at = |at: usize| places.late.iter().filter(move |late| late.place == at).count();
    let by_chance = |place: &usize| chance(&places.places[*place], at(*place), count, places.samples);
    // Each place that is looked at has its chance.
    let looked_at = (0..places.places.len()).filter(|place| at(*place) > 0).count();
    let often = (0..places.places.len())
        .filter(|place| at(*place) >= LEAST && at(*place) as f64 >= LEAST_SHARE * count as f64)
        .filter(|place| !places.places[*place].activity.is_work())
        .min_by(|one, other| by_chance(one).total_cmp(&by_chance(other)))
        .filter(|place| by_chance(place) * looked_at as f64 <= CHANCE);
    // One that is long says more than several that are not.
    let long = || {
        let is_long = |late: &&LateStep| is_long(late.took, usual) && stands_out(&places.places[late.place]);
        places.late.iter().rev().find(is_long).map(|late| late.place)
    };
    often.or_else(long)
}

/// Why the newest late steps of one of several ranks are late. One that waits for the others is late by what makes them
/// late.
#[must_use]
pub fn late_steps_among(own: &StalledRank<'_>, ranks: &[StalledRank<'_>]) -> Option<StepCause> {
    let cause = late_steps(own.places, own.age);
    if ranks.len() < 2 || cause.as_ref().is_some_and(|cause| cause.activity != Activity::Collective) {
        return cause;
    }
    // In its backward pass it waits as well, and no place of its own tells that.
    let theirs = ranks.iter().filter(|rank| rank.rank != own.rank).filter_map(|rank| {
        let cause = late_steps(rank.places, rank.age).filter(|cause| cause.activity != Activity::Collective)?;
        Some(StepCause { words: format!("{}: {}", rank.name(), cause.words), ..cause })
    });
    let share = |cause: &StepCause| cause.lost.map_or(0.0, |lost| lost.0);
    let most = theirs.max_by(|one, other| share(one).total_cmp(&share(other)));
    let waits = |cause: StepCause| StepCause { words: format!("waits for other ranks: {}", cause.words), ..cause };
    most.or_else(|| cause.map(waits))
}

/// Why the last late steps of a run that has ended were late, however long ago, for a few words at its end: those of each
/// rank. Of ranks that waited for the others nothing is said where it is known what the others did.
#[must_use]
pub fn late_steps_of_run(ranks: &[&HookPlaces]) -> Vec<String> {
    let several = ranks.len() > 1;
    let causes = ranks.iter().filter_map(|places| Some((places.rank, late_until(places, Seconds(0.0))?)));
    let causes: Vec<(Option<u32>, StepCause)> = causes.collect();
    let waits = |cause: &StepCause| several && cause.activity == Activity::Collective;
    let is_known = causes.iter().any(|(_, cause)| !waits(cause));
    let told = causes.iter().filter(|(_, cause)| !is_known || !waits(cause)).map(|(rank, cause)| {
        let name = rank.filter(|_| several).map_or_else(String::new, |rank| format!("rank {rank}: "));
        let wait = if waits(cause) { "waits for other ranks: " } else { "" };
        format!("{name}late steps: {wait}{}", cause.words)
    });
    told.collect()
}

/// Why the late steps of a message are late, `age` after it came.
fn late_until(places: &HookPlaces, age: Seconds) -> Option<StepCause> {
    let usual = places.usual?;
    let count = places.late.len();
    let oldest = places.late.first()?;
    let chosen = chosen_place(places)?;
    let place = &places.places[chosen];
    let steps: Vec<Seconds> = places.late.iter().filter(|late| late.place == chosen).map(|late| late.took).collect();
    let more: f64 = steps.iter().map(|took| (took.0 - usual.0).max(0.0)).sum();
    let words = match steps.as_slice() {
        [one] => format!("{}, {one}, {}", place.doing(), place.location()),
        several => {
            let mean = Seconds(more / several.len() as f64);
            format!("{}: in {} of {count} late steps, {mean} more each", place.words(), several.len())
        }
    };
    // Of the time from the beginning of the first of them until now.
    let span = oldest.ago.0 + oldest.took.0 + age.0;
    let lost = (span > 0.0).then(|| Fraction((more / span).min(1.0)));
    Some(StepCause { words, activity: place.activity, stalls: false, lost })
}

fn is_long(took: Seconds, usual: Seconds) -> bool {
    took.0 >= ONCE * usual.0 && (took - usual).0 >= ONCE_MORE.0
}

fn stands_out(place: &CodePlace) -> bool {
    !place.activity.is_work() && place.share.0 < ONCE_SHARE
}

/// The probability that chance alone brings `here` of `count` late steps to a place, by its share of `samples` healthy ones.
fn chance(place: &CodePlace, here: usize, count: usize, samples: u64) -> f64 {
    let unseen = (1.0 / (samples as f64 + 2.0)).min(UNSEEN);
    tail(here, count, place.share.0.max(unseen))
}

/// The probability of at least `least` hits in `count` trials that each hit with `chance`.
fn tail(least: usize, count: usize, chance: f64) -> f64 {
    let mut ways = 1.0;
    let mut sum = 0.0;
    for hits in 0..=count {
        if hits >= least {
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
            let (hit, miss) = (hits as i32, (count - hits) as i32);
            sum += ways * chance.powi(hit) * (1.0 - chance).powi(miss);
        }
        ways *= (count - hits) as f64 / (hits + 1) as f64;
    }
    sum
}

/// A rank of a run that is stalled, as its hook has it.
#[derive(Debug, Clone, Copy)]
pub struct StalledRank<'a> {
    /// Its rank; none of a run without ranks.
    pub rank: Option<u32>,
    /// What its samples tell.
    pub places: &'a HookPlaces,
    /// It has ended.
    pub has_ended: bool,
    /// Since its samples came.
    pub age: Seconds,
}

impl StalledRank<'_> {
    fn stall(&self) -> Option<(&HookStall, &CodePlace)> {
        let stall = self.places.stall.as_ref().filter(|_| !self.has_ended)?;
        Some((stall, self.places.places.get(stall.place)?))
    }

    fn name(&self) -> String {
        self.rank.map_or_else(String::new, |rank| format!("rank {rank}"))
    }

    /// Whether it may be there for what other ranks do.
    fn waits(&self) -> bool {
        use Activity::{Collective, Synchronization};
        self.stall().is_some_and(|(_, place)| {
            place.activity.is_work() || matches!(place.activity, Collective | Synchronization)
        })
    }
}

/// Where the ranks of a run are that makes no step, and who has not come; `own` is the one that is followed. None while
/// it makes steps.
#[must_use]
pub fn stalled(own: &StalledRank<'_>, ranks: &[StalledRank<'_>]) -> Option<StepCause> {
    let (stall, place) = own.stall()?;
    let cause = |words: String| Some(StepCause { words, activity: place.activity, stalls: true, lost: None });
    let call = pending(stall, place);
    let waiting = ranks.iter().filter(|rank| rank.waits()).count();
    if let Some(absent) = ranks.iter().find(|rank| is_absent(rank, ranks)).filter(|_| waiting > 0) {
        let waits = ranks.iter().find(|rank| rank.waits()).and_then(|rank| Some((rank, rank.stall()?)));
        let (call, at) = waits.map_or((call, String::new()), |(rank, (stall, place))| {
            (pending(stall, place), format!("; {} waits, {}", rank.name(), place.location()))
        });
        let does = match absent.stall() {
            _ if absent.has_ended => " has ended".to_owned(),
            Some((stall, place)) => {
                format!(" has not come: {} in {}", (stall.here + absent.age).to_the_second(), place.words())
            }
            None => " has not come".to_owned(),
        };
        // It is why the others make no step: what it does is no hang where that is an evaluation or a checkpoint.
        let pauses = absent.stall().map(|(_, place)| place.activity).filter(|activity| activity.is_intended_pause());
        let words = format!("{call}: {}{does}{at}", absent.name());
        return cause(words).map(|cause| StepCause { activity: pauses.unwrap_or(cause.activity), ..cause });
    }
    let long = (stall.here + own.age).to_the_second();
    if ranks.len() > 1 && waiting == ranks.len() {
        return cause(all_wait(ranks, &format!("{call}, {}", place.location())));
    }
    let has_name = ranks.len() > 1 && own.rank.is_some();
    let name = if has_name { format!("{}: ", own.name()) } else { String::new() };
    cause(format!("{name}{long} in {}", place.words()))
}

/// That every rank waits, for as long as the last one has, and where: each place with its ranks where they differ, the
/// same whoever is followed.
fn all_wait(ranks: &[StalledRank<'_>], own: &str) -> String {
    const MOST: usize = 3;
    let mut shortest = f64::INFINITY;
    let mut places: Vec<(String, Vec<String>)> = Vec::new();
    let mut ranks: Vec<&StalledRank<'_>> = ranks.iter().collect();
    ranks.order_by_key(|rank| rank.rank);
    for rank in &ranks {
        let Some((stall, place)) = rank.stall() else { continue };
        shortest = shortest.min((stall.here + rank.age).0);
        let at = format!("{}, {}", pending(stall, place), place.location());
        let number = rank.rank.map_or_else(|| "?".to_owned(), |rank| rank.to_string());
        match places.iter_mut().find(|(known, _)| *known == at) {
            Some((_, there)) => there.push(number),
            None => places.push((at, vec![number])),
        }
    }
    let long = Seconds(shortest).to_the_second();
    if places.len() < 2 {
        return format!("all {} ranks wait {long} in {own}", ranks.len());
    }
    let more = places.len().saturating_sub(MOST);
    let named = places.iter().take(MOST).map(|(at, there)| {
        let plural = if there.len() == 1 { "" } else { "s" };
        format!("rank{plural} {} in {at}", there.join(", "))
    });
    let mut named = named.collect::<Vec<_>>().join("; ");
    if more > 0 {
        named.push_str(&format!("; others in {more} more place{}", if more == 1 { "" } else { "s" }));
    }
    format!("all {} ranks wait {long}: {named}", ranks.len())
}

/// Whether others wait for this rank: it has ended, it is busy elsewhere, or it has begun fewer collectives than the one
/// that another rank waits for.
fn is_absent(rank: &StalledRank<'_>, ranks: &[StalledRank<'_>]) -> bool {
    let behind =
        || {
            let mine = &rank.places.stall.as_ref()?.collective.as_ref()?.enqueued;
            let waited = ranks.iter().filter_map(|other| other.places.stall.as_ref()?.collective.as_ref());
            let mut waited = waited.filter(|pending| pending.call.is_some());
            Some(waited.any(|pending| {
                mine.iter().any(|(group, newest)| *group == pending.group && *newest < pending.sequence)
            }))
        };
    rank.has_ended || (rank.stall().is_some() && (!rank.waits() || behind() == Some(true)))
}

/// What a rank waits in: by PyTorch's flight recorder where that is on, else by its code.
fn pending(stall: &HookStall, place: &CodePlace) -> String {
    match stall.collective.as_ref().and_then(|pending| Some((pending.call.as_ref()?, pending))) {
        Some((call, pending)) => format!("{call} {} of group {}", pending.sequence, pending.group),
        None => place.doing(),
    }
}

/// What of healthy steps goes to something else than their work: `38 % of the step in DataLoader.__next__,
/// train.py:88`; none where that is little.
///
/// Of several ranks it is that of the one where it is most: the others wait for it, in a collective or in their backward
/// pass.
#[must_use]
pub fn step_share(ranks: &[&HookPlaces]) -> Option<String> {
    let told = ranks.iter().filter(|places| places.samples >= FEWEST_SAMPLES);
    let others = told.flat_map(|places| places.places.iter().map(|place| (places.rank, place)));
    let others = others.filter(|(_, place)| !place.activity.is_work() && place.share.0 >= WORTH);
    let waits = |place: &CodePlace| ranks.len() > 1 && place.activity == Activity::Collective;
    let order = |(_, one): &(Option<u32>, &CodePlace), (_, other): &(Option<u32>, &CodePlace)| {
        (!waits(one)).cmp(&!waits(other)).then(one.share.0.total_cmp(&other.share.0))
    };
    let (rank, most) = others.max_by(order)?;
    let name = rank.filter(|_| ranks.len() > 1).map_or_else(String::new, |rank| format!("rank {rank}: "));
    Some(name + &most.of_step())
}

#[cfg(test)]
mod tests;
