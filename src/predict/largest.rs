//! The largest size that fits.

/// The largest number from 1 to `most` that `fitting` gives something for, and what it gives;
/// where a number has something, every smaller one has.
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
}
