//! The manual on the screen: its topics and their sections as a list to search, and the topic that is read.

use crate::app::key::KeyPress;
use crate::app::pane::Pane;
use crate::app::picker::choice::Choice;
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::state::{Overlay, State};
use crate::manual::{TOPICS, Topic, TopicLine, layout};

/// The longest lines: longer ones are hard to read.
const WIDEST: u16 = 100;

/// The frame, and a blank beside it.
const FRAME: u16 = 4;

/// Cells of a line of a topic on a screen of that size.
#[must_use]
pub fn topic_width((width, _): (u16, u16)) -> usize {
    usize::from(width.saturating_sub(FRAME).clamp(1, WIDEST))
}

/// The lines that are shown of a text over the panes on a screen of that size.
#[must_use]
pub fn sheet_height((_, height): (u16, u16)) -> usize {
    // Two lines of header, one of footer, two of frame.
    usize::from(height.saturating_sub(5))
}

/// The lines of a topic on a screen of that size.
#[must_use]
pub fn topic_rows(topic: usize, size: (u16, u16)) -> Vec<TopicLine> {
    TOPICS.get(topic).map(|topic| layout(topic.text, topic_width(size))).unwrap_or_default()
}

/// Opens the list of topics, on the one about the focused pane.
pub fn open(state: &mut State) {
    let choices = listed().map(|(topic, section, title)| choice(topic, section, &title)).collect();
    let about = match state.views.focus {
        Pane::Plan => "edit",
        Pane::Vram => "metrics",
        Pane::Roofline => "roofline",
        Pane::Monitor => "monitor",
        Pane::Compare => "compare",
    };
    state.dialogs.picker = Some(Picker::open(PickerPurpose::Topic, choices, Some(about)));
}

/// Shows what was chosen in the list, by its place there.
pub fn chosen(state: &mut State, place: usize) {
    let Some((topic, section, _)) = listed().nth(place) else { return };
    let line = topic.line_of(section, topic_width(state.views.size));
    let topic = TOPICS.iter().position(|known| known == topic).unwrap_or(0);
    state.dialogs.overlay = Some(Overlay::Topic { topic, line });
}

/// Whether a key leads to the list of topics from the keys or another topic.
pub const fn leads_to_topics(key: KeyPress) -> bool {
    matches!(key, KeyPress::Char('/' | '?') | KeyPress::Tab | KeyPress::Enter)
}

/// Every section of every topic, with its title.
fn listed() -> impl Iterator<Item = (&'static Topic, usize, String)> {
    TOPICS.iter().flat_map(|topic| {
        let sections = topic.sections().into_iter().enumerate();
        sections.map(move |(at, section)| (topic, at, section.title))
    })
}

fn choice(topic: &Topic, section: usize, title: &str) -> Choice {
    let terms = topic.sections().into_iter().nth(section).map(|section| section.terms).unwrap_or_default();
    match section {
        0 => Choice {
            name: topic.name.to_owned(),
            facts: topic.summary().to_owned(),
            aliases: format!("{} {terms}", topic.aliases.join(" ")),
        },
        _ => Choice { name: format!("{}: {title}", topic.name), facts: String::new(), aliases: terms },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::picker::ranked;

    #[test]
    fn sections_are_found_by_the_words_in_them() {
        let choices: Vec<Choice> = listed().map(|(topic, at, title)| choice(topic, at, &title)).collect();
        for (typed, name) in [
            ("plan", "plan"),
            ("oom", "oom"),
            ("--rotate", "record: Recording"),
            ("log-pattern", "attach: Your own lines"),
            ("calibration", "compare: Calibration"),
            ("MEMWALL_HOOK=0", "hook: How it reports"),
        ] {
            let first = ranked(&choices, typed).first().map(|at| choices[*at].name.as_str());
            assert_eq!(first, Some(name), "{typed}");
        }
    }
}
