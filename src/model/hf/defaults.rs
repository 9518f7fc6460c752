//! What configuration classes have where a file is silent.

use crate::model::architecture::Family;

/// What a configuration class has where the file is silent.
pub struct ClassDefaults {
    /// Width of a row.
    pub hidden: u64,
    /// Blocks.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// 0: as many as query heads.
    pub kv_heads: u64,
    /// 0: hidden / heads.
    pub head_dim: u64,
    /// 0: 4 x hidden.
    pub intermediate: u64,
    /// Rows of the table of tokens.
    pub vocab: u64,
    /// The longest sequence.
    pub positions: u64,
    /// Whether the head is the table of tokens.
    pub tie: bool,
}

macro_rules! defaults {
    ($hidden:literal, $layers:literal, $heads:literal, $kv:literal, $dim:literal, $ffn:literal, $vocab:literal, $positions:literal, $tie:literal) => {
        ClassDefaults {
            hidden: $hidden,
            layers: $layers,
            heads: $heads,
            kv_heads: $kv,
            head_dim: $dim,
            intermediate: $ffn,
            vocab: $vocab,
            positions: $positions,
            tie: $tie,
        }
    };
}

/// What the configuration class of `model_type` has: its own where it is read with another family's keys.
pub fn of(model_type: Option<&str>, family: Family) -> ClassDefaults {
    model_type.and_then(|name| of_related(&name.to_ascii_lowercase())).unwrap_or_else(|| of_family(family))
}

/// Kinds beside the families (transformers 4.57.6, `models/*/configuration_*.py`, the arguments of `__init__`).
fn of_related(model_type: &str) -> Option<ClassDefaults> {
    Some(match model_type {
        "apertus" => defaults!(4096, 32, 32, 0, 0, 14_336, 131_072, 65_536, false),
        "arcee" => defaults!(2560, 32, 32, 0, 0, 18_432, 32_000, 4096, false),
        "granite" | "granitemoe" | "granitemoeshared" => defaults!(4096, 32, 32, 0, 0, 11_008, 32_000, 2048, false),
        "codegen" | "gptj" => defaults!(4096, 28, 16, 0, 0, 0, 50_400, 2048, false),
        "cohere" | "cohere2" => defaults!(8192, 40, 64, 0, 0, 22_528, 256_000, 8192, true),
        "dots1" => defaults!(4608, 62, 32, 32, 0, 10_944, 152_064, 2048, false),
        "ernie4_5" => defaults!(1024, 18, 16, 2, 128, 3072, 103_424, 131_072, true),
        "ernie4_5_moe" => defaults!(2560, 28, 20, 4, 0, 12_288, 103_424, 131_072, true),
        "exaone4" => defaults!(4096, 32, 32, 32, 0, 16_384, 102_400, 2048, false),
        "flex_olmo" => defaults!(4096, 32, 32, 0, 0, 11_008, 100_352, 4096, false),
        "glm" | "glm4" => defaults!(4096, 40, 32, 2, 128, 13_696, 151_552, 131_072, false),
        "glm4_moe" => defaults!(4096, 46, 96, 8, 0, 10_944, 151_552, 131_072, false),
        "gpt_neo" => defaults!(2048, 24, 16, 0, 0, 0, 50_257, 2048, true),
        "helium" => defaults!(2560, 24, 20, 20, 128, 7040, 48_000, 4096, false),
        "hunyuan_v1_dense" | "hunyuan_v1_moe" => defaults!(4096, 32, 32, 0, 0, 11_008, 290_943, 2048, false),
        "llama4_text" => defaults!(5120, 48, 40, 8, 128, 8192, 202_048, 131_072, false),
        "ministral3" => defaults!(4096, 34, 32, 8, 128, 14_336, 131_072, 262_144, false),
        "mpt" => defaults!(2048, 24, 16, 0, 0, 0, 50_368, 2048, true),
        "mt5" => defaults!(512, 8, 6, 0, 64, 1024, 250_112, 2048, false),
        "nemotron" => defaults!(6144, 32, 48, 0, 0, 24_576, 256_000, 4096, false),
        "olmo" | "olmo2" | "olmo3" => defaults!(4096, 32, 32, 0, 0, 11_008, 50_304, 2048, false),
        "olmoe" => defaults!(2048, 16, 16, 0, 0, 2048, 50_304, 4096, false),
        "persimmon" => defaults!(4096, 36, 64, 0, 0, 16_384, 262_144, 16_384, false),
        "qwen2_5_vl" | "qwen2_5_vl_text" | "qwen2_vl" | "qwen2_vl_text" => {
            defaults!(8192, 80, 64, 8, 0, 29_568, 152_064, 32_768, false)
        }
        "qwen3_vl" | "qwen3_vl_text" => defaults!(4096, 32, 32, 32, 128, 22_016, 151_936, 128_000, false),
        "seed_oss" => defaults!(4096, 64, 80, 8, 128, 27_648, 155_136, 524_288, false),
        "smollm3" => defaults!(2048, 36, 16, 4, 0, 11_008, 128_256, 32_768, true),
        "stablelm" => defaults!(2560, 32, 32, 32, 0, 6912, 50_304, 4096, false),
        "starcoder2" => defaults!(3072, 30, 24, 2, 0, 12_288, 49_152, 4096, true),
        "umt5" => defaults!(512, 8, 6, 0, 64, 1024, 250_112, 2048, true),
        _ => return None,
    })
}

