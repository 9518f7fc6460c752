use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::users::login_name;
use super::*;
use crate::reading::ProcessPlace;

/// A process of this test, ended with it.
struct TestProcess(Child);

impl TestProcess {
    fn shell(script: &str, arguments: &[&str]) -> Self {
        let child = Command::new("sh").args(["-c", script, "sh"]).args(arguments).stdin(Stdio::piped()).spawn();
        Self(child.unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Looks until the condition holds.
fn look_until(facts: &mut HostFacts, pid: u32, wanted: impl Fn(&HostProcess) -> bool) -> HostProcess {
    let start = Instant::now();
    loop {
        let at = Moment(1_000_000 + u64::try_from(start.elapsed().as_millis()).unwrap());
        let seen = facts.of(&[pid], at).remove(0);
        if wanted(&seen) {
            return seen;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long: {seen:?}");
        // Processor time is counted in steps of 10 ms: closer looks would measure those.
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_real_process_is_known_by_name_command_user_and_memory() {
    let child = TestProcess::shell("read line; :", &["--lr", "3e-4"]);
    let mut facts = HostFacts::new();
    // Until the shell runs, it is still a copy of this test.
    let seen = look_until(&mut HostFacts::new(), child.pid(), |seen| {
        seen.command.value().is_some_and(|line| line.contains("3e-4"))
    });
    assert_eq!(seen.command.value().unwrap(), "sh -c read line; : sh --lr 3e-4");
    let name = seen.name.value().unwrap();
    assert!(name == "sh" || name == "dash" || name == "bash", "{name}");
    assert!(seen.resident.value().unwrap().0 > 0);
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let uid = own.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap().split_whitespace().next().unwrap();
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let expected = login_name(&passwd, uid.parse().unwrap()).unwrap_or(uid.to_owned());
    assert_eq!(seen.user.value(), Some(&expected));
    // Nothing is known of the processor time before the second look.
    assert_eq!(facts.of(&[child.pid()], Moment(1000)).remove(0).cpu, Reading::not_read());
    let later = facts.of(&[child.pid()], Moment(2000)).remove(0);
    assert!(later.cpu.value().unwrap().0 < 0.5);
    assert_eq!(later.started, Reading::measured(*seen.started.value().unwrap(), Moment(2000)));
}

#[test]
fn a_process_that_becomes_another_program_is_named_anew() {
    let mut child = TestProcess::shell("read line; exec sleep 60", &[]);
    let mut facts = HostFacts::new();
    let shell = look_until(&mut facts, child.pid(), |seen| {
        seen.command.value().is_some_and(|line| line.starts_with("sh -c read"))
    });
    drop(child.0.stdin.take());
    let seen = look_until(&mut facts, child.pid(), |seen| seen.command.value().is_some_and(|line| line == "sleep 60"));
    assert_eq!(seen.name.value().unwrap(), "sleep");
    assert_eq!(seen.started.value(), shell.started.value());
}

#[test]
fn a_busy_process_shows_the_cores_it_uses() {
    let child = TestProcess::shell("while :; do :; done", &[]);
    let mut facts = HostFacts::new();
    // By its own clock it may get less than a core; but it gets something.
    let seen = look_until(&mut facts, child.pid(), |seen| seen.cpu.value().is_some_and(|cpu| cpu.0 > 0.05));
    assert!(seen.cpu.value().unwrap().0 < 3.0);
}

#[test]
fn a_process_that_ended_is_gone() {
    let mut child = TestProcess::shell("read line; :", &[]);
    let pid = child.pid();
    let mut facts = HostFacts::new();
    assert!(facts.of(&[pid], Moment(1000)).remove(0).started.value().is_some());
    drop(child.0.kill());
    drop(child.0.wait());
    let seen = facts.of(&[pid], Moment(2000)).remove(0);
    assert_eq!(seen, without_facts(pid, &Absence::Gone));
}

#[test]
fn long_arguments_are_cut_and_bytes_that_are_no_text_are_replaced() {
    use std::os::unix::ffi::OsStrExt;
    let odd = OsStr::from_bytes(b"\xff\x1b[31m");
    let child = Command::new("sh")
        .args(["-c", "read line; :", "sh"])
        .arg(odd)
        .arg("é".repeat(5000))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let child = TestProcess(child);
    let seen = look_until(&mut HostFacts::new(), child.pid(), |seen| {
        seen.command.value().is_some_and(|line| line.contains('é'))
    });
    let line = seen.command.value().unwrap();
    assert!(line.len() <= LONGEST_TEXT && line.len() > LONGEST_TEXT - 4);
    assert!(line.contains("\u{fffd}\u{1b}[31m"), "{line}");
}

#[test]
fn processor_time_of_a_reused_pid_starts_over() {
    let time = |started, millis, at| CpuTime { started, millis, at: Moment(at) };
    let used = cpu(Some(time(50, 1000, 10_000)), time(50, 2500, 12_000));
    assert_eq!(used, Reading::measured(Fraction(0.75), Moment(12_000)));
    assert_eq!(cpu(Some(time(50, 1000, 10_000)), time(60, 100, 12_000)), Reading::not_read());
    assert_eq!(cpu(Some(time(50, 1000, 10_000)), time(50, 1000, 10_000)), Reading::not_read());
}

#[test]
fn accounts_are_found_by_id() {
    let passwd = "root:x:0:0:root:/root:/bin/bash\nbroken\n:x:7:7::/:\nana:x:1000:1000::/home/ana:/bin/sh\n";
    assert_eq!(login_name(passwd, 1000).as_deref(), Some("ana"));
    assert_eq!(login_name(passwd, 7), None);
    assert_eq!(login_name(passwd, 1001), None);
}

/// A simulated /proc with processes of these pids in this and other namespaces.
pub fn proc_with(processes: &[(u32, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let own = fs::read_to_string("/proc/self/status").unwrap();
    for (pid, nspid) in processes {
        let status: String = own
            .lines()
            .map(|line| if line.starts_with("NSpid:") { format!("NSpid:\t{nspid}\n") } else { format!("{line}\n") })
            .collect();
        fs::create_dir(root.path().join(pid.to_string())).unwrap();
        fs::write(root.path().join(pid.to_string()).join("status"), status).unwrap();
    }
    root
}

#[test]
fn facts_of_a_process_in_another_namespace_carry_the_drivers_pid() {
    let child = TestProcess::shell("read line; :", &[]);
    // Above the largest pid, so that no process of this machine has it.
    let told = 4_200_123;
    let root = proc_with(&[(child.pid(), &format!("{}\t{told}", child.pid()))]);
    let mut facts = HostFacts { proc_root: root.path().to_owned(), ..HostFacts::new() };
    let seen = facts.of(&[told], Moment(1000)).remove(0);
    assert_eq!(seen.pid, told);
    assert!(seen.started.value().is_some());
    // The second look needs no search.
    fs::remove_file(root.path().join(format!("{}/status", child.pid()))).unwrap();
    let seen = facts.of(&[told], Moment(2000)).remove(0);
    assert!(seen.cpu.value().is_some());
}

#[test]
fn a_pid_that_nobody_here_ever_had_is_of_another_namespace_unless_all_are_in_sight() {
    // Above the largest pid.
    let told = 4_200_124;
    for (on_host, why) in [(false, Absence::Elsewhere), (true, Absence::Gone)] {
        let mut facts = HostFacts { on_host, ..HostFacts::new() };
        assert_eq!(facts.of(&[told], Moment(1000)).remove(0), without_facts(told, &why));
    }
}

#[test]
fn who_is_looked_at_closely_tells_of_threads_and_children() {
    // A loader with a child of its own; all wait for a line.
    let script = "sh -c 'sh -c \"read line; :\" worker; :' loader; :";
    let child = TestProcess::shell(script, &[]);
    let mut facts = HostFacts::new();
    let start = Instant::now();
    loop {
        let now = Moment(1_000_000 + u64::try_from(start.elapsed().as_millis()).unwrap() * 100);
        let mut known = facts.of(&[child.pid()], now);
        let children = facts.closely(&mut known, now);
        assert_eq!(known[0].detail.threads.value(), Some(&1));
        assert!(matches!(known[0].detail.place.value(), Some(ProcessPlace::Host | ProcessPlace::Container(_))));
        if let [loader, worker] = children.as_slice() {
            assert_eq!((loader.parent, worker.parent), (Some(child.pid()), Some(loader.pid)));
            // Its bytes are counted from the second look on.
            if known[0].detail.read.value().is_some() {
                return;
            }
        }
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long: {children:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn ending_means_that_process_and_no_other() {
    let mut child = TestProcess::shell("trap '' TERM; read line; :", &[]);
    let pid = child.pid();
    let started = *HostFacts::new().of(&[pid], Moment(1000)).remove(0).started.value().unwrap();
    let refused = end(pid, started + 7, End::Forced).unwrap_err().to_string();
    assert!(refused.contains("another process"), "{refused}");
    assert!(child.0.try_wait().unwrap().is_none());
    end(pid, started, End::Forced).unwrap();
    assert!(!child.0.wait().unwrap().success());
    assert!(end(4_200_125, started, End::Asked).unwrap_err().to_string().contains("is gone"));
}
