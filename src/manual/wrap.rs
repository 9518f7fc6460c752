//! Stretches of text broken into lines between words.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Tone, ToneSpan};

/// What stands between two places where a line may be broken, and its cells.
type Word = (Vec<ToneSpan>, usize);

/// `spans` in lines of at most `width` cells. A word that is longer is broken within.
pub fn wrap(spans: &[ToneSpan], width: usize) -> Vec<Vec<ToneSpan>> {
    let width = width.max(1);
    let mut lines: Vec<Vec<ToneSpan>> = vec![Vec::new()];
    let mut used = 0;
    for (word, cells) in words(spans).into_iter().flat_map(|word| broken(word, width)) {
        let gap = usize::from(used > 0);
        if used > 0 && used + gap + cells > width {
            lines.push(Vec::new());
            used = 0;
        }
        let Some(line) = lines.last_mut() else { continue };
        if used > 0 {
            // Between two words of code the blank is code too: `memwall predict`.
            let code = line.last().is_some_and(|span| span.tone == Tone::Code)
                && word.first().is_some_and(|span| span.tone == Tone::Code);
            push(line, " ", if code { Tone::Code } else { Tone::Text });
            used += 1;
        }
        for span in word {
            push(line, &span.text, span.tone);
        }
        used += cells;
    }
    lines
}

/// Cells of the longest word.
pub fn longest_word(spans: &[ToneSpan]) -> usize {
    words(spans).into_iter().map(|(_, cells)| cells).max().unwrap_or(0)
}

/// Cells of all of it in one line.
pub fn length(spans: &[ToneSpan]) -> usize {
    let words = words(spans);
    words.iter().map(|(_, cells)| cells).sum::<usize>() + words.len().saturating_sub(1)
}

/// Adds to the last stretch where that has the same tone.
fn push(line: &mut Vec<ToneSpan>, text: &str, tone: Tone) {
    match line.last_mut() {
        Some(last) if last.tone == tone => last.text.push_str(text),
        _ => line.push(ToneSpan { tone, text: text.to_owned() }),
    }
}

fn words(spans: &[ToneSpan]) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut open = false;
    for span in spans {
        for (at, part) in span.text.split([' ', '\n']).enumerate() {
            if at > 0 {
                open = false;
            }
            if part.is_empty() {
                continue;
            }
            if !open {
                words.push((Vec::new(), 0));
                open = true;
            }
            if let Some((word, cells)) = words.last_mut() {
                push(word, part, span.tone);
                *cells += part.width();
            }
        }
    }
    words
}

/// A word in pieces that fit.
fn broken(word: Word, width: usize) -> Vec<Word> {
    if word.1 <= width {
        return vec![word];
    }
    let mut pieces: Vec<Word> = vec![(Vec::new(), 0)];
    for span in word.0 {
        for c in span.text.chars() {
            let cells = c.width().unwrap_or(0);
            if pieces.last().is_some_and(|(_, used)| used + cells > width) {
                pieces.push((Vec::new(), 0));
            }
            if let Some((piece, used)) = pieces.last_mut() {
                push(piece, c.encode_utf8(&mut [0; 4]), span.tone);
                *used += cells;
            }
        }
    }
    pieces
}
