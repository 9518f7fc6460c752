//! Themes: each text and bar stands out from its background as the Web Content Accessibility Guidelines 2.2 ask.

use memwall::ui::{EMBEDDED, Theme};
use ratatui::style::Color;

/// Roles in which text is written: success criterion 1.4.3 (AA), 4.5:1.
const TEXT: [&str; 8] = ["text", "dim", "accent", "good", "warning", "danger", "roof", "observed"];

/// Roles of bars, which are graphics: success criterion 1.4.11 (AA), 3:1.
const BARS: [&str; 8] = [
    "parameters",
    "gradients",
    "optimizer_states",
    "activations",
    "temporaries",
    "kv_cache",
    "communication_buffers",
    "overhead",
];

type Rgb = (u8, u8, u8);

/// A colour of the 256-colour palette by the formula of xterm's `256colres.pl`; the first sixteen are the terminal's.
fn rgb(colour: Color) -> Option<Rgb> {
    match colour {
        Color::Rgb(red, green, blue) => Some((red, green, blue)),
        Color::Indexed(index @ 16..=231) => {
            let level = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
            let index = index - 16;
            Some((level(index / 36), level(index / 6 % 6), level(index % 6)))
        }
        Color::Indexed(index @ 232..=255) => {
            let level = 8 + 10 * (index - 232);
            Some((level, level, level))
        }
        _ => None,
    }
}

/// The guidelines' "relative luminance".
fn luminance((red, green, blue): Rgb) -> f64 {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

/// The guidelines' "contrast ratio".
fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn the_formula_is_the_guidelines() {
    // Black on white is 21:1, the most there is; #767676 on white is the lightest grey with 4.5:1.
    assert!((contrast((0, 0, 0), (255, 255, 255)) - 21.0).abs() < 1e-9);
    assert!(contrast((0x76, 0x76, 0x76), (255, 255, 255)) >= 4.5);
    assert!(contrast((0x77, 0x77, 0x77), (255, 255, 255)) < 4.5);
}

/// The backgrounds that a theme is held to: its own, or those that terminals of its kind have.
fn backgrounds(name: &str, theme: &Theme) -> Vec<Rgb> {
    match (rgb(theme.background()), name) {
        (Some(own), _) => vec![own],
        (None, "dark") => vec![(0, 0, 0), (0x1e, 0x1e, 0x1e)],
        (None, "light") => vec![(255, 255, 255), (0xfa, 0xfa, 0xfa)],
        // The terminal's own colours: what they are is its user's choice.
        (None, "ansi" | "monochrome") => Vec::new(),
        (None, other) => panic!("{other} paints no background: which are its text's?"),
    }
}

#[test]
fn every_text_and_bar_stands_out() {
    for (name, text) in EMBEDDED {
        let theme = Theme::parse(name, text).unwrap();
        let most = if *name == "high-contrast" { 7.0 } else { 4.5 };
        for background in backgrounds(name, &theme) {
            for (role, colour) in theme.roles() {
                // The terminal's own text.
                let Some(colour) = rgb(colour) else { continue };
                let least = match role {
                    role if TEXT.contains(&role) => most,
                    role if BARS.contains(&role) => 3.0,
                    // Frames only guide the eye (1.4.11 leaves them out): they are to be seen.
                    _ => 1.5,
                };
                let ratio = contrast(colour, background);
                assert!(ratio >= least, "{name}: {role} has {ratio:.2}:1 on {background:?}");
            }
        }
    }
}

#[test]
fn the_colour_blind_theme_has_the_colours_of_okabe_and_ito() {
    let (_, text) = EMBEDDED.iter().find(|(name, _)| *name == "colour-blind").unwrap();
    let theme = Theme::parse("colour-blind", text).unwrap();
    // "Color Universal Design", figure 16: orange, sky blue, bluish green, yellow, blue, vermilion, reddish purple.
    let palette: [Rgb; 7] =
        [(230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167)];
    for (role, colour) in theme.roles() {
        if BARS.contains(&role) && role != "overhead" {
            assert!(palette.contains(&rgb(colour).unwrap()), "{role}: {colour:?}");
        }
    }
}
