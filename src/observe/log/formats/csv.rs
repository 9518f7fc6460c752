//! Logs of columns: a line of names, `step,loss,lr,sec_per_step`, and a line of numbers for each step, parted by commas,
//! semicolons or tabs, as `csv.writer` and Lightning's `CSVLogger` write them.

use super::super::facts::{LineFacts, LineFormat};
use super::json::{LOSS, STEP, facts};
use crate::reading::LogFormat;

/// No table that matters has more columns.
const MOST: usize = 200;

/// Lines of numbers below a line of names.
#[derive(Default)]
pub struct Columns {
    /// The newest names that have a step and a loss among them, and what parts them.
    names: Option<(char, Vec<String>)>,
}

impl LineFormat for Columns {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    // A comma parts columns here, and no thousands.
    fn reads_as_written(&self) -> bool {
        true
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        if let Some((between, names, is_table)) = names(line) {
            // A table without a loss ends the one before it.
            self.names = is_table.then_some((between, names));
            return None;
        }
        let (between, names) = self.names.as_ref()?;
        let cells: Vec<&str> = line.trim_end().split(*between).map(str::trim).collect();
        // `3,141` may be a number.
        if cells.len() != names.len() || cells.len() < 3 && !line.contains('.') {
            return None;
        }
        // A cell without a number is one that this step does not tell.
        let fields: Option<Vec<(String, f64)>> = names
            .iter()
            .zip(&cells)
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(name, cell)| Some((name.clone(), cell.parse().ok()?)))
            .collect();
        facts(&fields?)
    }
}

/// A line of names with a step among them, and whether a loss is there too.
fn names(line: &str) -> Option<(char, Vec<String>, bool)> {
    let between = [',', ';', '\t'].into_iter().find(|between| line.contains(*between))?;
    let cells: Vec<String> = line.trim().split(between).map(|name| name.trim().trim_matches('"').to_owned()).collect();
    let is_name = |name: &String| {
        let good = |letter: char| letter.is_ascii_alphanumeric() || "_/-. ()%".contains(letter);
        name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(good)
    };
    let has = |known: &[&str]| cells.iter().any(|cell| known.contains(&cell.as_str()));
    let (is_header, has_loss) = (cells.len() <= MOST && cells.iter().all(is_name) && has(&STEP), has(&LOSS));
    is_header.then_some((between, cells, has_loss))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Seconds;

    #[test]
    fn numbers_below_their_names() {
        let mut columns = Columns::default();
        assert_eq!(columns.read("232,2.7785,0.001,0.11"), None, "no names so far");
        assert_eq!(columns.read("step,loss,lr,sec_per_step"), None);
        let facts = columns.read("232,2.7785,0.001,0.11").unwrap();
        assert_eq!((facts.step, facts.loss, facts.step_time), (Some(232), Some(2.7785), Some(Seconds(0.11))));
        // 2 with a loss of 778, and not 2 778.
        assert_eq!(columns.read("2,778,0.001,0.11").unwrap().step, Some(2));
        for line in ["1,2", "a,b,c,d", "232,2.7785,0.001,fast", "saved step, loss and lr, all of it"] {
            assert_eq!(columns.read(line), None, "{line}");
        }
    }

    #[test]
    fn a_table_of_an_evaluation_ends_the_one_before() {
        let mut columns = Columns::default();
        columns.read("step,loss");
        assert_eq!(columns.read("200,2.4").unwrap().loss, Some(2.4));
        assert_eq!(columns.read("3,141"), None, "a number perhaps");
        columns.read("step,val_loss");
        assert_eq!(columns.read("200,3.9"), None);
    }

    #[test]
    fn a_cell_that_is_empty_is_not_told() {
        // Lightning's CSVLogger writes a line for an evaluation as well (lightning/fabric/loggers/csv_logs.py).
        let mut columns = Columns::default();
        columns.read("epoch,step,train_loss_step,val_loss");
        assert_eq!(columns.read("0,49,2.25,").map(|facts| (facts.step, facts.loss)), Some((Some(49), Some(2.25))));
        assert_eq!(columns.read("0,49,,2.5"), None);
        assert_eq!(columns.read("epoch;step;loss"), None);
        assert_eq!(columns.read("1;60;0.5").unwrap().step, Some(60));
    }
}
