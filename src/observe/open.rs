//! Which source is opened, by the user's choice and what the machine has.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use thiserror::Error;

use super::{
    Access, Amdgpu, Demo, Departure, Host, NoAmdGpu, Nvml, NvmlOpenError, OpenError, Prometheus, PrometheusError,
    Replay, SharedRequirements, Source,
};
use crate::catalog::Catalog;

/// The environment variable that names a folder to look for AMD's GPUs in, in place of `/`.
pub const ROOT_VARIABLE: &str = "MEMWALL_SYS_ROOT";

/// The user's choice of a source.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum SourceChoice {
    /// The NVIDIA driver where it works and has a GPU, else AMD's, else, where no driver is there that only
    /// fails, the demo.
    #[default]
    Auto,
    /// The NVIDIA driver or nothing.
    Nvml,
    /// AMD's driver or nothing.
    Amdgpu,
    /// A server with Prometheus's query API, or a page of metrics, at an address.
    Prometheus(String),
    /// The pages of exporters at several addresses.
    Exporters(Vec<String>),
    /// The demo, and what its run does otherwise than the plan.
    Demo(Departure),
    /// A recording.
    Replay {
        /// Its file, or that of one of its parts.
        path: PathBuf,
        /// Recorded seconds a second.
        speed: f64,
    },
}

/// What a source may need beside the user's choice.
#[derive(Debug, Default)]
pub struct SourceContext {
    /// The run that is played where it comes to that.
    pub demo: Option<Demo>,
    /// Where there is none yet: from where it comes as soon as there is a plan.
    pub later: Option<Receiver<Demo>>,
    /// The process that is attached: where no driver is, it is watched instead of a demo.
    pub attach: Option<u32>,
    /// A run's log is followed: where no driver is, no demo is played in its place.
    pub log: bool,
    /// What somebody wants to see.
    pub requirements: SharedRequirements,
    /// Peaks of GPUs whose driver does not tell them.
    pub catalog: Catalog,
    /// What servers elsewhere ask for before they answer.
    pub access: Access,
}

