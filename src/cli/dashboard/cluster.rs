//! What of a cluster is watched, by the options `--job` and `--hosts`.

use std::path::Path;

use crate::app::{self, JobSelector, State};
use crate::files;

/// The hosts of a file; none where no file is named.
pub fn hosts(path: Option<&Path>) -> Result<Vec<String>, String> {
    const MOST_BYTES: u64 = 4 << 20;
    let Some(path) = path else { return Ok(Vec::new()) };
    let text = files::read_text(path, MOST_BYTES).map_err(|error| format!("--hosts {}: {error}", path.display()))?;
    let hosts = app::hosts(&text);
    if hosts.is_empty() { Err(format!("--hosts {}: no host in it", path.display())) } else { Ok(hosts) }
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
