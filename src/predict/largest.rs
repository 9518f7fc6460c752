//! The largest size that fits.

/// Below an answer so many sizes have something, one behind the other.
const NEAR: u64 = 8;

/// The largest number from 1 to `most` that `fitting` gives something for, and what it gives. Where a number has something,
/// smaller ones have, but for some near it, by an allocator's luck: then it is the one below those.
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
    let (mut answer, mut in_a_row) = (Some((fits, found)), 1);
    // It ends: 1 has something.
    for size in (1..fits).rev() {
        match fitting(size) {
            Some(less) => {
                answer = answer.or(Some((size, less)));
                in_a_row += 1;
            }
            None => (answer, in_a_row) = (None, 0),
        }
        if in_a_row > NEAR {
            break;
        }
    }
    answer
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
        // 19 does not fit, 20 does; so do some of 100 to 105, above which none does.
        let gaps = |size: u64| size < 100 || [102, 104, 105].contains(&size);
        assert_eq!(largest(1000, |size| gaps(size).then_some(size)), Some((99, 99)));
        assert_eq!(largest(100, |size| (size <= 18 || size == 20).then_some(size)), Some((18, 18)));
    }
}
