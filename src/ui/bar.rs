//! Horizontal bars: what is predicted as a stack of components, what is observed as one solid piece.

use ratatui::text::Span;

use super::Look;
use crate::predict::{Component, StageMemory};
use crate::units::Bytes;

/// The pattern of a component: with its colour, and without colours alone, it is the same everywhere.
#[must_use]
pub const fn pattern(component: Component) -> &'static str {
    match component {
        Component::Parameters => "█",
        Component::Gradients => "▓",
        Component::OptimizerStates => "▒",
        Component::Activations => "░",
        Component::Temporaries => "▪",
        Component::KvCache => "▫",
        Component::CommunicationBuffers => "∙",
        Component::Overhead => "·",
    }
}

/// The word of a component on the screen.
#[must_use]
pub const fn word(component: Component) -> &'static str {
    match component {
        Component::Parameters => "parameters",
        Component::Gradients => "gradients",
        Component::OptimizerStates => "optimizer",
        Component::Activations => "activations",
        Component::Temporaries => "temporaries",
        Component::KvCache => "KV cache",
        Component::CommunicationBuffers => "buffers",
        Component::Overhead => "overhead",
    }
}

/// How many cells `part` of `scale` takes in a bar of `cells`.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn cells(part: Bytes, scale: Bytes, cells: usize) -> usize {
    part.share_of(scale).map_or(0, |share| ((share.0 * cells as f64).round() as usize).min(cells))
}

/// The stacked components of a stage: `width` cells stand for `scale`, the capacity is a tick where it lies within.
#[must_use]
pub fn stacked<'a>(stage: &StageMemory, scale: Bytes, capacity: Bytes, width: usize, look: &Look) -> Vec<Span<'a>> {
    let mut spans = Vec::new();
    let mut sum = Bytes::ZERO;
    let mut drawn = 0;
    for component in Component::ALL {
        sum += stage.component(component);
        // Ends are rounded, not lengths, so that the whole is right too.
        let end = cells(sum, scale, width);
        spans.push(Span::styled(pattern(component).repeat(end - drawn), look.theme.component(component)));
        drawn = end;
    }
    spans.extend(rest(drawn, scale, capacity, width, look));
    spans
}

/// One solid piece of `used`.
#[must_use]
pub fn solid<'a>(used: Bytes, scale: Bytes, capacity: Bytes, width: usize, look: &Look) -> Vec<Span<'a>> {
    let drawn = cells(used, scale, width);
    let mut spans = vec![Span::styled("▆".repeat(drawn), look.theme.observed())];
    spans.extend(rest(drawn, scale, capacity, width, look));
    spans
}

fn rest<'a>(drawn: usize, scale: Bytes, capacity: Bytes, width: usize, look: &Look) -> Vec<Span<'a>> {
    let mark = cells(capacity, scale, width);
    if scale > capacity && mark > drawn {
        return vec![
            Span::raw(" ".repeat(mark - drawn - 1)),
            Span::styled("┃", look.theme.danger()),
            Span::raw(" ".repeat(width - mark)),
        ];
    }
    vec![Span::raw(" ".repeat(width - drawn))]
}
