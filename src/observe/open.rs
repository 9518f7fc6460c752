//! Which source is opened, by the user's choice and what the machine has.

use std::path::PathBuf;
use std::str::FromStr;

use super::{Demo, Nvml, NvmlOpenError, Source, Wants};

/// The user's choice of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The NVIDIA driver where it works and has a GPU, else the demo.
    #[default]
    Auto,
    /// The NVIDIA driver or nothing.
    Nvml,
    /// The demo.
    Demo,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "auto" => Ok(Self::Auto),
            "nvml" => Ok(Self::Nvml),
            "demo" => Ok(Self::Demo),
            other => Err(format!("no source is called \"{other}\": there are auto, nvml and demo")),
        }
    }
}

/// Opens the source of `choice`; `demo` is played where it comes to that, `library` overrides
/// where NVML's library is looked for. Blocks while a driver starts: [`spawn`](super::spawn) is
/// the place to call it.
///
/// # Errors
/// When [`Choice::Nvml`] was asked for and the driver cannot be watched.
pub fn open(
    choice: Choice,
    library: Option<PathBuf>,
    demo: Demo,
    wants: Wants,
) -> Result<Box<dyn Source>, NvmlOpenError> {
    match choice {
        Choice::Demo => Ok(Box::new(demo)),
        Choice::Nvml => Ok(Box::new(Nvml::open(library, wants)?)),
        Choice::Auto => Ok(match Nvml::open(library, wants) {
            Ok(nvml) => Box::new(nvml),
            Err(why) => Box::new(demo.because(&why.plain())),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Generation;
    use crate::observe::demo::tests::{card, prediction, stage};
    use crate::reading::SourceKind;

    fn demo() -> Demo {
        Demo::new(&prediction(vec![stage(0, 60.0)], 1), &card(Generation::Hopper))
    }

    fn nowhere() -> Option<PathBuf> {
        Some(PathBuf::from("/nonexistent/libnvidia-ml.so.1"))
    }

    #[test]
    fn without_a_driver_the_demo_says_why_it_is_one() {
        let source = open(Choice::Auto, nowhere(), demo(), Wants::nothing()).unwrap();
        assert_eq!(source.info().kind, SourceKind::Demo);
        assert_eq!(source.info().detail, "cannot load /nonexistent/libnvidia-ml.so.1");
        let source = open(Choice::Demo, nowhere(), demo(), Wants::nothing()).unwrap();
        assert_eq!(source.info().detail, "a made-up run of the plan");
    }

    #[test]
    fn who_wants_nvml_gets_no_demo_but_a_line_that_helps() {
        let Err(error) = open(Choice::Nvml, nowhere(), demo(), Wants::nothing()) else { panic!("it opened") };
        let line = error.to_string();
        assert!(line.contains("/nonexistent/libnvidia-ml.so.1") && line.contains(super::super::LIBRARY_VARIABLE));
        assert!(line.contains("No such file"), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn choices_are_words() {
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        assert_eq!("nvml".parse(), Ok(Choice::Nvml));
        assert_eq!("demo".parse(), Ok(Choice::Demo));
        assert!("gpu".parse::<Choice>().unwrap_err().contains("auto, nvml and demo"));
    }
}
