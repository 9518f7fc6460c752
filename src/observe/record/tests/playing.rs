//! A recording as a source.

use std::fs;
use std::time::{Duration, Instant};

use super::super::{Compression, Replay, Rotation};
use super::{START, folder, sample, write};
use crate::Source;
use crate::reading::playback::PlaybackCommand;
use crate::reading::{DeviceProcess, Moment, Reading, Sample};
use crate::units::Bytes;

/// A replay of so many seconds, and how to take from it all that is due.
fn replay(seconds: u64, compression: Compression) -> (tempfile::TempDir, Replay) {
    let folder = folder();
    let path = folder.path().join("run.ndjson");
    let all: Vec<Sample> = (0..seconds).map(sample).collect();
    write(&path, compression, Rotation::default(), &all);
    let replay = Replay::open(&path, 1.0).unwrap();
    (folder, replay)
}

fn due(replay: &mut Replay) -> Vec<u64> {
    let mut seconds = Vec::new();
    while replay.pause(Duration::from_secs(1)) == Some(Duration::ZERO) {
        let sample = replay.sample(Moment(0));
        seconds.push((sample.at.0 - START.0) / 1000);
    }
    seconds
}

#[test]
fn a_step_back_begins_at_the_last_milestone() {
    let (_folder, mut replay) = replay(1000, Compression::None);
    replay.steer(PlaybackCommand::Seek(10_000));
    due(&mut replay);
    // 900 samples are the third milestone.
    for (steer, from, to) in [
        (PlaybackCommand::Step(-1), 900, 998),
        (PlaybackCommand::Seek(-98), 900, 900),
        (PlaybackCommand::Step(-1), 600, 899),
    ] {
        replay.steer(steer);
        assert_eq!(due(&mut replay), (from..=to).collect::<Vec<_>>());
        assert_eq!(replay.playback().unwrap().from as u64, from);
    }
    replay.steer(PlaybackCommand::Afresh);
    assert_eq!(due(&mut replay), (0..=899).collect::<Vec<_>>());
    assert_eq!(replay.playback().unwrap().from, 0);
}

#[test]
fn it_is_paused_stepped_and_sought() {
    for compression in [Compression::None, Compression::Gzip] {
        let (_folder, mut replay) = replay(300, compression);
        assert_eq!(due(&mut replay), [0]);
        replay.steer(PlaybackCommand::Pause);
        assert_eq!(replay.pause(Duration::from_secs(1)), None);
        replay.steer(PlaybackCommand::Step(1));
        assert_eq!(due(&mut replay), [1]);
        // On to a minute later: all that lies between is seen.
        replay.steer(PlaybackCommand::Seek(60));
        assert_eq!(due(&mut replay), (2..=61).collect::<Vec<_>>());
        assert_eq!(replay.playback().unwrap().rewound, 0);
        // Back: from the beginning, as if it had been played to there.
        replay.steer(PlaybackCommand::Step(-1));
        assert_eq!(due(&mut replay), (0..=60).collect::<Vec<_>>());
        assert_eq!(replay.playback().unwrap().rewound, 1);
        // Twice at once counts twice. 5 % of 299 s are 14.95 s: from 60 to 74.95 and 88.95.
        replay.steer(PlaybackCommand::SeekPercent(5));
        replay.steer(PlaybackCommand::SeekPercent(5));
        assert_eq!(due(&mut replay), (61..=88).collect::<Vec<_>>());
        replay.steer(PlaybackCommand::Seek(10_000));
        assert_eq!(due(&mut replay).last(), Some(&299));
        assert!(replay.playback().unwrap().ended());
        replay.steer(PlaybackCommand::Pause);
        assert_eq!(due(&mut replay), [0], "at the end it begins again");
        replay.steer(PlaybackCommand::Seek(-10_000));
        assert_eq!(due(&mut replay), Vec::<u64>::new(), "already there");
    }
}

#[test]
fn it_goes_on_at_its_speed() {
    let (_folder, mut replay) = replay(10, Compression::None);
    due(&mut replay);
    let left = |replay: &Replay| replay.pause(Duration::from_secs(1)).unwrap().as_secs_f64();
    assert!(left(&replay) > 0.5 && left(&replay) <= 1.0, "{}", left(&replay));
    for _ in 0..2 {
        replay.steer(PlaybackCommand::Slower);
    }
    // A second of the recording takes four.
    assert!(left(&replay) > 3.5 && left(&replay) <= 4.0, "{}", left(&replay));
    for _ in 0..30 {
        replay.steer(PlaybackCommand::Faster);
    }
    assert_eq!(replay.playback().unwrap().speed, 4096.0);
    let start = Instant::now();
    while !replay.playback().unwrap().ended() {
        due(&mut replay);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn a_recording_that_shrinks_while_it_is_played_ends_there() {
    // More than a reader holds in its buffer.
    let (folder, mut replay) = replay(1000, Compression::None);
    due(&mut replay);
    let path = folder.path().join("run.ndjson");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    replay.steer(PlaybackCommand::Seek(10_000));
    due(&mut replay);
    let playback = replay.playback().unwrap();
    assert!(playback.ended() && playback.damage.is_some(), "{playback:?}");
}

#[test]
fn an_event_that_is_gone_to_is_named() {
    let folder = folder();
    let path = folder.path().join("run.ndjson");
    let mut all: Vec<Sample> = (0..50).map(sample).collect();
    for later in &mut all[30..] {
        let process = DeviceProcess::holding(4711, Reading::measured(Bytes(1), later.at));
        later.devices[0].processes = Reading::measured(vec![process], later.at);
    }
    write(&path, Compression::None, Rotation::default(), &all);
    let mut replay = Replay::open(&path, 1.0).unwrap();
    due(&mut replay);
    let found = |replay: &Replay| replay.playback().unwrap().found.unwrap();
    replay.steer(PlaybackCommand::Event(1));
    assert_eq!(found(&replay), (START.plus_millis(30_000), "process 4711 came".to_owned()));
    replay.steer(PlaybackCommand::Event(1));
    assert_eq!(found(&replay), (START.plus_millis(49_000), "nothing more: the end".to_owned()));
    replay.steer(PlaybackCommand::Step(-1));
    assert_eq!(replay.playback().unwrap().found, None);
}
