//! Plots as files: SVG, PNG or PDF by the file's ending; without a file, in letters.

use std::path::Path;

use super::{Exit, Failure, Streams, graphics, output};
use crate::report::plot::{Plot, drawing};

/// Endings of pictures.
const ENDINGS: [&str; 3] = ["svg", "png", "pdf"];

/// Whether a file's ending asks for a picture.
pub fn is_picture(file: Option<&Path>) -> bool {
    file.is_some_and(|file| ENDINGS.contains(&ending(file).as_str()))
}

fn ending(file: &Path) -> String {
    file.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// Writes the plots below each other into the file that its ending says; without one onto the terminal, as a picture
/// where it can show one, else in letters.
pub fn deliver(plots: &[Plot], file: Option<&Path>, streams: &mut Streams) -> Result<Exit, Failure> {
    if plots.is_empty() {
        return Err(Failure::usage("there is nothing to plot"));
    }
    let drawn = drawing(plots);
    let picture = match file.map(ending).as_deref() {
        Some("svg") => Ok(drawn.svg().into_bytes()),
        Some("png") => drawn.png(),
        Some("pdf") => drawn.pdf(),
        _ => {
            let page = output::page(file);
            if let Some(shown) = file.is_none().then(|| graphics::shown(&drawn)).flatten() {
                return Ok(streams.print(shown));
            }
            let each: Vec<String> = plots.iter().map(|plot| plot.text(page.width, false)).collect();
            return Ok(streams.deliver(file, page.show(&each.join("\n"))));
        }
    };
    Ok(streams.deliver(file, picture.map_err(Failure::failed)?))
}
