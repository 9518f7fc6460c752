#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
//! MemWall: does this training run do what its plan says, and if not, why?
//!
//! Everything follows one road, and the house is built along it:
//!
//! ```text
//! plan ─▶ predict ─▶ observe ─▶ compare ─▶ show
//! ```
//!
//! | module | what it is | reads files, clock, driver |
//! |---|---|---|
//! | [`mod@printable`] | text from outside made safe for a terminal | no |
//! | [`units`] | quantities as types: bytes, flops, rates, time | no |
//! | [`reading`] | a value with its time and kind, or why there is none; what a source saw at a moment | no |
//! | [`catalog`] | GPUs, interconnects and model presets by name, from `configs/` | no |
//! | [`plan`] | the plan file: schema, reading with located faults, editing in place, loading and saving; plans out of other tools' commands and files ([`plan::import`]), and into them ([`plan::export`]) | files |
//! | [`framework`] | what a framework does, as data: modules, engine, pipeline, optimizer, loss, overlap, allocator, defaults | no |
//! | [`model`] | an architecture as operators | no |
//! | [`predict`] | one walk over the operators: memory, flops, traffic, roofline, time | no |
//! | [`advise`] | bottlenecks, fixes in order of cost, sweeps, search: predictions of changed plans | no |
//! | [`observe`] | where facts come from: NVML, amdgpu, DCGM's page, processes, logs, the PyTorch hook, memory snapshots, the demo run; recordings, written and played | drivers, `/proc`, network, files, clock |
//! | [`compare`] | predicted against observed | no |
//! | [`report`] | a prediction as text, JSON or CSV; predictions against measured cases | no |
//! | [`app`] | the dashboard without a terminal: state, events, effects, keys | no |
//! | [`ui`] | draws the state, decides nothing | no |
//! | [`cli`] | arguments, commands, the one loop: terminal, signals, files | all |
//!
//! A module imports only from those above it, and `app` and `ui` never from `observe`;
//! `tests/commands/layering.rs` holds it so.
//!
//! # How data flows
//!
//! A plan file becomes a [`plan::Document`] (its text, with the place of every value) and
//! from that a [`plan::Plan`] (what each key says). [`predict::Job::resolve`] decides
//! everything that the plan leaves open and lists what it assumed; [`predict::predict`]
//! walks the operators and gives a [`predict::Prediction`]. Screen, reports, comparison and
//! tests all read that one value and its lists of named terms.
//!
//! A [`observe::Source`] lives on a thread of its own, because drivers block, and hands
//! [`reading::Sample`]s over. [`cli::dashboard::watch`] is the one owner of the state: it
//! waits for keys, samples, ticks and signals, runs [`app::update`] for each, carries out the
//! [`app::Effect`]s and draws one frame with [`ui::draw`]. [`ui::wanted`] says what is on the screen,
//! and sources leave out what costs something and is not. An edit of the plan predicts at
//! once, in the same turn: a prediction takes less time than drawing it (a few times as long where one GPU's allocator
//! is replayed). A search for plans runs
//! beside the loop and tells as it goes. Of time alone no frame is drawn: one comes with each sample.
//!
//! A recording is played by a source too ([`observe::Replay`]): its samples take the same way, with
//! their own time, and [`app`] steers it through an effect. To go elsewhere it plays again from the nearest
//! milestone before, at which what was shown is kept, or from the beginning, at once: what is shown is what was shown then.
//! What is seen is set against the run's own plan with every sample ([`compare`]): [`app::RunPlan`] is pinned when
//! something runs, and the plan that is edited is a draft beside it. Where it lies outside of what predictions
//! stray by, [`app::Question`] is what a search for explanations reads: it is answered on a thread of its own and
//! comes back as an event, and is asked again only when the evidence says something else. Only steady training counts
//! ([`compare::Phases`]); alerts and calibrations are effects like files.
//! The plan's text is the one buffer: [`app::Editor`] holds it with every change since it was
//! opened; the form edits values in it, the text view its lines, and both read it back. While
//! it cannot be read, the last good prediction stays; a text of more than [`app::AT_ONCE`] bytes is read beside the
//! loop, and it stays meanwhile too. Saving, opening and what is kept against
//! a crash are [`app::Effect`]s too.
//!
//! # What must not be broken
//!
//! - Unknown is never zero: a [`reading::Reading`] without a value keeps its reason up to the pixel.
//! - Three memory figures, never one: allocated, reserved, device-used.
//! - The terms of a prediction sum to its total, to the byte.
//! - The text of a plan is the user's: edits change the value that they are about and nothing else,
//!   undo ends at the first byte, and nothing unsaved is lost.

pub mod printable;

pub mod units;

pub mod reading;

pub mod catalog;

pub mod plan;

pub mod framework;

pub mod model;

pub mod predict;

pub mod advise;

pub mod observe;

pub mod compare;

pub mod report;

pub mod app;

pub mod ui;

pub mod cli;
