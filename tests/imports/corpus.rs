//! The fuzz targets' functions over their committed corpus: what a fuzzer found once, and
//! where it starts.

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