/// Why a source cannot be watched; displays as what is wrong and what to do about it.
#[derive(Debug, Error)]
pub enum SourceError {
    /// A simulated run needs a plan that can be predicted.
    #[error("there is no demo without a plan that can be predicted")]
    NoDemo,
    /// NVIDIA's driver.
    #[error(transparent)]
    Nvml(#[from] NvmlOpenError),
    /// AMD's.
    #[error(transparent)]
    Amdgpu(#[from] NoAmdGpu),
    /// A page of metrics.
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    /// A recording.
    #[error(transparent)]
    Recording(#[from] OpenError),
    /// The process that is to be watched is not there.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The plan is for a CPU, and nobody said which process trains on it.
    #[error(
        "no GPU: the plan is for this machine's CPU; watch its run with --attach PID, or start it with `memwall run`"
    )]
    CpuPlan,
    /// The tutorial's plans stand alone.
    #[error("nothing is watched beside a lesson")]
    Unwanted,
    /// It is a source that can be opened once.
    #[error("it was opened before and has ended")]
    Spent,
}

/// Opens the source of `choice`. Blocks while a driver starts, and while the demo waits for its plan: [`spawn`](super::spawn) is the
/// place to call it.
///
/// # Errors
/// One line: why what was asked for cannot be watched and what to do about it; or that there is
/// no demo.
pub fn open(choice: SourceChoice, means: SourceContext) -> Result<Box<dyn Source>, SourceError> {
    let root = std::env::var_os(ROOT_VARIABLE).map_or_else(|| PathBuf::from("/"), PathBuf::from);
    open_with(choice, None, &root, means)
}

/// The same with NVML's library at a path, and AMD's files under a folder.
fn open_with(
    choice: SourceChoice,
    library: Option<PathBuf>,
    root: &Path,
    means: SourceContext,
) -> Result<Box<dyn Source>, SourceError> {
    let SourceContext { demo, later, attach, log, requirements, catalog, access } = means;
    let beside = requirements.clone();
    // Nothing is waited for that is not wanted.
    let demo = || demo.or_else(|| later.filter(|_| attach.is_none() && !log)?.recv().ok());
    let nvml = || Nvml::open(library, requirements);
    let amdgpu = || Amdgpu::open(root, &catalog);
    match choice {
        SourceChoice::Demo(_) => Ok(Box::new(demo().ok_or(SourceError::NoDemo)?)),
        SourceChoice::Nvml => Ok(Box::new(nvml()?)),
        SourceChoice::Amdgpu => Ok(Box::new(amdgpu()?)),
        SourceChoice::Prometheus(url) => {
            Ok(Box::new(Prometheus::open(&url, access, catalog)?.with_requirements(beside)))
        }
        SourceChoice::Exporters(urls) => Ok(Box::new(Prometheus::open_pages(&urls, access, catalog)?)),
        SourceChoice::Replay { path, speed } => Ok(Box::new(Replay::open(&path, speed)?)),
        SourceChoice::Auto => match nvml() {
            Ok(nvml) => Ok(Box::new(nvml)),
            Err(why) => match amdgpu() {
                Ok(amdgpu) => Ok(Box::new(amdgpu)),
                // A driver that is there and fails hides a run: nothing is made up in its place.
                Err(_) if why.is_broken() => Err(why.into()),
                // What runs here is no demo.
                Err(_) => match (attach, demo()) {
                    (Some(pid), _) => {
                        let host = Host::open(pid, beside, &why.plain()).ok_or(SourceError::NoProcess(pid))?;
                        Ok(Box::new(host))
                    }
                    (None, _) if log => Ok(Box::new(Host::of_nobody(beside, &why.plain()))),
                    // A machine without either is taken for one that should have NVIDIA's.
                    (None, Some(demo)) => Ok(Box::new(demo.because(&why.plain()))),
                    (None, None) => Err(why.into()),
                },
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Generation;
    use crate::demo::tests::{card, prediction, stage};
    use crate::reading::SourceKind;

    fn demo() -> Option<Demo> {
        Some(Demo::new(&prediction(vec![stage(0, 60.0)], 1), &card(Generation::Hopper)))
    }

    /// Opens in a folder without a library and without AMD's files.
    fn open(choice: SourceChoice, folder: &Path, demo: Option<Demo>) -> Result<Box<dyn Source>, SourceError> {
        open_with(choice, Some(library(folder)), folder, SourceContext { demo, ..SourceContext::default() })
    }

    fn library(folder: &Path) -> PathBuf {
        folder.join("libnvidia-ml.so.1")
    }

    #[test]
    fn a_demo_without_a_plan_waits_for_one() {
        let (hand, later) = std::sync::mpsc::channel();
        let means = |later| SourceContext { later: Some(later), ..SourceContext::default() };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_path_buf();
        let waiting = std::thread::spawn(move || {
            open_with(SourceChoice::Demo(Departure::default()), None, &root, means(later))
                .map(|source| source.info().kind)
        });
        hand.send(demo().unwrap()).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), SourceKind::Demo);
        let (hand, later) = std::sync::mpsc::channel();
        drop(hand);
        let none = open_with(SourceChoice::Demo(Departure::default()), None, folder.path(), means(later));
        assert!(matches!(none, Err(SourceError::NoDemo)));
    }

    #[test]
    fn without_a_driver_the_demo_says_why_it_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let source = open(SourceChoice::Auto, folder.path(), demo()).unwrap();
        assert_eq!(source.info().kind, SourceKind::Demo);
        assert_eq!(source.info().detail, format!("cannot load {}", library(folder.path()).display()));
        let source = open(SourceChoice::Demo(Departure::default()), folder.path(), demo()).unwrap();
        assert_eq!(source.info().detail, "a simulated run of the plan");
    }

    #[test]
    fn who_wants_nvml_gets_no_demo_but_a_line_that_helps() {
        let folder = tempfile::tempdir().unwrap();
        let line = open(SourceChoice::Nvml, folder.path(), demo()).err().unwrap().to_string();
        assert!(
            line.contains(library(folder.path()).to_str().unwrap()) && line.contains(super::super::LIBRARY_VARIABLE)
        );
        assert!(line.contains("No such file"), "{line}");
        assert!(!line.contains('\n'));
        assert_eq!(open(SourceChoice::Auto, folder.path(), None).err().unwrap().to_string(), line);
    }
}
