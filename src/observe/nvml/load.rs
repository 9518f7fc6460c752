//! Finding and starting the driver's library, and saying in plain words why that failed.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use nvml_wrapper::Nvml as Library;
use nvml_wrapper::error::NvmlError;
use thiserror::Error;

/// Names another NVML library than the system's: for drivers that live in odd places.
pub const LIBRARY_VARIABLE: &str = "MEMWALL_NVML_LIB";

/// Where the library is looked for, in this order: by the loader's own search first, then where
/// WSL and NixOS put it, which the loader does not know.
const NAMES: [&str; 4] = [
    "libnvidia-ml.so.1",
    "libnvidia-ml.so",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
];

/// Why the NVIDIA driver cannot be watched. Displays as what is wrong and what to do about it.
#[derive(Debug, Error)]
pub enum NvmlOpenError {
    /// The library is nowhere.
    #[error(
        "no NVIDIA driver found: libnvidia-ml.so.1 is not installed here; \
         if it lies in an unusual place, set {LIBRARY_VARIABLE} to its path"
    )]
    NoLibrary,
    /// The library that the user named cannot be loaded.
    #[error("cannot load {} as an NVML library: {why}; check the path in {LIBRARY_VARIABLE}", path.display())]
    BadLibrary {
        /// The path that was given.
        path: PathBuf,
        /// The loader's reason.
        why: String,
    },
    /// The library is there, the kernel module is not.
    #[error(
        "the NVIDIA driver is not loaded: load its kernel module (nvidia-smi does), or reboot after an installation"
    )]
    NotLoaded,
    /// Typically after an upgrade without a reboot.
    #[error("the NVIDIA kernel module and library have different versions: reboot, or reload the module")]
    Mismatch,
    /// Device nodes out of reach, for instance in a container.
    #[error("no permission to talk to the NVIDIA driver: check access to /dev/nvidia* (in a container: --gpus all)")]
    NoPermission,
    /// The driver has nothing to show.
    #[error("the NVIDIA driver sees no GPU: check lspci and, in a container, that GPUs are passed in")]
    NoDevices,
    /// Anything else, in the driver's words.
    #[error("the NVIDIA driver cannot be started: {0}")]
    Other(String),
}

impl NvmlOpenError {
    /// The driver is there, and with it GPUs that may have a run on them; it cannot be talked to.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        matches!(self, Self::Mismatch | Self::NoPermission | Self::Other(_))
    }

    /// What is wrong, short enough for a header.
    #[must_use]
    pub fn plain(&self) -> String {
        match self {
            Self::NoLibrary => "no NVIDIA driver found".to_owned(),
            Self::BadLibrary { path, .. } => format!("cannot load {}", path.display()),
            Self::NotLoaded => "NVIDIA driver not loaded".to_owned(),
            Self::Mismatch => "NVIDIA driver and library versions differ".to_owned(),
            Self::NoPermission => "no permission to talk to the NVIDIA driver".to_owned(),
            Self::NoDevices => "NVIDIA driver sees no GPU".to_owned(),
            Self::Other(why) => format!("NVIDIA driver failed: {why}"),
        }
    }
}

/// Loads and starts the library: the one that is named, or that [`LIBRARY_VARIABLE`] names, or
/// the system's.
pub fn library(named: Option<PathBuf>) -> Result<Library, NvmlOpenError> {
    let named = named.or_else(|| env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from));
    if let Some(path) = named {
        return start(path.as_os_str()).map_err(|error| match error {
            NvmlError::LibloadingError(why) => NvmlOpenError::BadLibrary { path, why: why.to_string() },
            NvmlError::FailedToLoadSymbol(why) => NvmlOpenError::BadLibrary { path, why },
            other => refused(&other),
        });
    }
    for name in NAMES {
        match start(&OsString::from(name)) {
            Ok(library) => return Ok(library),
            Err(NvmlError::LibloadingError(_)) => {}
            // It is there: what it says counts, and no other place will know better.
            Err(error) => return Err(refused(&error)),
        }
    }
    Err(NvmlOpenError::NoLibrary)
}

fn start(path: &OsStr) -> Result<Library, NvmlError> {
    Library::builder().lib_path(path).init()
}

fn refused(error: &NvmlError) -> NvmlOpenError {
    match error {
        NvmlError::DriverNotLoaded => NvmlOpenError::NotLoaded,
        NvmlError::LibRmVersionMismatch => NvmlOpenError::Mismatch,
        NvmlError::NoPermission => NvmlOpenError::NoPermission,
        other => NvmlOpenError::Other(other.to_string()),
    }
}

/// The versions, for the header: "driver 550.54.15, CUDA 12.4".
pub fn versions(library: &Library) -> String {
    let driver = library.sys_driver_version().map_or_else(|_| "NVIDIA driver".to_owned(), |v| format!("driver {v}"));
    library.sys_cuda_driver_version().map_or(driver.clone(), |cuda| {
        let (major, minor) =
            (nvml_wrapper::cuda_driver_version_major(cuda), nvml_wrapper::cuda_driver_version_minor(cuda));
        format!("{driver}, CUDA {major}.{minor}")
    })
}
