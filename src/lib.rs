#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
//! MemWall: does this training run do what its plan says, and if not, why?
//!
//! # Tutorial
//!
//! A plan is a text; [`prelude`] has what reads and predicts it. Eight billion parameters in bf16 on eight GPUs:
//!
//! ```
//! use memwall::prelude::*;
//!
//! let catalog = Catalog::embedded()?;
//! let text = "model: {preset: llama-3-8b, batch_size: 8, sequence_length: 2048}\n\
//!             training: {precision: bf16}\n\
//!             cluster: {num_gpus: 8}\n";
//! let plan = Document::parse(text).and_then(|document| document.plan()).map_err(|faults| faults[0].clone())?;
//! let job = Job::resolve(&plan, &catalog).map_err(|faults| faults[0].clone())?;
//! let prediction = predict(&job);
//! assert_eq!(prediction.params.total, 8_030_261_248);
//! // What the plan left open is listed.
//! assert!(prediction.assumptions.iter().any(|assumed| assumed.contains("optimizer")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every replica holds all states there. [`advise::sweep`] predicts the plan with each value of a key, and so shows what
//! sharding saves:
//!
//! ```
//! use memwall::prelude::*;
//!
//! let catalog = Catalog::embedded()?;
//! let text = "model: {preset: llama-3-8b, batch_size: 8}\ncluster: {num_gpus: 8}\n";
//! let plan = Document::parse(text).and_then(|document| document.plan()).map_err(|faults| faults[0].clone())?;
//! let axis = Axis::parse("sharding=none,zero1,zero3", std::path::Path::new(""))?;
//! let swept = sweep(&plan, vec![axis], &catalog)?;
//! let needed: Vec<Bytes> =
//!     swept.points.iter().filter_map(|point| Some(point.outcome.as_ref().ok()?.capacity.needed)).collect();
//! assert!(needed[0] > needed[1] && needed[1] > needed[2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`advise::advise`] tells what holds a plan back and predicts each fix; [`report`] writes what the program prints.
//!
//! # The map
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
//! | `ascii` | the character of ASCII that looks most like another | no |
//! | [`manual`] | the topics of `memwall help`, as Markdown laid out for a width | no |
//! | [`files`] | regular files read within bounds | files |
//! | `packed` | long texts that few runs read, as the build packed them | no |
//! | `order` | short lists put in order | no |
//! | [`units`] | quantities as types: bytes, flops, rates, time | no |
//! | [`reading`] | a value with its time and kind, or why there is none; what a source saw at a moment | no |
//! | [`catalog`] | GPUs, interconnects and model presets by name, from `configs/` | no |
//! | [`plan`] | the plan file: schema, reading with located faults, editing in place, loading and saving; plans into other tools' commands and files ([`plan::export`]); tapes of traced models ([`plan::traced`]) | files |
//! | [`framework`] | what a framework does, as data: modules, engine, pipeline, optimizer, loss, overlap, allocator, defaults | no |
//! | [`model`] | an architecture as operators | no |
//! | [`predict`] | one walk over the operators: memory, flops, traffic, roofline, time | no |
//! | [`mod@bench`] | measured kernels of a machine, fitted to the curves of the catalogue | no |
//! | [`import`] | plans out of other tools' commands and files; reads none by itself | no |
//! | [`advise`] | bottlenecks, fixes in order of cost, sweeps, search, exports read back: predictions of changed plans | no |
//! | [`lessons`] | what the words on the screen mean, with a plan's own numbers | no |
//! | [`observe`] | where facts come from: NVML, amdgpu, DCGM's page, processes, logs, the PyTorch hook, the tracer's program, memory snapshots, the demo run; recordings, written and played | drivers, `/proc`, network, files, clock |
//! | [`compare`] | predicted against observed | no |
//! | [`report`] | a prediction as text, JSON or CSV; predictions against measured cases | no |
//! | [`prelude`] | the names that nearly every use of the library needs | no |
//! | [`app`] | the dashboard without a terminal: state, events, effects, keys | no |
//! | [`ui`] | draws the state, decides nothing | no |
//! | [`cli`] | arguments, commands, the one loop: terminal, signals, files | all |
//!
//! A module imports only from those above it, and `app` and `ui` never from `observe`;
//! `tests/commands/layering.rs` holds it so.
//!
//! Four crates hold them, so that an edit compiles one of them and each is optimised for what it does: `memwall-core` up
//! to [`mod@bench`], `memwall-import`, `memwall-observe`, and this one, which shows them all as its own.
//!
//! # How data flows
//!
//! A plan file becomes a [`plan::Document`]: its text, with the place of every value. From that comes a
//! [`plan::Plan`]: what each key says. [`predict::Job::resolve`] decides everything that the plan leaves open and lists
//! what it assumed. [`predict::predict`] walks the operators and returns a [`predict::Prediction`]. Screen, reports,
//! comparison and tests read that one value and its lists of named terms.
//!
//! A [`observe::Source`] lives on a thread of its own, because drivers block, and sends [`reading::Sample`]s.
//! [`cli::dashboard::watch`] owns the state. It waits for keys, samples, ticks and signals, runs [`app::update`] for
//! each, carries out the [`app::Effect`]s and draws one frame with [`ui::Screen`], which knows what the terminal shows and
//! draws again only what may have changed. [`ui::required_metrics`] says what is on the screen; sources leave out what is
//! expensive and not shown. No frame is drawn for time alone: one comes with each sample.
//!
//! The dashboard is two processes. The shell waits for the supervisor, which does nothing but pass signals on and give
//! the terminal back, however the other one ends: a driver may crash it. The other one runs the loop on its main thread.
//! Whatever may block has a thread of its own: the source, the follower of logs and hooks, the terminal's input and its
//! output, a recording, the keeper of drafts, the locks on open plans, the commands of alerts, and what libraries print.
//! The loop never writes to the terminal itself. While the terminal has not shown a frame, no other is drawn.
//!
//! An edit of the plan predicts at once, in the same turn. A prediction takes less time than a frame, or a few times as
//! long if one GPU's allocator is replayed. A search for plans runs beside the loop and reports its progress.
//!
//! A source plays recordings too ([`observe::Replay`]). Its samples take the same way, with their own time, and [`app`]
//! steers it through an effect. A jump plays again from the nearest milestone before it, at which the state was kept, or
//! from the beginning.
//!
//! Each sample is compared with the run's own plan ([`compare`]): [`app::RunPlan`] is pinned when something runs, and
//! the plan that is edited is a draft beside it. If the run leaves the band of healthy runs, an
//! [`app::Question`] starts a search for explanations. A thread of its own answers it, and the answer is an event. It is
//! asked again only if the evidence changes. Only steady training counts ([`compare::Phases`]). Alerts and calibrations
//! are effects, like files.
//!
//! The plan's text is the one buffer. [`app::Editor`] holds it with every change since it was opened. The form edits
//! values in it, the text view its lines, and both read it back. While it cannot be read, the last good prediction
//! stays. A text of more than [`app::AT_ONCE`] bytes is read beside the loop. Saving, opening and crash recovery are
//! [`app::Effect`]s too.
//!
//! # What must not be broken
//!
//! - Unknown is never zero: a [`reading::Reading`] without a value keeps its reason up to the pixel.
//! - Three memory numbers, never mixed: allocated, reserved, device-used.
//! - The terms of a prediction sum to its total, to the byte.
//! - The text of a plan is the user's: edits change their value and nothing else, undo ends at the first byte, and
//!   nothing unsaved is lost.
//!
//! `.github/CONTRIBUTING.md` says which files to touch for a new GPU, model family, plan key, log format, pane, metric
//! or framework.

pub use memwall_core::{bench, catalog, files, framework, model, plan, predict, printable, reading, units};
pub use memwall_import as import;
pub use memwall_observe as observe;

pub(crate) use memwall_core::order;

mod ascii;

pub mod manual;

pub mod advise;

pub mod lessons;

pub mod compare;

pub mod report;

pub mod prelude;

pub mod app;

pub mod ui;

pub mod cli;
