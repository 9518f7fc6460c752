//! The picture of the screen: a frame of the dashboard on an example plan and its simulated run, as SVG.

use std::fmt::Write as _;

use memwall::ui::draw;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::hold;
use crate::support::demo;

const SIZE: (u16, u16) = (120, 40);

/// A cell in pixels.
const CELL: (usize, usize) = (8, 17);

/// Blank around the screen.
const MARGIN: usize = 12;

const BACKGROUND: &str = "#0d1117";
const TEXT: &str = "#d7dce2";

/// The strengths of a colour in the cube of 256 colours (xterm).
const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// A colour as terminals of 256 colours show it.
fn colour(colour: Color) -> String {
    match colour {
        Color::Reset => TEXT.to_owned(),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        Color::Indexed(index @ 16..=231) => {
            let at = usize::from(index - 16);
            let [red, green, blue] = [CUBE[at / 36], CUBE[at / 6 % 6], CUBE[at % 6]];
            format!("#{red:02x}{green:02x}{blue:02x}")
        }
        Color::Indexed(index @ 232..) => {
            let grey = 8 + 10 * (index - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
        other => panic!("the dark theme has no {other:?}"),
    }
}

/// What is drawn alike: colour, bold, dim.
type Style = (String, bool, bool);

fn style(cell: &Cell) -> Style {
    let (front, back) = (cell.fg, cell.bg);
    assert_eq!(back, Color::Reset, "the screen has no backgrounds");
    (colour(front), cell.modifier.contains(Modifier::BOLD), cell.modifier.contains(Modifier::DIM))
}

/// A character as a path within its cell, where it is a shape and no letter: those of fonts leave gaps.
fn shape(symbol: char, x: usize, y: usize) -> Option<String> {
    let (width, height) = (CELL.0 as f64, CELL.1 as f64);
    let (x, y) = (x as f64, y as f64);
    let bar = |left: f64, top: f64, right: f64, bottom: f64| {
        Some(format!("M{} {}H{}V{}H{}Z", x + left, y + top, x + right, y + bottom, x + left))
    };
    let (middle, centre) = (width / 2.0, (height / 2.0).floor());
    match symbol {
        '█' => bar(0.0, 0.0, width, height),
        '▁'..='▇' => {
            let eighths = f64::from(symbol as u32 - 0x2580);
            bar(0.0, (height * (1.0 - eighths / 8.0)).round(), width, height)
        }
        '▏' => bar(0.0, 0.0, 1.0, height),
        '▕' => bar(width - 1.0, 0.0, width, height),
        '─' => bar(0.0, centre, width, centre + 1.0),
        '│' => bar(middle, 0.0, middle + 1.0, height),
        '┤' => Some(format!(
            "M{} {}H{}V{}H{}V{}H{}V{}H{}Z",
            x,
            y + centre,
            x + middle,
            y,
            x + middle + 1.0,
            y + height,
            x + middle,
            y + centre + 1.0,
            x
        )),
        '╭' => Some(format!(
            "M{} {}V{}H{}V{}H{}V{}Z",
            x + middle,
            y + height,
            y + centre,
            x + width,
            y + centre + 1.0,
            x + middle + 1.0,
            y + height
        )),
        '╮' => Some(format!(
            "M{} {}V{}H{}V{}H{}V{}Z",
            x + middle + 1.0,
            y + height,
            y + centre,
            x,
            y + centre + 1.0,
            x + middle,
            y + height
        )),
        '╰' => Some(format!(
            "M{} {}V{}H{}V{}H{}V{}Z",
            x + middle,
            y,
            y + centre + 1.0,
            x + width,
            y + centre,
            x + middle + 1.0,
            y
        )),
        '╯' => {
            Some(format!("M{} {}V{}H{}V{}H{}V{}Z", x + middle + 1.0, y, y + centre + 1.0, x, y + centre, x + middle, y))
        }
        '\u{2800}'..='\u{28ff}' => Some(dots(symbol as u32 - 0x2800, x, y)),
        _ => None,
    }
}

/// The dots of a braille character: bits 0 to 2 and 6 go down the left column, 3 to 5 and 7 the right one (Unicode 1.1).
fn dots(bits: u32, x: f64, y: f64) -> String {
    const PLACES: [(f64, f64); 8] =
        [(0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (1.0, 0.0), (1.0, 1.0), (1.0, 2.0), (0.0, 3.0), (1.0, 3.0)];
    let (across, down) = (CELL.0 as f64 / 2.0, CELL.1 as f64 / 4.0);
    let lit = PLACES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    lit.fold(String::new(), |mut path, (_, (column, row))| {
        write!(path, "M{} {}h2v2h-2Z", x + 1.0 + column * across, y + 1.0 + row * down).unwrap();
        path
    })
}

/// How much of a shaded cell is filled.
fn shade(symbol: char) -> Option<f64> {
    match symbol {
        '▓' => Some(0.75),
        '▒' => Some(0.5),
        '░' => Some(0.25),
        _ => None,
    }
}

/// Letters and shapes of one row, and of each style one element.
fn row(cells: &[Cell], y: usize) -> String {
    let mut shapes: Vec<(Style, Option<f64>, String)> = Vec::new();
    let mut texts: Vec<(Style, usize, String)> = Vec::new();
    for (column, cell) in cells.iter().enumerate() {
        let x = MARGIN + column * CELL.0;
        let symbol = cell.symbol().chars().next().unwrap();
        let filled = shade(symbol);
        if let Some(path) = shape(if filled.is_some() { '█' } else { symbol }, x, y) {
            match shapes.iter_mut().find(|(known, shade, _)| *known == style(cell) && *shade == filled) {
                Some((_, _, all)) => all.push_str(&path),
                None => shapes.push((style(cell), filled, path)),
            }
        } else if symbol != ' ' {
            match texts.last_mut() {
                Some((known, at, text)) if *known == style(cell) && *at + text.chars().count() == column => {
                    text.push_str(cell.symbol());
                }
                _ => texts.push((style(cell), column, cell.symbol().to_owned())),
            }
        }
    }
    let mut svg = String::new();
    for ((colour, _, dim), shade, path) in shapes {
        let opacity = shade.unwrap_or(1.0) * if dim { 0.6 } else { 1.0 };
        let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() };
        writeln!(svg, "<path fill=\"{colour}\"{opacity} d=\"{path}\"/>").unwrap();
    }
    for ((colour, bold, dim), column, text) in texts {
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let opacity = if dim { " fill-opacity=\"0.6\"" } else { "" };
        let (x, y, length) = (MARGIN + column * CELL.0, y + 13, text.chars().count() * CELL.0);
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let attributes = format!("x=\"{x}\" y=\"{y}\" textLength=\"{length}\" fill=\"{colour}\"{weight}{opacity}");
        writeln!(svg, "<text {attributes}>{text}</text>").unwrap();
    }
    svg
}

fn picture(buffer: &Buffer) -> String {
    let (columns, rows) = (usize::from(SIZE.0), usize::from(SIZE.1));
    let (width, height) = (columns * CELL.0 + 2 * MARGIN, rows * CELL.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"13\">\n\
         <title>MemWall beside a simulated training run</title>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g>\n"
    );
    for (at, cells) in buffer.content.chunks(columns).enumerate() {
        svg.push_str(&row(cells, MARGIN + at * CELL.1));
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

#[test]
fn the_picture_of_the_screen_is_a_real_one() {
    let mut state = demo::open("13b_long_sequence");
    state.views.size = SIZE;
    demo::run(&mut state, 300);
    let mut terminal = Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).unwrap();
    terminal.draw(|frame| draw(&state, &demo::look(), frame)).unwrap();
    hold(".github/screen.svg", &picture(terminal.backend().buffer()));
}
