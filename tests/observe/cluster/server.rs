//! A real Prometheus, on loopback, with a folder of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::exporters::Exporters;
use crate::support::standin::wait_for;

/// A running Prometheus; it ends with this value.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    folder: tempfile::TempDir,
}

/// Whether Debian's `prometheus` is installed; says so where it is not.
pub fn is_installed() -> bool {
    let found = Command::new("prometheus").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("left out: `prometheus` is not installed (apt-get install prometheus)");
    }
    found
}

impl Server {
    /// Starts one that scrapes these nodes every two seconds, where they are not too many; with a `web.config`, where there is one.
    pub fn start(exporters: &Exporters, nodes: u32, web: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("prometheus.yml");
        std::fs::write(&config, configuration(exporters, nodes)).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log);
        if let Some(web) = web {
            let file = folder.path().join("web.yml");
            std::fs::write(&file, web).unwrap();
            command.arg(format!("--web.config.file={}", file.display()));
        }
        let child = command.spawn().unwrap();
        let server = Self { child, address, folder };
        wait_for("Prometheus to listen", || TcpStream::connect(address).is_ok());
        if web.is_none() {
            wait_for("Prometheus to be ready", || server.get("/-/ready").contains("200 OK"));
        }
        server
    }

    /// What it answers to a path.
    pub fn get(&self, path: &str) -> String {
        get(self.address, path)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(exporters: &Exporters, nodes: u32) -> String {
    // A thousand nodes every two seconds would be more than this machine's share of a test.
    let every = if nodes > 256 { 30 } else { 2 };
    let mut text = format!(
        "global: {{scrape_interval: {every}s, scrape_timeout: {every}s}}\nscrape_configs:\n- job_name: dcgm\n  static_configs:\n"
    );
    for node in 0..nodes {
        let labels = format!("{{instance: 'node{node:04}:9400', __metrics_path__: '/{node}/metrics'}}");
        text += &format!("  - {{targets: ['{}'], labels: {labels}}}\n", exporters.address);
    }
    // One exporter that two jobs scrape, as happens with an operator beside a configuration of one's own.
    text += &format!(
        "- job_name: again\n  metrics_path: /0/metrics\n  static_configs: [{{targets: ['{}']}}]\n",
        exporters.address
    );
    text
}

/// A gateway before a server that lets nothing but federation through, and answers the rest with `refusal`.
pub fn federation_alone(server: &Server, refusal: u16) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (gateway, behind) = (listener.local_addr().unwrap(), server.address);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                request.push(byte[0]);
            }
            let request = String::from_utf8_lossy(&request).into_owned();
            let path = request.split_whitespace().nth(1).unwrap_or_default();
            let answer = if path.starts_with("/federate?") {
                get(behind, path)
            } else {
                format!("HTTP/1.0 {refusal} Refused\r\nContent-Length: 0\r\n\r\n")
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    gateway
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut text = String::new();
    let answer = TcpStream::connect(address).and_then(|mut stream| {
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        stream.read_to_string(&mut text)
    });
    drop(answer);
    text
}

/// A certificate of its own authority for `localhost`, and its key, as openssl makes them.
pub fn certificate(folder: &Path) -> Option<(PathBuf, PathBuf, PathBuf)> {
    let path = |name: &str| folder.join(name);
    let [ca_key, ca, key, request, certificate, extensions] =
        ["ca.key", "ca.pem", "server.key", "server.csr", "server.pem", "server.ext"].map(path);
    std::fs::write(&extensions, "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    let run =
        |words: &[&str]| Command::new("openssl").args(words).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    let text = |path: &PathBuf| path.display().to_string();
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let authority = [&["req", "-x509"], &curve[..], &["-days", "2", "-subj", "/CN=a private authority"]].concat();
    let ours = [&["req"], &curve[..], &["-subj", "/CN=localhost"]].concat();
    let made = run(&[&authority[..], &["-keyout", &text(&ca_key), "-out", &text(&ca)]].concat())
        && run(&[&ours[..], &["-keyout", &text(&key), "-out", &text(&request)]].concat())
        && run(&[
            "x509",
            "-req",
            "-days",
            "2",
            "-in",
            &text(&request),
            "-CA",
            &text(&ca),
            "-CAkey",
            &text(&ca_key),
            "-CAcreateserial",
            "-extfile",
            &text(&extensions),
            "-out",
            &text(&certificate),
        ]);
    if !made {
        eprintln!("left out: `openssl` makes no certificate");
    }
    made.then_some((ca, certificate, key))
}
