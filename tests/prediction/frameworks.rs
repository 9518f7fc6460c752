//! Engines, and the two frameworks that came in as data, against arithmetic from their code.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};

fn tried(plan: &str) -> Result<Prediction, String> {
    let plan = Document::parse(plan).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).map_err(|faults| faults.iter().map(|fault| format!("{fault}\n")).collect())
}

/// Layers of 4 x 1024^2 + 3 x 1024 x 2816 + 2 x 1024 parameters, twelve of them, 2 x 32 768 x 1024 of the ends and a
/// norm of 1024: 221 406 208.
const PARAMETERS: u64 = 12 * (4 * 1024 * 1024 + 3 * 1024 * 2816 + 2 * 1024) + 2 * 32_768 * 1024 + 1024;

fn plan(framework: &str, training: &str, ranks: u64, distribution: &str) -> String {
    format!(
        "{{model: {{framework: {framework}, type: transformer, sequence_length: 64, architecture: {{hidden_size: 1024,
         num_layers: 12, num_attention_heads: 16, intermediate_size: 2816, vocab_size: 32768,
         vocab_padding_multiple: 128, activation: swiglu, norm: rmsnorm, linear_bias: false,
         tie_embeddings: false}}}},
         training: {{micro_batch_size: 1{training}}}, hardware: {{library_workspaces: false}},
         cluster: {{num_gpus: {ranks}}}, distribution: {{data_parallel: {ranks}{distribution}}}}}"
    )
}

fn near(bytes: u64, expected: u64) {
    let off = bytes.abs_diff(expected) as f64 / expected as f64;
    assert!(off < 0.01, "{bytes}, not {expected}");
}

fn weights(prediction: &Prediction) -> u64 {
    let terms = &prediction.largest().terms;
    terms.iter().filter(|term| term.name == "weights" || term.name == "parameters").map(|term| term.bytes.0).sum()
}

fn engine_line(prediction: &Prediction) -> Option<&String> {
    prediction.assumptions.iter().find(|line| line.starts_with("distribution.engine: "))
}

/// On 64 ranks the second stage of FSDP shares weights out as its third does, whatever they are stored in: at rest each
/// rank holds a 64th of 4 bytes a parameter, and of two fp32 states. DeepSpeed's leaves 4 bytes of each.
#[test]
fn the_engine_is_derived_alike_in_every_precision_and_said() {
    for precision in ["bf16-mixed", "fp32"] {
        let training = format!(", precision: {precision}, optimizer: adamw-fused");
        let fsdp = tried(&plan("pytorch", &training, 64, ", sharding: zero2")).unwrap();
        near(fsdp.largest().static_bytes.0, PARAMETERS * 12 / 64);
        let line = engine_line(&fsdp).unwrap();
        assert!(line.contains("fsdp1 (from framework pytorch, sharding zero2"), "{line}");
        let deepspeed = tried(&plan("pytorch", &training, 64, ", sharding: zero2, engine: deepspeed")).unwrap();
        near(deepspeed.largest().static_bytes.0, PARAMETERS * 4 + PARAMETERS * 8 / 64);
        assert_eq!(engine_line(&deepspeed), None, "given, not assumed");
    }
}

#[test]
fn an_engine_that_cannot_do_it_is_a_fault() {
    let fault = |framework: &str, distribution: &str| tried(&plan(framework, "", 8, distribution)).err();
    let of = |framework: &str, distribution: &str| fault(framework, distribution).unwrap_or_default();
    let other = of("pytorch", ", engine: megatron");
    assert!(other.contains("pytorch runs under ddp, fsdp1, fsdp2 or deepspeed"), "{other}");
    let stage = of("pytorch", ", engine: ddp, sharding: zero3");
    assert!(stage.contains("ddp shares out none or zero1; distribution.sharding is zero3"), "{stage}");
    // An engine alone means what it does by itself.
    let sharded = tried(&plan("pytorch", ", precision: fp32, optimizer: adamw-fused", 8, ", engine: fsdp2")).unwrap();
    near(sharded.largest().static_bytes.0, PARAMETERS * 12 / 8);
}

/// LitGPT under autocast: fp32 weights and two fp32 states; no gradients between steps, as each is set to None.
#[test]
fn litgpt_is_one_file() {
    let prediction = tried(&plan("litgpt", "", 1, "")).unwrap();
    assert_eq!(prediction.params.total, PARAMETERS);
    near(prediction.largest().static_bytes.0, PARAMETERS * 12);
    // Every chunk's log-probabilities stay (litgpt/utils.py, chunked_cross_entropy).
    let logits = prediction.largest().terms.iter().find(|term| term.name == "logits and loss");
    assert!(logits.is_none_or(|term| term.source.contains("litgpt/utils.py")), "{logits:?}");
    let sharded = tried(&plan("litgpt", "", 8, ", sharding: zero3")).unwrap();
    assert!(engine_line(&sharded).unwrap().contains("fsdp1"), "{:?}", engine_line(&sharded));
}

/// DeepSpeed's bf16 optimizer, with which BLOOM was trained (deepspeed/runtime/bf16_optimizer.py): bf16 weights (2), their
/// bf16 gradients, which are not cleared (2), and an fp32 gradient for each (4) stay on every rank; fp32 masters and
/// two states (12) are shared out.
#[test]
fn megatron_deepspeed_keeps_two_gradients() {
    let run = |ranks: u64| tried(&plan("megatron-deepspeed", "", ranks, ", sharding: zero1")).unwrap();
    near(run(8).largest().static_bytes.0, PARAMETERS * 8 + PARAMETERS * 12 / 8);
    near(run(64).largest().static_bytes.0, PARAMETERS * 8 + PARAMETERS * 12 / 64);
    assert!(engine_line(&run(8)).unwrap().contains("deepspeed"));
    let refused = tried(&plan("megatron-deepspeed", "", 8, ", engine: fsdp2")).unwrap_err();
    assert!(refused.contains("megatron-deepspeed runs under deepspeed"), "{refused}");
}

#[test]
fn weights_of_a_plan_with_an_engine_are_those_of_its_sharding() {
    let whole = tried(&plan("pytorch", ", precision: fp32", 8, ", engine: deepspeed, sharding: zero1")).unwrap();
    near(weights(&whole), PARAMETERS * 4);
}

/// `--position-embedding-type` of Megatron-LM (megatron/training/arguments.py) has no `alibi`; that of BigScience's
/// Megatron-DeepSpeed has, whose default precision is BLOOM's, bf16 with fp32 masters.
#[test]
fn alibi_under_megatron_is_the_forks() {
    let positions = |framework: &str, position: &str| {
        let plan = plan(framework, ", precision: bf16-fp32-master", 8, ", sharding: zero1");
        tried(&plan.replace("linear_bias: false", &format!("linear_bias: false, position: {position}"))).unwrap()
    };
    let [megatron, fork] = ["megatron", "megatron-deepspeed"].map(|framework| positions(framework, "alibi"));
    assert_eq!(megatron.largest().static_bytes, fork.largest().static_bytes);
    assert_eq!(megatron.time.step, fork.time.step);
    let said = |prediction: &Prediction| {
        prediction.assumptions.iter().any(|line| line.starts_with("model.framework: megatron-deepspeed"))
    };
    assert!(said(&megatron) && !said(&fork) && !said(&positions("megatron", "rope")));
}
