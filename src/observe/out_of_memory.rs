//! Reads PyTorch's out-of-memory messages, of every release since 0.4, for CUDA, ROCm (HIP) and XPU.
//!
//! The wordings are those of `CUDACachingAllocator.cpp`: up to 1.3 `… already allocated; … free; … cached`,
//! up to 2.0 `… reserved in total by PyTorch`, since 2.1 sentences; `allowed` where the process has a
//! limit, other processes and private pools where there are some.

use crate::reading::OutOfMemory;
use crate::units::Bytes;

/// What follows a message's beginning and still belongs to it.
const LONGEST: usize = 4_096;

/// The last out-of-memory message in a text; none where there is none.
#[must_use]
pub fn find(text: &str) -> Option<OutOfMemory> {
    const MARK: &str = "out of memory";
    let mut found = None;
    for (at, _) in text.match_indices(MARK) {
        let before = text[..at].trim_end();
        let backend = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let before_colon = before.strip_suffix("error:").unwrap_or(before).trim_end();
        let backend = match backend {
            "CUDA" | "HIP" | "XPU" => backend,
            // `CUDA error: out of memory`: the driver's own refusal, without figures.
            _ if before.ends_with("error:") => before_colon.rsplit(' ').next().unwrap_or_default(),
            _ => continue,
        };
        let message = one_line(&text[at + MARK.len()..]);
        found = Some(OutOfMemory { backend: backend.to_owned(), ..read(&message) });
    }
    found
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

fn read(message: &str) -> OutOfMemory {
    let mut found = OutOfMemory {
        device: after(message, "GPU ").and_then(|rest| number(rest)?.parse().ok()),
        asked: size_after(message, "Tried to allocate "),
        ..OutOfMemory::default()
    };
    if message.contains("has a total capac") {
        sentences(message, &mut found);
    } else {
        clauses(message, &mut found);
    }
    found
}

/// Since 2.1.
fn sentences(message: &str, found: &mut OutOfMemory) {
    found.capacity =
        size_after(message, "has a total capacity of ").or_else(|| size_after(message, "has a total capacty of "));
    found.free = size_after(message, "of which ");
    found.allowed = size_before(message, " allowed");
    found.in_process = size_after(message, "this process has ");
    found.allocated = size_after(message, "Of the allocated memory ");
    found.private_pools = size_before(message, " allocated in private pools");
    found.unallocated = size_before(message, " is reserved by PyTorch but unallocated");
    found.others = message
        .match_indices("Process ")
        .filter_map(|(at, mark)| {
            let rest = &message[at + mark.len()..];
            let pid = number(rest)?;
            let held = rest[pid.len()..].strip_prefix(" has ")?;
            Some((pid.parse().ok()?, size(held)?))
        })
        .collect();
}

/// Up to 2.0: `(GPU 0; 10.92 GiB total capacity; 8.57 MiB already allocated; …)`.
fn clauses(message: &str, found: &mut OutOfMemory) {
    found.capacity = size_before(message, " total capacity");
    found.free = size_before(message, " free");
    found.allowed = size_before(message, " allowed");
    found.allocated = size_before(message, " already allocated");
    let total = size_before(message, " reserved in total by PyTorch");
    let between = total.zip(found.allocated).map(|(total, allocated)| total.saturating_sub(allocated));
    // Before 1.4 `cached` was what lay in the cache alone.
    found.unallocated = between.or_else(|| size_before(message, " cached"));
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    Some(&text[text.find(mark)? + mark.len()..])
}

fn size_after(text: &str, mark: &str) -> Option<Bytes> {
    size(after(text, mark)?)
}

/// The size that stands right before `mark`.
fn size_before(text: &str, mark: &str) -> Option<Bytes> {
    let before = &text[..text.find(mark)?];
    let (rest, unit) = before.rsplit_once(' ')?;
    let number = rest.rsplit([' ', '(', ';', ',']).next()?;
    size(&format!("{number} {unit}"))
}

/// Digits at the beginning.
fn number(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// `12.50 MiB` as `format_size` writes it, at the beginning.
fn size(text: &str) -> Option<Bytes> {
    let mut words = text.split([' ', ';', ')', ',']);
    let number: f64 = words.next()?.parse().ok()?;
    let unit = match words.next()?.trim_end_matches('.') {
        "bytes" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0_f64.powi(4),
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then(|| Bytes::from_f64(number * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gib(value: f64) -> Option<Bytes> {
        Some(Bytes::from_gib(value))
    }

    fn mib(value: f64) -> Option<Bytes> {
        Some(Bytes::from_f64(value * 1024.0 * 1024.0))
    }

    #[test]
    fn release_1_0() {
        // pytorch/pytorch issue 16417
        let found = find("RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total capacity; 8.57 MiB already allocated; 9.28 GiB free; 4.68 MiB cached)").unwrap();
        assert_eq!((found.backend.as_str(), found.device, found.asked), ("CUDA", Some(0), mib(12.5)));
        assert_eq!((found.capacity, found.allocated, found.free), (gib(10.92), mib(8.57), gib(9.28)));
        assert_eq!(found.unallocated, mib(4.68));
    }

    #[test]
    fn release_1_4_to_2_0() {
        // pytorch/pytorch issue 59778
        let found = find("`CUDA out of memory. Tried to allocate 2.26 GiB (GPU 0; 6.00 GiB total capacity; 781.59 MiB already allocated; 3.03 GiB free; 1.24 GiB reserved in total by PyTorch) `").unwrap();
        // 1.24 GiB - 781.59 MiB = 488.17 MiB
        assert_eq!((found.asked, found.reserved()), (gib(2.26), gib(1.24)));
        assert_eq!(found.unallocated.unwrap().to_string(), "0.48 GiB");
        // YingqianWang/iPASSR issue 9
        let found = find("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.73 GiB (GPU 0; 8.00 GiB total capacity; 17.20 GiB already allocated; 0 bytes free; 19.15 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.").unwrap();
        assert_eq!((found.free, found.allocated), (Some(Bytes(0)), gib(17.2)));
    }

    #[test]
    fn release_2_1_with_its_misspelling() {
        // kerrj/lerf issue 73
        let found = find("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacty of 23.65 GiB of which 1.66 GiB is free. Including non-PyTorch memory, this process has 20.81 GiB memory in use. Of the allocated memory 12.09 GiB is allocated by PyTorch, and 4.84 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.").unwrap();
        assert_eq!((found.capacity, found.free, found.in_process), (gib(23.65), gib(1.66), gib(20.81)));
        assert_eq!((found.allocated, found.unallocated), (gib(12.09), gib(4.84)));
        // 20.81 - 12.09 - 4.84 = 3.88; 23.65 - 1.66 - 20.81 = 1.18
        assert_eq!(found.outside_torch().unwrap().to_string(), "3.88 GiB");
        assert_eq!(found.elsewhere().unwrap().to_string(), "1.18 GiB");
        assert_eq!(found.would_fit_unfragmented(), Some(true));
    }

    #[test]
    fn release_2_9_with_other_processes_limits_and_private_pools() {
        // The sentences of CUDACachingAllocator.cpp, each once; broken over lines as a logger does.
        let text = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.\n GPU 3 has a total capacity of 79.10 GiB of which 201.25 MiB is free. \
            60.00 GiB allowed; Process 4711 has 10.50 GiB memory in use. Process 4712 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has 67.40 GiB \
            memory in use. Of the allocated memory 61.00 GiB is allocated by PyTorch, with 17.00 MiB allocated in private pools (e.g., CUDA Graphs), and 3.20 GiB is reserved by PyTorch but unallocated. If";
        let found = find(text).unwrap();
        assert_eq!((found.device, found.asked, found.allowed), (Some(3), mib(512.0), gib(60.0)));
        assert_eq!(found.others, [(4711, Bytes::from_gib(10.5)), (4712, Bytes::from_gib(1.0))]);
        assert_eq!((found.private_pools, found.unallocated), (mib(17.0), gib(3.2)));
        assert_eq!(found.elsewhere(), gib(11.5));
    }

    #[test]
    fn rocm() {
        // ROCm/TheRock issue 2118
        let found = find("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB of which 244.65 GiB is free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by PyTorch, with 17.00 MiB allocated in private pools (e.g., HIP Graphs), and 54.99 MiB is reserved by PyTorch but unallocated.").unwrap();
        assert_eq!((found.backend.as_str(), found.allowed, found.allocated), ("HIP", gib(1.05), mib(1017.01)));
        assert_eq!(found.unallocated, mib(54.99));
    }

    #[test]
    fn the_drivers_own_refusal_has_no_figures() {
        let found = find("RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be").unwrap();
        assert_eq!(found, OutOfMemory { backend: "CUDA".to_owned(), ..OutOfMemory::default() });
    }

    #[test]
    fn the_last_message_counts_and_other_texts_have_none() {
        let one = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 2.00 GiB is free.";
        let two = one.replace("1.00 GiB", "3.00 GiB");
        assert_eq!(find(&format!("{one}\n{two}\n")).unwrap().asked, gib(3.0));
        for text in ["", "we ran out of memory", "Killed: out of memory", "out of memory", "CUDA out of"] {
            assert_eq!(find(text), None, "{text}");
        }
        assert_eq!(find("CUDA out of memory. Tried to allocate 1e999 GiB. GPU 99999999999 has").unwrap().asked, None);
    }
}
