//! The largest size that fits.

/// Sizes below the one found that are tried too.
const NEAR: u64 = 8;

/// The largest number from 1 to `most` that `fitting` gives something for, and what it gives. Where a number has something,
/// smaller ones have, but for a few near it, by an allocator's luck: then it is the one below those.
pub fn largest<T>(most: u64, mut fitting: impl FnMut(u64) -> Option<T>) -> Option<(u64, T)> {
    let mut found = fitting(1)?;
    let (mut fits, mut too_large) = (1, most.saturating_add(1));
    while fits * 2 < too_large {
        match fitting(fits * 2) {
            Some(more) => (fits, found) = (fits * 2, more),
            None => too_large = fits * 2,
        }
    }
    while too_large - fits > 1 {
        let middle = fits + (too_large - fits) / 2;
        match fitting(middle) {
            Some(more) => (fits, found) = (middle, more),
            None => too_large = middle,
        }
    }
    let mut safe = None;
    for size in fits.saturating_sub(NEAR).max(1)..fits {
        match (fitting(size), safe) {
            (Some(less), _) => safe = Some((size, less)),
            (None, Some(below)) => return Some(below),
            (None, None) => break,
        }
    }
    Some((fits, found))
}

#[cfg(test)]
mod tests {
    use super::largest;

    #[test]
    fn the_last_that_fits_is_found_exactly() {
        for limit in [1, 2, 3, 7, 8, 100, 1000] {
            assert_eq!(
                largest(100, |size| (size <= limit).then_some(size * 10)),
                Some((limit.min(100), limit.min(100) * 10))
            );
        }
        assert_eq!(largest(100, |_| None::<()>), None);
    }

    #[test]
    fn what_fits_by_luck_alone_is_not_the_answer() {
        // 19 does not fit, 20 does.
        assert_eq!(largest(100, |size| (size <= 18 || size == 20).then_some(size)), Some((18, 18)));
    }
}
