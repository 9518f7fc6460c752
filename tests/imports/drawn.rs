//! Launch files that were drawn from public repositories and read by eye: `drawn.csv` says how they were drawn and what
//! was found. What was silently wrong is held by a case, or refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

struct Row<'a> {
    draw: &'a str,
    repository: &'a str,
    read: &'a str,
    now: &'a str,
    shown_by: &'a str,
}

fn rows(text: &str) -> Vec<Row<'_>> {
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines
        .map(|line| match line.split(',').collect::<Vec<_>>().as_slice() {
            [draw, repository, path, read, now, shown_by] => {
                assert!(!path.is_empty(), "{line}");
                Row { draw, repository, read, now, shown_by }
            }
            _ => panic!("six columns: {line}"),
        })
        .collect()
}

#[test]
fn what_was_silently_wrong_is_held_by_a_case() {
    let text = fs::read_to_string("tests/imports/drawn.csv").unwrap();
    for row in rows(&text) {
        for verdict in [row.read, row.now] {
            assert!(["right", "says", "wrong"].contains(&verdict), "{}: {verdict}", row.repository);
        }
        if row.read == "wrong" {
            let case = format!("tests/imports/cases/{}.yaml", row.shown_by);
            let held = row.shown_by.starts_with("refused:") || Path::new(&case).exists();
            assert!(held || row.now == "wrong", "{}: no case {}", row.repository, row.shown_by);
        }
    }
}

#[test]
fn the_draws_are_broad_and_mostly_right() {
    let text = fs::read_to_string("tests/imports/drawn.csv").unwrap();
    let rows = rows(&text);
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut repositories: Vec<&str> = rows.iter().map(|row| row.repository).collect();
    repositories.sort_unstable();
    repositories.dedup();
    assert!(repositories.len() >= 420, "{} repositories", repositories.len());
    let drawn = |draw: &str| rows.iter().filter(|row| row.draw == draw).count();
    assert_eq!([drawn("second"), drawn("third"), drawn("fourth")], [100, 60, 70]);
    for row in &rows {
        *counts.entry((row.draw, row.now)).or_default() += 1;
    }
    let of = |draw, verdict| counts.get(&(draw, verdict)).copied().unwrap_or(0);
    let draws = [
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
        "eleventh",
        "twelfth",
        "thirteenth",
        "fourteenth",
        "fifteenth",
        "sixteenth",
        "seventeenth",
        "eighteenth",
        "nineteenth",
        "twentieth",
        "twentyfirst",
        "twentysecond",
        "twentythird",
        "twentyfourth",
        "twentyfifth",
        "twentysixth",
        "twentyseventh",
        "twentyeighth",
        "twentyninth",
        "thirtieth",
        "thirtyfirst",
        "thirtysecond",
        "thirtythird",
        "thirtyfourth",
        "thirtyfifth",
        "thirtysixth",
        "thirtyseventh",
        "thirtyeighth",
        "thirtyninth",
        "fortieth",
        "fortyfirst",
        "fortysecond",
        "fortythird",
        "fortyfourth",
        "fortyfifth",
        "fortysixth",
        "fortyseventh",
        "fortyeighth",
        "fortyninth",
        "fiftieth",
        "fiftyfirst",
        "fiftysecond",
        "fiftythird",
        "fiftyfourth",
        "fiftyfifth",
        "fiftysixth",
        "fiftyseventh",
        "fiftyeighth",
        "fiftyninth",
        "sixtieth",
        "sixtyfirst",
        "sixtysecond",
        "sixtythird",
        "sixtyfourth",
        "sixtysixth",
        "sixtyseventh",
        "sixtyeighth",
        "sixtyninth",
        "seventieth",
        "seventyfirst",
        "seventysecond",
        "seventythird",
        "seventyfourth",
        "seventyfifth",
        "seventysixth",
        "seventyseventh",
        "seventyeighth",
        "seventyninth",
        "eightieth",
        "eightyfirst",
        "eightysecond",
        "eightythird",
        "eightyfourth",
        "eightyfifth",
        "eightysixth",
        "eightyseventh",
        "eightyeighth",
        "eightyninth",
        "ninetieth",
        "ninetyfirst",
        "ninetysecond",
        "ninetythird",
        "ninetyfourth",
        "ninetyfifth",
        "ninetysixth",
        "ninetyseventh",
        "ninetyeighth",
        "ninetyninth",
        "scripts_first",
        "scripts_second",
        "mainstream_first",
        "mainstream_full",
        "mainstream_second",
        "mainstream_full_second",
        "mainstream_full_third",
        "mainstream_held_out",
        "mainstream_third",
        "mainstream_fourth",
        "mainstream_fifth",
        "held_out_third",
    ];
    for draw in draws {
        let all: usize = ["right", "says", "wrong"].iter().map(|verdict| of(draw, verdict)).sum();
        assert!(of(draw, "wrong") * 50 <= all, "{counts:?}");
    }
}
