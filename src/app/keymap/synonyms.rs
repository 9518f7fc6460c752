//! What people call the actions: the palette finds them by these words too.

use super::Action;

/// Words for an action besides its name and its line in the help.
#[must_use]
pub const fn synonyms(action: Action) -> &'static str {
    match action {
        Action::Quit => "exit leave close",
        Action::Repaint => "refresh redraw clear screen",
        Action::Suspend => "background job shell stop",
        Action::NextPane | Action::PreviousPane | Action::Focus(_) => "switch window panel",
        Action::Zoom => "fullscreen maximize",
        Action::ExplainTerm => "what is this meaning define term lesson glossary formula",
        Action::Tutorial => "learn lesson introduction course",
        Action::Help => "shortcuts bindings manual",
        Action::Less => "decrease decrement lower reduce",
        Action::More => "increase increment raise double",
        Action::Type => "edit set change enter pick select",
        Action::Undo => "revert back",
        Action::Redo => "again repeat forward",
        Action::Save => "write store file",
        Action::SaveAs => "rename elsewhere other file copy",
        Action::View => "mode layers stages timeline terms chart table",
        Action::Attach => "connect follow watch detach pid",
        Action::Calibrate | Action::DropCalibration => "correct adjust factor",
        Action::Acknowledge => "dismiss silence mute",
        Action::RanOut => "oom crash",
        Action::Infer => "detect guess reverse",
        Action::Explain => "why reason diagnose cause",
        Action::TakeExplanation => "apply accept",
        Action::Find => "filter grep",
        Action::EndProcess => "kill stop terminate",
        Action::History => "graph trend past",
        Action::Record => "log capture trace telemetry",
        Action::Steer(_) => "replay playback",
        Action::Text => "yaml source raw editor vim",
        Action::Palette => "command menu",
        Action::Baseline => "pin reference snapshot what-if diff delta",
        Action::OperatorAdvice => "kernel slow bound cost",
        Action::Fixes => "help advice bottlenecks reduce fit improve speed",
        Action::Largest => "maximum biggest fit auto",
        Action::Sweep => "vary scan grid plot scaling heatmap",
        Action::Walls => "memory wall bandwidth batch sweep limit",
        Action::Search => "optimize optimise tune autotune faster fastest better best pareto parallelism",
        Action::AddKey => "new field insert option",
        Action::RemoveKey => "delete unset clear",
        Action::Open => "load import example file",
        Action::Duplicate => "clone new tab",
        Action::ClosePlan => "close tab",
        Action::NextPlan | Action::PreviousPlan => "switch tab",
        Action::Plans => "compare side by side tabs diff",
        Action::Export => "convert megatron deepspeed torchtitan torchrun arguments command script",
        Action::Kind => "filter",
        Action::Roofs => "ceilings peaks",
        Action::ZoomIn | Action::ZoomOut => "magnify",
        Action::Mouse => "click pointer",
        Action::NewPlan => "create blank template scratch",
        Action::Themes => "colour color dark light palette appearance",
        Action::NextLayout => "arrange panes split grid",
        Action::Wider | Action::Narrower | Action::Taller | Action::Shorter | Action::ResetSizes => {
            "resize size grow shrink border"
        }
        Action::Metric => "loss step busy temperature clock pcie nvlink chart series",
        Action::OverlayMetric => "second axis both correlate",
        Action::EveryDevice => "all gpus together",
        Action::Back => "escape cancel",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::keymap::listing::commands;
    use crate::app::pane::Pane;
    use crate::app::picker::choice::Choice;
    use crate::app::picker::ranked;

    #[test]
    fn actions_are_found_by_what_people_call_them() {
        let commands = commands(Pane::Plan);
        let choices: Vec<Choice> = commands
            .iter()
            .map(|command| Choice {
                name: command.action.name().replace('-', " "),
                facts: command.binding.help.to_owned(),
                aliases: synonyms(command.action).to_owned(),
            })
            .collect();
        for (typed, action) in [
            ("kill", Action::EndProcess),
            ("oom", Action::RanOut),
            ("why", Action::Explain),
            ("yaml", Action::Text),
            ("optimize", Action::Search),
            ("best", Action::Search),
            ("convert", Action::Export),
            ("maximum", Action::Largest),
            ("pin", Action::Baseline),
            ("exit", Action::Quit),
            ("write", Action::Save),
            ("delete", Action::RemoveKey),
            ("side", Action::Plans),
        ] {
            let first = ranked(&choices, typed).first().map(|at| commands[*at].action);
            assert_eq!(first, Some(action), "{typed}");
        }
    }
}
