//! What the host knows of the processes that are on a GPU: asked for those alone, because
//! asking for all costs more than the rest of the program.

mod children;
mod detail;
mod end;
mod look;
mod namespace;
mod users;

use std::collections::HashMap;
use std::path::PathBuf;

use procfs::process::Process;

use children::Children;
use detail::Details;
use look::{LONGEST_TEXT, Look, Said};
use namespace::search;
use users::Users;

pub use end::{End, end};

use crate::reading::{Absence, HostProcess, Moment, Reading};
use crate::units::Fraction;

/// A pid that nobody in sight has is looked for in other namespaces this often, in milliseconds:
/// it means reading a file of every process.
const SEARCH_EVERY: u64 = 10_000;

/// Facts of processes, with what is remembered between ticks.
pub struct HostFacts {
    proc_root: PathBuf,
    /// When the machine was started; none without `/proc`.
    boot: Option<u64>,
    users: Users,
    known: HashMap<u32, Known>,
    elsewhere: HashMap<u32, Elsewhere>,
    details: Details,
    children: Children,
    /// Every process is in sight.
    on_host: bool,
}

/// A process as it was at the last look.
#[derive(Debug)]
struct Known {
    name: String,
    said: Said,
    time: CpuTime,
}

/// Processor time that a process had used by some moment.
#[derive(Debug, Clone, Copy)]
struct CpuTime {
    started: u64,
    millis: u64,
    at: Moment,
}

/// What was found for a pid of another namespace, and when.
#[derive(Debug, Clone, Copy)]
struct Elsewhere {
    here: Option<u32>,
    at: Moment,
}

impl HostFacts {
    /// Nothing is read yet.
    pub fn new() -> Self {
        Self {
            proc_root: PathBuf::from("/proc"),
            boot: look::boot(),
            users: Users::default(),
            known: HashMap::new(),
            elsewhere: HashMap::new(),
            details: Details::default(),
            children: Children::default(),
            on_host: namespace::is_the_hosts(),
        }
    }

    /// What is known of these processes, in their order.
    pub fn of(&mut self, pids: &[u32], now: Moment) -> Vec<HostProcess> {
        self.forget(pids);
        let Some(boot) = self.boot else {
            let why = Absence::Failed("no /proc here: mount it to see whose processes these are".into());
            return pids.iter().map(|pid| without_facts(*pid, &why)).collect();
        };
        pids.iter().map(|pid| self.one(*pid, boot, now)).collect()
    }

    /// Fills in what is asked only while processes are looked at, and tells of what they have
    /// started that is not among them.
    pub fn closely(&mut self, known: &mut [HostProcess], now: Moment) -> Vec<HostProcess> {
        let here = |host: &HostProcess| host.here.unwrap_or(host.pid);
        let roots: Vec<u32> = known.iter().filter(|host| host.started.value().is_some()).map(here).collect();
        let family = self.children.of(&self.proc_root, &roots, now).to_vec();
        let mut children: Vec<HostProcess> = family
            .into_iter()
            .filter_map(|(pid, parent)| {
                let child = self.one(pid, self.boot?, now);
                Some(HostProcess { parent: Some(parent), ..child })
            })
            // Ended since it was found.
            .filter(|child| child.started.value().is_some())
            .collect();
        for host in known.iter_mut().chain(&mut children) {
            host.detail = self.details.of(&self.proc_root, here(host), now);
        }
        self.details.forget(now);
        children
    }

    fn one(&mut self, pid: u32, boot: u64, now: Moment) -> HostProcess {
        let Some((local, process, look)) = self.look(pid, boot, now) else {
            // Who was here has gone; who never was has its number in another namespace, unless
            // this is the one of all.
            let gone = self.known.contains_key(&pid) || self.on_host;
            return without_facts(pid, &if gone { Absence::Gone } else { Absence::Elsewhere });
        };
        let time = CpuTime { started: look.started, millis: look.millis, at: now };
        let before = self.known.remove(&pid);
        let cpu = cpu(before.as_ref().map(|before| before.time), time);
        // What has another name has become another program.
        let same = before.filter(|before| before.time.started == look.started && before.name == look.name);
        let said = same.map_or_else(|| Said::by(&process, &look.name), |before| before.said);
        let user =
            said.user.map_or(Reading::Absent(Absence::NoPermission), |id| Reading::measured(self.users.name(id), now));
        let host = HostProcess {
            pid,
            started: Reading::measured(look.started, now),
            name: Reading::measured(look.name.clone(), now),
            command: Reading::measured(said.command.clone(), now),
            user,
            cpu,
            resident: Reading::measured(look.resident, now),
            here: (local != pid).then_some(local),
            parent: look.parent,
            ..HostProcess::default()
        };
        self.known.insert(pid, Known { name: look.name, said, time });
        host
    }

    /// A look at the process that the driver calls `pid`, and its number here.
    fn look(&mut self, pid: u32, boot: u64, now: Moment) -> Option<(u32, Process, Look)> {
        if let Some((process, look)) = Look::at(&self.proc_root, pid, boot) {
            return Some((pid, process, look));
        }
        let here = self.here(pid, now)?;
        let (process, look) = Look::at(&self.proc_root, here, boot)?;
        Some((here, process, look))
    }

    /// The pid that a process of another namespace has in this one.
    ///
    /// The driver tells the pids of its own namespace. One process in sight whose list of pids
    /// (NSpid) has the number is the one; of several, nobody knows which.
    fn here(&mut self, pid: u32, now: Moment) -> Option<u32> {
        if let Some(found) = self.elsewhere.get(&pid)
            && now.0.saturating_sub(found.at.0) < SEARCH_EVERY
        {
            return found.here;
        }
        let here = search(&self.proc_root, pid);
        self.elsewhere.insert(pid, Elsewhere { here, at: now });
        here
    }

    /// Drops what belongs to processes that nobody asks for any more.
    fn forget(&mut self, pids: &[u32]) {
        let children = self.children.pids();
        self.known.retain(|pid, _| pids.contains(pid) || children.contains(pid));
        self.elsewhere.retain(|pid, _| pids.contains(pid));
    }
}

fn without_facts(pid: u32, why: &Absence) -> HostProcess {
    HostProcess {
        pid,
        started: Reading::Absent(why.clone()),
        name: Reading::Absent(why.clone()),
        command: Reading::Absent(why.clone()),
        user: Reading::Absent(why.clone()),
        cpu: Reading::Absent(why.clone()),
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

fn cut(mut text: String) -> String {
    let mut end = LONGEST_TEXT.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests;
