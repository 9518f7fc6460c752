//! Colours by role, from the YAML files under `themes/`.

use std::fmt;

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use thiserror::Error;

use crate::predict::{Component, Verdict};

/// A theme that cannot be used.
#[derive(Debug, Error)]
pub enum ThemeError {
    /// Not YAML, an unknown or missing role, or no colour.
    #[error("{name}: {error}")]
    Malformed {
        /// The theme.
        name: String,
        /// What is wrong, with line and column.
        error: serde_yaml::Error,
    },
}

/// Colours by what they mean.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Theme {
    text: Tone,
    dim: Tone,
    frame: Tone,
    accent: Tone,
    good: Tone,
    warning: Tone,
    danger: Tone,
    roof: Tone,
    observed: Tone,
    parameters: Tone,
    gradients: Tone,
    optimizer_states: Tone,
    activations: Tone,
    temporaries: Tone,
    kv_cache: Tone,
    communication_buffers: Tone,
    overhead: Tone,
    /// Whether colours are left out altogether.
    #[serde(skip)]
    colourless: bool,
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
    ("ansi", include_str!("../../themes/ansi.yaml")),
];

impl Theme {
    /// Reads a theme file.
    ///
    /// # Errors
    /// Where the text is not YAML, a role is missing or unknown, or a colour is none.
    pub fn parse(name: &str, text: &str) -> Result<Self, ThemeError> {
        serde_yaml::from_str(text).map_err(|error| ThemeError::Malformed { name: name.to_owned(), error })
    }

    /// No colours at all: bold, dim and reverse alone carry the meaning.
    #[must_use]
    pub fn colourless() -> Self {
        let none = Tone(Color::Reset);
        Self {
            text: none,
            dim: none,
            frame: none,
            accent: none,
            good: none,
            warning: none,
            danger: none,
            roof: none,
            observed: none,
            parameters: none,
            gradients: none,
            optimizer_states: none,
            activations: none,
            temporaries: none,
            kv_cache: none,
            communication_buffers: none,
            overhead: none,
            colourless: true,
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
