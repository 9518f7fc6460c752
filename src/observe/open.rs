//! Which source is opened, by the user's choice and what the machine has.

use std::path::PathBuf;

use super::{Demo, Nvml, Replay, Source, Wants};

/// The user's choice of a source.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Choice {
    /// The NVIDIA driver where it works and has a GPU, else the demo.
    #[default]
    Auto,
    /// The NVIDIA driver or nothing.
    Nvml,
    /// The demo.
    Demo,
    /// A recording.
    Replay {
        /// Its file, or that of one of its parts.
        path: PathBuf,
        /// Recorded seconds a second.
        speed: f64,
    },
}

/// Opens the source of `choice`; `demo` is played where it comes to that. Blocks while a driver
/// starts: [`spawn`](super::spawn) is the place to call it.
///
/// # Errors
/// One line: why the driver cannot be watched and what to do about it, where
/// [`Choice::Nvml`] was asked for; or that there is no demo.
pub fn open(choice: Choice, demo: Option<Demo>, wants: &Wants) -> Result<Box<dyn Source>, String> {
    open_with(choice, None, demo, wants)
}

/// The same with NVML's library at a path.
fn open_with(
    choice: Choice,
    library: Option<PathBuf>,
    demo: Option<Demo>,
    wants: &Wants,
) -> Result<Box<dyn Source>, String> {
    let nvml = || Nvml::open(library, wants.clone());
    match choice {
        Choice::Demo => Ok(Box::new(demo.ok_or("there is no demo without a plan that can be predicted")?)),
        Choice::Nvml => Ok(Box::new(nvml().map_err(|why| why.to_string())?)),
        Choice::Replay { path, speed } => Ok(Box::new(Replay::open(&path, speed).map_err(|why| why.to_string())?)),
        Choice::Auto => match (nvml(), demo) {
            (Ok(nvml), _) => Ok(Box::new(nvml)),
            (Err(why), Some(demo)) => Ok(Box::new(demo.because(&why.plain()))),
            (Err(why), None) => Err(why.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Generation;
    use crate::observe::demo::tests::{card, prediction, stage};
    use crate::reading::SourceKind;

    fn demo() -> Option<Demo> {
        Some(Demo::new(&prediction(vec![stage(0, 60.0)], 1), &card(Generation::Hopper)))
    }

    /// Opens where the library is one that does not exist.
    fn open(choice: Choice, demo: Option<Demo>) -> Result<Box<dyn Source>, String> {
        open_with(choice, Some(PathBuf::from("/nonexistent/libnvidia-ml.so.1")), demo, &Wants::nothing())
    }

    #[test]
    fn without_a_driver_the_demo_says_why_it_is_one() {
        let source = open(Choice::Auto, demo()).unwrap();
        assert_eq!(source.info().kind, SourceKind::Demo);
        assert_eq!(source.info().detail, "cannot load /nonexistent/libnvidia-ml.so.1");
        let source = open(Choice::Demo, demo()).unwrap();
        assert_eq!(source.info().detail, "a made-up run of the plan");
    }

    #[test]
    fn who_wants_nvml_gets_no_demo_but_a_line_that_helps() {
        let line = open(Choice::Nvml, demo()).err().unwrap();
        assert!(line.contains("/nonexistent/libnvidia-ml.so.1") && line.contains(super::super::LIBRARY_VARIABLE));
        assert!(line.contains("No such file"), "{line}");
        assert!(!line.contains('\n'));
        assert_eq!(open(Choice::Auto, None).err().unwrap(), line);
    }
}
