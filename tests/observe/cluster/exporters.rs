//! Exporters of a simulated cluster: pages in the text format of NVIDIA's DCGM exporter.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// GPUs of a node.
pub const GPUS: u32 = 8;

/// What an exporter answers with.
#[derive(Debug, Clone, Default)]
pub enum Answer {
    /// Its page.
    #[default]
    Page,
    /// A page that ends in the middle.
    Cut,
    /// A refusal.
    Status(u16),
    /// Nothing, for so long.
    Late(Duration),
    /// A page that goes on for so many bytes.
    Endless(u64),
}

/// What the exporters say.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// Values that are not the usual ones, by node, GPU and metric; as text, because exporters say `NaN` too.
    pub values: BTreeMap<(u32, u32, &'static str), String>,
    /// Nodes that do not answer with their page.
    pub answers: BTreeMap<u32, Answer>,
    /// The pod of a node's GPUs.
    pub pods: BTreeMap<u32, String>,
    /// Whether ranks are told as by memwall exporters, without a host's name; and the share of the step that some wait for
    /// data.
    pub ranks: Option<BTreeMap<u32, f64>>,
}

/// Metrics of dcgm-exporter's `etc/dcp-metrics-included.csv` with what a busy H100 says.
pub const METRICS: [(&str, &str); 24] = [
    ("DCGM_FI_DEV_SM_CLOCK", "1755"),
    ("DCGM_FI_DEV_MEM_CLOCK", "2619"),
    ("DCGM_FI_DEV_MEMORY_TEMP", "72"),
    ("DCGM_FI_DEV_GPU_TEMP", "64"),
    ("DCGM_FI_DEV_POWER_USAGE", "612.345"),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "91000000000"),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "0"),
    ("DCGM_FI_DEV_GPU_UTIL", "99"),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "55"),
    ("DCGM_FI_DEV_XID_ERRORS", "0"),
    ("DCGM_FI_DEV_POWER_VIOLATION", "0"),
    ("DCGM_FI_DEV_THERMAL_VIOLATION", "0"),
    ("DCGM_FI_DEV_FB_FREE", "20047"),
    ("DCGM_FI_DEV_FB_USED", "60960"),
    ("DCGM_FI_DEV_FB_RESERVED", "552"),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "0"),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "0"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "0"),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.98"),
    ("DCGM_FI_PROF_SM_ACTIVE", "0.81"),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.46"),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "0.40"),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "1200000000"),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "900000000"),
];

impl Fleet {
    /// The page of a node.
    pub fn page(&self, node: u32) -> String {
        let mut page = String::with_capacity(64 << 10);
        let pod = self
            .pods
            .get(&node)
            .map_or_else(String::new, |pod| format!(",container=\"train\",namespace=\"ml\",pod=\"{pod}\""));
        for (metric, usual) in METRICS {
            let _ = writeln!(page, "# HELP {metric} of the simulated cluster\n# TYPE {metric} gauge");
            for gpu in 0..GPUS {
                let value = self.values.get(&(node, gpu, metric)).map_or(usual, String::as_str);
                let _ = writeln!(
                    page,
                    "{metric}{{gpu=\"{gpu}\",UUID=\"GPU-{node:04}-{gpu}\",pci_bus_id=\"00000000:{gpu:02X}:00.0\",\
                     device=\"nvidia{gpu}\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node{node:04}\",\
                     DCGM_FI_DRIVER_VERSION=\"550.90.07\"{pod}}} {value}"
                );
            }
        }
        for gpu in self.ranks.iter().flat_map(|_| 0..GPUS) {
            let rank = node * GPUS + gpu;
            let labels = format!("run=\"811\",rank=\"{rank}\",gpu=\"{gpu}\",uuid=\"GPU-{node:04}-{gpu}\"");
            let data = self.ranks.as_ref().and_then(|waiting| waiting.get(&rank)).unwrap_or(&0.01);
            let _ = writeln!(page, "memwall_rank_step_duration_seconds{{{labels}}} 7.75");
            let _ = writeln!(page, "memwall_rank_steps_total{{{labels}}} 120");
            for (activity, share) in [("data", *data), ("forward", 0.3), ("backward", 0.69 - data)] {
                let _ = writeln!(page, "memwall_rank_activity_ratio{{{labels},activity=\"{activity}\"}} {share}");
            }
        }
        page
    }
}

/// Exporters on one port, told apart by their path: `/17/metrics` is that of node 17. They end with the test's process.
#[derive(Debug)]
pub struct Exporters {
    /// Where they listen.
    pub address: SocketAddr,
    fleet: Arc<Mutex<Fleet>>,
}

impl Exporters {
    pub fn start(fleet: Fleet) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let fleet = Arc::new(Mutex::new(fleet));
        let shared = Arc::clone(&fleet);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let fleet = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &fleet));
            }
        });
        Self { address, fleet }
    }

    /// From now on they say something else.
    pub fn change(&self, change: impl FnOnce(&mut Fleet)) {
        change(&mut self.fleet.lock().unwrap());
    }

    /// The page of a node.
    pub fn url(&self, node: u32) -> String {
        format!("http://{}/{node}/metrics", self.address)
    }
}

/// Answers requests of one connection until its client goes.
fn serve(stream: TcpStream, fleet: &Mutex<Fleet>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap_or(0) > 2 {
            line.clear();
        }
        let path = request.split_whitespace().nth(1).unwrap_or_default();
        let node = path.trim_start_matches('/').split('/').next().and_then(|node| node.parse().ok());
        let told = fleet.lock().unwrap().clone();
        let answer = node.and_then(|node| told.answers.get(&node).cloned()).unwrap_or_default();
        let page = node.map_or_else(String::new, |node| told.page(node));
        if respond(&mut stream, &answer, &page).is_none() {
            return;
        }
    }
}

/// Writes an answer; none where the connection is over with it.
fn respond(stream: &mut TcpStream, answer: &Answer, page: &str) -> Option<()> {
    let head =
        |length: usize| format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n");
    match answer {
        Answer::Page => stream.write_all(format!("{}{page}", head(page.len())).as_bytes()).ok(),
        Answer::Cut => {
            let _ = stream.write_all(format!("{}{}", head(page.len()), &page[..page.len() / 2]).as_bytes());
            None
        }
        Answer::Status(code) => {
            stream.write_all(format!("HTTP/1.1 {code} Because\r\nContent-Length: 0\r\n\r\n").as_bytes()).ok()
        }
        Answer::Late(time) => {
            thread::park_timeout(*time);
            stream.write_all(format!("{}{page}", head(page.len())).as_bytes()).ok()
        }
        Answer::Endless(bytes) => {
            stream.write_all(head(usize::try_from(*bytes).unwrap()).as_bytes()).ok()?;
            let line = b"DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",Hostname=\"endless\"} 1\n".repeat(1000);
            let mut left = usize::try_from(*bytes).unwrap();
            while left > 0 {
                let part = left.min(line.len());
                stream.write_all(&line[..part]).ok()?;
                left -= part;
            }
            Some(())
        }
    }
}
