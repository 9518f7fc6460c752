//! The catalogue is written in YAML, for people, and read at every start: it goes into the binary as JSON, which is read
//! ten times as fast. YAML that cannot be read ends the build.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

/// Files of the catalogue (`Catalog::embedded`).
const CATALOG: [&str; 4] = ["gpus", "interconnects", "efficiency", "models"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    for name in CATALOG {
        let path = format!("configs/{name}.yaml");
        println!("cargo::rerun-if-changed={path}");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let values: serde_json::Value = serde_yaml::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
        fs::write(out.join(format!("{name}.json")), serde_json::to_string(&values)?)?;
    }
    Ok(())
}
