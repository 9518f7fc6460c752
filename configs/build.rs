//! Files that people write and the program carries. The catalogue and the table of bands are written in YAML and read at
//! every start: they go into the binary as JSON, which is read ten times as fast. What is long and seldom read goes in
//! packed. YAML that cannot be read ends the build.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Files of the catalogue (`Catalog::embedded`).
const CATALOGUE: [&str; 4] = ["gpus", "interconnects", "efficiency", "models"];

/// The bands (`Bands::check`).
const BANDS: [&str; 1] = ["accuracy"];

/// Parameter counts by class (`model::hf::counts`), a line for each `model_type`: far more than one run of the program
/// reads.
const CLASSES: [&str; 2] = ["classes", "classes_5"];

/// Traces of presets that no rules are there for (`catalog::PresetTrace`).
const TRACED: &str = "configs/traced";

/// Bytes of lines that are packed together: what is unpacked to read one of them.
const BLOCK: usize = 16 << 10;

/// The tracer's program (`observe::trace`): all files of these kinds in its folder.
const TRACER: &str = "src/observe/trace";
const TRACER_KINDS: [&str; 2] = ["py", "cpp"];

/// Each crate gets the files that it carries.
fn main() -> Result<(), Box<dyn Error>> {
    let variable = |name: &str| std::env::var(name).map_err(|error| format!("{name}: {error}"));
    let out = PathBuf::from(variable("OUT_DIR")?);
    let package = variable("CARGO_PKG_NAME")?;
    if package != "memwall" {
        // From the crate's own folder, `src/CRATE`, to where the paths below begin.
        std::env::set_current_dir("../..")?;
    }
    rerun_with(Path::new("configs/build.rs"))?;
    match package.as_str() {
        "memwall-core" => {
            write_as_json(&CATALOGUE, &out)?;
            fs::write(out.join("traces.rs"), traces()?)?;
            for name in CLASSES {
                let (blocks, index) = blocks(&read(Path::new(&format!("configs/{name}.json")))?)?;
                fs::write(out.join(format!("{name}.zz")), blocks)?;
                fs::write(out.join(format!("{name}.index")), index)?;
            }
        }
        "memwall-observe" => fs::write(out.join("tracer.json.zz"), packed(&tracer()?)?)?,
        _ => {
            write_as_json(&BANDS, &out)?;
            if is_relocated_by_this_libc() {
                println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
            }
        }
    }
    Ok(())
}

/// Files in YAML, written as JSON.
fn write_as_json(names: &[&str], out: &Path) -> Result<(), Box<dyn Error>> {
    for name in names {
        let text = read(Path::new(&format!("configs/{name}.yaml")))?;
        let values: serde_json::Value = serde_yaml::from_str(&text).map_err(|error| format!("{name}.yaml: {error}"))?;
        fs::write(out.join(format!("{name}.json")), serde_json::to_string(&values)?)?;
    }
    Ok(())
}

/// Traces of presets as they lie in `configs/traced`, by name: Rust that carries them.
fn traces() -> Result<String, Box<dyn Error>> {
    let folder = fs::canonicalize(TRACED)?;
    rerun_with(&folder)?;
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    files.sort();
    let mut rust = "/// Traces of presets, by name.\nconst TRACES: &[(&str, &[u8])] = &[\n".to_owned();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".tape.json.gz"));
        let name = name.ok_or_else(|| format!("{}: no trace", file.display()))?;
        rust.push_str(&format!("    ({name:?}, include_bytes!({:?})),\n", file.display().to_string()));
    }
    rust.push_str("];\n");
    Ok(rust)
}

/// The build is run again where this file or folder changes.
fn rerun_with(path: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", fs::canonicalize(path)?.display());
    Ok(())
}

/// Whether the program is linked for this very system, whose loader reads packed addresses: glibc's does since 2.36. They
/// are a fiftieth of plain ones, which would be a twentieth of the program. A linker of one's own (cargo-zigbuild's) may
/// link for an older libc.
fn is_relocated_by_this_libc() -> bool {
    let is_own = std::env::var_os("HOST") == std::env::var_os("TARGET") && std::env::var_os("RUSTC_LINKER").is_none();
    let is_gnu = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    let version = || {
        let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
        let said = String::from_utf8(said.stdout).ok()?;
        let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    is_own && is_gnu && version().is_some_and(|version| version >= (2, 36))
}

/// A file's text; the build is run again where it changes.
fn read(path: &Path) -> Result<String, Box<dyn Error>> {
    rerun_with(path)?;
    Ok(fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// The lines `"model_type": {…}` of a file packed in blocks, and a line `model_type begin end` for each: where its block
/// is.
fn blocks(text: &str) -> Result<(Vec<u8>, String), Box<dyn Error>> {
    let (mut blocks, mut index) = (Vec::new(), String::new());
    let (mut block, mut names) = (String::new(), Vec::new());
    let mut lines = text.lines().filter(|line| line.contains("\": {\"main\"")).peekable();
    while let Some(line) = lines.next() {
        names.extend(line.split('"').nth(1));
        block += line.trim_end_matches(',');
        block.push('\n');
        if block.len() >= BLOCK || lines.peek().is_none() {
            let begin = blocks.len();
            blocks.extend(packed(&block)?);
            for name in names.drain(..) {
                index += &format!("{name} {begin} {}\n", blocks.len());
            }
            block.clear();
        }
    }
    Ok((blocks, index))
}

/// The tracer's files: a JSON object of their texts by name.
fn tracer() -> Result<String, Box<dyn Error>> {
    rerun_with(Path::new(TRACER))?;
    let mut files = serde_json::Map::new();
    for entry in fs::read_dir(TRACER)? {
        let path = entry?.path();
        let is_one = path.extension().is_some_and(|kind| TRACER_KINDS.iter().any(|known| kind == *known));
        if let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| is_one) {
            files.insert(name.to_owned(), read(&path)?.into());
        }
    }
    // By name: the same sources make the same program.
    files.sort_keys();
    Ok(serde_json::to_string(&files)?)
}

fn packed(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut out = ZlibEncoder::new(Vec::new(), Compression::best());
    out.write_all(text.as_bytes())?;
    Ok(out.finish()?)
}
