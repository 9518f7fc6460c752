//! What the selected number means: its lesson, over the panes.

use crate::app::editor::field::Field;
use crate::app::memory_rows::{MemoryRow, memory_rows};
use crate::app::monitor::{MonitorView, SelectedRow};
use crate::app::pane::Pane;
use crate::app::picker::choice::Choice;
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::run::explanation_search::CompareRow;
use crate::app::state::{Overlay, State};
use crate::app::topics::topic_width;
use crate::app::views::MemoryView;
use crate::lessons::{Lesson, lesson, lessons};
use crate::manual::{TopicLine, layout};
use crate::plan::keywords::Sharding;
use crate::predict::{Bound, Component, Prediction, TimePart};
use crate::reading::DeviceMetric;

/// Explains what is selected.
pub fn open(state: &mut State) {
    let name = selected(state);
    show(state, name);
}

/// Opens the list of terms.
pub fn ask(state: &mut State) {
    let current = state.dialogs.lesson.map(|lesson| lesson.name);
    let choices = lessons().iter().map(choice).collect();
    state.dialogs.picker = Some(Picker::open(PickerPurpose::Term, choices, current));
}

fn choice(lesson: &Lesson) -> Choice {
    let facts = lesson.text.split(". ").next().unwrap_or_default().replace('\n', " ");
    Choice { name: lesson.name.to_owned(), facts, aliases: lesson.aliases.join(" ") }
}

/// Shows the lesson of that name.
pub fn show(state: &mut State, name: &str) {
    state.dialogs.lesson = lesson(name);
    if state.dialogs.lesson.is_some() {
        state.dialogs.overlay = Some(Overlay::Lesson(0));
    }
}

/// The lines of the lesson that is shown, with the numbers of the plan in front.
#[must_use]
pub fn lesson_rows(state: &State) -> Vec<TopicLine> {
    let Some(lesson) = state.dialogs.lesson else { return Vec::new() };
    let editor = &state.plans.editor;
    let plan = editor.job().zip(editor.prediction()).map(|(job, prediction)| (editor.name(), job, prediction));
    layout(&lesson.markdown(plan), topic_width(state.views.size))
}

/// The term that stands for what is selected in the focused pane.
fn selected(state: &State) -> &'static str {
    match state.views.focus {
        Pane::Plan => state.plans.form.field(&state.plans.editor).map_or("Memory wall", |field| of_field(state, field)),
        Pane::Vram => of_memory(state),
        Pane::Roofline => of_operator(state),
        Pane::Monitor => of_monitor(state),
        Pane::Compare => match CompareRow::of(state) {
            CompareRow::Why(_) => "Step time",
            CompareRow::Run => "MFU",
            CompareRow::Kinds => "Device-used",
            CompareRow::Assumption(_) => "Tight",
        },
    }
}

fn of_field(state: &State, field: Field) -> &'static str {
    match field {
        Field::Model => "Parameters",
        Field::Gpu => "Ridge",
        Field::Batch | Field::MicroBatch => "Micro batch",
        Field::Sequence => "Activations",
        Field::Optimizer => "Optimizer states",
        Field::Checkpointing => "Activation checkpointing",
        Field::DataParallel => "Data parallel",
        Field::TensorParallel => "Tensor parallel",
        Field::PipelineParallel => "Pipeline parallel",
        Field::ContextParallel => "Context parallel",
        Field::ExpertParallel => "Expert parallel",
        Field::NumGpus => "Scaling efficiency",
        field => of_key(state, field.key()),
    }
}

