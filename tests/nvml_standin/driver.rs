//! What all calls have in common: the scenario as it is now, counting, logging, and the faults
//! that hit a call before it is answered.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::scenario::{End, Now, Scenario};

/// What a call ends with: a code other than 0 as the error.
pub type Answer = Result<(), u32>;

/// `NVML_ERROR_UNINITIALIZED`.
pub const UNINITIALISED: u32 = 1;
const FUNCTION_NOT_FOUND: u32 = 13;
const GPU_IS_LOST: u32 = 15;
const UNKNOWN: u32 = 999;

/// What tells one state of the file from another.
type Stamp = (u64, i64, i64, u64);

#[derive(Default)]
struct Driver {
    scenario: Arc<Scenario>,
    stamp: Option<Stamp>,
    broken: bool,
    users: u32,
    start: Option<Instant>,
    calls: HashMap<(&'static str, Option<u32>), u64>,
}

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Driver>> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// Reads the file if it is another than the last time.
    fn reload(&mut self) {
        let Some(path) = std::env::var_os("MEMWALL_NVML_SCENARIO").map(PathBuf::from) else { return };
        let stamp = fs::metadata(&path).ok().map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()));
        if stamp == self.stamp && !self.broken {
            return;
        }
        self.stamp = stamp;
        let read = fs::read_to_string(&path).map_err(|error| error.to_string());
        match read.and_then(|text| Scenario::read(&text)) {
            Ok(scenario) => {
                self.scenario = Arc::new(scenario);
                self.broken = false;
            }
            Err(why) => {
                self.broken = true;
                let mut beside = path.into_os_string();
                beside.push(".error");
                // There is no other way to be heard: the terminal belongs to the program under test.
                drop(fs::write(beside, why));
            }
        }
    }

    fn count(&mut self, name: &'static str, gpu: Option<u32>) -> Now {
        let call = self.calls.entry((name, gpu)).or_insert(0);
        *call += 1;
        let start = *self.start.get_or_insert_with(Instant::now);
        Now { ms: start.elapsed().as_millis() as u64, call: *call }
    }

    fn log(&self, name: &str, gpu: Option<u32>) {
        let Some(path) = &self.scenario.log else { return };
        let gpu = gpu.map_or(String::new(), |gpu| format!(" {gpu}"));
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
            drop(writeln!(file, "{name}{gpu}"));
        }
    }
}

/// `nvmlInit_v2`, which may be called several times.
pub fn initialise() -> u32 {
    let code = call_unchecked("nvmlInit_v2", None, |scenario, _| match scenario.init {
        0 => Ok(()),
        code => Err(code),
    });
    if code == 0
        && let Some(driver) = lock().as_mut()
    {
        driver.users += 1;
    }
    code
}

/// `nvmlShutdown`: the last one counts.
pub fn shut_down() -> u32 {
    let code = call("nvmlShutdown", None, |_, _| Ok(()));
    if code == 0
        && let Some(driver) = lock().as_mut()
    {
        driver.users -= 1;
    }
    code
}

/// Answers a call, unless the library is not initialised, the GPU is off the bus, the function
/// is missing or a fault says otherwise.
pub fn call(name: &'static str, gpu: Option<u32>, answer: impl FnOnce(&Scenario, Now) -> Answer) -> u32 {
    if lock().as_ref().is_none_or(|driver| driver.users == 0) {
        return UNINITIALISED;
    }
    call_unchecked(name, gpu, answer)
}

fn call_unchecked(name: &'static str, gpu: Option<u32>, answer: impl FnOnce(&Scenario, Now) -> Answer) -> u32 {
    let (scenario, now, broken) = {
        let mut guard = lock();
        let driver = guard.get_or_insert_with(Driver::default);
        driver.reload();
        driver.log(name, gpu);
        let now = driver.count(name, gpu);
        (Arc::clone(&driver.scenario), now, driver.broken)
    };
    // From here on without the lock: a call that hangs must not hang the others.
    if broken {
        return UNKNOWN;
    }
    if scenario.missing.iter().any(|missing| missing == name) {
        return FUNCTION_NOT_FOUND;
    }
    if let Some(fault) = scenario.fault(name, gpu, now) {
        if let Some(seconds) = fault.hang_s {
            thread::sleep(Duration::from_secs_f64(seconds));
        }
        if let Some(said) = &fault.says {
            // Not through Rust's streams, which a test may have caught.
            for stream in ["/proc/self/fd/1", "/proc/self/fd/2"] {
                let written = OpenOptions::new().append(true).open(stream).and_then(|mut out| writeln!(out, "{said}"));
                drop(written);
            }
        }
        match fault.ends {
            // SAFETY: none; that is what it is for.
            Some(End::Crash) => unsafe { std::ptr::null_mut::<u8>().write_volatile(1) },
            Some(End::Abort) => std::process::abort(),
            Some(End::Exit) => std::process::exit(0),
            None => {}
        }
        if let Some(code) = fault.error {
            return code;
        }
    }
    if gpu.and_then(|gpu| scenario.gpus.get(gpu as usize)).is_some_and(|gpu| gpu.is_lost(now)) {
        return GPU_IS_LOST;
    }
    answer(&scenario, now).err().unwrap_or(0)
}
