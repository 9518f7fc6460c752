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

/// What the class of `family` has (transformers, `models/*/configuration_*.py`).
pub const fn defaults(family: Family) -> ClassDefaults {
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
