//! Files that say on which host and GPU each rank runs, in the order of the ranks.

use thiserror::Error;

/// The GPUs that a line takes of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostGpus {
    /// All of them, by their index.
    All,
    /// So many, by their index.
    First(usize),
    /// The next one that no line before took.
    Next,
    /// The one of this index.
    Index(u32),
}

/// A host of the job, and the GPUs that its ranks are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankHost {
    /// Its name.
    pub name: String,
    /// Its GPUs.
    pub gpus: HostGpus,
}

/// The hosts and GPUs of a job in the order of its ranks.
///
/// ```
/// # use memwall::app::{HostGpus, RankFile};
/// let file: RankFile = "rank 1=node2 slot=0\nrank 0=node1 slot=0\n".parse()?;
/// assert_eq!(file.hosts[0].name, "node1");
/// assert_eq!(file.hosts[0].gpus, HostGpus::Next);
/// # Ok::<(), memwall::app::RankFileError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankFile {
    /// In the order of the ranks.
    pub hosts: Vec<RankHost>,
}

/// Why a file lays out no ranks.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RankFileError {
    /// Nothing but comments.
    #[error("no host in it")]
    Empty,
    /// A line in no known form.
    #[error("line {0}: `{1}` is no host; write HOST, HOST slots=N, HOST:GPU or rank N=HOST slot=M")]
    Unknown(usize, String),
    /// Several hosts in brackets, as Slurm shortens them.
    #[error("line {0}: `{1}` stands for several hosts; `scontrol show hostnames` writes one a line")]
    Shortened(usize, String),
    /// Two forms in one file.
    #[error("line {0}: lines with and without ranks; give every line its rank or none")]
    Mixed(usize),
    /// Ranks that do not count from 0 on.
    #[error("rank {0} is missing")]
    MissingRank(usize),
    /// A rank on two lines.
    #[error("line {0}: rank {1} is there twice")]
    Twice(usize, usize),
}

/// What a line says before the others are known.
enum Line {
    /// `rank 0=host slot=1`.
    Ranked(usize, String),
    /// `host slots=8`.
    Slots(String, usize),
    /// `host:3`: a GPU, or a number of processes.
    Numbered(String, u32),
    /// `host`.
    Bare(String),
}

impl std::str::FromStr for RankFile {
    type Err = RankFileError;

    /// Reads Open MPI's rank files and hostfiles, those of MPICH and DeepSpeed, Slurm's `SLURM_HOSTFILE`, and a host and
    /// GPU a line.
    fn from_str(text: &str) -> Result<Self, RankFileError> {
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                read_line(number + 1, line, &mut lines)?;
            }
        }
        let ranked = lines.iter().filter(|(_, line)| matches!(line, Line::Ranked(..))).count();
        let hosts = match lines.first() {
            None => return Err(RankFileError::Empty),
            Some((_, first)) if ranked > 0 && ranked < lines.len() => {
                let is_ranked = matches!(first, Line::Ranked(..));
                let other = lines.iter().find(|(_, line)| matches!(line, Line::Ranked(..)) != is_ranked);
                return Err(RankFileError::Mixed(other.map_or(1, |(number, _)| *number)));
            }
            Some(_) if ranked > 0 => by_rank(lines)?,
            Some(_) => in_order(lines),
        };
        Ok(Self { hosts })
    }
}

