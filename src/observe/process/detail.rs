//! What a process does beyond its load: threads, storage, swap, and the container that it runs in.

use std::collections::HashMap;
use std::path::Path;

use procfs::process::{Io, Process};
use procfs::{ProcError, ProcResult};

use super::cut;
use crate::reading::{Absence, HostDetail, Moment, ProcessPlace, Reading};
use crate::units::{Bytes, BytesPerSec};

/// Digits of a container's number that tell it apart: as `docker ps` prints them.
const SHORT: usize = 12;

/// What is remembered of the processes that are looked at.
#[derive(Debug, Default)]
pub struct Details {
    seen: HashMap<u32, PreviousDetail>,
}

#[derive(Debug)]
struct PreviousDetail {
    /// When the process started, in ticks since the machine did; none where that is not told.
    started: Option<u64>,
    place: Reading<ProcessPlace>,
    /// Bytes read and written by then.
    moved: Option<(u64, u64)>,
    at: Moment,
}

impl Details {
    /// What is known of the process with that pid here.
    pub fn of(&mut self, root: &Path, pid: u32, now: Moment) -> HostDetail {
        let process = match Process::new_with_root(root.join(pid.to_string())) {
            Ok(process) => process,
            Err(error) => return HostDetail::absent(&absence(&error)),
        };
        let (threads, swapped) = match process.status() {
            Ok(status) => (
                Reading::measured(status.threads, now),
                status
                    .vmswap
                    .map_or(Reading::Absent(Absence::NotSupported), |kib| Reading::measured(Bytes(kib * 1024), now)),
            ),
            Err(error) => (Reading::Absent(absence(&error)), Reading::Absent(absence(&error))),
        };
        let started = process.stat().ok().map(|stat| stat.starttime);
        // Another process by that pid.
        let before = self.seen.remove(&pid).filter(|before| before.started == started);
        let io = process.io();
        let (read, written) = rates(&io, before.as_ref(), now);
        let place = before.map_or_else(|| place(&process, now), |seen| seen.place);
        let moved = io.ok().map(|io| (io.read_bytes, io.write_bytes));
        self.seen.insert(pid, PreviousDetail { started, place: place.clone(), moved, at: now });
        HostDetail { threads, read, written, place, swapped }
    }

    /// Forgets those that were not asked for at `now`.
    pub fn forget(&mut self, now: Moment) {
        self.seen.retain(|_, seen| seen.at == now);
    }
}

/// Bytes since the look before. The first look knows nothing yet; of other users' processes the
/// kernel tells nothing.
fn rates(
    io: &ProcResult<Io>,
    before: Option<&PreviousDetail>,
    now: Moment,
) -> (Reading<BytesPerSec>, Reading<BytesPerSec>) {
    let io = match io {
        Ok(io) => io,
        Err(error) => return (Reading::Absent(absence(error)), Reading::Absent(absence(error))),
    };
    let known = before.and_then(|seen| Some((seen.moved?, now.since(seen.at)))).filter(|(_, time)| time.0 > 0.0);
    let Some(((read, written), time)) = known else { return (Reading::not_read(), Reading::not_read()) };
    let rate = |now_at: u64, then: u64| BytesPerSec(now_at.saturating_sub(then) as f64 / time.0);
    (Reading::measured(rate(io.read_bytes, read), now), Reading::measured(rate(io.write_bytes, written), now))
}

fn absence(error: &ProcError) -> Absence {
    match error {
        ProcError::PermissionDenied(_) => Absence::NoPermission,
        ProcError::NotFound(_) => Absence::Gone,
        error => Absence::Failed(error.to_string().into()),
    }
}

fn place(process: &Process, now: Moment) -> Reading<ProcessPlace> {
    match process.cgroups() {
        Ok(groups) => {
            let named = groups.0.iter().find_map(|group| container(&group.pathname));
            Reading::measured(named.map_or(ProcessPlace::Host, ProcessPlace::Container), now)
        }
        Err(error) => Reading::Absent(absence(&error)),
    }
}

/// The container that a control group belongs to, by the names that runtimes give: 64 hexadecimal
/// digits (Docker, containerd, CRI-O, Podman), or LXC's and Slurm's own.
fn container(group: &str) -> Option<String> {
    let parts = || group.split('/').filter(|part| !part.is_empty());
    let number = parts().rev().find_map(|part| {
        let bare = part.strip_suffix(".scope").unwrap_or(part);
        let number = bare.rsplit(['-', ':']).next()?;
        (number.len() == 64 && number.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| number[..SHORT].to_owned())
    });
    let lxc = || parts().find_map(|part| part.strip_prefix("lxc.payload.").map(|name| cut(name.to_owned())));
    let slurm = || parts().find(|part| part.starts_with("job_")).map(|job| cut(format!("slurm {job}")));
    number.or_else(lxc).or_else(slurm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_under_the_same_pid_has_read_nothing_yet() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("7");
        std::fs::create_dir(&folder).unwrap();
        for file in ["status", "cgroup"] {
            std::fs::copy(format!("/proc/self/{file}"), folder.join(file)).unwrap();
        }
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let (name, fields) = own.trim_end().rsplit_once(") ").unwrap();
        // Field 22, after the name and the state's 19 successors (proc(5)).
        let process = |started: &str, read: u64| {
            let mut fields: Vec<&str> = fields.split(' ').collect();
            fields[19] = started;
            std::fs::write(folder.join("stat"), format!("{name}) {}\n", fields.join(" "))).unwrap();
            let io = ["rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes"];
            let io: String = io.iter().map(|name| format!("{name}: {read}\n")).collect();
            std::fs::write(folder.join("io"), io).unwrap();
        };
        let mut details = Details::default();
        let mut read = |second: u64| details.of(root.path(), 7, Moment(second * 1000)).read;
        process("100", 1000);
        assert_eq!(read(1), Reading::not_read());
        process("100", 3000);
        // 2000 bytes in two seconds.
        assert_eq!(read(3), Reading::measured(BytesPerSec(1000.0), Moment(3000)));
        process("250", 5000);
        assert_eq!(read(5), Reading::not_read());
    }

    /// Paths as the runtimes' documentation and `/proc/PID/cgroup` under them show.
    #[test]
    fn containers_are_known_by_their_control_groups() {
        let id = "3f4e".repeat(16);
        for group in [
            format!("/system.slice/docker-{id}.scope"),
            format!("/docker/{id}"),
            format!("/kubepods.slice/kubepods-besteffort.slice/cri-containerd-{id}.scope"),
            format!("/kubepods/burstable/podd5b1/{id}"),
            format!("/machine.slice/libpod-{id}.scope/container"),
            format!("/system.slice/containerd.service/kubepods:cri-containerd:{id}"),
        ] {
            assert_eq!(container(&group).as_deref(), Some("3f4e3f4e3f4e"), "{group}");
        }
        assert_eq!(container("/lxc.payload.trainer/init.scope").as_deref(), Some("trainer"));
        assert_eq!(container("/system.slice/slurmstepd.scope/job_4711/step_0").as_deref(), Some("slurm job_4711"));
        for group in ["/", "/user.slice/user-1000.slice/session-2.scope", "/init.scope"] {
            assert_eq!(container(group), None, "{group}");
        }
    }
}
