//! What of a cluster is watched, by the options `--job` and `--hosts`.

use std::path::Path;

use crate::app::{self, JobSelector, State};
use crate::cli::Failure;
use crate::files;

/// The hosts of a file; none where no file is named.
pub fn hosts(path: Option<&Path>) -> Result<Vec<String>, Failure> {
    const MOST_BYTES: u64 = 4 << 20;
    let Some(path) = path else { return Ok(Vec::new()) };
    let refused = |why: String| Failure::usage(format!("--hosts {}: {why}", path.display()));
    let text = files::read_text(path, MOST_BYTES).map_err(|error| refused(error.to_string()))?;
    let hosts = app::hosts(&text);
    if hosts.is_empty() { Err(refused("no host in it".to_owned())) } else { Ok(hosts) }
}

/// What of a cluster is watched.
pub fn watch_job(state: &mut State, job: Option<JobSelector>, hosts: Vec<String>) {
    let cluster = &mut state.monitor.cluster;
    cluster.hosts_alone = !hosts.is_empty();
    cluster.hosts = hosts;
    if job.is_some() || cluster.hosts_alone {
        cluster.choose(job);
    }
}
