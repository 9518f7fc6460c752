//! Bytes as a pattern for lines of logs.

#![no_main]

#[path = "../entry.rs"]
#[allow(dead_code)]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    entry::pattern(bytes);
});
