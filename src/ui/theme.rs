//! Colours by role, from the YAML files under `themes/`.

use std::fmt;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use thiserror::Error;

use crate::files;
use crate::predict::{Component, Verdict};

/// A theme that cannot be used.
#[derive(Debug, Error)]
pub enum ThemeError {
    /// Not YAML, an unknown role, or no colour.
    #[error("{name}: {error}")]
    Malformed {
        /// The theme.
        name: String,
        /// What is wrong, with line and column.
        error: serde_yaml::Error,
    },
    /// Its values stand in each other deeper than those of any theme.
    #[error("{name}: nested too deep")]
    TooDeep {
        /// The theme.
        name: String,
    },
    /// It inherits from a theme that there is not, or that inherits from it.
    #[error("{name}: inherits: no theme `{parent}` to inherit from")]
    Orphan {
        /// The theme.
        name: String,
        /// What it inherits from.
        parent: String,
    },
    /// It says nothing of a role and inherits from no theme that does.
    #[error("{name}: no colour for {roles}; `inherits: dark` takes what is missing from there")]
    Incomplete {
        /// The theme.
        name: String,
        /// The roles.
        roles: String,
    },
}

macro_rules! roles {
    ($( $role:ident ),* $(,)?) => {
        /// Colours by what they mean.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Theme {
            $( $role: Tone, )*
            background: Tone,
            /// Whether colours are left out altogether.
            colourless: bool,
        }

        /// A theme as its file has it.
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct ThemeFile {
            inherits: Option<String>,
            background: Option<Tone>,
            $( $role: Option<Tone>, )*
        }

        impl ThemeFile {
            /// What is missing here as another theme has it.
            fn over(self, parent: Self) -> Self {
                Self {
                    inherits: None,
                    background: self.background.or(parent.background),
                    $( $role: self.$role.or(parent.$role), )*
                }
            }

            /// The theme; else the roles that have no colour.
            fn whole(self) -> Result<Theme, Vec<&'static str>> {
                let mut missing = Vec::new();
                $( if self.$role.is_none() { missing.push(stringify!($role)); } )*
                if !missing.is_empty() {
                    return Err(missing);
                }
                let tones = [$( self.$role.unwrap_or_default() ),*];
                let background = self.background.unwrap_or_default();
                let colourless = tones.iter().chain([&background]).all(|tone| tone.0 == Color::Reset);
                Ok(Theme { $( $role: self.$role.unwrap_or_default(), )* background, colourless })
            }
        }

        impl Theme {
            /// No colours at all: bold, dim and reverse alone carry the meaning.
            #[must_use]
            pub fn colourless() -> Self {
                Self { $( $role: Tone::default(), )* background: Tone::default(), colourless: true }
            }

            /// Every role with its colour, in the order of the files.
            #[must_use]
            pub fn roles(&self) -> Vec<(&'static str, Color)> {
                vec![$( (stringify!($role), self.$role.0) ),*]
            }
        }
    };
}

roles! {
    text, dim, frame, accent, good, warning, danger, roof, observed, parameters, gradients, optimizer_states,
    activations, temporaries, kv_cache, communication_buffers, overhead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tone(Color);

impl<'de> Deserialize<'de> for Tone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not an untagged enumeration: that would lose the line of a mistake.
        deserializer.deserialize_any(ToneVisitor)
    }
}

struct ToneVisitor;

impl Visitor<'_> for ToneVisitor {
    type Value = Tone;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a colour: a name, 0 to 255, or #rrggbb")
    }

    fn visit_u64<E: Error>(self, index: u64) -> Result<Tone, E> {
        let index = u8::try_from(index).map_err(|_| E::invalid_value(Unexpected::Unsigned(index), &self))?;
        Ok(Tone(Color::Indexed(index)))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Tone, E> {
        name.parse().map(Tone).map_err(|_| E::invalid_value(Unexpected::Str(name), &self))
    }
}

/// The themes inside the binary.
pub const EMBEDDED: &[(&str, &str)] = &[
    ("dark", include_str!("../../themes/dark.yaml")),
    ("light", include_str!("../../themes/light.yaml")),
    ("high-contrast", include_str!("../../themes/high-contrast.yaml")),
    ("colour-blind", include_str!("../../themes/colour-blind.yaml")),
    ("monochrome", include_str!("../../themes/monochrome.yaml")),
    ("ansi", include_str!("../../themes/ansi.yaml")),
    ("catppuccin", include_str!("../../themes/catppuccin.yaml")),
    ("dracula", include_str!("../../themes/dracula.yaml")),
    ("gruvbox", include_str!("../../themes/gruvbox.yaml")),
    ("nord", include_str!("../../themes/nord.yaml")),
    ("solarized", include_str!("../../themes/solarized.yaml")),
    ("solarized-light", include_str!("../../themes/solarized-light.yaml")),
];

