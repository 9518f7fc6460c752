//! Tapes as files.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use flate2::read::MultiGzDecoder;

use super::TracedModel;
use crate::files;
use crate::plan::load::reason;
use crate::printable::printable;

/// Most bytes of a tape as it lies on the disk, and unpacked; most values in it. A hundred different blocks have a
/// twentieth of that.
const PACKED: u64 = 8 << 20;
const UNPACKED: u64 = 32 << 20;
const VALUES: usize = 2_500_000;

/// Why a file gives no tape.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// It cannot be read.
    #[error("{0}")]
    Unread(String),
    /// It is something else, or too large for one.
    #[error("not a tape{0}")]
    NotATape(String),
    /// What it says cannot be.
    #[error("a damaged tape: {0}")]
    Damaged(String),
}

/// Tapes that were read last, as they lie on the disk and as they are: plans of a stream and drafts name the same ones.
static KNOWN: Mutex<Vec<(Vec<u8>, Arc<TracedModel>)>> = Mutex::new(Vec::new());
const MOST_KNOWN: usize = 12;

/// A tape out of a file, packed with gzip or not. The file is read each time; what it holds is taken apart once.
///
/// # Errors
/// Where it cannot be read or is none.
pub fn read_trace(path: &Path) -> Result<Arc<TracedModel>, TapeError> {
    unpacked(&files::read(path, PACKED).map_err(|error| TapeError::Unread(reason(&error)))?)
}

/// A tape as it lies in a file, or in the binary.
///
/// # Errors
/// Where it is none.
pub fn unpacked(bytes: &[u8]) -> Result<Arc<TracedModel>, TapeError> {
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known().iter().find(|(held, _)| held == bytes) {
        return Ok(Arc::clone(&found.1));
    }
    let made = Arc::new(parse(bytes.to_vec())?);
    let mut known = known();
    if known.len() == MOST_KNOWN {
        known.remove(0);
    }
    known.push((bytes.to_vec(), Arc::clone(&made)));
    Ok(made)
}

fn parse(bytes: Vec<u8>) -> Result<TracedModel, TapeError> {
    let text = if bytes.starts_with(&[0x1f, 0x8b]) {
        let unpacked = files::up_to(MultiGzDecoder::new(bytes.as_slice()), UNPACKED);
        unpacked.map_err(|error| TapeError::NotATape(format!(": {error}")))?
    } else {
        bytes
    };
    if files::most_json_values(&text) > VALUES {
        return Err(TapeError::NotATape(format!(": more than {VALUES} values")));
    }
    let model: TracedModel = serde_json::from_slice(&text).map_err(|error| {
        let error = printable(&error.to_string());
        TapeError::NotATape(format!(" of memwall trace: {}", error.chars().take(160).collect::<String>()))
    })?;
    match model.fault() {
        Some(why) => Err(TapeError::Damaged(why)),
        None => Ok(model),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// A model of one matrix between two empty ends: 3 x `B` values come in.
    const SMALL: &str = r#"{"memwall_tape":1,"name":"small","source":"","versions":{},"device":"cpu","differences":[],"notes":[],
        "parameters":{"total":6,"trainable":6},"axes":["B"],"points":[{"B":2}],"terms":[[0],[1]],"image":null,
        "image_varies":false,"longest":null,"fixed":false,"sizes":[[1,3],[1,0,1],[2,0,3]],"unfit":[],"inputs":[["x","f32",1,[1,0]]],
        "buffers":[],"traces":{"mixed":null,"half":null,"fp32":{"order":[0,1,2],"pending":[],"passing":[],"kinds":[
        {"name":"first","path":"","block":false,"borrows":false,"weights":[],"tensors":[],"ops":[],"output":null,"also":[]},
        {"name":"Block","path":"a","block":true,"borrows":false,"weights":[["w",[2,3],"f32","mlp",1,0,0]],
         "tensors":[[[1,0],"f32","mlp",1,1,0,null],[[1,0],"f32","mlp",0,1,0,null],[[0],"f32","mlp",3,1,0,null]],
         "ops":[["fc","Linear","mm","matrix:f32",["product",[0,1,0,0]],[[0,2],[2,2]],[1],[0],0,0,0,0,1,1]],"output":1,"also":[]},
        {"name":"last","path":"","block":false,"borrows":false,"weights":[],"tensors":[],"ops":[],"output":null,"also":[]}]}}}"#;

    fn refused(text: &str) -> String {
        let why = parse(text.as_bytes().to_vec()).unwrap_err().to_string();
        assert!(!why.contains('\n') && why.len() < 300, "{why}");
        why
    }

    #[test]
    fn a_tape_is_read_packed_or_not() {
        let model = parse(SMALL.as_bytes().to_vec()).unwrap();
        // 3, B, and 3 B / 2, for a batch of 4.
        assert_eq!(model.sizes_at(|_| 4), [3, 4, 6]);
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(SMALL.as_bytes()).unwrap();
        assert_eq!(parse(packed.finish().unwrap()).unwrap(), model);
    }

    #[test]
    fn a_damaged_tape_is_refused_in_one_line() {
        for (good, bad, said) in [
            ("\"memwall_tape\":1", "\"memwall_tape\":9", "version 9"),
            ("\"order\":[0,1,2]", "\"order\":[0,7,2]", "not there"),
            ("[[0,2],[2,2]]", "[[0,2],[9,2]]", "not there"),
            ("\"output\":1", "\"output\":4000000", "not there"),
            ("[2,3],\"f32\",\"mlp\"", "[4294967296,4294967296],\"f32\",\"mlp\"", "larger than any"),
            ("3,1,0,null]],", "3,1,0,2]],", "nowhere"),
            // What leaves holds memory that no operator has taken.
            ("[[0,2],[2,2]],[1],", "[[0,2],[2,2]],[],", "made by no operator"),
            ("[2,0,3]],\"unfit\"", "[0,0,3]],\"unfit\"", "no polynomial"),
            ("[[0],[1]],\"image\"", "[[0],[99]],\"image\"", "terms"),
            ("\"f32\",\"mlp\",1,0,0", "\"f32\",\"nose\",1,0,0", "not a tape"),
        ] {
            assert!(SMALL.contains(good), "{good}");
            let why = refused(&SMALL.replacen(good, bad, 1));
            assert!(why.contains(said), "{bad}: {why}");
        }
        assert!(refused("").contains("not a tape"));
        assert!(refused("[]").contains("not a tape"));
        assert!(refused(&"[".repeat(3_000_000)).contains("values"));
    }

    #[test]
    fn a_tape_that_unpacks_to_no_end_is_refused() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        for _ in 0..64 {
            packed.write_all(&vec![b' '; 1 << 20]).unwrap();
        }
        assert!(parse(packed.finish().unwrap()).unwrap_err().to_string().contains("not a tape: more than"));
        let mut cut = GzEncoder::new(Vec::new(), Compression::best());
        cut.write_all(SMALL.as_bytes()).unwrap();
        let cut = cut.finish().unwrap();
        assert!(parse(cut[..cut.len() / 2].to_vec()).unwrap_err().to_string().contains("not a tape"));
    }
}
