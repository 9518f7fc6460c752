//! The hook's messages: JSON of version 1, one a datagram. `python/hook.py` writes them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::printed::RawPrinted;
use crate::order::StableOrder;
use crate::out_of_memory;
use crate::reading::{
    Absence, FailedRank, HookAbout, HookEnd, HookMemory, HookModules, HookPlaces, HookStep, LauncherReport,
    ModuleBlock, ModuleKind, Moment, OutOfMemory, PrintedLoss, ProcessExit, Reading,
};
use crate::units::{Bytes, Seconds, SignedBytes};

/// The version that is understood.
const VERSION: u64 = 1;

/// Texts are cut here: they are names of classes and modules.
const LONGEST_TEXT: usize = 120;

/// Longer lists are cut: the hook itself sends fewer.
const MOST_ROWS: usize = 512;

/// Times beyond a month are none of a step.
const LONGEST_STEP: f64 = 2.7e6;

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The process.
    pub pid: u32,
    /// When its hook was loaded; none of older hooks, and of who tells the end of another process.
    pub began: Option<f64>,
    /// The PID namespace that the process has its number in, by its inode; none of older hooks.
    pub namespace: Option<u64>,
    /// What it has printed of its loss, where it tells that.
    pub printed: Option<PrintedLoss>,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// What runs.
    About(Box<HookAbout>),
    /// A step.
    Step(HookStep),
    /// A sampled step, module by module.
    Modules(HookModules),
    /// Where its training thread spends its time.
    Places(Box<HookPlaces>),
    /// The process ends, or has ended.
    End(HookEnd),
    /// It is a launcher, and ranks of it failed.
    Failures(LauncherReport),
}

/// Reads a datagram that came at `now`; none where it is not one of the hook's.
pub fn read(datagram: &[u8], now: Moment) -> Option<Message> {
    let head: Head = serde_json::from_slice(datagram).ok()?;
    if head.v != VERSION || head.pid == 0 {
        return None;
    }
    let printed = head.printed.and_then(|printed| super::printed::loss(printed, now));
    let body = match head.kind.as_str() {
        "run" => Body::About(Box::new(serde_json::from_slice::<RawAbout>(datagram).ok()?.into())),
        "step" => Body::Step(serde_json::from_slice::<RawStep>(datagram).ok()?.at(now)?),
        "end" => Body::End(serde_json::from_slice::<RawEnd>(datagram).ok()?.into()),
        "failures" => Body::Failures(serde_json::from_slice::<RawFailures>(datagram).ok()?.into()),
        "places" => Body::Places(Box::new(super::places::read(datagram)?)),
        "modules" => Body::Modules(serde_json::from_slice::<RawModules>(datagram).ok()?.into()),
        _ => return None,
    };
    let began = head.began.filter(|time| time.is_finite());
    Some(Message { pid: head.pid, began, namespace: head.namespace, printed, body })
}

#[derive(Deserialize)]
struct Head {
    v: u64,
    kind: String,
    pid: u32,
    began: Option<f64>,
    namespace: Option<u64>,
    printed: Option<RawPrinted>,
}

#[derive(Deserialize)]
struct RawAbout {
    rank: Option<u32>,
    local_rank: Option<u32>,
    world: Option<u32>,
    launcher: Option<u32>,
    #[serde(default)]
    restarts: u32,
    torchrun: Option<u32>,
    #[serde(default)]
    torch: String,
    model: Option<String>,
    #[serde(default)]
    optimizer: String,
    #[serde(default)]
    device: String,
    device_name: Option<String>,
    threads: Option<u32>,
    params: u64,
    trainable: u64,
    #[serde(default)]
    params_are_all: bool,
    #[serde(default)]
    counts_packed: bool,
    param_bytes: u64,
    gradient_bytes: u64,
    optimizer_state_bytes: u64,
    #[serde(default)]
    dtypes: BTreeMap<String, u64>,
    no_modules: Option<String>,
    checkpointed: Option<bool>,
    total_steps: Option<u64>,
    beside: Option<(String, u64)>,
}

impl From<RawAbout> for HookAbout {
    fn from(raw: RawAbout) -> Self {
        let mut dtypes: Vec<(String, u64)> =
            raw.dtypes.into_iter().take(MOST_ROWS).map(|(name, count)| (cut(name), count)).collect();
        dtypes.order_by_key(|(_, count)| std::cmp::Reverse(*count));
        Self {
            rank: raw.rank,
            local_rank: raw.local_rank,
            world: raw.world,
            launcher: raw.launcher,
            restarts: raw.restarts,
            torchrun: raw.torchrun,
            torch: cut(raw.torch),
            model: raw.model.map(cut),
            optimizer: cut(raw.optimizer),
            device: cut(raw.device),
            device_name: raw.device_name.map(cut),
            threads: raw.threads.filter(|threads| *threads > 0),
            params: raw.params,
            trainable: raw.trainable,
            params_are_all: raw.params_are_all,
            counts_packed: raw.counts_packed,
            param_bytes: Bytes(raw.param_bytes),
            gradient_bytes: Bytes(raw.gradient_bytes),
            optimizer_state_bytes: Bytes(raw.optimizer_state_bytes),
            dtypes,
            no_modules: raw.no_modules.map(cut),
            checkpointed: raw.checkpointed,
            beside: raw.beside.map(|(class, count)| (cut(class), count)),
            total_steps: raw.total_steps.filter(|total| *total > 0),
        }
    }
}

