//! What a kernel function, a file or a system call that a process is in says of what it waits for.

use crate::reading::WaitKind;

/// By the function of the kernel that it sleeps in. Names are of Linux 4.18 to 6.x.
pub(super) fn by_function(name: &str) -> Option<WaitKind> {
    const FUNCTIONS: [(WaitKind, &[&str]); 10] = [
        (WaitKind::NetworkStorage, &["nfs", "rpc_wait", "request_wait_answer", "fuse", "ptlrpc", "cl_sync_io", "osc_"]),
        (WaitKind::NetworkStorage, &["ceph", "cifs", "smb", "wait_for_response", "p9_"]),
        (WaitKind::FileLock, &["flock_lock", "locks_lock", "posix_lock", "fcntl_setlk"]),
        (
            WaitKind::Disk,
            &["folio_wait", "wait_on_page", "__lock_page", "io_schedule", "blk_", "rq_qos_wait", "wbt_wait"],
        ),
        (
            WaitKind::Disk,
            &["balance_dirty_pages", "jbd2_", "xfs_", "xlog_", "ext4_", "btrfs_", "submit_bio", "iomap_dio"],
        ),
        (WaitKind::Socket, &["sk_wait", "tcp_", "inet_csk", "inet_stream", "unix_stream", "skb_wait", "__skb_wait"]),
        (WaitKind::Pipe, &["pipe_", "anon_pipe"]),
        (WaitKind::Lock, &["futex"]),
        (
            WaitKind::Event,
            &["ep_poll", "do_epoll", "poll_schedule", "do_poll", "do_sys_poll", "do_select", "core_sys_select"],
        ),
        (WaitKind::Sleep, &["hrtimer_nanosleep", "do_nanosleep", "common_nsleep"]),
    ];
    let child = matches!(name, "do_wait" | "kernel_wait4" | "kernel_waitid").then_some(WaitKind::Child);
    let starts = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
    FUNCTIONS.iter().find(|(_, names)| starts(names)).map(|(kind, _)| *kind).or(child)
}

/// By what a call's descriptor is open on.
pub(super) fn by_target(target: &str, state: char) -> Option<WaitKind> {
    if target.starts_with("socket:") {
        Some(WaitKind::Socket)
    } else if target.starts_with("pipe:") {
        Some(WaitKind::Pipe)
    } else if target.starts_with("/dev/") {
        Some(WaitKind::Device)
    } else {
        // A file that is there at once is not waited for, but for its disk.
        (target.starts_with('/') && state == 'D').then_some(WaitKind::Disk)
    }
}

/// A system call that is waited in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum WaitingCall {
    #[default]
    Other,
    Futex,
    Poll,
    Sleep,
    Child,
    FileLock,
    Sync,
    /// Of a descriptor: read, write, send, receive, connect, accept, ioctl.
    OnDescriptor,
}

pub(super) fn by_call(call: WaitingCall) -> Option<WaitKind> {
    match call {
        WaitingCall::Futex => Some(WaitKind::Lock),
        WaitingCall::Poll => Some(WaitKind::Event),
        WaitingCall::Sleep => Some(WaitKind::Sleep),
        WaitingCall::Child => Some(WaitKind::Child),
        WaitingCall::FileLock => Some(WaitKind::FileLock),
        WaitingCall::Sync => Some(WaitKind::Disk),
        WaitingCall::OnDescriptor | WaitingCall::Other => None,
    }
}

/// The call of `/proc/PID/syscall` and the descriptor that it is of; none while it runs, or is in no call.
pub(super) fn call(text: &str) -> Option<(WaitingCall, Option<u32>)> {
    let mut words = text.split_whitespace();
    let number: u32 = words.next()?.parse().ok()?;
    let call = named(number);
    let first = words.next().and_then(|word| u32::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let has_descriptor = matches!(call, WaitingCall::OnDescriptor | WaitingCall::FileLock | WaitingCall::Sync);
    Some((call, first.filter(|_| has_descriptor)))
}

/// Numbers of arch/x86/entry/syscalls/syscall_64.tbl.
#[cfg(target_arch = "x86_64")]
const fn named(number: u32) -> WaitingCall {
    match number {
        202 => WaitingCall::Futex,
        7 | 23 | 232 | 270 | 271 | 281 | 441 => WaitingCall::Poll,
        35 | 230 => WaitingCall::Sleep,
        61 | 247 => WaitingCall::Child,
        73 => WaitingCall::FileLock,
        74 | 75 | 277 => WaitingCall::Sync,
        0 | 1 | 16..=20 | 42..=47 | 288 | 299 | 307 => WaitingCall::OnDescriptor,
        _ => WaitingCall::Other,
    }
}

/// Numbers of include/uapi/asm-generic/unistd.h, which AArch64 and RISC-V have.
#[cfg(not(target_arch = "x86_64"))]
const fn named(number: u32) -> WaitingCall {
    match number {
        98 => WaitingCall::Futex,
        22 | 72 | 73 | 441 => WaitingCall::Poll,
        101 | 115 => WaitingCall::Sleep,
        95 | 260 => WaitingCall::Child,
        32 => WaitingCall::FileLock,
        82..=84 => WaitingCall::Sync,
        29 | 63..=68 | 202..=203 | 206..=207 | 211..=212 | 242 | 243 => WaitingCall::OnDescriptor,
        _ => WaitingCall::Other,
    }
}
