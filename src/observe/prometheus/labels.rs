//! Which GPU a metric is of, and whose work is on it, as labels say it: those of NVIDIA's DCGM exporter
//! (`internal/pkg/transformation/const.go`), those of AMD's device metrics exporter
//! (`docs/configuration/metricslist.md`), and what Prometheus makes of them where it has labels of the same name itself
//! (`exported_…`, <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config>).

use std::borrow::Cow;

use crate::reading::DeviceLocation;

/// Named texts that tell one series from another.
pub trait Labels {
    /// The value of a label, its escapes undone; none where it has none of that name.
    fn label(&self, wanted: &str) -> Option<Cow<'_, str>>;

    /// The first of several that is there and says something.
    fn first(&self, names: &[&str]) -> Option<Cow<'_, str>> {
        names.iter().find_map(|name| self.label(name).filter(|value| !value.is_empty()))
    }
}

/// The host, the first that is there.
const HOST: [&str; 6] = ["Hostname", "hostname", "exported_hostname", "node", "kubernetes_node", "nodename"];
const GPU: [&str; 2] = ["gpu", "gpu_id"];
const PART: [&str; 2] = ["GPU_I_ID", "gpu_partition_id"];
const NAME: [&str; 3] = ["modelName", "card_model", "card_series"];
const UUID: [&str; 3] = ["UUID", "gpu_uuid", "uuid"];
const PCI: [&str; 2] = ["pci_bus_id", "pcie_bus_id"];
const JOB: [&str; 5] = ["hpc_job", "exported_hpc_job", "slurm_job", "slurm_job_id", "job_id"];

/// The rack of the node: what scrape configurations add, Kubernetes' topology, and the GPUs that one NVLink switch
/// joins (`nvidia.com/gpu.clique` of NVIDIA's GPU feature discovery). A zone is many racks.
const RACK: [&str; 4] = ["rack", "rack_id", "topology_kubernetes_io_rack", "nvidia_com_gpu_clique"];

/// The labels that say which GPU a series is of: all that a query for values needs.
pub const PLACE: [&str; 20] = [
    "__name__",
    "Hostname",
    "hostname",
    "exported_hostname",
    "node",
    "kubernetes_node",
    "nodename",
    "instance",
    "gpu",
    "gpu_id",
    "GPU_I_ID",
    "gpu_partition_id",
    "clock_type",
    // Those of the memwall exporter.
    "uuid",
    "run",
    "rank",
    "activity",
    "kind",
    "type",
    "reason",
];

/// Where a GPU is: host, number there, and which part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuPlace {
    /// Its host; empty where no label says it.
    pub host: String,
    /// Its number there.
    pub gpu: u32,
    /// The MIG instance or partition; empty for a whole GPU.
    pub part: String,
}

impl GpuPlace {
    /// Of which GPU a metric is, on `host` where no label says one; none for what is of no GPU (CPUs, switches, links).
    pub fn of(labels: &impl Labels, host: &str) -> Option<Self> {
        let gpu = labels.first(&GPU)?;
        // `3:1` is a part of a GPU to the memwall exporter.
        let (gpu, number) = gpu.split_once(':').unwrap_or((&gpu, ""));
        let gpu = gpu.parse().ok()?;
        let named = labels.first(&HOST).map(Cow::into_owned);
        // The address of an exporter is the name of its host, where nothing says another.
        let instance = || labels.label("instance").map(|instance| without_port(&instance).to_owned());
        let host = named.or_else(instance).unwrap_or_else(|| host.to_owned());
        Some(Self { host, gpu, part: labels.first(&PART).map_or_else(|| number.to_owned(), Cow::into_owned) })
    }
}

fn without_port(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => address,
    }
}

/// The product's name and the GPU's own.
pub fn identity(labels: &impl Labels) -> [Option<String>; 2] {
    [NAME.as_slice(), UUID.as_slice()].map(|names| labels.first(names).map(Cow::into_owned))
}

/// Where it is and whose work is on it.
pub fn location(place: &GpuPlace, labels: &impl Labels) -> DeviceLocation {
    let first = |names: &[&str]| labels.first(names).map(Cow::into_owned);
    // Prometheus puts the labels of the exporter's own pod in place of those of the pod with the GPU, which it renames.
    let own = |name: &str| first(&[name]).filter(|_| !is_of_exporter(labels));
    DeviceLocation {
        node: place.host.clone(),
        gpu: place.gpu,
        pci: first(&PCI),
        pod: first(&["exported_pod", "pod_name"]).or_else(|| own("pod")),
        namespace: first(&["exported_namespace", "pod_namespace"]).or_else(|| own("namespace")),
        container: first(&["exported_container", "container_name"]).or_else(|| own("container")),
        rack: first(&RACK),
        job: first(&JOB),
    }
}

/// Whether `pod` is the exporter's own.
fn is_of_exporter(labels: &impl Labels) -> bool {
    let is_exporter = |name: &str| labels.label(name).is_some_and(|value| value.contains("-exporter"));
    is_exporter("pod") || is_exporter("container")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pairs(&'static [(&'static str, &'static str)]);

    impl Labels for Pairs {
        fn label(&self, wanted: &str) -> Option<Cow<'_, str>> {
            self.0.iter().find(|(name, _)| *name == wanted).map(|(_, value)| Cow::Borrowed(*value))
        }
    }

    #[test]
    fn labels_say_where_a_gpu_is_and_whose_it_is() {
        let scraped = Pairs(&[
            ("gpu", "3"),
            ("Hostname", "node7"),
            ("instance", "10.0.0.7:9400"),
            ("pod", "nvidia-dcgm-exporter-x7k2p"),
            ("namespace", "gpu-operator"),
            ("exported_pod", "llama-worker-2"),
            ("exported_namespace", "train"),
            ("pci_bus_id", "00000000:1B:00.0"),
        ]);
        let place = GpuPlace::of(&scraped, "").unwrap();
        assert_eq!((place.host.as_str(), place.gpu), ("node7", 3));
        let location = location(&place, &scraped);
        assert_eq!(location.pod.as_deref(), Some("llama-worker-2"));
        assert_eq!((location.namespace.as_deref(), location.container), (Some("train"), None));
        assert_eq!((location.pci.as_deref(), location.job), (Some("00000000:1B:00.0"), None));
    }

    #[test]
    fn the_exporters_own_pod_is_nobodys_work() {
        let idle =
            Pairs(&[("gpu", "0"), ("instance", "10.0.0.7:9400"), ("pod", "dcgm-exporter-1"), ("namespace", "mon")]);
        let place = GpuPlace::of(&idle, "").unwrap();
        assert_eq!(place.host, "10.0.0.7");
        let location = location(&place, &idle);
        assert_eq!((location.pod, location.namespace), (None, None));
    }

    #[test]
    fn amds_labels_and_slurms_job_are_known() {
        let amd = Pairs(&[
            ("gpu_id", "1"),
            ("hostname", "mi300-4"),
            ("card_model", "Instinct MI300X"),
            ("job_id", "811"),
            ("rack", "r07"),
        ]);
        let place = GpuPlace::of(&amd, "").unwrap();
        assert_eq!((place.host.as_str(), place.gpu), ("mi300-4", 1));
        assert_eq!(identity(&amd)[0].as_deref(), Some("Instinct MI300X"));
        let location = location(&place, &amd);
        assert_eq!((location.job.as_deref(), location.rack.as_deref()), (Some("811"), Some("r07")));
        assert_eq!(GpuPlace::of(&Pairs(&[("cpu", "1")]), ""), None);
    }
}
