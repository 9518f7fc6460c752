//! Texts that are odd in themselves: line ends, tabs, quotes, size, depth, aliases.

use crate::plan::node::{Node, NodeShape, Style};
use crate::plan::{Document, EXAMPLES, Fault};

fn refused(text: &str) -> Vec<String> {
    Document::parse(text).unwrap_err().iter().map(Fault::to_string).collect()
}

/// Each plain scalar's bytes are its text, and each place is that of its bytes.
fn check_spans(document: &Document, node: &Node) {
    let text = document.text();
    let before = &text[..node.span.start];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before[start..].trim_start_matches('\u{feff}').chars().count() + 1;
    if !node.span.is_empty() {
        assert_eq!((node.at.line, node.at.column), (line, column), "{:?}", &text[node.span.clone()]);
    }
    match &node.shape {
        NodeShape::Scalar { text: value, style: Style::Plain } => assert_eq!(&text[node.span.clone()], value),
        NodeShape::Scalar { style: Style::Single, .. } => {
            assert!(text[node.span.clone()].starts_with('\'') && text[node.span.clone()].ends_with('\''));
        }
        NodeShape::Scalar { style: Style::Double, .. } => {
            assert!(text[node.span.clone()].starts_with('"') && text[node.span.clone()].ends_with('"'));
        }
        NodeShape::Scalar { .. } => {}
        NodeShape::Sequence { items, flow } => {
            assert!(!flow || (text[node.span.clone()].starts_with('[') && text[node.span.clone()].ends_with(']')));
            items.iter().for_each(|item| check_spans(document, item));
        }
        NodeShape::Mapping { entries, flow } => {
            assert!(!flow || (text[node.span.clone()].starts_with('{') && text[node.span.clone()].ends_with('}')));
            for entry in entries {
                assert_eq!(text[entry.span.clone()].trim_matches(['"', '\'']), entry.key);
                check_spans(document, &entry.value);
            }
        }
    }
}

#[test]
fn spans_are_exact_whatever_the_line_ends_and_letters() {
    let mut texts: Vec<String> = EXAMPLES.iter().map(|(_, text)| (*text).to_owned()).collect();
    texts.push(include_str!("contract.yaml").to_owned());
    texts.push(
        "# größe ✓ 🦀\nmodel:\n  preset: 'ä b'  # ü\n  type:   \"🦀\" \n  x: {a: 1 , b: [ 2, c d ]}\n".to_owned(),
    );
    texts.push("a:\n- 1\n- b: 2\n  c: 3   # x\n\n# end\nd: e f g   \n".to_owned());
    for text in texts {
        for text in [text.clone(), text.replace('\n', "\r\n"), format!("\u{feff}{text}"), text.trim_end().to_owned()] {
            let document = Document::parse(&text).unwrap();
            check_spans(&document, document.root());
            assert_eq!(document.text(), text);
        }
    }
}

#[test]
fn json_reads_as_it_is_however_it_is_laid_out() {
    let value = serde_json::json!({"model": {"preset": "llama-3-8b", "batch_size": 8, "hf_config": {"a\"b/c": "x\ty\u{1f980}", "n": -1.5e-3, "l": [1, null, true, {}]}}});
    let tabbed = serde_json::to_string_pretty(&value).unwrap().replace("  ", "\t");
    for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap(), tabbed] {
        let document = Document::parse(&text).unwrap();
        assert!(document.is_json());
        assert_eq!(document.root().to_json(), value, "{text}");
        assert_eq!(document.plan().unwrap().model.batch_size, Some(8));
    }
}

#[test]
fn tabs_are_named() {
    assert_eq!(refused("model:\n\tbatch_size: 3\n"), ["2:1: a tab cannot indent YAML; use blanks"]);
    assert_eq!(refused("model:\n  a: 1\n \tb: 3\n"), ["3:2: a tab cannot indent YAML; use blanks"]);
}

#[test]
fn keys_given_twice_name_both_places() {
    assert_eq!(
        refused("model:\n  preset: a\n  batch_size: 1\n  preset: b\n"),
        ["4:3: model.preset: given twice; first on line 2"]
    );
    assert_eq!(refused("model: {}\nrun: {}\nmodel: {}\nrun: {}\n").len(), 2);
    assert_eq!(refused("{\"run\": {}, \"run\": {}}"), ["1:13: run: given twice; first on line 1"]);
}

