use super::*;
use crate::report::drawing::{Anchor, Drawing, DrawnShape, width};

/// The boxes of all words of a drawing: left, top, right, bottom.
pub(in crate::report) fn word_boxes(drawing: &Drawing) -> Vec<([f64; 4], String)> {
    let boxes = drawing.shapes.iter().filter_map(|shape| {
        let DrawnShape::Words { at, anchor, size, words, .. } = shape else { return None };
        let long = width(words, *size);
        let left = match anchor {
            Anchor::Start => at.0,
            Anchor::Middle => at.0 - long / 2.0,
            Anchor::End => at.0 - long,
        };
        Some(([left, at.1 - 0.75 * size, left + long, at.1 + 0.2 * size], words.clone()))
    });
    boxes.collect()
}

/// Holds that no two words lie on each other and none leaves the page.
pub(in crate::report) fn hold_words_apart(drawing: &Drawing) {
    let boxes = word_boxes(drawing);
    for (at, ([left, top, right, bottom], words)) in boxes.iter().enumerate() {
        let inside = *left >= 0.0 && *top >= 0.0 && *right <= drawing.size.0 && *bottom <= drawing.size.1;
        assert!(inside, "`{words}` leaves the page: {left:.0} {top:.0} {right:.0} {bottom:.0}");
        for ([other_left, other_top, other_right, other_bottom], other) in &boxes[at + 1..] {
            let apart = right <= other_left || other_right <= left || bottom <= other_top || other_bottom <= top;
            assert!(apart, "`{words}` lies on `{other}`");
        }
    }
}

fn plot(points: Vec<PlotPoint>) -> Plot {
    let labels = points.iter().enumerate();
    let labels = labels.map(|(at, point)| PlotLabel { at: *point, words: format!("operator {at}"), ink: BLACK });
    Plot {
        title: "a plot".to_owned(),
        x: PlotAxis::decades("intensity, FLOP/B", (-1.0, 4.0), 0),
        y: PlotAxis::decades("rate, TFLOP/s", (11.0, 15.2), 12),
        labels: labels.collect(),
        layers: vec![PlotLayer::dots(Some("operators".to_owned()), INKS[0], WHITE, points)],
    }
}

#[test]
fn crowded_labels_find_places_of_their_own() {
    // Forty operators within a few pixels, in the corner.
    let points = (0..40).map(|at| (0.1 + 0.001 * f64::from(at), 1e11 + 1e9 * f64::from(at))).collect();
    let drawn = drawing(&[plot(points)]);
    hold_words_apart(&drawn);
    let labelled = word_boxes(&drawn).iter().filter(|(_, words)| words.starts_with("operator ")).count();
    assert_eq!(labelled, 40);
}

#[test]
fn a_point_beyond_the_border_is_a_triangle_at_it() {
    let drawn = drawing(&[plot(vec![(1.0, 1e9), (1.0, 1e12)])]);
    let dots = drawn.shapes.iter().filter(|shape| matches!(shape, DrawnShape::Dot { .. })).count();
    let triangles =
        drawn.shapes.iter().filter(|shape| matches!(shape, DrawnShape::Area { points, .. } if points.len() == 3));
    // One dot is the legend's.
    assert_eq!((dots, triangles.count()), (2, 1));
}

#[test]
fn letters_show_the_same_and_fit_the_width() {
    let mut both = plot(vec![(1.0, 1e12), (100.0, 1e14)]);
    both.layers.insert(0, PlotLayer::line("roof", INKS[1], vec![(0.1, 1e11), (1e3, 1e15), (1e4, 1e15)]));
    for (width, ascii) in [(80, false), (60, true)] {
        let text = both.text(width, ascii);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        assert!(text.contains("a roof   b operators   c operator 0   d operator 1"), "{text}");
        assert_eq!(text.is_ascii(), ascii, "{text}");
        assert!(text.contains("intensity, FLOP/B") && text.contains("rate, TFLOP/s"), "{text}");
    }
}
