//! Values of options, read and bounded.

use std::path::PathBuf;
use std::time::Duration;

use super::fault::OptionFault;
use crate::observe::{Departure, SourceChoice};
use crate::reading::playback::SPEEDS;
use crate::units::Bytes;

/// More than these in a list nobody compares.
pub fn top(text: &str) -> Result<usize, OptionFault> {
    text.parse().ok().filter(|top| (1..=1000).contains(top)).ok_or_else(|| OptionFault::out_of(1, 1000))
}

/// A process's number.
pub fn pid(text: &str) -> Result<u32, OptionFault> {
    text.parse().map_err(|_| "a PID is a whole number, as ps and nvidia-smi show it".into())
}

/// `500ms`, `1s`, `1m`: quicker readings cost the host more than they tell, slower ones miss steps.
pub fn interval(text: &str) -> Result<Duration, OptionFault> {
    const BOUNDS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 500ms or 2s"))?;
    if BOUNDS.contains(&time) { Ok(time) } else { Err(OptionFault::out_of("100ms", "60s")) }
}

/// A positive time such as `90s` or `2h`.
pub fn duration(text: &str) -> Result<Duration, OptionFault> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 90s or 2h"))?;
    if time.is_zero() { Err("is no time at all".into()) } else { Ok(time) }
}

/// `auto`, or the name of a source with what it needs.
pub fn source(text: &str) -> Result<SourceChoice, OptionFault> {
    match text.split_once(':') {
        Some(("replay", path)) if !path.is_empty() => {
            Ok(SourceChoice::Replay { path: PathBuf::from(path), speed: 1.0 })
        }
        Some(("demo", otherwise)) => {
            Departure::parse(otherwise).map(SourceChoice::Demo).map_err(|error| error.to_string().into())
        }
        Some(("prometheus", url)) if !url.is_empty() => Ok(SourceChoice::Prometheus(url.to_owned())),
        Some(("dcgm", urls)) if urls.split(',').all(|url| !url.trim().is_empty()) => {
            Ok(SourceChoice::Exporters(urls.split(',').map(|url| url.trim().to_owned()).collect()))
        }
        _ => match text {
            "auto" => Ok(SourceChoice::Auto),
            "nvml" => Ok(SourceChoice::Nvml),
            "amdgpu" => Ok(SourceChoice::Amdgpu),
            "demo" => Ok(SourceChoice::Demo(Departure::default())),
            _ => Err("known are auto, nvml, amdgpu, demo, replay:FILE, prometheus:URL and dcgm:URL,URL…".into()),
        },
    }
}

/// `100MB`, `1GiB`, or plain bytes. Less than a few samples would be nothing but first lines.
pub fn size(text: &str) -> Result<Bytes, OptionFault> {
    let bytes = parse_size::parse_size(text).map_err(|_| "is no size; write it like 100MB or 1GiB")?;
    if bytes >= 64 << 10 { Ok(Bytes(bytes)) } else { Err("is less than 64KiB".into()) }
}

pub fn speed(text: &str) -> Result<f64, OptionFault> {
    let (slowest, fastest) = (*SPEEDS.start(), *SPEEDS.end());
    let speed = text.parse::<f64>().ok().filter(|speed| SPEEDS.contains(speed));
    speed.ok_or_else(|| OptionFault::out_of(slowest, fastest))
}
