//! What a plan for a CPU may say, and what it means there.

use super::{Degrees, Hardware, Notes, Training};
use crate::catalog::Generation;
use crate::plan::Plan;
use crate::plan::keys;
use crate::plan::keywords::{CpuOffload, Optimizer, Precision};

/// Decides what PyTorch does otherwise without a GPU, and refuses what it cannot do.
pub(super) fn resolve(
    plan: &Plan,
    (hardware, degrees): (&Hardware, &Degrees),
    training: &mut Training,
    notes: &mut Notes,
) {
    if hardware.gpu.generation != Generation::Cpu {
        return;
    }
    if degrees.num_gpus > 1 {
        notes.fault(keys::cluster::num_gpus, "a CPU is one device: plans of several processes on it are not predicted");
    }
    if training.cpu_offload != CpuOffload::None {
        notes.fault(keys::training::cpu_offload, "has no meaning on a CPU: everything is in its memory");
    }
    match plan.training.precision {
        Some(Precision::Fp32 | Precision::Bf16 | Precision::Bf16Mixed) => {}
        Some(other) => {
            notes.fault(keys::training::precision, format!("{other}: a CPU is predicted in fp32, bf16 and bf16-mixed"))
        }
        None => notes.fault(keys::training::precision, "must be given on a CPU: fp32, bf16 or bf16-mixed"),
    }
    match training.optimizer {
        // On a CPU neither foreach nor fused is PyTorch's choice (torch/optim/optimizer.py,
        // `_default_to_fused_or_foreach`: foreach for tensors on `_get_foreach_kernels_supported_devices` alone).
        Optimizer::Adamw => {
            training.optimizer = Optimizer::AdamwLoop;
            notes.assume(keys::training::optimizer, "adamw goes tensor by tensor on a CPU (PyTorch's default there)");
        }
        Optimizer::Adamw8bit => notes.fault(keys::training::optimizer, "adamw-8bit: its kernels are for GPUs"),
        _ => {}
    }
    if training.dropout.is_some_and(|dropout| dropout > 0.0) {
        notes.assume(keys::training::dropout, "a CPU keeps masks as floats: 3 bytes an element more than counted here");
    }
    if training.compile {
        notes
            .assume(keys::training::compile, "Inductor's loops on a CPU were not measured: times are those without it");
    }
    for (given, key) in [
        (plan.hardware.power_limit_w.is_some(), "hardware.power_limit_w"),
        (plan.hardware.library_workspaces.is_some(), "hardware.library_workspaces"),
        (plan.training.cuda_graph.is_some(), "training.cuda_graph"),
        (plan.cluster.interconnect.is_some(), "cluster.interconnect"),
        (plan.cluster.network.is_some(), "cluster.network"),
    ] {
        if given {
            notes.assume(key, "has no meaning on a CPU");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::Catalog;
    use crate::plan::Document;
    use crate::predict::Job;

    /// A host of 16 GiB that reaches 100 GFLOP/s and holds 300 MiB before it has a model.
    const HOST: &str = "
sources: {m: a test}
gpus:
- {name: CPU, short: CPU, vendor: cpu, architecture: cpu, sm_count: {value: 2, source: m},
   memory_gib: {value: 16, source: m}, bandwidth_gb_s: {value: 20, source: m},
   peak_tflops: {source: m, fp32: 0.1, bf16: 0.1}, link: pcie_4, process_mib: {source: m, torch: 200, transformers: 300}}
";

    fn resolved(training: &str, rest: &str) -> Result<Job, String> {
        let mut catalog = Catalog::embedded().unwrap();
        catalog.extend("host", HOST).unwrap();
        let text = format!(
            "model: {{preset: gpt2, batch_size: 2, sequence_length: 128}}\ntraining: {{{training}}}\nhardware: {{gpu_type: cpu}}\n{rest}"
        );
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        Job::resolve(&plan, &catalog).map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_a_cpu_cannot_do_is_refused_by_its_key() {
        for (training, rest, key) in [
            ("precision: fp16", "", "training.precision"),
            ("precision: fp8-mixed", "", "training.precision"),
            ("optimizer: sgd", "", "training.precision"),
            ("precision: fp32, optimizer: adamw-8bit", "", "training.optimizer"),
            ("precision: fp32, cpu_offload: optimizer", "", "training.cpu_offload"),
            ("precision: fp32", "cluster: {num_gpus: 2}", "cluster.num_gpus"),
        ] {
            let told = resolved(training, rest).unwrap_err();
            assert!(told.contains(key), "{training} {rest}: {told}");
        }
    }

    /// Saved by one layer's attention of 4 samples, 8 heads of 32 and 128 tokens in fp32, tensor by tensor: `q`, output and,
    /// with 4 heads of keys, half of it for `k` and `v` each, and 4 bytes a row. PyTorch 2.9.1's own count of the whole model's
    /// saved storages was 45.03 MiB. Its kernel takes no dropout, and scores are written then.
    #[test]
    fn attention_is_fused_without_dropout_on_a_cpu_too() {
        let mut catalog = Catalog::embedded().unwrap();
        catalog.extend("host", HOST).unwrap();
        let saved = |model: &str, dropout: &str| {
            let text = format!(
                "model: {{hf_config: {{{model}, vocab_size: 2000}}, batch_size: 4, sequence_length: 128}}\n\
                 training: {{precision: fp32{dropout}}}\nhardware: {{gpu_type: cpu}}\n"
            );
            let plan = Document::parse(&text).unwrap().plan().unwrap();
            let prediction = crate::predict::predict(&Job::resolve(&plan, &catalog).unwrap());
            prediction.saved_by_layers()
        };
        let llama = "model_type: llama, architectures: [LlamaForCausalLM], hidden_size: 256, intermediate_size: 688, \
                     num_hidden_layers: 4, num_attention_heads: 8, num_key_value_heads: 4, max_position_embeddings: 512, \
                     tie_word_embeddings: false";
        let whole = saved(llama, "").as_f64() / f64::from(1 << 20);
        assert!((whole - 45.03).abs() < 45.03 * 0.02, "{whole}");
        let gpt2 = "model_type: gpt2, n_embd: 256, n_layer: 4, n_head: 8";
        // Softmax, mask (a byte an element) and what the mask left: (4 + 1 + 4) x 4 x 8 x 128 x 128 a layer, at least.
        let scores = 4.0 * 9.0 * f64::from(4 * 8 * 128 * 128);
        assert!(saved(gpt2, "").as_f64() - saved(gpt2, ", dropout: 0.0").as_f64() > scores);
    }

    #[test]
    fn device_used_is_the_process_with_its_tensors() {
        let job = resolved("precision: fp32, dropout: 0.0", "").unwrap();
        let prediction = crate::predict::predict(&job);
        let stage = prediction.largest();
        // transformers' 300 MiB; neither a context nor a cuBLAS workspace.
        assert_eq!(stage.device_used.0 - stage.peak_reserved.0, 300 << 20);
        assert!(stage.terms.iter().all(|term| term.name != "CUDA context" && term.name != "library workspaces"));
        // 124,439,808 parameters in fp32, two states each, tensor by tensor.
        let states = stage.terms.iter().find(|term| term.name == "optimizer states").unwrap();
        assert!(states.bytes.0 >= 2 * 4 * 124_439_808, "{}", states.bytes);
        assert!(job.assumptions.iter().any(|line| line.contains("tensor by tensor")), "{:?}", job.assumptions);
    }
}
