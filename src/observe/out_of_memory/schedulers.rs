//! What those say who end a process of a run for the host's memory: Slurm, Ray, Kubernetes.

use super::size::{after, glued, number};
use crate::reading::{OutOfMemory, OutOfMemoryKind as Kind};
use crate::units::Bytes;

pub fn killed(backend: &str) -> OutOfMemory {
    OutOfMemory { backend: backend.to_owned(), kind: Kind::Killed, ..OutOfMemory::default() }
}

/// Ray's memory monitor (`src/ray/raylet/node_manager.cc`): `Memory on the node (…) where the task (task ID: …, name=train,
/// pid=11362, memory used=1.25GB) was running was 27.71GB / 28.80GB (0.962273), which exceeds …`. Its GB are 2^30 bytes.
pub fn ray(after: &str) -> OutOfMemory {
    let its = after.split_once("which exceeds").map_or(after, |(its, _)| its);
    let behind = |mark: &str| self::after(its, mark);
    let used = behind("memory used=").and_then(glued);
    let whole = its.rsplit_once(" / ").and_then(|(used, all)| {
        let used = used.rsplit_once(' ').map_or(used, |(_, used)| used);
        Some((glued(used)?, glued(all)?))
    });
    OutOfMemory {
        own_pid: behind("pid=").and_then(number).and_then(|pid| pid.parse().ok()),
        process: behind("name=").and_then(|rest| Some(rest.split_once(',')?.0.to_owned())),
        in_process: used,
        capacity: whole.map(|(_, all)| all),
        free: whole.map(|(used, all)| all.saturating_sub(used)),
        ..killed("Ray")
    }
}

/// `Job 4123 exceeded memory limit (33560532 > 33554432), being killed`: bytes
/// (`src/interfaces/jobacct_gather.c`, `jobacct_gather_handle_mem_limit`), in old releases KiB.
pub fn slurm_limit(before: &str, after: &str) -> Option<OutOfMemory> {
    /// Fewer bytes are no limit of a training, as many KiB 2 TiB.
    const BYTES: u64 = 1 << 31;
    let is_slurms = ["slurmstepd", "slurmd", "Job ", "Step "].iter().any(|word| before.contains(word));
    let (held, rest) = after.strip_prefix('(')?.split_once(" > ")?;
    let (held, limit) = (held.parse::<u64>().ok()?, number(rest)?.parse::<u64>().ok()?);
    let unit = if limit < BYTES { 1024 } else { 1 };
    let bytes = |count: u64| count.checked_mul(unit).map(Bytes);
    is_slurms.then(|| OutOfMemory { in_process: bytes(held), allowed: bytes(limit), ..killed("Slurm") })
}

/// `kubectl describe pod`: `Reason: OOMKilled … Limits: cpu: 8 memory: 64Gi … Requests: …`.
pub fn kubernetes(after: &str) -> OutOfMemory {
    let limits = self::after(after, "Limits:").map(|rest| rest.split_once("Requests:").map_or(rest, |(own, _)| own));
    let allowed = limits.and_then(|limits| quantity(self::after(limits, " memory:")?.trim_start()));
    OutOfMemory { allowed, ..killed("Kubernetes") }
}

/// The kubelet's eviction: `The node was low on resource: memory. … Container trainer was using 15000Mi, request is 8Gi, has
/// larger consumption of memory.` (`pkg/kubelet/eviction/helpers.go`), which names each container.
pub fn evicted(after: &str) -> OutOfMemory {
    let using = |part: &str| {
        let (name, rest) = part.split_once(" was using ")?;
        Some((name.to_owned(), quantity(rest)?))
    };
    let largest = after.split("Container ").filter_map(using).max_by_key(|(_, held)| *held);
    let (process, in_process) = largest.unzip();
    OutOfMemory { process, in_process, ..killed("Kubernetes") }
}

/// `64Gi`, `15000Mi`, `8G`, plain bytes: Kubernetes' quantities, of which those without `i` are powers of ten.
fn quantity(text: &str) -> Option<Bytes> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let unit: String = text[digits..].chars().take_while(char::is_ascii_alphanumeric).collect();
    let unit = match unit.as_str() {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0_f64.powi(4),
        _ => return None,
    };
    Some(Bytes::from_f64(text[..digits].parse::<f64>().ok()? * unit))
}
