//! Finds what says in a text that memory ran out: messages of `PyTorch`, of libraries beside it, of other
//! frameworks, and of the system that ended a process.

mod frameworks;
mod on_chip;
mod other;
mod pytorch;
mod schedulers;
mod size;

use std::borrow::Cow;

use crate::order::StableOrder;
use crate::reading::{OutOfMemory, OutOfMemoryKind, UnexplainedFailure};

/// What follows a message's beginning and still belongs to it.
const LONGEST: usize = 4_096;

/// Beginnings of messages that are read, the last of a text.
const MOST_MARKS: usize = 10_000;

/// What stands on the line before a mark and is looked at.
const BEFORE: usize = 300;

/// A message without figures that follows one with figures so closely is its consequence.
const CONSEQUENCE: usize = 65_536;

/// What asks for as much so shortly after a message's beginning is the rest of it on another line.
const SAME_MESSAGE: usize = 200;

/// The last out-of-memory message in a text; none where there is none. One without figures that follows one
/// with figures is passed over.
#[must_use]
pub fn find(text: &str) -> Option<OutOfMemory> {
    let text = plain(text);
    let mut marks: Vec<(usize, &other::MessageMark)> =
        other::MARKS.iter().flat_map(|mark| text.match_indices(mark.text).map(move |(at, _)| (at, mark))).collect();
    marks.order_by_key(|(at, _)| *at);
    // The last message counts; a log of nothing else has hundreds of thousands.
    marks.drain(..marks.len().saturating_sub(MOST_MARKS));
    let mut found: Option<(usize, OutOfMemory)> = None;
    for (at, mark) in marks {
        let after = one_line(&text[at + mark.text.len()..]);
        let before = line_before(&text, at);
        // What MemWall itself says of a message at the end of a command has fewer figures than that.
        if before.starts_with("memwall: ") {
            continue;
        }
        let Some(message) = (mark.read)(before, &after) else { continue };
        let message = OutOfMemory { rank: rank(before), ..message };
        let kept = found.as_ref().is_some_and(|(before, known)| {
            let near = at.saturating_sub(*before) < CONSEQUENCE;
            let is_rest = at - *before < SAME_MESSAGE && known.asked.is_some() && known.asked == message.asked;
            let says_less = !message.ends_runs() || (known.ends_runs() && !message.has_figures());
            near && known.has_figures() && (is_rest || says_less) || is_another_victim(known, &message)
        });
        if !kept {
            let whole = match &found {
                Some((before, earlier)) if at.saturating_sub(*before) < CONSEQUENCE => {
                    message.with_lines_before(earlier).beside(earlier)
                }
                _ => message,
            };
            found = Some((at, whole));
        }
    }
    found.map(|(_, message)| message)
}

/// What a text says of a failure that may have been for memory, without saying so.
#[must_use]
pub fn unexplained(text: &str) -> Option<UnexplainedFailure> {
    const KILLED: [&str; 8] = [
        "Signal 9 (SIGKILL)",
        "return code = -9",
        "exit code -9",
        "exitcode: -9",
        "exit code 137",
        "died with <Signals.SIGKILL: 9>",
        "terminated with signal SIGKILL",
        "killed by signal: Killed",
    ];
    let has = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if has(&KILLED) || text.lines().any(is_shells_killed) {
        return Some(UnexplainedFailure::Killed);
    }
    let shared = has(&["killed by signal: Bus error", "unable to open shared memory obj"]);
    // `received 0 items of ancdata`: what sends a descriptor to another process found none left.
    if has(&["items of ancdata"]) || shared && has(&["Too many open files"]) {
        return Some(UnexplainedFailure::OpenFiles);
    }
    if shared {
        return Some(UnexplainedFailure::SharedMemory);
    }
    if has(&["(PI_ERROR_OUT_OF_RESOURCES)", "(UR_RESULT_ERROR_OUT_OF_RESOURCES)", "-5 (CL_OUT_OF_RESOURCES)"]) {
        return Some(UnexplainedFailure::IntelResources);
    }
    if has(&["unhandled cuda error", "ncclUnhandledCudaError"]) {
        return Some(UnexplainedFailure::Nccl);
    }
    let bitsandbytes = has(&["bitsandbytes", "csrc/ops.cu", "csrc\\ops.cu"]);
    let no_kernel =
        ["named symbol not found at line", "invalid device function at line", "no kernel image is available"];
    if bitsandbytes && has(&no_kernel) {
        return Some(UnexplainedFailure::BitsandbytesKernel);
    }
    if has(&["CUDA Setup failed despite", "libbitsandbytes_cpu.so: undefined symbol"]) {
        return Some(UnexplainedFailure::BitsandbytesSetup);
    }
    // cublas_api.h: 15 is CUBLAS_STATUS_NOT_SUPPORTED.
    if has(&["cuBLAS API failed with status 15"]) {
        return Some(UnexplainedFailure::BitsandbytesInt8);
    }
    // A handle that could not be made: the library takes memory for it, and says no more.
    has(&["CUBLAS_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_NOT_INITIALIZED", "CUSOLVER_STATUS_NOT_INITIALIZED"])
        .then_some(UnexplainedFailure::Handle)
}