#[derive(Deserialize)]
struct RawEnd {
    error: Option<String>,
    message: Option<String>,
    code: Option<u8>,
}

impl From<RawEnd> for HookEnd {
    fn from(raw: RawEnd) -> Self {
        Self {
            error: raw.error.map(cut),
            out_of_memory: raw.message.as_deref().and_then(out_of_memory::find).filter(OutOfMemory::ends_runs),
            code: raw.code,
        }
    }
}

#[derive(Deserialize)]
struct RawFailures {
    launcher: Option<u32>,
    ranks: Vec<RawFailedRank>,
}

#[derive(Deserialize)]
struct RawFailedRank {
    rank: Option<u32>,
    pid: u32,
    /// As Python has it: below 0 for a signal.
    code: i32,
}

impl From<RawFailures> for LauncherReport {
    fn from(raw: RawFailures) -> Self {
        let failed = |raw: RawFailedRank| {
            let number = raw.code.unsigned_abs();
            let (code, signal) = if raw.code < 0 { (None, Some(number)) } else { (Some(number), None) };
            FailedRank { rank: raw.rank, exit: ProcessExit { pid: raw.pid, code, signal } }
        };
        Self { run: raw.launcher, ranks: raw.ranks.into_iter().take(MOST_ROWS).map(failed).collect() }
    }
}

/// What tells listeners the exit code of a command that had the hook in it.
pub fn exit(pid: u32, namespace: Option<u64>, code: u8) -> String {
    serde_json::json!({"v": VERSION, "kind": "end", "pid": pid, "namespace": namespace, "code": code}).to_string()
}

#[derive(Deserialize)]
struct RawStep {
    step: u64,
    step_s: Option<f64>,
    memory: String,
    allocated: Option<u64>,
    reserved: Option<u64>,
    peak_allocated: Option<u64>,
    peak_reserved: Option<u64>,
    tokens: Option<u64>,
    #[serde(default)]
    retries: u64,
    #[serde(default)]
    ooms: u64,
}

impl RawStep {
    fn at(self, now: Moment) -> Option<HookStep> {
        let memory = match self.memory.as_str() {
            "cuda" => HookMemory::Allocator,
            "resident" => HookMemory::Resident,
            _ => return None,
        };
        let bytes = |value: Option<u64>| {
            value.map_or(Reading::Absent(Absence::NotSupported), |bytes| Reading::measured(Bytes(bytes), now))
        };
        // The first step has none before it.
        let step_time = match self.step_s {
            Some(seconds) if seconds > 0.0 && seconds < LONGEST_STEP => Reading::measured(Seconds(seconds), now),
            Some(_) => return None,
            None => Reading::Absent(Absence::TooShort),
        };
        Some(HookStep {
            step: self.step,
            step_time,
            memory,
            allocated: bytes(self.allocated),
            reserved: bytes(self.reserved),
            peak_allocated: bytes(self.peak_allocated),
            peak_reserved: bytes(self.peak_reserved),
            tokens: self.tokens.filter(|tokens| *tokens > 0),
            retries: self.retries,
            ooms: self.ooms,
        })
    }
}

#[derive(Deserialize)]
struct RawModules {
    step: u64,
    measured: String,
    saved: u64,
    passes: Option<u64>,
    length_first: Option<(u64, u64)>,
    #[serde(default)]
    left_out: u64,
    modules: Vec<RawKind>,
    #[serde(default)]
    blocks: Vec<(String, u64, i64, u64)>,
}

#[derive(Deserialize)]
struct RawKind {
    name: String,
    class: String,
    count: u64,
    #[serde(default)]
    leaf: bool,
    saved: u64,
    forward: i64,
    backward: u64,
    params: u64,
    param_bytes: u64,
    shape: Option<Vec<u64>>,
    dtype: Option<String>,
}

impl From<RawModules> for HookModules {
    fn from(raw: RawModules) -> Self {
        let kinds = raw.modules.into_iter().take(MOST_ROWS).map(|kind| ModuleKind {
            name: cut(kind.name),
            class: cut(kind.class),
            count: kind.count,
            leaf: kind.leaf,
            saved: Bytes(kind.saved),
            forward: SignedBytes(kind.forward.into()),
            backward: Bytes(kind.backward),
            params: kind.params,
            param_bytes: Bytes(kind.param_bytes),
            shape: kind.shape.unwrap_or_default().into_iter().take(8).collect(),
            dtype: kind.dtype.map(cut),
        });
        let blocks = raw.blocks.into_iter().take(MOST_ROWS).map(|(name, saved, forward, backward)| ModuleBlock {
            name: cut(name),
            saved: Bytes(saved),
            forward: SignedBytes(forward.into()),
            backward: Bytes(backward),
        });
        Self {
            step: raw.step,
            by_allocator: raw.measured == "allocated",
            passes: raw.passes.filter(|passes| *passes > 0),
            length_first: raw.length_first,
            saved: Bytes(raw.saved),
            kinds: kinds.collect(),
            blocks: blocks.collect(),
            left_out: raw.left_out,
        }
    }
}

