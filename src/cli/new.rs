//! `memwall new`: a plan from nothing.

use std::path::Path;

use super::args::NewArgs;
use super::import::{self, OpenedPlan};
use super::infer::{gpus, save_new};
use super::{Exit, Failure, Streams, output};
use crate::app::{USUAL_GPU, text_of_new_plan};
use crate::catalog::Catalog;
use crate::order::StableOrder;
use crate::plan::{EMPTY_TEXT, EXAMPLES};

/// Names that are told where none is known.
const NEAREST: usize = 5;

pub fn run(args: &NewArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let text = text(args, catalog)?;
    let Some(path) = &args.save else { return Ok(streams.print(output::yaml_on_page(&text))) };
    save_new(path, &text)?;
    Ok(streams.print(format!("saved {}\n", path.display())))
}

fn text(args: &NewArgs, catalog: &Catalog) -> Result<String, Failure> {
    let Some(from) = &args.from else { return Ok(EMPTY_TEXT.to_owned()) };
    let path = Path::new(from);
    if path.is_file() {
        return match import::to_edit(path, catalog)? {
            OpenedPlan::Text(text) => Ok(text),
            OpenedPlan::Import(import) => Ok(import.plan.document.text().to_owned()),
        };
    }
    let gpu = match &args.gpu_type {
        Some(name) => catalog
            .gpu(name)
            .ok_or_else(|| Failure::usage(format!("--gpu-type: no GPU `{name}`; `memwall gpus` lists them")))?,
        None => {
            let seen = gpus(catalog);
            let known = seen.iter().find_map(|name| catalog.gpu(name)).or_else(|| catalog.gpu(USUAL_GPU));
            known.ok_or_else(|| Failure::failed(format!("the catalogue has no {USUAL_GPU}")))?
        }
    };
    match text_of_new_plan(from, &gpu.name, args.gpus, catalog) {
        Some((_, text)) => Ok(text),
        None => Err(Failure::usage(format!("no model, template or file `{from}`; near: {}", near(from, catalog)))),
    }
}

/// The names that are most like a word.
fn near(word: &str, catalog: &Catalog) -> String {
    let templates = EXAMPLES.iter().map(|(name, _)| *name);
    let mut names: Vec<&str> = catalog.models.iter().map(|model| model.name.as_str()).chain(templates).collect();
    names.order_by(|one, other| strsim::jaro_winkler(other, word).total_cmp(&strsim::jaro_winkler(one, word)));
    names.truncate(NEAREST);
    names.join(", ")
}