#[test]
fn broken_syntax_has_a_place() {
    for (text, said) in [
        ("model: {a: 1\n", "1:8: this brace `{` is never closed"),
        ("model: [1, 2\nrun: 3\n", "1:8: this bracket `[` is never closed"),
        ("training:\n  frozen: [embeddings,\n  precision: bf16\n", "2:11: this bracket `[` is never closed"),
        ("a: 'b\n", "1:4: this quote `'` is never closed"),
        ("a: \"b\nc: \"d\"\n", "1:4: this quote `\"` is never closed"),
        ("a: [1, {b: 2]\n", "1:8: this brace `{` is never closed; `]` stands where it should be"),
        ("# one\n{\"a\": {\"b\": 1,\n\"c\": 2}\n", "2:1: this brace `{` is never closed"),
        ("a: {b: 1 c: 2}\n", "1:11: not readable as YAML or JSON: a comma is missing"),
        ("a:\n  b: 1\n  opt\n  c: 2\n", "3:3: a key without a `:`"),
        ("a:\n  b: 1\n  opt", "3:3: a key without a `:`"),
        ("a: b: c\n", "1:5: not readable as YAML or JSON: a `:` where no key is allowed"),
        ("a: @b\n", "1:4: not readable as YAML or JSON: no value begins with this letter"),
        ("a: \"b\" c\n", "1:8: not readable as YAML or JSON: text behind a closing quote"),
        ("b: *a\n", "1:4: not readable as YAML or JSON: an alias"),
    ] {
        let found = refused(text);
        assert!(found[0].starts_with(said), "{text}: {found:?}");
    }
    let stream = Document::parse_stream("model: {}\n---\nmodel: [1\n").unwrap_err();
    assert_eq!(stream[0].to_string(), "3:8: this bracket `[` is never closed");
}

#[test]
fn aliases_read_within_bounds() {
    let document = Document::parse(
        "model: &m {batch_size: 8}\ntraining: {micro_batch_size: &four 4, gradient_accumulation_steps: *four}\n",
    )
    .unwrap();
    assert_eq!(document.plan().unwrap().training.gradient_accumulation_steps, Some(4));
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    // 11, 111, 1111, 11 111 and 111 111 values, each counted as they are written out and as they are kept.
    assert!(refused(&bomb)[0].starts_with("5:5: a4: more than 200000 values, aliases written out"));
    assert!(refused("a: &a [*a]\n")[0].contains("is inside what it refers to"));
    assert!(refused("a: *b\n")[0].contains("not readable"));
    assert_eq!(
        refused("a: &a {b: 1}\nc:\n  <<: *a\n"),
        ["3:3: c.<<: merge keys are not supported; write the keys out"]
    );
    assert!(refused("a: !!int 4\n")[0].contains("a tag"));
}

#[test]
fn aliases_nest_no_deeper_than_text() {
    let mut text = "a0: &a0 [1]\n".to_owned();
    for level in 1..70 {
        text.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert!(refused(&text)[0].contains("nested deeper than 64 levels"));
}

#[test]
fn depth_is_bounded() {
    let flow = format!("a: {}1{}", "[".repeat(60), "]".repeat(60));
    assert!(Document::parse(&flow).is_ok());
    for deep in [
        "[".repeat(100_000),
        format!("a: {}", "{a: ".repeat(100_000)),
        "- ".repeat(100_000),
        (0..200).map(|level| format!("{}a:\n", " ".repeat(level))).collect(),
    ] {
        let said = refused(&deep);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("nested deeper than 64 levels"), "{said:?}");
    }
}

#[test]
fn size_is_bounded() {
    let large = format!("# {}\n", "x".repeat(10_000_000));
    assert_eq!(
        refused(&large),
        ["1:10000001: 10000003 bytes are too large for a plan; at most 10 MB are read, which end here"]
    );
    let fair = format!("# {}\nmodel: {{batch_size: 3}}\n", "x".repeat(1_000_000));
    assert_eq!(Document::parse(&fair).unwrap().plan().unwrap().model.batch_size, Some(3));
}

#[test]
fn a_stream_holds_several() {
    let text =
        "# first\nmodel: {batch_size: 1}\n---\nmodel: {batch_size: 2}\n---\n# nothing\n---\n\nmodel: {batch_size: 0}\n";
    let documents = Document::parse_stream(text).unwrap();
    let batches: Vec<_> = documents.iter().map(|document| document.plan().map(|plan| plan.model.batch_size)).collect();
    assert_eq!(batches[0], Ok(Some(1)));
    assert_eq!(batches[1], Ok(Some(2)));
    assert_eq!(batches[2].clone().unwrap_err()[0].at.map(|at| (at.line, at.column)), Some((9, 21)));
    assert_eq!(documents.len(), 3);
    assert_eq!(Document::parse_stream("").unwrap().len(), 1);
    assert_eq!(Document::parse_stream("---\nmodel: {}\n").unwrap().len(), 1);
    assert_eq!(Document::parse_stream("{\"model\": {}}\n---\n{\"model\": {}}\n").unwrap().len(), 2);
    assert!(refused(text)[0].starts_with("3:1: a second plan starts here"));
    let twice = Document::parse_stream("run: {}\nrun: {}\n---\nmodel: {}\nmodel: {}\n").unwrap_err();
    assert_eq!(twice.iter().map(|fault| fault.at.unwrap().line).collect::<Vec<_>>(), [2, 5]);
}
