//! The files that a cluster needs: an installed program has no repository beside it.

use crate::cli::args::ClusterFile;

/// The file as it is under `configs/cluster/`.
pub const fn text(file: ClusterFile) -> &'static str {
    match file {
        ClusterFile::Prometheus => include_str!("../../../configs/cluster/prometheus.yml"),
        ClusterFile::Rules => include_str!("../../../configs/cluster/memwall.rules.yml"),
        ClusterFile::Grafana => include_str!("../../../configs/cluster/grafana.json"),
        ClusterFile::Systemd => include_str!("../../../configs/cluster/memwall-exporter.service"),
        ClusterFile::Kubernetes => include_str!("../../../configs/cluster/memwall-exporter.yaml"),
    }
}
