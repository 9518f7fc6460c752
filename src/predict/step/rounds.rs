//! The interleaved schedule: chunks of a stage take turns, so many micro-batches in a row each.

use crate::predict::job::{Job, in_a_row};

/// Passes of a chunk in the order of Megatron's and PyTorch's interleaved schedules (megatron-core,
/// pipeline_parallel/schedules.py, `get_schedule_table`; torch/distributed/pipelining/schedules.py,
/// `ScheduleInterleaved1F1B`).
#[derive(Debug, Clone, Copy)]
pub(in crate::predict) struct Rounds {
    /// Micro-batches of a step.
    batches: u64,
    /// Micro-batches that a chunk passes in a row.
    row: u64,
    /// Chunks of a stage.
    chunks: u64,
}

impl Rounds {
    pub fn of(job: &Job) -> Self {
        let batches = job.batch.accumulation;
        let row = in_a_row(job.profile.pipeline.interleaved.is, job.stages.len() as u64, batches);
        Self { batches, row, chunks: job.degrees.virtual_pipeline.max(1) }
    }

    /// Passes of one way in a step.
    pub const fn all(&self) -> u64 {
        self.batches.saturating_mul(self.chunks)
    }

    /// Passes forward that a stage makes before its first one backward, where `behind` others follow it (megatron-core,
    /// `get_pp_rank_microbatches`).
    pub fn warm_up(&self, behind: u64) -> u64 {
        (behind * 2 + (self.chunks - 1).saturating_mul(self.row)).min(self.all())
    }

    /// Passes of the `turn`-th chunk to run among the first `passes`.
    fn passed(&self, passes: u64, turn: u64) -> u64 {
        let round = self.row.saturating_mul(self.chunks).max(1);
        let whole = passes / round * self.row;
        let row = self.row.min(self.batches.saturating_sub(whole));
        whole + (passes % round).saturating_sub(turn * row).min(row)
    }

    /// The most that micro-batches under way hold on a stage, where a chunk's pass forward leaves as much as `bytes`
    /// says for it until its pass backward.
    pub fn most(&self, behind: u64, bytes: &[u64]) -> u64 {
        // From round to round it repeats, but for a last one of fewer.
        let (whole, rest) = (self.batches / self.row, self.batches % self.row);
        let few = Self { batches: whole.min(if rest == 0 { 3 } else { 4 }) * self.row + rest, ..*self };
        few.most_of_all(behind, bytes)
    }

    /// The same of all steps.
    fn most_of_all(&self, behind: u64, bytes: &[u64]) -> u64 {
        let warm_up = self.warm_up(behind);
        let of = |chunk: u64| {
            usize::try_from(chunk).ok().and_then(|chunk| bytes.get(chunk)).map_or(0, |one| u128::from(*one))
        };
        let first = (warm_up + 1).min(self.all());
        let mut held: u128 = (0..self.chunks).map(|chunk| of(chunk) * u128::from(self.passed(first, chunk))).sum();
        let mut most = held;
        // Each step one pass goes back, of the chunks in the other order, and one comes in while there are any.
        for step in 1..self.all() - warm_up {
            held = held.saturating_sub(of(self.chunks - 1 - self.turn(step - 1)));
            held += if warm_up + step < self.all() { of(self.turn(warm_up + step)) } else { 0 };
            most = most.max(held);
        }
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// Which chunk it is whose turn a pass is, counted from nought, with as many passes before it.
    fn turn(&self, pass: u64) -> u64 {
        let round = self.row.saturating_mul(self.chunks).max(1);
        let row = self.row.min(self.batches.saturating_sub(pass / round * self.row)).max(1);
        (pass % round / row).min(self.chunks - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::Rounds;

    /// Megatron's own example (get_schedule_table): five micro-batches, two chunks, three in a row go
    /// chunk 0: 0 1 2, chunk 1: 0 1 2, chunk 0: 3 4, chunk 1: 3 4.
    #[test]
    fn chunks_take_turns() {
        let rounds = Rounds { batches: 5, row: 3, chunks: 2 };
        let first: Vec<u64> = (0..=10).map(|passes| rounds.passed(passes, 0)).collect();
        assert_eq!(first, [0, 1, 2, 3, 3, 3, 3, 4, 5, 5, 5]);
        let second: Vec<u64> = (0..=10).map(|passes| rounds.passed(passes, 1)).collect();
        assert_eq!(second, [0, 0, 0, 0, 1, 2, 3, 3, 3, 4, 5]);
    }

    /// In every schedule that Megatron takes it is what the passes of each chunk come to, step by step.
    #[test]
    fn the_most_is_that_of_all_steps() {
        let bytes = [7, 100, 3, 41, 1000];
        let mut tried = 0;
        let schedules = (2..=4_u64).flat_map(|stages| (1..=12_u64).map(move |batches| (stages, batches)));
        let schedules = schedules.flat_map(|one| (1..=6_u64).map(move |row| (one, row)));
        for ((stages, batches), row) in schedules {
            if row < stages || row > batches || (batches % row != 0 && batches % row < stages) {
                continue;
            }
            for (behind, chunks) in (0..stages).flat_map(|behind| (1..=5_usize).map(move |chunks| (behind, chunks))) {
                let rounds = Rounds { batches, row, chunks: chunks as u64 };
                let warm_up = rounds.warm_up(behind);
                let held = |step: u64| -> u64 {
                    let forward = (warm_up + step + 1).min(rounds.all());
                    let chunk = |(chunk, bytes): (u64, &u64)| {
                        let back = rounds.passed(step, chunks as u64 - 1 - chunk);
                        bytes * (rounds.passed(forward, chunk) - back)
                    };
                    (0..).zip(&bytes[..chunks]).map(chunk).sum()
                };
                let all = (0..(rounds.all() - warm_up).max(1)).map(held).max().unwrap();
                assert_eq!(rounds.most(behind, &bytes[..chunks]), all, "{rounds:?}, {behind} behind");
                tried += 1;
            }
        }
        assert!(tried > 500, "{tried}");
    }

    /// The last of four stages, four micro-batches, two chunks: four passes of the first chunk, then each pass of the
    /// second is followed by its own way back. Four of the first and one of the second are there.
    #[test]
    fn chunks_that_differ_count_each_for_itself() {
        let rounds = Rounds { batches: 4, row: 4, chunks: 2 };
        assert_eq!(rounds.warm_up(0), 4);
        assert_eq!(rounds.most(0, &[100, 1]), 401);
        // The first stage makes six more before its first way back: seven and four of eight passes.
        assert_eq!(rounds.most(3, &[100, 1]), 404);
        // All in the warm-up.
        assert_eq!(Rounds { batches: 2, row: 2, chunks: 2 }.most(1, &[100, 1]), 202);
    }
}
