//! A drawing as SVG.

use std::fmt::Write as _;

use super::{Anchor, Drawing, DrawnShape, Ink, PixelPoint};
use crate::printable::printable;

pub(super) fn svg(drawing: &Drawing) -> String {
    let (width, height) = drawing.size;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"DejaVu Sans, Verdana, sans-serif\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for shape in &drawing.shapes {
        add(&mut svg, shape);
    }
    svg.push_str("</svg>\n");
    svg
}

fn add(svg: &mut String, shape: &DrawnShape) {
    let _ = match shape {
        DrawnShape::Line { from: (x1, y1), to: (x2, y2), ink, width, dashed } => writeln!(
            svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{}\" \
             stroke-width=\"{width}\"{}/>",
            colour(*ink),
            if *dashed { " stroke-dasharray=\"3 4\"" } else { "" }
        ),
        DrawnShape::Path { points, ink, width, dashed } => writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"{}/>",
            corners(points),
            colour(*ink),
            if *dashed { " stroke-dasharray=\"3 4\"" } else { "" }
        ),
        DrawnShape::Area { points, fill } => {
            writeln!(svg, "<polygon points=\"{}\" fill=\"{}\"/>", corners(points), colour(*fill))
        }
        DrawnShape::Dot { at: (x, y), radius, ink, fill } => writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{}\" stroke=\"{}\"/>",
            colour(*fill),
            colour(*ink)
        ),
        DrawnShape::Words { at: (x, y), anchor, size, ink, words } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let words = printable(words).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{}\">{words}</text>",
                colour(*ink)
            )
        }
    };
}

fn corners(points: &[PixelPoint]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

fn colour(Ink(red, green, blue): Ink) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
