//! How many processes the kernel has killed for lack of memory in this program's own cgroup, which what it starts is in
//! as well: it names the cause of a SIGKILL that nothing else tells of.

use std::path::Path;

use super::waits::read;
use crate::units::Bytes;

/// The count so far, and what the cgroup may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomKills {
    /// Processes.
    pub count: u64,
    /// None where it has no limit of its own, or none that is shown.
    pub limit: Option<Bytes>,
}

impl OomKills {
    /// Those of the cgroup that this program is in, as `proc` and `mounted` (`/sys/fs/cgroup`) show it; none where nobody
    /// counts.
    #[must_use]
    pub fn look(proc: &Path, mounted: &Path) -> Option<Self> {
        let groups = read(&proc.join("self/cgroup"))?;
        let path = |is: fn(&str) -> bool| {
            let lines = groups.lines().filter_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                Some((fields.next()?, fields.next()?))
            });
            lines.filter(|(controllers, _)| is(controllers)).map(|(_, path)| path.trim_start_matches('/')).next()
        };
        let first = path(|controllers| controllers.split(',').any(|one| one == "memory"));
        // A container may see its own group as the root.
        let of_first = first.into_iter().flat_map(|path| [mounted.join("memory").join(path), mounted.join("memory")]);
        let of_second = path(str::is_empty).into_iter().flat_map(|path| [mounted.join(path), mounted.to_owned()]);
        let first = of_first.map(|group| (group, "memory.oom_control", "memory.limit_in_bytes"));
        let second = of_second.map(|group| (group, "memory.events", "memory.max"));
        first.chain(second).find_map(|(group, events, limit)| Self::of(&group, events, limit))
    }

    fn of(group: &Path, events: &str, limit: &str) -> Option<Self> {
        // Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst: `oom_kill 3` on a line of its own.
        let text = read(&group.join(events))?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())?;
        // Without a limit the one says `max`, the other the largest number of pages.
        let limit = read(&group.join(limit)).and_then(|text| text.trim().parse().ok());
        Some(Self { count, limit: limit.filter(|limit| *limit < 1 << 60).map(Bytes) })
    }

    /// What is said where more have been killed since `before`.
    #[must_use]
    pub fn words_since(self, before: Self) -> Option<String> {
        let killed = self.count.checked_sub(before.count).filter(|killed| *killed > 0)?;
        let limit = self.limit.map_or_else(String::new, |limit| format!(", which may hold {limit}"));
        let processes = if killed == 1 { "a process" } else { "processes" };
        Some(format!("the kernel killed {processes} for lack of memory: {killed} in this cgroup (oom_kill){limit}"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_versions_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (proc, mounted) = (folder.path().join("proc"), folder.path().join("cgroup"));
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(&proc.join("self/cgroup"), "0::/user/run\n");
        assert_eq!(OomKills::look(&proc, &mounted), None);
        write(&mounted.join("user/run/memory.events"), "low 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n");
        write(&mounted.join("user/run/memory.max"), "max\n");
        let before = OomKills::look(&proc, &mounted).unwrap();
        assert_eq!(before, OomKills { count: 1, limit: None });
        write(&proc.join("self/cgroup"), "4:cpu,cpuacct:/\n3:memory:/job\n0::/\n");
        write(&mounted.join("memory/job/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
        write(&mounted.join("memory/job/memory.limit_in_bytes"), "2684354560\n");
        let after = OomKills::look(&proc, &mounted).unwrap();
        let said =
            "the kernel killed a process for lack of memory: 1 in this cgroup (oom_kill), which may hold 2.50 GiB";
        assert_eq!(after.words_since(before).unwrap(), said);
        assert_eq!(after.words_since(after), None);
    }
}
