//! The exporter itself: its version, and what it costs.

use procfs::process::Process;

use super::families as f;
use crate::report::metrics::MetricsPage;

/// Adds the exporter's build and process. What the system does not tell is left out.
pub fn put(page: &mut MetricsPage) {
    page.put(&f::BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let Ok(process) = Process::myself() else { return };
    if let Ok(descriptors) = process.fd_count() {
        page.put(&f::PROCESS_FDS, &[], descriptors as f64);
    }
    let Ok(stat) = process.stat() else { return };
    let ticks = procfs::ticks_per_second() as f64;
    page.put(&f::PROCESS_CPU, &[], (stat.utime + stat.stime) as f64 / ticks);
    page.put(&f::PROCESS_MEMORY, &[], stat.rss as f64 * procfs::page_size() as f64);
    if let Ok(boot) = procfs::boot_time_secs() {
        page.put(&f::PROCESS_START, &[], boot as f64 + stat.starttime as f64 / ticks);
    }
}
