//! The README is short and true.

use memwall::manual::TOPICS;

use super::{path, read};

#[test]
fn it_is_short_and_shows_what_people_look_for() {
    let text = read("README.md");
    let lines = text.lines().count();
    assert!((150..=220).contains(&lines), "{lines} lines");
    for needed in ["cargo run --release\n", "cargo test\n", "cargo install --path .", "](.github/screen.svg)"] {
        assert!(text.contains(needed), "{needed}");
    }
}

#[test]
fn it_names_every_topic() {
    let text = read("README.md");
    for topic in TOPICS {
        assert!(text.contains(&format!("`{}`", topic.name)), "{}", topic.name);
    }
}

#[test]
fn its_links_lead_to_files() {
    let text = read("README.md");
    for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(link.starts_with("https://") || path(link).exists(), "{link}");
    }
}
