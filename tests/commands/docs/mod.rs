//! The README, the topics of `memwall help` and the picture of the screen say what the program does.
//!
//! Tables between `<!-- table of … -->` and `<!-- end -->`, and the picture, are written by these tests:
//! `MEMWALL_BLESS=1 cargo test --test commands docs` writes them anew; the next run checks them.
mod accuracy;
mod environment;
mod examples;
mod language;
mod picture;
mod readme;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

const HOW: &str = "MEMWALL_BLESS=1 cargo test --test commands docs";

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

fn read(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn blesses() -> bool {
    std::env::var_os("MEMWALL_BLESS").is_some()
}

/// Holds the text of a file against what it should be, or writes that.
fn hold(file: &str, expected: &str) {
    if blesses() {
        fs::write(path(file), expected).unwrap();
        return;
    }
    let found = fs::read_to_string(path(file)).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
    let line = differs.unwrap_or_else(|| found.lines().count().min(expected.lines().count()));
    let of = |text: &str| text.lines().nth(line).unwrap_or("(the end)").to_owned();
    assert!(
        found == expected,
        "{file} is out of date from line {}: it says\n  {}\nand should say\n  {}\nTo write it anew: {HOW}",
        line + 1,
        of(&found),
        of(expected),
    );
}

/// Holds what stands between `<!-- NAME -->` and `<!-- end -->` against what it should be, or writes that.
fn hold_part(file: &str, name: &str, expected: &str) {
    let text = read(file);
    let begin = format!("<!-- {name} -->\n");
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{file} has no {begin}"));
    let (_, after) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{file}: {name} does not end"));
    hold(file, &format!("{before}{begin}\n{}\n\n<!-- end -->{after}", expected.trim_end()));
}

/// Everything for readers: file and text.
fn pages() -> Vec<(String, String)> {
    let topics = memwall::manual::TOPICS.iter().map(|topic| format!("configs/help/{}.md", topic.name));
    let files = topics.chain(["README.md".to_owned(), ".github/CONTRIBUTING.md".to_owned()]);
    files.map(|file| (file.clone(), read(&file))).collect()
}
