//! The plan file as a whole: reading, faults, editing.

mod contract;
mod editing;
mod layouts;
mod reading;
mod texts;
