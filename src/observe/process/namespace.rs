//! Processes that have other numbers elsewhere: seen from a host, those of containers.

use std::path::Path;

/// The one process under `root` that has `pid` in some other namespace.
pub fn search(root: &Path, pid: u32) -> Option<u32> {
    let processes = procfs::process::all_processes_with_root(root).ok()?;
    let mut found = processes.flatten().filter(|process| {
        let pids = process.status().ok().and_then(|status| status.nspid).unwrap_or_default();
        pids.len() > 1 && pids.iter().any(|known| u32::try_from(*known) == Ok(pid))
    });
    let first = found.next()?;
    if found.next().is_some() {
        return None;
    }
    u32::try_from(first.pid()).ok()
}

/// Whether this is the first PID namespace, which sees the processes of all others. The kernel
/// gives it a fixed number (`PROC_PID_INIT_INO`).
pub fn is_the_hosts() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == "pid:[4026531836]")
}
