//! What of a cluster is watched, by the options `--job` and `--hosts`.

use std::path::Path;

use crate::app::{JobSelector, RankFile, RankFileError, State};
use crate::cli::Failure;
use crate::files;
use crate::printable::printable;

/// The ranks of a file over hosts and GPUs; none where no file is named.
pub fn rank_file(path: Option<&Path>) -> Result<Option<RankFile>, Failure> {
    const MOST_BYTES: u64 = 4 << 20;
    let Some(path) = path else { return Ok(None) };
    let refused = |why: String| Failure::usage(format!("--hosts {}: {}", path.display(), printable(&why)));
    let text = files::read_text(path, MOST_BYTES).map_err(|error| refused(error.to_string()))?;
    text.parse().map(Some).map_err(|error: RankFileError| refused(error.to_string()))
}

/// What of a cluster is watched.
pub fn watch_job(state: &mut State, job: Option<JobSelector>, rank_file: Option<RankFile>) {
    let cluster = &mut state.monitor.cluster;
    let is_listed = rank_file.is_some();
    cluster.rank_file = rank_file;
    if job.is_some() || is_listed {
        cluster.choose(job);
    }
}