fn read_line(number: usize, line: &str, lines: &mut Vec<(usize, Line)>) -> Result<(), RankFileError> {
    let unknown = || RankFileError::Unknown(number, line.to_owned());
    if line.split_once('[').is_some_and(|(name, _)| host_name(name).is_some()) {
        return Err(RankFileError::Shortened(number, line.to_owned()));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    if let ["rank", rest @ ..] = words.as_slice() {
        lines.push((number, ranked(&rest.join(" ")).ok_or_else(unknown)?));
        return Ok(());
    }
    if let [alone] = words.as_slice() {
        for name in alone.split(',') {
            lines.push((number, alone_on_line(name).ok_or_else(unknown)?));
        }
        return Ok(());
    }
    lines.push((number, with_slots(&words).ok_or_else(unknown)?));
    Ok(())
}

/// `0=host slot=1` behind the word `rank` (prte-map(1), "RANKFILES"). The slots are cores, so that they tell no GPU.
fn ranked(rest: &str) -> Option<Line> {
    let (rank, rest) = rest.split_once('=')?;
    let mut words = rest.split_whitespace();
    let host = host_name(words.next()?)?;
    let is_known = words.next().is_none_or(|word| word.starts_with("slot=") || word.starts_with("slots="));
    (is_known && words.next().is_none()).then_some(Line::Ranked(rank.trim().parse().ok()?, host))
}

fn alone_on_line(word: &str) -> Option<Line> {
    match word.split_once(':') {
        Some((host, number)) => Some(Line::Numbered(host_name(host)?, number.parse().ok()?)),
        None => Some(Line::Bare(host_name(word)?)),
    }
}

/// `host slots=8 max_slots=8` (mpirun(1) of Open MPI; DeepSpeed's `fetch_hostfile`, deepspeed/launcher/runner.py).
fn with_slots(words: &[&str]) -> Option<Line> {
    let [host, settings @ ..] = words else { return None };
    let mut slots = None;
    for setting in settings {
        match setting.split_once('=')? {
            ("slots", count) => slots = Some(count.parse().ok()?),
            ("max_slots" | "max-slots", count) => drop(count.parse::<usize>().ok()?),
            _ => return None,
        }
    }
    let host = host_name(host)?;
    Some(slots.map_or_else(|| Line::Bare(host.clone()), |slots| Line::Slots(host.clone(), slots)))
}

fn host_name(text: &str) -> Option<String> {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    is_name.then(|| text.to_owned())
}

fn by_rank(lines: Vec<(usize, Line)>) -> Result<Vec<RankHost>, RankFileError> {
    let mut hosts: Vec<Option<RankHost>> = Vec::new();
    hosts.resize_with(lines.len(), || None);
    for (number, line) in lines {
        if let Line::Ranked(rank, name) = line {
            // One beyond the number of lines leaves a smaller one out, which is told below.
            let Some(place) = hosts.get_mut(rank) else { continue };
            if place.is_some() {
                return Err(RankFileError::Twice(number, rank));
            }
            *place = Some(RankHost { name, gpus: HostGpus::Next });
        }
    }
    let each = hosts.into_iter().enumerate();
    each.map(|(rank, host)| host.ok_or(RankFileError::MissingRank(rank))).collect()
}

/// Lines without ranks. `host:3` is a GPU where a host has several such lines or a number is 0, else MPICH's number of
/// processes. A host on several lines has a rank a line. One slot on each host starts a launcher there, which starts
/// ranks on all its GPUs.
fn in_order(lines: Vec<(usize, Line)>) -> Vec<RankHost> {
    let name = |line: &Line| match line {
        Line::Ranked(_, name) | Line::Slots(name, _) | Line::Numbered(name, _) | Line::Bare(name) => name.clone(),
    };
    let mut names: Vec<String> = lines.iter().map(|(_, line)| name(line)).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    let repeats = names.len() < count;
    let is_gpu = repeats || lines.iter().any(|(_, line)| matches!(line, Line::Numbered(_, 0)));
    let is_launcher = !repeats && lines.iter().all(|(_, line)| matches!(line, Line::Slots(_, 1)));
    let gpus = |line: &Line| match line {
        Line::Slots(..) if is_launcher => HostGpus::All,
        Line::Slots(_, slots) => HostGpus::First(*slots),
        Line::Numbered(_, gpu) if is_gpu => HostGpus::Index(*gpu),
        Line::Numbered(_, processes) => HostGpus::First(usize::try_from(*processes).unwrap_or(usize::MAX)),
        Line::Bare(_) if !repeats => HostGpus::All,
        Line::Bare(_) | Line::Ranked(..) => HostGpus::Next,
    };
    lines.iter().map(|(_, line)| RankHost { name: name(line), gpus: gpus(line) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, HostGpus)> {
        let file: RankFile = text.parse().unwrap();
        file.hosts.into_iter().map(|host| (host.name, host.gpus)).collect()
    }

    fn of(hosts: &[(&str, HostGpus)]) -> Vec<(String, HostGpus)> {
        hosts.iter().map(|(name, gpus)| ((*name).to_owned(), *gpus)).collect()
    }

    #[test]
    fn the_forms_of_launchers_are_known() {
        use HostGpus::{All, First, Index, Next};
        // Open MPI's rank file, as its manual has it.
        let ranks = "rank 0=aa slot=1:0-2\nrank 2=cc slot=1-2\nrank 1=bb slot=0:0,1\n";
        assert_eq!(read(ranks), of(&[("aa", Next), ("bb", Next), ("cc", Next)]));
        // Its hostfile, and DeepSpeed's.
        assert_eq!(read("# mine\naa slots=2 max_slots=4\nbb slots=4\n"), of(&[("aa", First(2)), ("bb", First(4))]));
        // One launcher a node: `mpirun torchrun --nproc_per_node 8`.
        assert_eq!(read("aa slots=1\nbb slots=1\n"), of(&[("aa", All), ("bb", All)]));
        // SLURM_HOSTFILE of `--distribution=arbitrary`: a task a line, or with commas.
        assert_eq!(read("n2\nn1\nn2\n"), of(&[("n2", Next), ("n1", Next), ("n2", Next)]));
        assert_eq!(read("n2,n1,n2"), of(&[("n2", Next), ("n1", Next), ("n2", Next)]));
        // `scontrol show hostnames`.
        assert_eq!(read("n1\nn2.cluster\n"), of(&[("n1", All), ("n2.cluster", All)]));
        // A GPU a line, and MPICH's processes of a host.
        assert_eq!(read("n1:3\nn1:2\nn2:0\n"), of(&[("n1", Index(3)), ("n1", Index(2)), ("n2", Index(0))]));
        assert_eq!(read("n1:8\nn2:8\n"), of(&[("n1", First(8)), ("n2", First(8))]));
    }

    #[test]
    fn other_forms_are_refused_in_one_line() {
        for (text, said) in [
            ("", "no host in it"),
            ("# nothing\n", "no host in it"),
            ("n1\nn[2-4]\n", "line 2: `n[2-4]` stands for several hosts"),
            ("n1 gpus=8", "line 1: `n1 gpus=8` is no host"),
            ("n1:all", "line 1: `n1:all` is no host"),
            ("rank 0=+n0 slot=0", "line 1: `rank 0=+n0 slot=0` is no host"),
            ("rank 0=n1 slot=0\nn2\n", "line 2: lines with and without ranks"),
            ("rank 0=n1\nrank 0=n2\n", "line 2: rank 0 is there twice"),
            ("rank 0=n1\nrank 2=n2\n", "rank 1 is missing"),
            ("n1 slots=many", "line 1: `n1 slots=many` is no host"),
            ("{\"hosts\": []}", "is no host"),
        ] {
            let why = text.parse::<RankFile>().unwrap_err().to_string();
            assert!(why.contains(said) && why.lines().count() == 1, "{text}: {why}");
        }
    }
}
