//! Texts that the build packed into the program (`configs/build.rs`): long ones that few runs read.

use std::io::{self, Read};

use flate2::read::ZlibDecoder;

/// A packed text.
///
/// # Errors
/// Where it is none; the build packs no other.
pub fn text(packed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    ZlibDecoder::new(packed).read_to_string(&mut text)?;
    Ok(text)
}
