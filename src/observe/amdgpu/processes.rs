//! What processes hold on AMD's GPUs: the kernel tells it of every open file of a GPU, under
//! `/proc/PID/fdinfo` (<https://docs.kernel.org/gpu/drm-usage-stats.html>).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::files::absence;
use crate::reading::{Absence, DeviceProcess, Moment, Reading};
use crate::units::Bytes;

/// Looking for open files means reading the folders of every process: done this often, in
/// milliseconds. Those that are known are read at every sample.
const SEARCH_EVERY: u64 = 5_000;

/// Where the kernel's files of GPUs are.
const DEVICES: &str = "/dev/dri/";

/// Processes on a GPU.
pub type DeviceProcesses = BTreeMap<String, Vec<DeviceProcess>>;

/// The open files of GPUs.
#[derive(Debug)]
pub struct Clients {
    proc_root: PathBuf,
    /// Processes and their files, by pid.
    open: BTreeMap<u32, Vec<PathBuf>>,
    searched: Option<Moment>,
}

/// What one open file says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Client {
    driver: Option<String>,
    /// PCI address of the GPU.
    address: Option<String>,
    /// The same for every copy of a file, in this process and in those that inherited it.
    id: Option<u64>,
    /// Device memory, the surest figure of those that this kernel has.
    memory: Option<Bytes>,
}

impl Clients {
    /// Of the processes under that folder.
    pub const fn new(proc_root: PathBuf) -> Self {
        Self { proc_root, open: BTreeMap::new(), searched: None }
    }

    /// The processes on each GPU, by its PCI address and in order of pid.
    pub fn held(&mut self, now: Moment) -> Result<DeviceProcesses, Absence> {
        if self.searched.is_none_or(|at| now.since(at).0 * 1000.0 >= SEARCH_EVERY as f64) {
            self.open = search(&self.proc_root)?;
            self.searched = Some(now);
        }
        let mut counted: BTreeSet<(String, u64)> = BTreeSet::new();
        let mut sums: BTreeMap<(String, u32), Option<Bytes>> = BTreeMap::new();
        for (pid, files) in &self.open {
            // A file that has been closed meanwhile is nobody's any more.
            for client in files.iter().filter_map(|file| client(&fs::read_to_string(file).ok()?)) {
                let Client { address: Some(address), id, memory, .. } = client else { continue };
                // A data loader that inherited its parent's file holds nothing of its own: the
                // first, which has the lower pid, is who it is charged to.
                if id.is_some_and(|id| !counted.insert((address.clone(), id))) {
                    continue;
                }
                let sum = sums.entry((address, *pid)).or_default();
                *sum = match (*sum, memory) {
                    (Some(sum), Some(more)) => Some(sum + more),
                    (sum, memory) => sum.or(memory),
                };
            }
        }
        let mut held = DeviceProcesses::new();
        for ((address, pid), memory) in sums {
            let memory = memory.map_or(Reading::Absent(Absence::NotSupported), |bytes| Reading::measured(bytes, now));
            held.entry(address).or_default().push(DeviceProcess::holding(pid, memory));
        }
        Ok(held)
    }
}

/// Every process with open files of GPUs. Those of other users are out of sight without root.
fn search(root: &Path) -> Result<BTreeMap<u32, Vec<PathBuf>>, Absence> {
    let processes = fs::read_dir(root).map_err(|error| absence(&error))?;
    let mut open = BTreeMap::new();
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        let info = process.path().join("fdinfo");
        let files: Vec<PathBuf> = files
            .flatten()
            .filter(|file| fs::read_link(file.path()).is_ok_and(|target| target.starts_with(DEVICES)))
            .map(|file| info.join(file.file_name()))
            .collect();
        if !files.is_empty() {
            open.insert(pid, files);
        }
    }
    Ok(open)
}

/// What an open file says, where it is one of this driver.
fn client(text: &str) -> Option<Client> {
    let mut client = Client::default();
    let (mut resident, mut older, mut total) = (None, None, None);
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match key {
            "drm-driver" => client.driver = Some(value.to_owned()),
            "drm-pdev" => client.address = Some(value.to_owned()),
            "drm-client-id" => client.id = value.parse().ok(),
            "drm-resident-vram" => resident = bytes(value),
            // What kernels before 6.13 have for it.
            "drm-memory-vram" => older = bytes(value),
            "drm-total-vram" => total = bytes(value),
            _ => {}
        }
    }
    client.memory = resident.or(older).or(total);
    (client.driver.as_deref() == Some("amdgpu")).then_some(client)
}

/// `524288 KiB`, `5 MiB`, or plain bytes.
fn bytes(text: &str) -> Option<Bytes> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let each: u64 = match unit.trim() {
        "" => 1,
        "KiB" | "kB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    Some(Bytes(number.parse().ok()?) * each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_gpu_tells_who_it_is_and_what_it_holds() {
        // From the kernel's documentation, with amdgpu's own keys between.
        let text = "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t17\ndrm-pdev:\t0000:c1:00.0\n\
                    pasid:\t32771\ndrm-memory-vram:\t3072 KiB\ndrm-memory-gtt: \t16 KiB\ndrm-resident-vram:\t2 MiB\n\
                    drm-total-vram:\t4 MiB\ndrm-engine-compute:\t1234 ns\n";
        let client = client(text).unwrap();
        assert_eq!((client.id, client.address.as_deref()), (Some(17), Some("0000:c1:00.0")));
        assert_eq!(client.memory, Some(Bytes::from_mib(2)));
    }

    #[test]
    fn older_kernels_have_another_key_and_other_drivers_are_left_out() {
        let old = "drm-driver:\tamdgpu\ndrm-memory-vram:\t3072 KiB\n";
        assert_eq!(client(old).unwrap().memory, Some(Bytes::from_mib(3)));
        assert_eq!(client("drm-driver:\ti915\ndrm-memory-vram:\t1 KiB\n"), None);
        assert_eq!(client("drm-driver:\tamdgpu\ndrm-memory-vram:\tmany\n").unwrap().memory, None);
    }
}