/// Themes that inherit from one another, at most.
const DEEPEST: usize = 8;

impl Theme {
    /// Reads a theme file, which may inherit from an embedded theme.
    ///
    /// # Errors
    /// Where the text is not YAML, a role is missing or unknown, or a colour is none.
    pub fn parse(name: &str, text: &str) -> Result<Self, ThemeError> {
        Self::parse_with(name, text, |_| None)
    }

    /// Reads a theme file, which may inherit from one that `own` has the text of, or else from an embedded one.
    ///
    /// # Errors
    /// As [`Theme::parse`], and where there is no theme to inherit from.
    pub fn parse_with(name: &str, text: &str, own: impl Fn(&str) -> Option<String>) -> Result<Self, ThemeError> {
        let read = |name: &str, text: &str| {
            if files::is_deep(text) {
                return Err(ThemeError::TooDeep { name: name.to_owned() });
            }
            // A file of comments alone is one of no colours.
            let file: Result<Option<ThemeFile>, _> = serde_yaml::from_str(text);
            let malformed = |error| ThemeError::Malformed { name: name.to_owned(), error };
            file.map(Option::unwrap_or_default).map_err(malformed)
        };
        let mut file = read(name, text)?;
        let mut child = name.to_owned();
        for _ in 0..DEEPEST {
            let Some(parent) = file.inherits.take() else { break };
            let embedded = || EMBEDDED.iter().find(|(known, _)| *known == parent).map(|(_, text)| (*text).to_owned());
            // A theme that extends an embedded one may have its name.
            let text = if parent == child { embedded() } else { own(&parent).or_else(embedded) };
            let Some(text) = text else { return Err(ThemeError::Orphan { name: child, parent }) };
            let mut above = read(&parent, &text)?;
            let inherits = above.inherits.take();
            file = file.over(above);
            file.inherits = inherits;
            child = parent;
        }
        if let Some(parent) = file.inherits {
            return Err(ThemeError::Orphan { name: name.to_owned(), parent });
        }
        file.whole().map_err(|missing| ThemeError::Incomplete { name: name.to_owned(), roles: missing.join(", ") })
    }

    /// The colour that is painted behind everything; the terminal's own where it is `Reset`.
    #[must_use]
    pub fn background(&self) -> Color {
        self.background.0
    }

    /// Paints the background, and the text's colour where a cell has none of its own.
    pub fn paint(&self, buffer: &mut Buffer) {
        if self.background.0 == Color::Reset {
            return;
        }
        for cell in &mut buffer.content {
            if cell.bg == Color::Reset {
                cell.bg = self.background.0;
            }
            if cell.fg == Color::Reset {
                cell.fg = self.text.0;
            }
        }
    }

    fn style(&self, tone: Tone) -> Style {
        if self.colourless { Style::new() } else { Style::new().fg(tone.0) }
    }

    /// Plain text.
    #[must_use]
    pub fn text(&self) -> Style {
        self.style(self.text)
    }

    /// Labels, units, what was assumed.
    #[must_use]
    pub fn dim(&self) -> Style {
        let style = self.style(self.dim);
        if self.colourless { style.add_modifier(Modifier::DIM) } else { style }
    }

    /// Frames of panes without the focus.
    #[must_use]
    pub fn frame(&self) -> Style {
        let style = self.style(self.frame);
        if self.colourless { style.add_modifier(Modifier::DIM) } else { style }
    }

    /// The focus.
    #[must_use]
    pub fn accent(&self) -> Style {
        self.style(self.accent).add_modifier(Modifier::BOLD)
    }

    /// The selected row of the focused pane.
    #[must_use]
    pub fn selected(&self) -> Style {
        if self.colourless { Style::new().add_modifier(Modifier::REVERSED) } else { self.accent() }
    }

    /// All is well.
    #[must_use]
    pub fn good(&self) -> Style {
        self.style(self.good)
    }

