use super::*;

fn plain(markdown: &str, width: usize) -> Vec<String> {
    let rows = layout(markdown, width);
    rows.iter().map(|row| row.spans.iter().map(|span| span.text.as_str()).collect()).collect()
}

#[test]
fn text_is_wrapped_and_blocks_stand_apart() {
    let markdown = "# Title\n\nThe cat sat\non the `red mat`.\n\n- one two three\n- four\n\n```\nleft as it is, however long\n```\n";
    let expected = [
        "Title",
        "",
        "The cat sat",
        "on the red",
        "mat.",
        "",
        "• one two",
        "  three",
        "• four",
        "",
        "  left as it is, however long",
    ];
    assert_eq!(plain(markdown, 11), expected);
}

#[test]
fn numbered_items_and_text_below_them_are_moved_in() {
    assert_eq!(plain("1. first\n\n   more of it\n2. second\n", 20), ["1. first", "", "   more of it", "2. second"]);
}

#[test]
fn a_table_takes_what_it_needs_and_wraps_what_is_too_wide() {
    let markdown = "| name | n |\n|---|--:|\n| a | 10 |\n| bb cc | 7 |\n";
    assert_eq!(plain(markdown, 40), ["name    n", "─────  ──", "a      10", "bb cc   7"]);
    assert_eq!(plain(markdown, 8), ["name   n", "────  ──", "a     10", "bb     7", "cc"].map(str::to_owned));
}

#[test]
fn comments_are_left_out_and_links_keep_their_address() {
    let markdown = "<!-- made by a test -->\n\nSee [the site](https://example.org/x).\n";
    assert_eq!(plain(markdown, 80), ["See the site <https://example.org/x>."]);
}

#[test]
fn no_line_but_code_is_wider_than_the_width() {
    for topic in TOPICS {
        for width in [30, 58, 76, 100] {
            for row in layout(topic.text, width) {
                let is_code = row.spans.last().is_some_and(|span| span.tone == Tone::Code);
                assert!(is_code || row.width() <= width, "{} at {width}: {row:?}", topic.name);
            }
        }
    }
}

#[test]
fn every_topic_has_a_title_a_summary_and_names_of_its_own() {
    let mut names: Vec<&str> = Vec::new();
    for topic in TOPICS {
        assert!(topic.text.starts_with("# ") && !topic.title().is_empty(), "{}", topic.name);
        assert!(topic.summary().len() <= 64 && topic.summary().ends_with('.'), "{}: {}", topic.name, topic.summary());
        assert!(!topic.sections().is_empty(), "{}", topic.name);
        names.push(topic.name);
        names.extend(topic.aliases);
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a name stands for two topics");
}

#[test]
fn a_topic_is_found_by_its_name_or_another_one() {
    assert_eq!(topic("OOM").map(|topic| topic.name), Some("oom"));
    assert_eq!(topic("out of memory").map(|topic| topic.name), Some("oom"));
    assert_eq!(topic("nothing"), None);
}

#[test]
fn a_section_knows_its_terms_and_its_line() {
    let topic = Topic { name: "x", aliases: &[], text: "# One\n\nWith `--a`.\n\n## Two\n\n| `b` |\n|---|\n" };
    let sections = topic.sections();
    assert_eq!(sections.iter().map(|section| section.title.as_str()).collect::<Vec<_>>(), ["One", "Two"]);
    assert_eq!((sections[0].terms.trim(), sections[1].terms.trim()), ("--a", "b"));
    assert_eq!((topic.line_of(0, 40), topic.line_of(1, 40)), (0, 4));
}
