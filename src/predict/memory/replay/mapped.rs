//! Tensors of a CPU's step that malloc maps for themselves.

use super::timeline::TapeLogs;
use super::{MOST_BLOCKS, Parameters};
use crate::predict::job::Job;
use crate::predict::step::StepTapes;
use crate::predict::step::play::{Event, TapeLog};

/// From this size on, a block is mapped for itself and unmapped when it is freed: up to it malloc's threshold grows with
/// what was freed (glibc, malloc/malloc.c, `DEFAULT_MMAP_THRESHOLD_MAX`: 4 MiB x sizeof(long); mallopt(3)).
const MAPPED: u64 = 32 << 20;

/// Bytes and number of blocks that a step takes of that size; none where a step is too long to follow.
pub(in crate::predict) fn mapped(job: &Job, step: &StepTapes) -> Option<(u64, u64)> {
    let logs = TapeLogs::of(job, step, MOST_BLOCKS)?;
    let later = job.batch.accumulation.saturating_sub(1);
    let mut sum = Sum::default();
    for (first, again) in logs.tapes() {
        sum.add(first, 1);
        sum.add(again.unwrap_or(first), later);
    }
    // The optimizer's temporaries: states are there by the second step.
    for one in Parameters::of(job, step)?.iter().filter(|one| one.trained && !job.training.optimizer_in_backward) {
        for (times, bytes) in one.temporaries {
            sum.take(bytes, one.copies.saturating_mul(times));
        }
    }
    Some((sum.bytes, sum.count))
}

#[derive(Default)]
struct Sum {
    bytes: u64,
    count: u64,
}

impl Sum {
    fn take(&mut self, bytes: u64, times: u64) {
        if bytes >= MAPPED {
            self.bytes = self.bytes.saturating_add(bytes.saturating_mul(times));
            self.count = self.count.saturating_add(times);
        }
    }

    /// A tape's passes, made so often. What a tape behind passes is taken there.
    fn add(&mut self, log: &TapeLog, times: u64) {
        for event in log.forward.iter().chain(&log.backward) {
            match *event {
                Event::Take(key, ..) if key == log.output_gradient && log.output.is_some() => {}
                Event::Take(_, bytes, count) => self.take(bytes, count.saturating_mul(times)),
                Event::Pass(bytes) => self.take(bytes, times),
                Event::Give(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mapped;
    use crate::catalog::Catalog;
    use crate::plan::Document;
    use crate::predict::Job;
    use crate::predict::step::StepTapes;

    const CPU: &str = "
sources: {m: a test}
gpus:
- {name: CPU, short: CPU, vendor: cpu, architecture: cpu, sm_count: {value: 1, source: m},
   memory_gib: {value: 16, source: m}, bandwidth_gb_s: {value: 20, source: m},
   peak_tflops: {source: m, fp32: 0.1, bf16: 0.4}, link: pcie_4, process_mib: {source: m, torch: 200}}
";
    const GPT2: &str = "{model_type: gpt2, vocab_size: 50257, n_embd: 512, n_layer: 4, n_head: 8, n_positions: 1024, \
                        architectures: [GPT2LMHeadModel]}";
    const LLAMA: &str = "{model_type: llama, vocab_size: 32000, hidden_size: 512, intermediate_size: 1408, \
                         num_hidden_layers: 6, num_attention_heads: 8, num_key_value_heads: 4, \
                         tie_word_embeddings: false, architectures: [LlamaForCausalLM]}";
    const VIT: &str = "{model_type: vit, hidden_size: 384, intermediate_size: 1536, num_hidden_layers: 6, \
                       num_attention_heads: 6, image_size: 224, patch_size: 16, architectures: [ViTForImageClassification]}";

    fn bytes(model: &str, sizes: &str, training: &str) -> u64 {
        let mut catalog = Catalog::embedded().unwrap();
        catalog.extend("cpu", CPU).unwrap();
        let text = format!(
            "model: {{hf_config: {model}, {sizes}}}\ntraining: {{dropout: 0.0, {training}}}\nhardware: {{gpu_type: cpu}}\n"
        );
        let job = Job::resolve(&Document::parse(&text).unwrap().plan().unwrap(), &catalog).unwrap();
        mapped(&job, &StepTapes::of(&job)).unwrap().0
    }

    /// Pages of 4 KiB that a step used for the first time (`getrusage`, ru_minflt) in real training on a CPU with PyTorch
    /// 2.7.1 and transformers 4.57.6 (tests/observe/cpu_runs/train.py): what smaller tensors give back at the heap's end
    /// is beside them.
    #[test]
    fn large_tensors_are_mapped_as_often_as_a_real_step_maps_them() {
        let gpt2 = bytes(GPT2, "batch_size: 4, sequence_length: 128", "precision: fp32, micro_batch_size: 4");
        assert!((gpt2 as f64 / (261_497.0 * 4096.0) - 1.0).abs() < 0.15, "{gpt2}");
        let llama = bytes(LLAMA, "batch_size: 4, sequence_length: 256", "precision: bf16, micro_batch_size: 4");
        assert!((llama as f64 / (176_015.0 * 4096.0) - 1.0).abs() < 0.05, "{llama}");
        // Twice the micro-batches pass the logits twice, and step once.
        let again = bytes(GPT2, "batch_size: 8, sequence_length: 128", "precision: fp32, micro_batch_size: 4");
        assert!(again > gpt2 && again < 2 * gpt2, "{again}");
    }

    /// The largest of ViT's are 8 x 197 x 1536 floats, 9.2 MiB.
    #[test]
    fn a_model_without_large_tensors_maps_none() {
        assert_eq!(bytes(VIT, "batch_size: 8, image_size: 224", "precision: fp32, micro_batch_size: 8"), 0);
    }
}