fn of_key(state: &State, key: &str) -> &'static str {
    let sharding = state.plans.editor.job().map(|job| job.degrees.sharding);
    match key {
        "training.precision" | "training.gradient_dtype" => "Master weights",
        "training.attention" => "Flash attention",
        "training.gradient_accumulation_steps" => "Micro batch",
        "training.cpu_offload" => "Parameters offload",
        "distribution.sequence_parallel" => "Sequence parallel",
        "distribution.sharding" | "distribution.strategy" | "distribution.engine" => match sharding {
            Some(Sharding::Zero3) => "ZeRO-3",
            Some(Sharding::Zero2) => "ZeRO-2",
            _ => "ZeRO-1",
        },
        "distribution.pipeline_schedule" | "distribution.virtual_pipeline" => "Bubble",
        "hardware.power_limit_w" => "Power",
        key if key.starts_with("training.lora") => "LoRA",
        key if key.starts_with("cluster.") => "Collective",
        _ => "Memory wall",
    }
}

fn of_memory(state: &State) -> &'static str {
    let Some(prediction) = state.plans.editor.prediction() else { return "Device-used" };
    match state.views.memory.view {
        MemoryView::Components => {
            let rows = memory_rows(&state.plans, prediction.largest());
            match rows.get(state.views.memory.selected.min(rows.len().saturating_sub(1))) {
                Some(MemoryRow::Component(component)) => of_component(*component),
                Some(MemoryRow::Allocated) => "Allocated",
                Some(MemoryRow::Reserved) => "Reserved",
                Some(MemoryRow::DeviceUsed) | None => "Device-used",
            }
        }
        MemoryView::Layers => "Activations",
        MemoryView::Stages => "Pipeline parallel",
        MemoryView::Timeline => "Allocated",
        MemoryView::Times => of_time(state.views.memory.selected, prediction),
        MemoryView::Terms => {
            let terms = &prediction.largest().terms;
            let term = terms.get(state.views.memory.selected.min(terms.len().saturating_sub(1)));
            term.map_or("Device-used", |term| match term.component {
                Component::Overhead if term.name.to_lowercase().contains("context") => "CUDA context",
                Component::OptimizerStates if term.name.contains("master") => "Master weights",
                component => of_component(component),
            })
        }
    }
}

fn of_time(selected: usize, prediction: &Prediction) -> &'static str {
    match prediction.time_terms.get(selected).map(|term| term.part) {
        Some(TimePart::Communication) => "Collective",
        Some(TimePart::Bubble) => "Bubble",
        _ => "Ridge",
    }
}

const fn of_component(component: Component) -> &'static str {
    match component {
        Component::Parameters => "Parameters",
        Component::Gradients => "Gradients",
        Component::OptimizerStates => "Optimizer states",
        Component::Activations => "Activations",
        Component::Temporaries => "Temporaries",
        Component::KvCache => "KV cache",
        Component::CommunicationBuffers => "Communication buffers",
        Component::Overhead => "Overhead",
    }
}

fn of_operator(state: &State) -> &'static str {
    let pane = &state.views.roofline;
    let ops = state.plans.editor.prediction().map(|prediction| pane.ops(&prediction.roofline).nth(pane.selected));
    match ops.flatten().map(|op| op.bound) {
        Some(Bound::Memory) => "Memory-bound",
        Some(Bound::Compute) => "Arithmetic intensity",
        Some(Bound::SmallKernel) => "Small kernel",
        None => "Roofline",
    }
}

fn of_monitor(state: &State) -> &'static str {
    match (state.monitor.view, state.monitor.selected) {
        (MonitorView::History, _) => match state.monitor.metric {
            DeviceMetric::Memory => "Device-used",
            DeviceMetric::Tensor => "Tensor activity",
            DeviceMetric::Bandwidth => "MBU",
            DeviceMetric::Power | DeviceMetric::Temperature | DeviceMetric::Clock => "Power",
            DeviceMetric::StepTime | DeviceMetric::Loss => "Step time",
            DeviceMetric::Pcie | DeviceMetric::NvLink => "Collective",
            DeviceMetric::Busy => "GPU utilization",
        },
        (MonitorView::Processes, _) | (_, SelectedRow::Process(_)) => "Device-used",
        (MonitorView::Now | MonitorView::Device | MonitorView::Cluster, SelectedRow::Device(_)) => "GPU utilization",
    }
}
