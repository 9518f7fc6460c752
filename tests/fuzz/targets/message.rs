//! Bytes as a text with an out-of-memory message.

#![no_main]

#[path = "../entry.rs"]
#[allow(dead_code)]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    entry::message(bytes);
});