/// `Killed`, in a script `job.sh: line 28:  8156 Killed    python3 main.py`.
fn is_shells_killed(line: &str) -> bool {
    if line.trim() == "Killed" {
        return true;
    }
    let behind = line.split_once(": line ").and_then(|(_, rest)| rest.split_once(": "));
    behind.is_some_and(|(number, said)| {
        let mut words = said.split_whitespace();
        let is_number = |word: &str| word.bytes().all(|digit| digit.is_ascii_digit());
        is_number(number) && words.next().is_some_and(is_number) && words.next() == Some("Killed")
    })
}

/// Where memory ends on a machine several processes are killed; the training is Python.
fn is_another_victim(known: &OutOfMemory, message: &OutOfMemory) -> bool {
    let python = |message: &OutOfMemory| {
        message.kind == OutOfMemoryKind::Killed
            && message.process.as_ref().is_some_and(|name| name.contains("python") || name.starts_with("pt_"))
    };
    python(known) && message.kind == OutOfMemoryKind::Killed && message.process.is_some() && !python(message)
}

/// A text without colours and the lines of boxes around it.
fn plain(text: &str) -> Cow<'_, str> {
    let is_box = |letter: char| ('\u{2500}'..='\u{257f}').contains(&letter);
    if !text.contains(|letter| letter == '\u{1b}' || is_box(letter)) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            if letters.next_if_eq(&'[').is_some() {
                while letters.next().is_some_and(|letter| !letter.is_ascii_alphabetic()) {}
            }
        } else if is_box(letter) {
            plain.push(' ');
        } else {
            plain.push(letter);
        }
    }
    Cow::Owned(plain)
}

/// `[rank3]: ` (torch/distributed/elastic) before a line.
fn rank(before: &str) -> Option<u32> {
    let (_, rank) = before.split_once("[rank")?;
    rank.split_once("]:")?.0.parse().ok()
}

/// What stands on the same line before a mark, the last of it.
fn line_before(text: &str, at: usize) -> &str {
    // No further back than is looked at: lines may have megabytes, and as many marks.
    let before = &text[..at];
    let cut = before.char_indices().rev().nth(BEFORE).map_or(0, |(cut, _)| cut);
    let start = before[cut..].rfind('\n').map_or(cut, |end| cut + end + 1);
    &before[start..]
}

/// The message on one line: terminals and loggers break it.
fn one_line(text: &str) -> String {
    let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(end, _)| end);
    let words: Vec<&str> = text[..end].split_whitespace().collect();
    let line = words.join(" ");
    // Another message, or the traceback that follows, is none of it.
    let end = line.find("out of memory").or_else(|| line.find("Traceback")).unwrap_or(line.len());
    line[..end].to_owned()
}

#[cfg(test)]
mod tests;
