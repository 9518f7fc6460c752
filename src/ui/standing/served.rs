//! The second line's figures of a plan that answers.

use ratatui::text::Span;

use crate::compare::Comparison;
use crate::predict::Prediction;
use crate::ui::Look;
use crate::ui::header::tokens;

/// What a server is judged by: how fast it answers, when the first token comes, and how long each further one takes.
pub fn answered<'a>(prediction: &Prediction, comparison: Option<&Comparison>, look: &Look) -> Vec<Vec<Span<'a>>> {
    let theme = &look.theme;
    let figure = |label: &'static str, value: String, unit: &'static str| {
        vec![Span::styled(label, theme.dim()), Span::styled(value, theme.predicted()), Span::styled(unit, theme.dim())]
    };
    // Beside figures with what was observed: nobody observes these.
    let unseen = if comparison.is_some() { format!("{}–", look.arrow().trim()) } else { String::new() };
    let of = |label: &'static str, value: &str| {
        let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
        let mut spans = figure(label, number.to_owned(), "");
        spans.push(Span::styled(format!("{unseen} {unit}"), theme.dim()));
        spans
    };
    // Of a model that generates nothing the one pass is all there is.
    let Some(decode) = &prediction.decode else {
        return vec![
            figure("a pass ", prediction.time.step.to_string(), " predicted"),
            figure("", tokens(prediction.time.samples_per_s), " samples/s"),
        ];
    };
    let decoded = decode.tokens_per_s.map(|decoded| of("decode ", &format!("{} tok/s", tokens(decoded))));
    let first = of("first token ", &prediction.time.step.to_string());
    decoded.into_iter().chain([first, of("each further ", &decode.step.to_string())]).collect()
}
