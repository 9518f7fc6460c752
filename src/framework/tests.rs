use super::Profile;
use crate::plan::keywords::{Engine, Framework, Precision, Sharding, TransformerImpl};

fn all() -> impl Iterator<Item = &'static Profile> {
    let implementations = [TransformerImpl::TransformerEngine, TransformerImpl::Local];
    Framework::ALL.iter().flat_map(move |framework| implementations.map(|one| Profile::of(*framework, one)))
}

/// Each rule names a document, and a file in it, that a reader can open.
#[test]
fn every_rule_has_a_source_that_can_be_opened() {
    for profile in all() {
        let text = format!("{profile:?}");
        let sources: Vec<&str> = text.split("source: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(sources.len() > 50, "{}: {} rules", profile.name(), sources.len());
        for source in sources {
            let named = [".py", ".cpp", ".h", ".sh", ".slurm", "arXiv ", "core/", "perf_recipes", "torch/"];
            assert!(named.iter().any(|part| source.contains(part)), "{}: {source}", profile.name());
        }
    }
}

/// The three plans on many ranks that two predicates once took for three engines.
#[test]
fn the_engine_does_not_hang_on_the_precision() {
    let engines = &Profile::standard().data_parallel;
    for precision in [Precision::Bf16Mixed, Precision::Fp32, Precision::Tf32, Precision::Bf16] {
        for sharding in [Sharding::Zero2, Sharding::Zero3] {
            assert_eq!(engines.derived(sharding, precision).is, Engine::Fsdp1, "{sharding} in {precision}");
        }
    }
    // FSDP has no stage that shards states alone, and no fp32 masters beside 16-bit weights.
    assert_eq!(engines.derived(Sharding::Zero1, Precision::Bf16Mixed).is, Engine::Deepspeed);
    assert_eq!(engines.derived(Sharding::Zero3, Precision::Fp16Fp32Master).is, Engine::Deepspeed);
}

#[test]
fn a_derived_engine_can_do_what_it_is_derived_for() {
    for profile in all() {
        let rules = &profile.data_parallel;
        for sharding in Sharding::ALL {
            for precision in Precision::ALL {
                let engine = rules.derived(*sharding, *precision).is;
                let name = profile.name();
                assert!(rules.engines.is.contains(&engine), "{name} does not run under {engine}");
                assert!(engine.shardings().contains(sharding), "{name}: {engine} for {sharding}");
            }
        }
    }
}
