//! The fuzz targets' functions over their committed corpus: what a fuzzer found once, and
//! where it starts.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[path = "../fuzz/entry.rs"]
mod entry;

/// How many files of a corpus were predicted, and how many there are; each also cut short at
/// every sixteenth of its length, and with a byte of each sixteenth replaced.
fn over(folder: &str, run: fn(&[u8]) -> bool) -> (usize, usize) {
    let folder = format!("{}/tests/fuzz/corpus/{folder}", env!("CARGO_MANIFEST_DIR"));
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut predicted = 0;
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        predicted += usize::from(run(&bytes));
        for part in 0..16 {
            let at = bytes.len() * part / 16;
            run(&bytes[..at]);
            let mut other = bytes.clone();
            if let Some(byte) = other.get_mut(at) {
                *byte = b'9';
            }
            run(&other);
        }
    }
    (predicted, files.len())
}

#[test]
fn plans() {
    let (predicted, files) = over("plan", entry::plan);
    assert!(predicted * 2 >= files && files >= 5, "{predicted} of {files}");
}

#[test]
fn configurations() {
    let (predicted, files) = over("config", entry::config);
    assert!(predicted * 2 >= files && files >= 10, "{predicted} of {files}");
}

#[test]
fn memory_snapshots() {
    // All but the one that asks for code to be run.
    assert_eq!(over("snapshot", entry::snapshot), (2, 3));
}

#[test]
fn out_of_memory_messages() {
    assert_eq!(over("message", entry::message), (2, 2));
}

/// A target, and folders of files that it begins with, below `tests/`.
type Target = (&'static str, fn(&[u8]) -> bool, &'static [&'static str]);

const TARGETS: [Target; 18] = [
    ("plan", entry::plan, &["fuzz/corpus/plan"]),
    ("config", entry::config, &["fuzz/corpus/config"]),
    ("snapshot", entry::snapshot, &["fuzz/corpus/snapshot"]),
    ("message", entry::message, &["fuzz/corpus/message"]),
    ("toml", entry::toml, &["fuzz/corpus/toml"]),
    ("yaml", entry::yaml, &["fuzz/corpus/yaml"]),
    ("shell", entry::shell, &["fuzz/corpus/shell"]),
    ("python", entry::python, &["fuzz/corpus/python"]),
    ("log", entry::log, &["logs"]),
    ("events", entry::events, &["fuzz/corpus/events"]),
    ("pattern", entry::pattern, &["fuzz/corpus/pattern"]),
    ("hook", entry::hook, &["fuzz/corpus/hook"]),
    ("recording", entry::recording, &["fuzz/corpus/recording"]),
    ("prometheus", entry::prometheus, &["fuzz/corpus/prometheus"]),
    ("theme", entry::theme, &["../themes"]),
    ("keys", entry::keys, &["fuzz/corpus/keys"]),
    ("alerts", entry::alerts, &["fuzz/corpus/alerts"]),
    ("trace", entry::trace, &["truth/traced"]),
];

/// What decoders stumble over: ends of numbers, openings without ends, references, escapes.
const TOKENS: [&[u8]; 24] = [
    b"0",
    b"-1",
    b"1e309",
    b"NaN",
    b"18446744073709551616",
    b"9223372036854775807",
    b"{",
    b"[",
    b"}",
    b"]",
    b"\"",
    b"'",
    b": ",
    b"\n",
    b"\\",
    b"$((",
    b"${",
    b"&a ",
    b"*a",
    b"!!",
    b"\xff",
    b"\0",
    b"\x1b[",
    b"(?P<",
];

/// The longest time that one input may take; without optimisations everything takes ten times as long.
const HANG: Duration = Duration::from_secs(50);

/// How much larger the process may have been than when it began, in KiB.
const GROWTH: u64 = 256 << 10;

/// Numbers by a key (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % end.max(1)
    }
}

/// Another input of one that is there.
fn mutated(seed: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.below(4) {
        let (at, end) = (dice.below(bytes.len() + 1), dice.below(bytes.len() + 1));
        let (from, to) = (at.min(end), at.max(end));
        match dice.below(6) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << dice.below(8)),
            1 => drop(bytes.splice(from..from, TOKENS[dice.below(TOKENS.len())].iter().copied())),
            2 => drop(bytes.drain(from..to.min(from + 16))),
            3 => {
                let part = bytes[from..to.min(from + 64)].repeat(1 + dice.below(20));
                bytes.splice(from..from, part);
            }
            4 => {
                let start = dice.below(other.len());
                let part: Vec<u8> = other.iter().skip(start).take(64).copied().collect();
                bytes.splice(from..to.min(from + 64), part);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn peak_resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Set where the decoders are the only test of the process.
const ALONE: &str = "MEMWALL_FUZZ_ALONE";

/// Every decoder over inputs made of its corpus, for `MEMWALL_FUZZ_SECONDS` each (a fifth unless said): no panic, no hang,
/// no growth. `MEMWALL_FUZZ_SEED` gives other inputs. An input that breaks a promise is kept in the target folder.
#[test]
fn no_decoder_panics_hangs_or_grows() {
    // In a process of its own: memory is the process's, and other tests take theirs meanwhile.
    if std::env::var_os(ALONE).is_none() {
        let name = "corpus::no_decoder_panics_hangs_or_grows";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        assert!(alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").status().unwrap().success());
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<f64>().ok());
    let time = Duration::from_secs_f64(number("MEMWALL_FUZZ_SECONDS").unwrap_or(0.2));
    let key = number("MEMWALL_FUZZ_SEED").unwrap_or(1.0) as u64;
    let before = peak_resident_kib();
    // Each core takes the next decoder that nobody has begun. The memory is that of all of them: what grows may be
    // another's than the one that is named, which the seed then tells.
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(TARGETS.len()) {
            scope.spawn(|| {
                while let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    mutate(target, time, key, before);
                }
            });
        }
    });
}

/// Gives one decoder mutated inputs for that time.
fn mutate((name, run, folders): &Target, time: Duration, key: u64, before: u64) {
    let folders = folders.iter().map(|folder| format!("{}/tests/{folder}", env!("CARGO_MANIFEST_DIR")));
    let mut files: Vec<_> =
        folders.flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> =
        files.iter().filter(|path| path.is_file()).map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!seeds.is_empty(), "{name}: nothing to begin with");
    let mut dice = Dice(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (start, mut count) = (Instant::now(), 0_u64);
    while start.elapsed() < time || count == 0 {
        let input = mutated(&seeds[dice.below(seeds.len())], &seeds[dice.below(seeds.len())], &mut dice);
        let began = Instant::now();
        let outcome = std::panic::catch_unwind(|| run(&input));
        let (took, peak) = (began.elapsed(), peak_resident_kib());
        if outcome.is_err() || took > HANG || peak > before + GROWTH {
            let kept = format!("{}/broken-{name}", env!("CARGO_TARGET_TMPDIR"));
            std::fs::write(&kept, &input).unwrap();
            panic!("{name}: {kept}, input {count} of seed {key}: {took:?}, {peak} KiB, panicked: {}", outcome.is_err());
        }
        count += 1;
    }
    println!("{name}: {count} inputs");
}
