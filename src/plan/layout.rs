//! How many layers the chunks of a pipeline hold, where they do not come out even.

/// Layers of each chunk, as even as goes, extra ones first.
///
/// ```
/// use memwall_core::plan::even_chunks;
///
/// assert_eq!(even_chunks(10, 4), [3, 3, 2, 2]);
/// ```
#[must_use]
pub fn even_chunks(layers: u64, chunks: u64) -> Vec<u64> {
    let chunks = chunks.max(1);
    (0..chunks).map(|chunk| layers / chunks + u64::from(chunk < layers % chunks)).collect()
}

/// The same as Megatron's layout: `E` embedding, `t` layer, `L` loss, `|` between chunks
/// (megatron/core/transformer/pipeline_parallel_layer_layout.py). None where they come out even: it needs none.
///
/// ```
/// use memwall_core::plan::uneven_layout;
///
/// assert_eq!(uneven_layout(10, 4).as_deref(), Some("Et*3|t*3|t*2|t*2L"));
/// assert_eq!(uneven_layout(8, 4), None);
/// ```
#[must_use]
pub fn uneven_layout(layers: u64, chunks: u64) -> Option<String> {
    if chunks < 2 || layers.is_multiple_of(chunks) {
        return None;
    }
    let parts: Vec<String> = even_chunks(layers, chunks).iter().map(|layers| format!("t*{layers}")).collect();
    Some(format!("E{}L", parts.join("|")))
}