    /// Needs an eye.
    #[must_use]
    pub fn warning(&self) -> Style {
        self.style(self.warning).add_modifier(Modifier::BOLD)
    }

    /// Needs a hand.
    #[must_use]
    pub fn danger(&self) -> Style {
        let style = self.style(self.danger).add_modifier(Modifier::BOLD);
        if self.colourless { style.add_modifier(Modifier::REVERSED) } else { style }
    }

    /// What is predicted.
    #[must_use]
    pub fn predicted(&self) -> Style {
        self.style(self.roof)
    }

    /// What is observed.
    #[must_use]
    pub fn observed(&self) -> Style {
        self.style(self.observed)
    }

    /// The colour in which roofs are drawn on a canvas.
    #[must_use]
    pub fn roof_colour(&self) -> Color {
        if self.colourless { Color::Reset } else { self.roof.0 }
    }

    /// The colour of a second line over the first one of a chart.
    #[must_use]
    pub fn overlay_colour(&self) -> Color {
        if self.colourless { Color::Reset } else { self.warning.0 }
    }

    /// The colour of chart lines that only guide the eye.
    #[must_use]
    pub fn guide_colour(&self) -> Color {
        if self.colourless { Color::Reset } else { self.frame.0 }
    }

    /// A memory component, wherever it is drawn.
    #[must_use]
    pub fn component(&self, component: Component) -> Style {
        self.style(match component {
            Component::Parameters => self.parameters,
            Component::Gradients => self.gradients,
            Component::OptimizerStates => self.optimizer_states,
            Component::Activations => self.activations,
            Component::Temporaries => self.temporaries,
            Component::KvCache => self.kv_cache,
            Component::CommunicationBuffers => self.communication_buffers,
            Component::Overhead => self.overhead,
        })
    }

    /// A verdict.
    #[must_use]
    pub fn verdict(&self, verdict: Verdict) -> Style {
        match verdict {
            Verdict::Fits => self.good().add_modifier(Modifier::BOLD),
            Verdict::Tight => self.warning(),
            Verdict::DoesNotFit => self.danger(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_themes_are_whole() {
        for (name, text) in EMBEDDED {
            Theme::parse(name, text).unwrap();
        }
    }

    #[test]
    fn a_theme_may_state_one_colour() {
        let dark = Theme::parse("dark", EMBEDDED[0].1).unwrap();
        let mine = Theme::parse("mine", "inherits: dark\naccent: '#010203'\n").unwrap();
        assert_eq!(mine.accent, Tone(Color::Rgb(1, 2, 3)));
        assert_eq!(Theme { accent: dark.accent, ..mine }, dark);
        let own = |name: &str| (name == "base").then(|| "inherits: dark\ndanger: 9\n".to_owned());
        let twice = Theme::parse_with("mine", "inherits: base\naccent: 8\n", own).unwrap();
        assert_eq!(
            (twice.danger, twice.accent, twice.good),
            (Tone(Color::Indexed(9)), Tone(Color::Indexed(8)), dark.good)
        );
    }

    #[test]
    fn a_theme_that_cannot_be_whole_says_why() {
        let said = |text: &str| Theme::parse("mine", text).unwrap_err().to_string();
        assert_eq!(said("inherits: moon\n"), "mine: inherits: no theme `moon` to inherit from");
        let missing = said("accent: 8\n");
        assert!(
            missing.starts_with("mine: no colour for text, dim,") && missing.contains("`inherits: dark`"),
            "{missing}"
        );
        let circle = |name: &str| Some(format!("inherits: {}\n", if name == "a" { "b" } else { "a" }));
        assert!(matches!(Theme::parse_with("a", "inherits: b\n", circle), Err(ThemeError::Orphan { .. })));
        let own = Theme::parse_with("dark", "inherits: dark\naccent: 8\n", |_| Some("inherits: dark\n".to_owned()));
        assert_eq!(own.unwrap().accent, Tone(Color::Indexed(8)), "one that extends the embedded one of its name");
    }

    #[test]
    fn a_broken_theme_says_what_and_where() {
        let error = Theme::parse("mine", "text: reset\ndim: turquoisish\n").unwrap_err().to_string();
        assert!(error.contains("turquoisish") && error.contains("a colour: a name, 0 to 255"), "{error}");
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn without_colours_no_style_has_one() {
        let theme = Theme::colourless();
        for style in [theme.text(), theme.dim(), theme.danger(), theme.component(Component::Gradients)] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }
}
