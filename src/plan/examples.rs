//! The example plans, inside the binary.

/// Name and text of each, the one that a first start shows first.
pub const EXAMPLES: &[(&str, &str)] = &[
    ("13b_long_sequence", include_str!("../../configs/plans/13b_long_sequence.yaml")),
    ("70b_hybrid_training", include_str!("../../configs/plans/70b_hybrid_training.yaml")),
    ("hybrid_example", include_str!("../../configs/plans/hybrid_example.yaml")),
    ("8b_single_gpu", include_str!("../../configs/plans/8b_single_gpu.yaml")),
    ("8b_fsdp_torchtitan", include_str!("../../configs/plans/8b_fsdp_torchtitan.yaml")),
    ("7b_lora", include_str!("../../configs/plans/7b_lora.yaml")),
    ("gpt2_nanogpt", include_str!("../../configs/plans/gpt2_nanogpt.yaml")),
    ("moe_expert_parallel", include_str!("../../configs/plans/moe_expert_parallel.yaml")),
    ("7b_inference", include_str!("../../configs/plans/7b_inference.yaml")),
    ("own_model_and_gpu", include_str!("../../configs/plans/own_model_and_gpu.yaml")),
];

#[cfg(test)]
mod tests {
    use super::EXAMPLES;
    use crate::plan::keywords::Strategy;
    use crate::plan::{Document, Plan};

    fn plans() -> impl Iterator<Item = (&'static str, Plan)> {
        EXAMPLES.iter().map(|(name, text)| (*name, Document::parse(text).unwrap().plan().unwrap()))
    }

    /// YAML 1.1, as PyYAML reads it, wants a dot and a sign in a number with an exponent: it takes `1.5e13` for a text.
    #[test]
    fn numbers_are_numbers_to_every_reader_of_yaml() {
        for (name, text) in EXAMPLES {
            let code = text.lines().map(|line| line.split_once('#').map_or(line, |(code, _)| code));
            for word in code.flat_map(|line| line.split([' ', ',', '[', ']', '{', '}'])) {
                let exponent = word.parse::<f64>().ok().and_then(|_| word.split_once(['e', 'E']));
                let Some((mantissa, exponent)) = exponent else { continue };
                assert!(mantissa.contains('.') && exponent.starts_with(['+', '-']), "{name}: {word}");
            }
        }
    }

    /// The contract: data x tensor x pipeline x context = GPUs, where the degrees are given
    /// or the strategy gives data parallel all of them.
    fn data_parallel(plan: &Plan) -> u64 {
        let gpus = plan.cluster.num_gpus.unwrap_or(1);
        let distribution = &plan.distribution;
        let others = [distribution.tensor_parallel, distribution.pipeline_parallel, distribution.context_parallel];
        let others: u64 = others.iter().map(|degree| degree.unwrap_or(1)).product();
        assert_eq!(gpus % others, 0);
        let data = gpus / others;
        assert_eq!(distribution.data_parallel.unwrap_or(data), data);
        data
    }

    #[test]
    fn degrees_multiply_to_the_gpus() {
        for (name, plan) in plans() {
            let data = data_parallel(&plan);
            let cluster = &plan.cluster;
            if let (Some(nodes), Some(per_node)) = (cluster.nodes, cluster.gpus_per_node) {
                assert_eq!(Some(nodes * per_node), cluster.num_gpus, "{name}");
            }
            let distribution = &plan.distribution;
            let tensor = distribution.tensor_parallel.unwrap_or(1);
            let stage = data * distribution.context_parallel.unwrap_or(1) * tensor;
            let expert_tensor = distribution.expert_tensor_parallel.unwrap_or(tensor);
            if let Some(expert) = distribution.expert_parallel {
                assert_eq!(stage % (expert * expert_tensor), 0, "{name}");
            }
            if distribution.strategy == Some(Strategy::Hybrid) {
                assert!(distribution.data_parallel.is_some(), "{name}: hybrid fills nothing");
            }
        }
    }

    #[test]
    fn batches_multiply_out() {
        for (name, plan) in plans() {
            let training = &plan.training;
            let (Some(micro), Some(batch)) = (training.micro_batch_size, plan.model.batch_size) else { continue };
            let accumulated = training.gradient_accumulation_steps.unwrap_or(1);
            assert_eq!(micro * accumulated * data_parallel(&plan), batch, "{name}");
        }
    }

    #[test]
    fn every_name_is_in_the_catalogue() {
        let catalog = crate::catalog::Catalog::embedded().unwrap();
        for (example, plan) in plans() {
            let links = [&plan.cluster.interconnect, &plan.cluster.network];
            assert!(plan.model.preset.iter().all(|name| catalog.model(name).is_some()), "{example}");
            assert!(plan.hardware.gpu_type.iter().all(|name| catalog.gpu(name).is_some()), "{example}");
            assert!(links.into_iter().flatten().all(|name| catalog.link(name).is_some()), "{example}");
        }
    }

    #[test]
    fn each_begins_with_a_comment_that_says_what_it_is() {
        for (name, text) in EXAMPLES {
            assert!(text.starts_with("# ") && text.ends_with('\n') && !text.contains('\t'), "{name}");
        }
    }
}
