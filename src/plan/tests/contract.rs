//! Every key of the contract reads, with the value that the contract shows.

use crate::plan::keywords::*;
use crate::plan::{Checkpointing, Document, HfConfig, Plan};

const SAMPLE: &str = include_str!("contract.yaml");
const FURTHER: &str = include_str!("further.yaml");

fn plan(text: &str) -> Plan {
    Document::parse(text).unwrap().plan().unwrap_or_else(|faults| panic!("{faults:#?}"))
}

#[test]
fn the_sample_of_the_contract() {
    let plan = plan(SAMPLE);
    assert_eq!(plan.model.hf_config, Some(HfConfig::Path("path/to/config.json".into())));
    assert_eq!(plan.model.preset.as_deref(), Some("llama-3-8b"));
    assert_eq!(plan.model.architecture, None, "an empty mapping says nothing");
    assert_eq!(plan.model.size_billions, Some(13.0));
    assert_eq!(plan.model.model_type, Some(ModelType::TransformerDecoder));
    assert_eq!(plan.model.batch_size, Some(32));
    assert_eq!(plan.model.framework, Some(Framework::Pytorch));
    assert_eq!(plan.training.precision, Some(Precision::Bf16Mixed));
    assert_eq!(plan.training.activation_checkpointing, Some(Checkpointing::None));
    assert_eq!(plan.training.cpu_offload, Some(CpuOffload::None));
    let lora = plan.training.lora.unwrap();
    assert_eq!(lora.rank, Some(16));
    assert_eq!(lora.targets, Some(vec!["q_proj".into(), "v_proj".into()]));
    assert_eq!(plan.training.frozen, Some(vec![]));
    assert_eq!(plan.hardware.custom, None);
    assert_eq!(plan.hardware.memory_limit_gb, Some(40.0));
    assert_eq!(plan.cluster.interconnect.as_deref(), Some("nvlink_5"));
    assert_eq!(plan.distribution.strategy, Some(Strategy::Hybrid));
    assert_eq!(plan.distribution.sharding, Some(Sharding::None));
    assert_eq!(plan.distribution.pipeline_schedule, Some(Schedule::OneFOneB));
    assert_eq!(plan.run.total_tokens, Some(2.0e11));
    assert_eq!(plan.run.price_per_gpu_hour, Some(2.5));
    assert_eq!(plan.analysis.enable_bottlenecks, Some(true));
    assert_eq!(plan.analysis.basic_mode, Some(false));
}

#[test]
fn the_further_keys_of_the_contract() {
    let plan = plan(FURTHER);
    assert_eq!(plan.model.transformer_impl, Some(TransformerImpl::Local));
    assert_eq!(
        plan.training.activation_checkpointing,
        Some(Checkpointing::Modules(vec![
            RecomputeModule::CoreAttn,
            RecomputeModule::Mlp,
            RecomputeModule::MoeAct,
            RecomputeModule::Layernorm,
            RecomputeModule::MlaUpProj
        ]))
    );
    assert_eq!(plan.training.fp8_recipe, Some(Fp8Recipe::Mxfp8));
    assert_eq!(plan.training.gradient_clipping, Some(true));
    let lora = plan.training.lora.unwrap();
    assert_eq!((lora.base_bits, lora.double_quant), (Some(4), Some(true)));
    let custom = plan.hardware.custom.unwrap();
    assert_eq!(
        (custom.fp32, custom.tf32, custom.bf16, custom.fp8),
        (Some(60.0), Some(400.0), Some(800.0), Some(1.6e3))
    );
    assert_eq!(plan.distribution.pipeline_layout.as_deref(), Some("Et*3|(tt|)*6mL"));
    let architecture = plan.model.architecture.unwrap();
    assert_eq!(architecture.stages, Some(vec![3, 4, 6, 3]));
    assert_eq!(architecture.moe.unwrap().shared_intermediate_size, Some(512));
    assert_eq!(architecture.mla.unwrap().kv_lora_rank, Some(512));
}

/// The two texts together hold each key of the schema: none is missing there, and none
/// stands there that the schema lacks (they read without faults).
#[test]
fn the_schema_is_the_contracts() {
    let documents = [Document::parse(SAMPLE).unwrap(), Document::parse(FURTHER).unwrap()];
    for key in crate::plan::schema::keys() {
        let held = documents.iter().any(|document| document.node(key.path).is_some());
        // One of three alone may stand there.
        let instead = ["training.activation_checkpointing.every", "training.activation_checkpointing.classes"];
        assert!(held || instead.contains(&key.path), "{}", key.path);
    }
}

/// A field that its key does not fill would be `None` in both.
#[test]
fn every_key_fills_its_own_field() {
    for key in crate::plan::schema::keys().iter().filter(|key| !key.kind.holds_keys()) {
        for text in [SAMPLE, FURTHER] {
            let document = Document::parse(text).unwrap();
            if document.node(key.path).is_none() {
                continue;
            }
            let without = document.without(key.path).unwrap();
            assert_ne!(document.plan(), without.plan(), "{}", key.path);
        }
    }
}
