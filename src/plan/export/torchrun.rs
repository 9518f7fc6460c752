//! The command that starts a plan's run.

use super::shape::ExportDegrees;
use super::{ExportedPlan, megatron};
use crate::catalog::Catalog;
use crate::plan::keys::Plan;
use crate::plan::keywords::Framework;

/// torchrun with the program of the plan's framework.
pub fn command(plan: &Plan, catalog: &Catalog) -> ExportedPlan {
    let degrees = ExportDegrees::of(plan);
    let mut notes = Vec::new();
    let mut lines = vec!["torchrun".to_owned(), format!("--nproc-per-node {}", degrees.per_node)];
    if degrees.nodes > 1 {
        lines.push(format!("--nnodes {}", degrees.nodes));
        lines.push("--rdzv-backend c10d --rdzv-endpoint \"$MASTER_ADDR:29500\"".to_owned());
    } else {
        lines.push("--standalone".to_owned());
    }
    match plan.model.framework {
        Some(Framework::Megatron) => {
            let (arguments, unsaid) = megatron::lines(plan, catalog);
            lines.push("pretrain_gpt.py".to_owned());
            lines.extend(arguments);
            notes.extend(unsaid);
        }
        Some(Framework::Torchtitan) => {
            lines.push("-m torchtitan.train --job.config_file plan.toml".to_owned());
            notes.push("plan.toml: `memwall export PLAN --to torchtitan`".to_owned());
        }
        _ => {
            lines.push("train.py".to_owned());
            notes.push("train.py: the plan's framework takes its settings from the script".to_owned());
        }
    }
    ExportedPlan { text: format!("{}\n", lines.join(" \\\n    ")), notes, refused: None }
}
