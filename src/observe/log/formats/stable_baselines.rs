//! Stable-Baselines3's tables (`HumanOutputFormat` in stable_baselines3/common/logger.py):
//!
//! ```text
//! ------------------------------------
//! | time/              |             |
//! |    total_timesteps | 4096        |
//! | train/             |             |
//! |    loss            | 31.5        |
//! |    n_updates       | 10          |
//! ------------------------------------
//! ```
//!
//! `n_updates` counts optimizer steps, but for algorithms with a clipped objective: there it counts epochs of updates
//! (`PPO.train` in stable_baselines3/ppo/ppo.py), and nothing in the table counts steps.

use super::super::facts::{LineFacts, LineFormat, count, leading_number};
use crate::reading::LogFormat;

/// No table has more rows.
const MOST: usize = 100;

/// Rows of a table until its end.
#[derive(Default)]
pub struct StableBaselines {
    rows: Vec<(String, f64)>,
}

impl LineFormat for StableBaselines {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let line = line.trim();
        if line.len() > 4 && line.bytes().all(|byte| byte == b'-') {
            let rows = std::mem::take(&mut self.rows);
            return facts(&rows);
        }
        let Some(inside) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            self.rows.clear();
            return None;
        };
        let (name, value) = inside.split_once('|')?;
        if let Some(value) = leading_number(value).filter(|_| self.rows.len() < MOST) {
            self.rows.push((name.trim().to_owned(), value));
        }
        None
    }
}

fn facts(rows: &[(String, f64)]) -> Option<LineFacts> {
    let of = |name: &str| rows.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    of("total_timesteps")?;
    let is_clipped = of("clip_range").is_some() || of("clip_fraction").is_some();
    let step = of("n_updates").filter(|_| !is_clipped).and_then(count);
    let facts = LineFacts { step, loss: of("loss"), ..LineFacts::default() };
    (facts.step.is_some() || facts.loss.is_some()).then_some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &[&str]) -> Vec<(Option<u64>, Option<f64>)> {
        let mut table = StableBaselines::default();
        rows.iter().filter_map(|row| table.read(row)).map(|facts| (facts.step, facts.loss)).collect()
    }

    #[test]
    fn updates_are_steps_where_no_objective_is_clipped() {
        let line = "-----------------------------";
        let ppo = [
            line,
            "| time/              |      |",
            "|    total_timesteps | 4096 |",
            "| train/             |      |",
            "|    clip_range      | 0.2  |",
            "|    loss            | 31.5 |",
            "|    n_updates       | 10   |",
            line,
        ];
        assert_eq!(read(&ppo), [(None, Some(31.5))]);
        let sac = [
            line,
            "|    total_timesteps | 4096 |",
            "|    actor_loss      | -3.5 |",
            "|    n_updates       | 3995 |",
            line,
        ];
        assert_eq!(read(&sac), [(Some(3995), None)]);
        // Before the first update, and tables of other things.
        assert!(read(&[line, "|    total_timesteps | 2048 |", line]).is_empty());
        assert!(read(&[line, "| loss | 2.0 |", line]).is_empty());
        assert!(read(&["|    total_timesteps | 2048 |", "other words", "| loss | 2.0 |", line]).is_empty());
    }
}
