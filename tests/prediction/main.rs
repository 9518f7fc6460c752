//! What is predicted and what follows from it: models, memory, time, advice, searches and explanations, held against
//! measured cases, frameworks' code and arithmetic written out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod absent_keys;
mod accounts;
mod accumulation;
mod accuracy;
mod adapters;
mod advice;
mod belongs;
mod beside;
mod bounds;
mod brute;
mod catalog;
mod claims;
mod classes;
mod consistency;
mod convolutions;
mod cut_apart;
mod delta;
mod divided;
mod encoders;
mod explain;
mod families;
mod frameworks;
mod frozen;
mod inference;
mod kinds;
mod laws;
mod layers;
mod liger;
mod limits;
mod losses;
mod operands;
mod properties;
mod recomputed;
mod reserved;
mod roofline;
mod rows;
mod saved_again;
mod scale;
mod search;
mod search_limits;
mod sharding;
mod sight;
mod speed;
mod state_space;
mod sweep;
mod traced;
mod truth;
mod walks;
mod words;
