//! The types that publishers' checkpoints are stored in, for weights that are loaded as they are (`torch_dtype="auto"`).

/// Beginnings of names on the hub, in small letters, and the type that the `config.json` of every checkpoint so called
/// names (`torch_dtype`, on huggingface.co). Families of several types have no row: Gemma 2, the first `SmolLM`, `OLMo` 2.
const TYPES: [(&str, &str); 22] = [
    ("deepseek-ai/deepseek-r1-distill-", "bfloat16"),
    ("google/gemma-2b", "bfloat16"),
    ("google/gemma-3-", "bfloat16"),
    ("google/gemma-7b", "bfloat16"),
    ("huggingfacetb/smollm2-", "bfloat16"),
    ("meta-llama/llama-2-", "float16"),
    ("meta-llama/llama-3.1-", "bfloat16"),
    ("meta-llama/llama-3.2-", "bfloat16"),
    ("meta-llama/llama-3.3-", "bfloat16"),
    ("meta-llama/meta-llama-3-", "bfloat16"),
    ("meta-llama/meta-llama-3.1-", "bfloat16"),
    ("microsoft/phi-1_5", "float16"),
    ("microsoft/phi-2", "float16"),
    ("microsoft/phi-3-", "bfloat16"),
    ("microsoft/phi-3.5-", "bfloat16"),
    ("mistralai/mistral-7b-", "bfloat16"),
    ("mistralai/mixtral-8x7b-", "bfloat16"),
    ("qwen/qwen1.5-", "bfloat16"),
    ("qwen/qwen2-", "bfloat16"),
    ("qwen/qwen2.5-", "bfloat16"),
    ("qwen/qwen3-", "bfloat16"),
    ("tinyllama/tinyllama-1.1b-chat-v1.0", "bfloat16"),
];

/// Parts of names of weights that were quantised after all: those come in other types.
const QUANTISED: [&str; 8] = ["awq", "gptq", "bnb", "int4", "int8", "fp8", "4bit", "8bit"];

/// The type that the checkpoint of that name on the hub is stored in, where it is known.
pub fn published(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let quantised = QUANTISED.iter().any(|part| name.contains(part));
    TYPES.iter().find(|(start, _)| !quantised && name.starts_with(start)).map(|(_, word)| *word)
}

#[cfg(test)]
mod tests {
    use super::published;

    #[test]
    fn a_publishers_checkpoint_has_the_type_of_its_family() {
        // The `config.json` of each on huggingface.co.
        assert_eq!(published("Qwen/Qwen2.5-0.5B-Instruct"), Some("bfloat16"));
        assert_eq!(published("meta-llama/Llama-2-7b-hf"), Some("float16"));
        // A copy of one's own, and weights of four bits.
        assert_eq!(published("someone/Qwen2.5-0.5B-mine"), None);
        assert_eq!(published("Qwen/Qwen2.5-7B-Instruct-AWQ"), None);
        assert_eq!(published("google/gemma-2-9b"), None);
    }
}
