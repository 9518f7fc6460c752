//! The hook's messages on where its training thread is. `python/watch.py` writes them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::message::cut;
use crate::reading::{Activity, CodePlace, HookPlaces, HookStall, LateStep, PendingCollective};
use crate::units::{Fraction, Seconds};

/// Longer lists are cut: the hook itself sends fewer.
const MOST: usize = 64;

/// A longer path keeps its end.
const LONGEST_PATH: usize = 200;

/// Nothing lasts longer: a year.
const LONGEST: f64 = 3.2e7;

#[derive(Deserialize)]
struct RawPlaces {
    rank: Option<u32>,
    launcher: Option<u32>,
    #[serde(default)]
    step: u64,
    usual_s: Option<f64>,
    #[serde(default)]
    samples: u64,
    places: Vec<RawPlace>,
    #[serde(default)]
    late_steps: u64,
    #[serde(default)]
    late: Vec<(u64, f64, usize, f64, f64)>,
    stall: Option<RawStall>,
}

#[derive(Deserialize)]
struct RawPlace {
    activity: Activity,
    call: String,
    file: String,
    line: u32,
    #[serde(default)]
    share: f64,
}

#[derive(Deserialize)]
struct RawStall {
    for_s: f64,
    place: usize,
    here_s: f64,
    collective: Option<RawCollective>,
}

#[derive(Deserialize)]
struct RawCollective {
    call: Option<String>,
    #[serde(default)]
    group: String,
    #[serde(default)]
    sequence: i64,
    #[serde(default)]
    enqueued: BTreeMap<String, i64>,
}

/// Reads a message; none where it is none of the hook's.
pub fn read(datagram: &[u8]) -> Option<HookPlaces> {
    let raw: RawPlaces = serde_json::from_slice(datagram).ok()?;
    let places: Vec<CodePlace> = raw.places.into_iter().take(MOST).map(place).collect();
    let is_time = |time: f64| (0.0..LONGEST).contains(&time);
    let known = |at: usize| at < places.len();
    let late: Vec<LateStep> = raw
        .late
        .into_iter()
        .take(MOST)
        .filter(|(_, took, at, _, ago)| known(*at) && is_time(*took) && is_time(*ago))
        .map(|(step, took, place, _, ago)| LateStep { step, took: Seconds(took), place, ago: Seconds(ago) })
        .collect();
    let stall = raw.stall.filter(|stall| known(stall.place) && is_time(stall.for_s) && is_time(stall.here_s));
    Some(HookPlaces {
        rank: raw.rank,
        launcher: raw.launcher,
        step: raw.step,
        usual: raw.usual_s.filter(|time| is_time(*time)).map(Seconds),
        samples: raw.samples,
        places,
        late_steps: raw.late_steps,
        late,
        stall: stall.map(|stall| HookStall {
            lasting: Seconds(stall.for_s),
            place: stall.place,
            here: Seconds(stall.here_s),
            collective: stall.collective.map(collective),
        }),
    })
}

fn place(raw: RawPlace) -> CodePlace {
    let share = if raw.share.is_finite() { raw.share.clamp(0.0, 1.0) } else { 0.0 };
    let begin = raw.file.char_indices().rev().nth(LONGEST_PATH - 1).map_or(0, |(at, _)| at);
    CodePlace {
        activity: raw.activity,
        call: cut(raw.call),
        file: raw.file[begin..].to_owned(),
        line: raw.line,
        share: Fraction(share),
    }
}

fn collective(raw: RawCollective) -> PendingCollective {
    let enqueued = raw.enqueued.into_iter().take(MOST).map(|(group, sequence)| (cut(group), sequence)).collect();
    PendingCollective { call: raw.call.map(cut), group: cut(raw.group), sequence: raw.sequence, enqueued }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_steps_and_a_stall_are_read() {
        let text = br#"{"v":1,"kind":"places","pid":7,"rank":1,"usual_s":0.25,"samples":40,"late_steps":3,
            "places":[{"activity":"collective","call":"all_reduce","file":"/w/train.py","line":50,"share":0.1}],
            "late":[[12,0.9,0,0.5,2.0],[13,0.9,7,0.5,1.0],[14,-1,0,0.5,1.0]],
            "stall":{"for_s":41,"place":0,"here_s":40,"collective":{"call":"nccl:all_reduce","group":"0","sequence":17,
            "enqueued":{"0":17}}}}"#;
        let places = read(text).unwrap();
        assert_eq!((places.rank, places.late_steps, places.usual), (Some(1), 3, Some(Seconds(0.25))));
        // What names no place, or takes no time, is none.
        assert_eq!(places.late.iter().map(|late| late.step).collect::<Vec<_>>(), [12]);
        assert_eq!(places.places[0].words(), "all_reduce, train.py:50");
        let stall = places.stall.unwrap();
        assert_eq!((stall.lasting, stall.here), (Seconds(41.0), Seconds(40.0)));
        assert_eq!(stall.collective.unwrap().enqueued, [("0".to_owned(), 17)]);
    }

    #[test]
    fn what_the_hook_does_not_write_is_refused_or_cut() {
        for text in ["{}", r#"{"places":[{"activity":"tea","call":"","file":"","line":1}]}"#, r#"{"places":7}"#] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        let path = "\u{e9}".repeat(500);
        let text =
            format!(r#"{{"places":[{{"activity":"code","call":"{path}","file":"{path}","line":1,"share":7}}]}}"#);
        let place = read(text.as_bytes()).unwrap().places.remove(0);
        assert_eq!((place.call.chars().count(), place.file.chars().count()), (120, LONGEST_PATH));
        assert_eq!(place.share, Fraction(1.0));
    }

    #[test]
    fn a_librarys_file_is_named_with_its_folder() {
        let place = |file: &str| {
            place(RawPlace {
                activity: Activity::Data,
                call: "DataLoader.__next__".to_owned(),
                file: file.to_owned(),
                line: 2241,
                share: 0.0,
            })
        };
        let file = "/v/lib/python3.11/site-packages/transformers/trainer.py";
        assert_eq!(place(file).location(), "transformers/trainer.py:2241");
        assert_eq!(place("/home/a/train.py").location(), "train.py:2241");
    }
}
