//! What the host knows of the processes that are on a GPU: asked for those alone, because
//! asking for all costs more than the rest of the program.

mod children;
mod command_lines;
mod cpu_wait;
mod detail;
mod end;
mod exit;
mod jobs;
mod namespace;
mod oom_kills;
mod ranks;
mod redaction;
mod state;
mod users;
mod wait_kinds;
mod wait_targets;
mod waits;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use sysinfo::{Pid, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};

use children::Children;
use command_lines::CommandLines;
use cpu_wait::CpuWaits;
use detail::Details;
use namespace::NamespacePids;
use redaction::Redacted;
use users::Users;

pub use children::{look as descendants, started_by};
pub use cpu_wait::waited_for_core;
pub use exit::ExitWatch;
pub use jobs::{ShellJob, shell_jobs, started_at};
pub use namespace::{is_the_hosts as sees_all_processes, last_number_in};
pub use oom_kills::OomKills;
pub use ranks::{python_of_shell, ranks_of, told_ranks_of, told_runs_of};
pub use waits::Waits;

pub use end::{End, EndError, end};

use crate::reading::{Absence, HostProcess, Moment, Reading};
use crate::units::{Bytes, Fraction};

/// Names and command lines are cut here: they come from anybody.
const LONGEST_TEXT: usize = 4096;
/// Processes that have left the GPUs but go on are forgotten when there are more than these.
const MOST_STALE: usize = 64;

/// Facts of processes, with what is remembered between ticks.
pub struct HostFacts {
    proc_root: PathBuf,
    system: Option<System>,
    users: Users,
    cpu_before: HashMap<u32, CpuTime>,
    cpu_waits: CpuWaits,
    commands: CommandLines,
    elsewhere: NamespacePids,
    details: Details,
    children: Children,
    /// Every process is in sight.
    on_host: bool,
}

/// Processor time that a process had used by some moment.
#[derive(Debug, Clone, Copy)]
struct CpuTime {
    started: u64,
    millis: u64,
    at: Moment,
}

impl HostFacts {
    /// Nothing is read yet.
    pub fn new() -> Self {
        Self {
            proc_root: PathBuf::from("/proc"),
            system: System::new().ok(),
            users: Users::default(),
            cpu_before: HashMap::new(),
            cpu_waits: CpuWaits::default(),
            commands: CommandLines::default(),
            elsewhere: NamespacePids::default(),
            details: Details::default(),
            children: Children::default(),
            on_host: namespace::is_the_hosts(),
        }
    }

    /// What is known of these processes, in their order.
    pub fn of(&mut self, pids: &[u32], now: Moment) -> Vec<HostProcess> {
        self.forget(pids);
        let Some(system) = &mut self.system else {
            let why = Absence::Failed("no /proc here: mount it to see whose processes these are".into());
            return pids.iter().map(|pid| without_facts(*pid, &why)).collect();
        };
        // Processes of another namespace cost one question each, not all that would be read of them. Those that were
        // here are read until that tells of their end.
        let is_here =
            |pid: &u32| system.process(Pid::from_u32(*pid)).is_some() || self.proc_root.join(pid.to_string()).exists();
        let here: Vec<u32> = pids.iter().copied().filter(is_here).collect();
        refresh(system, &here);
        pids.iter().map(|pid| self.one(*pid, now)).collect()
    }

    /// Fills in what is asked only while processes are looked at, and tells of what they have
    /// started that is not among them.
    pub fn closely(&mut self, known: &mut [HostProcess], now: Moment) -> Vec<HostProcess> {
        let here = |host: &HostProcess| host.here.unwrap_or(host.pid);
        let roots: Vec<u32> = known.iter().filter(|host| host.started.value().is_some()).map(here).collect();
        let family = self.children.of(&self.proc_root, &roots, now).to_vec();
        let pids: Vec<u32> = family.iter().map(|(pid, _)| *pid).collect();
        if let Some(system) = &mut self.system {
            refresh(system, &pids);
        }
        let mut children: Vec<HostProcess> = family
            .into_iter()
            .map(|(pid, parent)| HostProcess { parent: Some(parent), ..self.one(pid, now) })
            // Ended since it was found.
            .filter(|child| child.started.value().is_some())
            .collect();
        for host in known.iter_mut().chain(&mut children) {
            host.detail = self.details.of(&self.proc_root, here(host), now);
        }
        self.details.forget(now);
        children
    }

