//! torchtitan's names of models: which of its flavors is which preset. What imports its files reads them one way, what
//! exports to it the other.

/// Flavors of models, and the presets with the same architecture.
pub const FLAVORS: &[(&str, &str, &str)] = &[
    ("llama2", "7B", "llama-2-7b"),
    ("llama2", "13B", "llama-2-13b"),
    ("llama2", "70B", "llama-2-70b"),
    ("llama3", "8B", "llama-3.1-8b"),
    ("llama3", "70B", "llama-3.1-70b"),
    ("llama3", "405B", "llama-3.1-405b"),
    ("llama3", "8B", "llama-3-8b"),
    ("llama3", "70B", "llama-3-70b"),
    ("deepseek_v3", "16B", "deepseek-v2-lite"),
    ("deepseek_v3", "236B", "deepseek-v2"),
    ("deepseek_v3", "671B", "deepseek-v3"),
    ("qwen3", "0.6B", "qwen3-0.6b"),
    ("qwen3", "1.7B", "qwen3-1.7b"),
    ("qwen3", "4B", "qwen3-4b"),
    ("qwen3", "8B", "qwen3-8b"),
    ("qwen3", "14B", "qwen3-14b"),
    ("qwen3", "32B", "qwen3-32b"),
    ("qwen3", "30B-A3B", "qwen3-30b-a3b"),
    ("qwen3", "235B-A22B", "qwen3-235b-a22b"),
    ("gpt_oss", "20b", "gpt-oss-20b"),
    ("gpt_oss", "120b", "gpt-oss-120b"),
];

/// The name and flavor that have a preset's shape.
pub fn flavor_of(preset: &str) -> Option<(&'static str, &'static str)> {
    let same = |known: &str| known.eq_ignore_ascii_case(preset);
    FLAVORS.iter().find(|(.., known)| same(known)).map(|(name, flavor, _)| (*name, *flavor))
}
