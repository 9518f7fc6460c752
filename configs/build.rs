//! The catalogue and the table of bands are written in YAML, for people, and read at every start: they go into the binary
//! as JSON, which is read ten times as fast. YAML that cannot be read ends the build.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

/// Files of the catalogue (`Catalog::embedded`) and the bands (`Bands::check`).
const FILES: [&str; 5] = ["gpus", "interconnects", "efficiency", "models", "accuracy"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=configs/build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    for name in FILES {
        let path = format!("configs/{name}.yaml");
        println!("cargo::rerun-if-changed={path}");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let values: serde_json::Value = serde_yaml::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
        fs::write(out.join(format!("{name}.json")), serde_json::to_string(&values)?)?;
    }
    Ok(())
}