    /// Fills in how long these wait for a core. Runs on a CPU alone are asked: it is a file more for each.
    pub fn waits<'a>(&mut self, hosts: impl Iterator<Item = &'a mut HostProcess>, now: Moment) {
        for host in hosts {
            if let Some(started) = host.started.value() {
                let here = (self.proc_root.as_path(), host.here.unwrap_or(host.pid));
                host.cpu_wait = self.cpu_waits.of(here, host.pid, *started, now);
            }
        }
    }

    fn one(&mut self, pid: u32, now: Moment) -> HostProcess {
        let mut local = pid;
        if self.known(pid).is_none()
            && let Some(here) = self.elsewhere.here(&self.proc_root, pid, now)
            && let Some(system) = &mut self.system
        {
            refresh(system, &[here]);
            local = here;
        }
        // One that has ended and is not waited for holds nothing any more: its zeros are no figures.
        let is_there = |process: &&Process| !matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead);
        let known = self.system.as_ref().and_then(|system| system.process(Pid::from_u32(local)));
        let Some(process) = known.filter(is_there) else {
            // Who was here has gone; who never was has its number in another namespace, unless
            // this is the one of all.
            let gone = self.cpu_before.contains_key(&pid) || self.on_host;
            return without_facts(pid, &if gone { Absence::Gone } else { Absence::Elsewhere });
        };
        let started = process.start_time();
        let time = CpuTime { started, millis: process.accumulated_cpu_time(), at: now };
        let before = self.cpu_before.insert(pid, time);
        let line = self.commands.of(pid, started, process.cmd(), command(process));
        // sysinfo reads the name when it meets the process and not again.
        let is_other = self.commands.has_changed(pid);
        let name = if is_other { name(&self.proc_root, local, process) } else { bounded(process.name()) };
        HostProcess {
            pid,
            started: Reading::measured(started, now),
            name: Reading::measured(name, now),
            command: Reading::measured(line, now),
            user: user(process, &mut self.users, now),
            cpu: cpu(before, time),
            resident: Reading::measured(Bytes(process.memory()), now),
            here: (local != pid).then_some(local),
            parent: process.parent().map(Pid::as_u32),
            ..HostProcess::default()
        }
    }

    fn known(&self, pid: u32) -> Option<&Process> {
        self.system.as_ref()?.process(Pid::from_u32(pid))
    }

    /// Drops what belongs to processes that nobody asks for any more.
    fn forget(&mut self, pids: &[u32]) {
        let children = self.children.pids();
        self.cpu_before.retain(|pid, _| pids.contains(pid) || children.contains(pid));
        self.cpu_waits.forget(|pid| self.cpu_before.contains_key(&pid));
        self.commands.forget(|pid| pids.contains(&pid) || children.contains(&pid));
        self.elsewhere.forget(pids);
        let known = self.system.as_ref().map_or(0, |system| system.processes().len());
        if known > pids.len() + self.children.pids().len() + MOST_STALE {
            self.system = System::new().ok();
        }
    }
}

/// Only what is shown, and only for these; what does not change is read once. A process may become another program: its
/// command line changes.
fn refresh(system: &mut System, pids: &[u32]) {
    if pids.is_empty() {
        return;
    }
    let pids: Vec<Pid> = pids.iter().copied().map(Pid::from_u32).collect();
    // Threads are left out: a trainer has hundreds, and each would be read.
    let what = ProcessRefreshKind::nothing()
        .without_tasks()
        .with_cpu()
        .with_memory()
        .with_cmd(UpdateKind::Always)
        .with_user(UpdateKind::OnlyIfNotSet);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&pids), true, what);
}

fn without_facts(pid: u32, why: &Absence) -> HostProcess {
    HostProcess {
        pid,
        started: Reading::Absent(why.clone()),
        name: Reading::Absent(why.clone()),
        command: Reading::Absent(why.clone()),
        user: Reading::Absent(why.clone()),
        cpu: Reading::Absent(why.clone()),
        cpu_wait: Reading::Absent(why.clone()),
        resident: Reading::Absent(why.clone()),
        ..HostProcess::default()
    }
}

/// Processor time over the time between two looks. The first look knows nothing yet, and a pid
/// that has changed hands starts over.
fn cpu(before: Option<CpuTime>, now: CpuTime) -> Reading<Fraction> {
    let Some(before) = before.filter(|before| before.started == now.started && before.at < now.at) else {
        return Reading::not_read();
    };
    let used = now.millis.saturating_sub(before.millis) as f64;
    Reading::measured(Fraction(used / 1000.0 / now.at.since(before.at).0), now.at)
}

/// The command line; where there is none, the name in brackets, as ps shows it.
fn command(process: &Process) -> String {
    let mut line = String::new();
    let mut words = Redacted::default();
    for word in process.cmd() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&words.next(&word.to_string_lossy()));
        if line.len() > LONGEST_TEXT {
            break;
        }
    }
    if line.is_empty() { format!("[{}]", bounded(process.name())) } else { cut(line) }
}

/// The name by now.
fn name(root: &Path, pid: u32, process: &Process) -> String {
    let named = fs::read(root.join(pid.to_string()).join("comm")).ok();
    let named = named.map(|name| cut(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned()));
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| bounded(process.name()))
}

fn bounded(text: &OsStr) -> String {
    cut(text.to_string_lossy().into_owned())
}

fn cut(mut text: String) -> String {
    let mut end = LONGEST_TEXT.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

fn user(process: &Process, users: &mut Users, now: Moment) -> Reading<String> {
    // sysinfo leaves it out when /proc/PID/status cannot be read.
    process.user_id().map_or(Reading::Absent(Absence::NoPermission), |id| Reading::measured(users.name(**id), now))
}

#[cfg(test)]
mod tests;
