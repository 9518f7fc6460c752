//! Settings under the names that they have today, with what older names tell of the defaults of their time.

use serde_json::Value;

use super::known::RENAMED;
use crate::origin::Origin;
use crate::rows::usual;
use crate::settings::Settings;

/// Everything under the name that it has today.
pub(super) fn renamed(old: &Settings) -> Settings {
    let mut settings = Settings::default();
    for (name, found) in old.iter() {
        let now = RENAMED.iter().find(|(before, _)| *before == name).map_or(name, |(_, now)| *now);
        // `--compile.no-enable` turns off what a file turns on.
        let off =
            now.rsplit_once('.').and_then(|(section, name)| Some(format!("{section}.{}", name.strip_prefix("no_")?)));
        match off {
            Some(name) => settings.set(&name, Value::Bool(false), found.origin.clone()),
            None => settings.adopt(now, old, name),
        }
    }
    // `--optimizer.fused` was a switch that is off by default, when the degrees of data parallelism had these names
    // (`optimizer.py`, `build_optimizers`: foreach).
    const OF_2024: [&str; 3] = [
        "training.data_parallel_degree",
        "training.data_parallel_shard_degree",
        "training.data_parallel_replicate_degree",
    ];
    let told = settings.holds("optimizer.fused") || settings.holds("optimizer.implementation");
    if OF_2024.iter().any(|name| old.holds(name)) && !told {
        let origin = Origin::Default { framework: "torchtitan of 2024", option: "optimizer.fused false".to_owned() };
        settings.set("optimizer.fused", Value::Bool(false), origin);
    }
    // `parallelisms/pipelining_utils.py`: as many pieces as there are stages, where the degree had this name.
    const PIECES: &str = "parallelism.pipeline_parallel_microbatches";
    let told = settings.holds(PIECES) || settings.holds("parallelism.pipeline_parallel_microbatch_size");
    if let Some(stages) = old.whole("experimental.pipeline_parallel_degree").filter(|found| found.value > 1)
        && !told
    {
        let option = "as many micro batches as stages".to_owned();
        let origin = Origin::Default { framework: "torchtitan of 2024", option };
        settings.set(PIECES, stages.value.into(), origin);
    }
    // `models/norms.py`, `build_norm`: written out, as its layers are counted.
    usual(&settings, "model.norm_type", &["rmsnorm"]);
    settings
}
