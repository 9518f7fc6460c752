//! How many layers the chunks of a pipeline hold, where they do not come out even.

use super::keys::DistributionPart;

impl DistributionPart {
    /// Whether it says how many layers which stages hold.
    #[must_use]
    pub fn says_layers_of_stages(&self) -> bool {
        self.pipeline_layout.is_some()
            || self.first_stage_layers.or(self.last_stage_layers).is_some()
            || self.pipeline_counts_embedding_and_loss == Some(true)
    }
}

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

/// The same as Megatron's layout: `E` embedding, `t` layer, `m` layer that predicts further tokens, `L` loss, `|` between chunks
/// (megatron/core/transformer/pipeline_parallel_layer_layout.py). None where they come out even: it needs none.
///
/// ```
/// use memwall_core::plan::uneven_layout;
///
/// assert_eq!(uneven_layout(10, 1, 4).as_deref(), Some("Et*3|t*3|t*2|t*2mL"));
/// assert_eq!(uneven_layout(8, 0, 4), None);
/// ```
#[must_use]
pub fn uneven_layout(layers: u64, further: u64, chunks: u64) -> Option<String> {
    if chunks < 2 || layers.is_multiple_of(chunks) {
        return None;
    }
    let parts: Vec<String> = even_chunks(layers, chunks).iter().map(|layers| format!("t*{layers}")).collect();
    let further = "m".repeat(usize::try_from(further).unwrap_or(0));
    Some(format!("E{}{further}L", parts.join("|")))
}

/// Megatron's layout: `E` embedding, `t` layer, `m` prediction layer, `L` loss, `|` between parts, `*n` and
/// `(…)*n` repeat (megatron/core/transformer/pipeline_parallel_layer_layout.py). The layers of each part; none where it is
/// no layout.
#[must_use]
pub fn layout_counts(layout: &str) -> Option<Vec<u64>> {
    let flat = expanded(&layout.chars().filter(|c| !c.is_whitespace() && *c != ',').collect::<Vec<_>>())?;
    let parts = flat.split(|c| *c == '|');
    parts
        .map(|part| {
            let known = part.iter().all(|c| matches!(c, 'E' | 't' | 'm' | 'L'));
            known.then(|| part.iter().filter(|c| **c == 't').count() as u64)
        })
        .collect()
}

/// The text with repetitions written out; none where it is broken or longer than any model.
fn expanded(text: &[char]) -> Option<Vec<char>> {
    const LONGEST: usize = 100_000;
    let mut out: Vec<char> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let item = if text[at] == '(' {
            let close = at + text[at..].iter().position(|c| *c == ')')?;
            let inner = expanded(&text[at + 1..close])?;
            at = close + 1;
            inner
        } else {
            at += 1;
            vec![text[at - 1]]
        };
        let mut times = 1;
        if text.get(at) == Some(&'*') {
            let digits: String = text[at + 1..].iter().take_while(|c| c.is_ascii_digit()).collect();
            at += 1 + digits.len();
            times = digits.parse().ok().filter(|times| *times <= LONGEST)?;
        }
        if out.len() + item.len() * times > LONGEST {
            return None;
        }
        for _ in 0..times {
            out.extend_from_slice(&item);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::layout_counts;

    #[test]
    fn megatron_layouts_are_read() {
        // The example of pipeline_parallel_layer_layout.py: "Et*3|(tt|)*29,m|L".
        let counts = layout_counts("Et*3|(tt|)*29,m|L").unwrap();
        assert_eq!((counts[0], counts[1], counts.iter().sum::<u64>()), (3, 2, 61));
        assert_eq!(layout_counts("Et*2|x"), None);
        assert_eq!(layout_counts("t*99999999999"), None);
    }
}
