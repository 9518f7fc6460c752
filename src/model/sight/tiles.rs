//! Images that are brought to one of several sizes and cut into tiles (LLaVA-NeXT's "anyres").

/// The sizes that an image may be brought to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiles {
    /// Height and width of each (`image_grid_pinpoints`).
    pub sizes: Vec<(u64, u64)>,
    /// Pixels a side of a tile.
    pub side: u64,
    /// Tiles of which no more patches are left than these have; the others are scaled down (`anyres_max_9`).
    pub most: Option<u64>,
}

impl Tiles {
    /// The size for a square image: the one that holds most of it, and of those the smallest
    /// (transformers, `image_processing_utils.select_best_resolution`).
    fn best(&self, side: u64) -> (u64, u64) {
        let side = side.max(1);
        let fit = |(height, width): (u64, u64)| {
            let scale = (width as f64 / side as f64).min(height as f64 / side as f64);
            let scaled = (side as f64 * scale) as u64;
            let held = scaled.saturating_mul(scaled).min(side.saturating_mul(side));
            (held, height.saturating_mul(width).saturating_sub(held))
        };
        let mut best = (self.side, self.side);
        let mut found: Option<(u64, u64)> = None;
        for size in &self.sizes {
            let (held, wasted) = fit(*size);
            if found.is_none_or(|(most, least)| held > most || (held == most && wasted < least)) {
                (best, found) = (*size, Some((held, wasted)));
            }
        }
        best
    }

    /// A small image of the whole, and the tiles.
    #[must_use]
    pub fn count(&self, side: u64) -> u64 {
        let (height, width) = self.best(side);
        let tile = self.side.max(1);
        height.div_ceil(tile).saturating_mul(width.div_ceil(tile)).saturating_add(1)
    }

    /// Rows and columns of patches that are left of the tiles of a square image, without what was filled up.
    #[must_use]
    pub fn grid(&self, side: u64, patch: u64) -> (u64, u64) {
        let (height, width) = self.best(side);
        let (tile, patch) = (self.side.max(1), patch.max(1));
        let each = tile / patch;
        let (rows, columns) = ((height / tile).saturating_mul(each), (width / tile).saturating_mul(each));
        // `unpad_image` takes as much from both sides.
        let (rows, columns) = match rows.cmp(&columns) {
            std::cmp::Ordering::Less => (rows, columns - (columns - rows) / 2 * 2),
            std::cmp::Ordering::Equal => (rows, columns),
            std::cmp::Ordering::Greater => (rows - (rows - columns) / 2 * 2, columns),
        };
        let Some(most) = self.most else { return (rows, columns) };
        let all = most.saturating_mul(each).saturating_mul(each).max(1);
        let ratio = (rows.saturating_mul(columns) as f64 / all as f64).sqrt();
        if ratio > 1.1 {
            ((rows as f64 / ratio).floor() as u64, (columns as f64 / ratio).floor() as u64)
        } else {
            (rows, columns)
        }
    }

    /// Tokens of an image: those of the small one, and a row's with one that ends it.
    #[must_use]
    pub fn tokens(&self, side: u64, patch: u64) -> u64 {
        let each = self.side / patch.max(1);
        let (rows, columns) = self.grid(side, patch);
        each.saturating_mul(each).saturating_add(rows.saturating_mul(columns.saturating_add(1)))
    }
}