pub(super) fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT) {
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::HookedRun;

    #[test]
    fn a_step_on_a_gpu() {
        let text = br#"{"v":1,"kind":"step","pid":7,"step":12,"at":1.5,"steps":4,"step_s":0.25,"memory":"cuda",
            "allocated":10,"reserved":20,"peak_allocated":15,"peak_reserved":25,"retries":1,"ooms":0,"tokens":4096}"#;
        let Some(Message { pid: 7, body: Body::Step(step), .. }) = read(text, Moment(9)) else { panic!("not read") };
        assert_eq!((step.step, step.tokens, step.retries), (12, Some(4_096), 1));
        assert_eq!(step.step_time, Reading::measured(Seconds(0.25), Moment(9)));
        assert_eq!(step.peak_reserved, Reading::measured(Bytes(25), Moment(9)));
    }

    #[test]
    fn a_trainers_number_of_steps_tells_what_is_left() {
        let text = br#"{"v":1,"kind":"run","pid":7,"began":4.5,"params":1,"trainable":1,"param_bytes":4,
            "gradient_bytes":0,"optimizer_state_bytes":0,"total_steps":100}"#;
        let Some(Message { body: Body::About(about), began: Some(4.5), .. }) = read(text, Moment(9)) else {
            panic!("not read")
        };
        let text = br#"{"v":1,"kind":"step","pid":7,"step":40,"step_s":0.5,"memory":"resident","allocated":7}"#;
        let Some(Message { body: Body::Step(step), .. }) = read(text, Moment(9)) else { panic!("not read") };
        let run = HookedRun { about: Some(*about), step: Some(step), ..HookedRun::new(7, Moment(9)) };
        // 60 steps of half a second.
        assert_eq!(run.progress().remaining().value(), Some(&Seconds(30.0)));
    }

    #[test]
    fn the_end_with_the_memory_that_ran_out() {
        let text = br#"{"v":1,"kind":"end","pid":7,"error":"OutOfMemoryError","message":"CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 2.00 GiB is free."}"#;
        let Some(Message { pid: 7, body: Body::End(end), .. }) = read(text, Moment(9)) else { panic!("not read") };
        assert_eq!(end.words().as_deref(), Some("OutOfMemoryError"));
        assert_eq!(end.out_of_memory.unwrap().asked, Some(Bytes(3 << 30)));
        let Some(Message { pid: 8, body: Body::End(end), .. }) = read(exit(8, None, 130).as_bytes(), Moment(9)) else {
            panic!("not read")
        };
        assert_eq!(end.words().as_deref(), Some("SIGINT, exit 130"));
    }

    #[test]
    fn what_the_hook_does_not_write_is_refused() {
        for text in [
            "",
            "{}",
            "[1,2]",
            r#"{"v":2,"kind":"step","pid":7,"step":1,"memory":"cuda"}"#,
            r#"{"v":1,"kind":"step","pid":0,"step":1,"memory":"cuda"}"#,
            r#"{"v":1,"kind":"step","pid":7,"step":-1,"memory":"cuda"}"#,
            r#"{"v":1,"kind":"step","pid":7,"step":1,"memory":"tea"}"#,
            r#"{"v":1,"kind":"step","pid":7,"step":1,"memory":"cuda","step_s":-0.5}"#,
            r#"{"v":1,"kind":"step","pid":7,"step":1,"memory":"cuda","step_s":1e300}"#,
            r#"{"v":1,"kind":"else","pid":7}"#,
            r#"{"v":1,"kind":"modules","pid":7,"step":1,"measured":"saved","saved":1,"modules":7}"#,
        ] {
            assert_eq!(read(text.as_bytes(), Moment(0)), None, "{text}");
        }
        assert_eq!(read("[".repeat(60_000).as_bytes(), Moment(0)), None);
    }

    #[test]
    fn long_names_and_lists_are_cut() {
        let row = format!(
            r#"{{"name":"{}","class":"x","count":1,"saved":1,"forward":-5,"backward":0,"params":0,"param_bytes":0,"shape":null,"dtype":null}}"#,
            "é".repeat(500)
        );
        let rows = vec![row; 600].join(",");
        let text =
            format!(r#"{{"v":1,"kind":"modules","pid":7,"step":1,"measured":"saved","saved":1,"modules":[{rows}]}}"#);
        let Some(Message { body: Body::Modules(modules), .. }) = read(text.as_bytes(), Moment(0)) else {
            panic!("not read");
        };
        assert_eq!((modules.kinds.len(), modules.kinds[0].name.chars().count()), (MOST_ROWS, LONGEST_TEXT));
        assert_eq!(modules.kinds[0].forward, SignedBytes(-5));
    }
}