/// What the class of `family` has (transformers, `models/*/configuration_*.py`).
const fn of_family(family: Family) -> ClassDefaults {
    match family {
        Family::Bert | Family::Roberta => defaults!(768, 12, 12, 0, 0, 3072, 30_522, 512, true),
        Family::Distilbert => defaults!(768, 6, 12, 0, 0, 3072, 30_522, 512, true),
        Family::Electra => defaults!(256, 12, 4, 0, 0, 1024, 30_522, 512, true),
        Family::Albert => defaults!(4096, 12, 64, 0, 0, 16_384, 30_000, 512, true),
        Family::Deberta => defaults!(1536, 24, 24, 0, 0, 6144, 128_100, 512, true),
        Family::ModernBert => defaults!(768, 22, 12, 0, 0, 1152, 50_368, 8192, true),
        Family::T5 => defaults!(512, 6, 8, 0, 64, 2048, 32_128, 512, true),
        Family::Whisper => defaults!(384, 4, 6, 0, 64, 1536, 51_865, 448, true),
        Family::Bart | Family::Mbart => defaults!(1024, 12, 16, 0, 0, 4096, 50_265, 1024, true),
        Family::Vit | Family::Tower | Family::Resnet | Family::Layers | Family::Unet | Family::Dit | Family::Traced => {
            defaults!(768, 12, 12, 0, 0, 3072, 1, 1, false)
        }
        Family::Gpt2 | Family::Nanogpt => defaults!(768, 12, 12, 0, 0, 0, 50_257, 1024, true),
        Family::Opt => defaults!(768, 12, 12, 0, 0, 3072, 50_272, 2048, true),
        Family::GptNeox => defaults!(6144, 44, 64, 0, 0, 24_576, 50_432, 2048, false),
        Family::Bloom => defaults!(64, 2, 8, 0, 0, 0, 250_880, 2048, true),
        Family::Falcon => defaults!(4544, 32, 71, 0, 0, 0, 65_024, 2048, true),
        Family::Llama => defaults!(4096, 32, 32, 0, 0, 11_008, 32_000, 2048, false),
        Family::Mistral | Family::Mixtral => defaults!(4096, 32, 32, 8, 0, 14_336, 32_000, 131_072, false),
        Family::Qwen2 => defaults!(4096, 32, 32, 32, 0, 22_016, 151_936, 32_768, false),
        Family::Qwen3 => defaults!(4096, 32, 32, 32, 128, 22_016, 151_936, 32_768, false),
        Family::Qwen2Moe => defaults!(2048, 24, 16, 16, 0, 5632, 151_936, 32_768, false),
        Family::Qwen3Moe => defaults!(2048, 24, 32, 4, 0, 6144, 151_936, 32_768, false),
        Family::Qwen3Next => defaults!(2048, 48, 16, 2, 256, 5632, 151_936, 32_768, false),
        Family::Qwen35 => defaults!(4096, 32, 16, 4, 256, 12_288, 248_320, 32_768, false),
        Family::Qwen35Moe => defaults!(2048, 40, 16, 2, 256, 1, 248_320, 32_768, false),
        Family::Gemma => defaults!(3072, 28, 16, 16, 256, 24_576, 256_000, 8192, true),
        Family::Gemma2 => defaults!(2304, 26, 8, 4, 256, 9216, 256_000, 8192, true),
        Family::Gemma3Text => defaults!(2304, 26, 8, 4, 256, 9216, 262_208, 131_072, true),
        Family::Phi => defaults!(2048, 24, 32, 0, 0, 8192, 51_200, 2048, false),
        Family::Phi3 => defaults!(3072, 32, 32, 0, 0, 8192, 32_064, 4096, false),
        Family::DeepseekV2 => defaults!(4096, 32, 32, 0, 0, 11_008, 32_000, 2048, false),
        Family::DeepseekV3 => defaults!(7168, 61, 128, 128, 0, 18_432, 129_280, 4096, false),
        Family::Lfm2 => defaults!(2560, 32, 32, 8, 0, 12_288, 65_536, 128_000, true),
        Family::Mamba => defaults!(768, 32, 1, 0, 0, 1536, 50_280, 1_048_576, true),
        Family::Mamba2 => defaults!(4096, 64, 1, 0, 0, 1, 32_768, 1_048_576, false),
        Family::Bamba => defaults!(4096, 32, 32, 8, 0, 14_336, 128_000, 262_144, false),
        Family::GraniteHybrid => defaults!(4096, 32, 32, 0, 0, 11_008, 32_000, 2048, false),
        Family::FalconH1 => defaults!(4096, 32, 32, 8, 0, 14_336, 128_000, 8192, false),
        Family::NemotronH => defaults!(4096, 52, 32, 8, 128, 21_504, 131_072, 4096, false),
        Family::Jamba => defaults!(4096, 32, 32, 8, 0, 14_336, 65_536, 262_144, false),
        Family::GptOss => defaults!(2880, 36, 64, 8, 64, 2880, 201_088, 131_072, false),
    }
}

/// Whether attention of the class of `model_type` has biases where `attention_bias` says so; the others' files may hold
/// the key, which nothing reads (`models/*/modeling_*.py`).
pub fn reads_attention_bias(model_type: Option<&str>) -> bool {
    let ignores = [
        "mistral",
        "ministral",
        "ministral3",
        "mixtral",
        "phi3",
        "stablelm",
        "gptj",
        "codegen",
        "gpt_neo",
        "exaone4",
        "llama4_text",
        "jamba",
    ];
    model_type.is_none_or(|name| !ignores.iter().any(|known| known.eq_ignore_ascii_case(name)))
}

/// The same of feed-forward blocks and `mlp_bias`.
pub fn reads_mlp_bias(model_type: Option<&str>) -> bool {
    let reads = [
        "llama",
        "code_llama",
        "granite",
        "helium",
        "arcee",
        "nemotron",
        "nemotron_h",
        "smollm3",
        "seed_oss",
        "bamba",
        "falcon_h1",
        "deepseek_v2",
    ];
    model_type.is_none_or(|name| reads.iter().any(|known| known.eq_ignore_ascii_case(name)))
}
