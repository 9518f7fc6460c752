//! The words that a plan chooses between: each enumeration with its names in the
//! plan file, its other spellings and a line that says what it means.

macro_rules! keywords {
    ($(#[$doc:meta])* $name:ident { $( $variant:ident = $main:literal $(| $alias:literal)* : $meaning:literal ),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( #[doc = $meaning] $variant, )+
        }

        impl $name {
            /// Every choice, in the order in which the form steps through them.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// Main name, other names and meaning of each choice, for the schema.
            pub const WORDS: &'static [Word] = &[
                $( Word { name: $main, aliases: &[$($alias),*], meaning: $meaning }, )+
            ];

            /// The name in the plan file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $main, )+ }
            }

            /// The choice of that name or alias (case, `-` and `_` forgiven).
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let at = Self::WORDS.iter().position(|word| word.is_spelled(text))?;
                Self::ALL.get(at).copied()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

/// One choice of an enumeration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// The name that the plan file uses and MemWall writes.
    pub name: &'static str,
    /// Other names that are read.
    pub aliases: &'static [&'static str],
    /// What it means, in one line.
    pub meaning: &'static str,
}

impl Word {
    /// Whether `text` is its name or another name of it (case, `-` and `_` forgiven).
    #[must_use]
    pub fn is_spelled(&self, text: &str) -> bool {
        let plain = |name: &str| -> String {
            name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
        };
        let wanted = plain(text);
        std::iter::once(&self.name).chain(self.aliases).any(|name| plain(name) == wanted)
    }
}

keywords! {
    /// `model.type`: the kind of architecture.
    ModelType {
        TransformerDecoder = "transformer_decoder" | "transformer" : "decoder-only transformer",
        TransformerEncoder = "transformer_encoder" : "encoder-only transformer",
        TransformerEncoderDecoder = "transformer_encoder_decoder" : "encoder-decoder transformer",
        VisionTransformer = "vision_transformer" : "vision transformer",
        Cnn = "cnn" : "convolutional network",
        Mlp = "mlp" : "layers one behind the other",
        DiffusionModel = "diffusion_model" : "diffusion UNet or transformer",
    }
}

keywords! {
    /// `model.head`: what stands in place of the vocabulary's head, as transformers' classes name it.
    ModelHead {
        SequenceClassification = "sequence-classification" : "one of the classes for each sample",
        TokenClassification = "token-classification" : "one of the classes for each token",
        QuestionAnswering = "question-answering" : "where in the text an answer starts and ends",
        MultipleChoice = "multiple-choice" : "a score for each sample, which is one of several choices",
    }
}

keywords! {
    /// `model.framework`: whose layers run.
    Framework {
        Pytorch = "pytorch" | "huggingface" | "transformers" : "transformers' modules on PyTorch",
        Megatron = "megatron" | "megatron-lm" : "Megatron-LM with Transformer Engine",
        Torchtitan = "torchtitan" | "torchtune" : "plain PyTorch modules, FSDP2",
        Nanogpt = "nanogpt" : "nanoGPT's modules",
        LlmFoundry = "llm-foundry" : "Composer's MPT modules, FSDP",
        Litgpt = "litgpt" | "lit-gpt" : "LitGPT's modules, Lightning Fabric",
        MegatronDeepspeed = "megatron-deepspeed" : "Megatron's modules of 2022, DeepSpeed",
        Torchvision = "torchvision" : "torchvision's modules",
    }
}

keywords! {
    /// `model.transformer_impl`: whose layers Megatron uses.
    TransformerImpl {
        TransformerEngine = "transformer_engine" : "Transformer Engine's fused modules",
        Local = "local" : "Megatron's own modules",
    }
}

keywords! {
    /// `training.mode`.
    Mode {
        Train = "train" | "training" : "a training step",
        Inference = "inference" : "weights, KV cache and prefill",
    }
}

keywords! {
    /// `training.precision`: what is stored; the framework says how the cast happens.
    Precision {
        Fp32 = "fp32" : "everything fp32",
        Tf32 = "tf32" : "fp32 storage, TF32 matrix units",
        Bf16Mixed = "bf16-mixed" : "fp32 weights, bf16 compute",
        Fp16Mixed = "fp16-mixed" : "fp32 weights, fp16 compute",
        Bf16 = "bf16" : "weights, gradients and states all bf16",
        Fp16 = "fp16" : "weights, gradients and states all fp16",
        Bf16Fp32Master = "bf16-fp32-master" : "bf16 weights; fp32 masters, gradients, states",
        Fp16Fp32Master = "fp16-fp32-master" : "fp16 weights; fp32 masters, gradients, states",
        Fp8Mixed = "fp8-mixed" : "FP8 matrix multiplications",
    }
}

keywords! {
    /// `training.optimizer`.
    Optimizer {
        Adamw = "adamw" | "adamw-foreach" | "adam" : "AdamW, foreach kernels",
        AdamwFused = "adamw-fused" : "AdamW, one fused kernel",
        AdamwLoop = "adamw-loop" : "AdamW, tensor by tensor",
        Adamw8bit = "adamw-8bit" : "AdamW with 8-bit states",
        Adafactor = "adafactor" : "factored second moment",
        Lion = "lion" : "sign momentum, one state",
        Muon = "muon" : "orthogonalised momentum, one state",
        Sgd = "sgd" : "no states",
        SgdMomentum = "sgd-momentum" : "one momentum state",
        Rmsprop = "rmsprop" : "one state, the mean of squared gradients",
    }
}

keywords! {
    /// `training.attention`: which kernels compute attention.
    Attention {
        Sdpa = "sdpa" : "PyTorch's dispatcher decides",
        Flash = "flash" | "flash-attention" | "flash_attention_2" : "fused, always",
        Eager = "eager" : "the score matrix is stored",
    }
}

keywords! {
    /// `training.loss`: what the loss keeps of the logits.
    Loss {
        Hf = "hf" : "as the transformers class does",
        Plain = "plain" : "cross-entropy without upcast",
        Chunked = "chunked" : "logits a chunk at a time",
        Fused = "fused" : "no logits kept",
        VocabParallel = "vocab_parallel" : "Megatron's, an fp32 copy",
        VocabParallelFused = "vocab_parallel_fused" : "Megatron's, fused",
        TeFused = "te_fused" : "16-bit logits kept",
    }
}

keywords! {
    /// A storage type: `training.gradient_dtype`, `distribution.reduce_dtype`, `training.optimizer_state_dtype`,
    /// `training.kv_cache_dtype`.
    Dtype {
        Fp32 = "fp32" | "float32" : "4 bytes",
        Bf16 = "bf16" | "bfloat16" : "2 bytes",
        Fp16 = "fp16" | "float16" : "2 bytes",
        Fp8 = "fp8" : "1 byte",
        Int8 = "int8" : "1 byte",
    }
}

keywords! {
    /// `training.master_dtype`: what Transformer Engine's `FusedAdam` keeps beside 16-bit weights.
    MasterDtype {
        Fp32 = "fp32" | "float32" : "4 bytes",
        Bf16 = "bf16" | "bfloat16" : "2 bytes",
        Fp16 = "fp16" | "float16" : "2 bytes",
        Int16 = "int16" : "2 bytes, the bits that a bf16 weight lacks",
    }
}

keywords! {
    /// `training.cpu_offload`: what lives in host memory.
    CpuOffload {
        None = "none" : "nothing",
        Optimizer = "optimizer" : "optimizer states",
        Parameters = "parameters" : "parameters, gradients and states",
        Activations = "activations" : "saved activations",
    }
}

keywords! {
    /// `training.fp8_recipe`: how FP8 scales are kept.
    Fp8Recipe {
        Delayed = "delayed" : "a scale a tensor, from history",
        Tensorwise = "tensorwise" : "a scale a tensor, current",
        Rowwise = "rowwise" : "a scale a row",
        Blockwise = "blockwise" : "a scale a 128-block",
        Mxfp8 = "mxfp8" : "a scale each 32 values",
    }
}

keywords! {
    /// `training.cuda_graph`: what is captured.
    CudaGraph {
        None = "none" : "nothing captured",
        TransformerEngine = "transformer_engine" : "layers, by Transformer Engine",
        Local = "local" : "layers, by Megatron",
        FullIteration = "full_iteration" : "the whole step",
    }
}

keywords! {
    /// `distribution.strategy`: fills the degrees that are absent.
    Strategy {
        DataParallel = "data_parallel" : "all GPUs data parallel",
        TensorParallel = "tensor_parallel" : "all GPUs tensor parallel",
        PipelineParallel = "pipeline_parallel" : "all GPUs pipeline parallel",
        Hybrid = "hybrid" : "as the degrees say",
        Fsdp = "fsdp" : "fully sharded data parallel",
        Zero1 = "zero1" : "optimizer states sharded",
        Zero2 = "zero2" : "and gradients",
        Zero3 = "zero3" : "and parameters",
    }
}

keywords! {
    /// `distribution.sharding`: what data-parallel ranks share out.
    Sharding {
        None = "none" : "every rank holds everything",
        Zero1 = "zero1" : "optimizer states sharded",
        Zero2 = "zero2" : "and gradients",
        Zero3 = "zero3" | "fsdp" : "and parameters",
    }
}

keywords! {
    /// `distribution.engine`: what shares states out and reduces gradients.
    Engine {
        Ddp = "ddp" : "PyTorch's DistributedDataParallel",
        Fsdp1 = "fsdp1" | "fsdp" : "PyTorch's FSDP of flat parameters",
        Fsdp2 = "fsdp2" : "PyTorch's fully_shard, parameter by parameter",
        Deepspeed = "deepspeed" : "DeepSpeed's ZeRO",
        Megatron = "megatron" : "Megatron's DDP and distributed optimizer",
        MegatronFsdp = "megatron-fsdp" : "Megatron's own FSDP",
    }
}

keywords! {
    /// `distribution.pipeline_schedule`.
    Schedule {
        Gpipe = "gpipe" : "all forwards, then all backwards",
        OneFOneB = "1f1b" : "one forward, one backward",
        Interleaved = "interleaved" : "1F1B over virtual stages",
    }
}

keywords! {
    /// `distribution.moe_dispatcher`: how tokens reach their experts.
    MoeDispatcher {
        Allgather = "allgather" : "every rank sees all tokens",
        Alltoall = "alltoall" : "tokens sent to their experts",
        Hybridep = "hybridep" : "DeepEP's hybrid kernels",
    }
}

keywords! {
    /// `training.generation_beside`: what stands on a GPU while an engine generates answers there.
    GenerationBeside {
        Step = "step" : "the whole step: the engine keeps its memory while the model trains",
        States = "states" : "weights and optimizer states: the engine sleeps while the model trains",
        Nothing = "nothing" : "nothing: the engine sleeps while the model trains, and the host holds the states while it generates",
    }
}

keywords! {
    /// `distribution.cp_comm`: how context-parallel ranks exchange keys and values.
    CpComm {
        P2p = "p2p" : "ring",
        AllGather = "all_gather" : "keys and values gathered",
        AllToAll = "a2a" | "all_to_all" : "heads for sequence (Ulysses)",
        Both = "a2a+p2p" | "a2a_p2p" : "heads for sequence between two ranks, a ring over such pairs",
    }
}

keywords! {
    /// `model.architecture.position`.
    Position {
        Rope = "rope" : "rotary",
        Learned = "learned" : "learned table",
        Alibi = "alibi" : "linear biases",
        None = "none" : "none",
    }
}

keywords! {
    /// `model.architecture.activation`.
    Activation {
        Gelu = "gelu" : "GELU",
        Relu = "relu" : "ReLU",
        Relu2 = "relu2" : "squared ReLU",
        Swiglu = "swiglu" : "SiLU-gated, three matrices",
        Geglu = "geglu" : "GELU-gated, three matrices",
    }
}

keywords! {
    /// `model.architecture.norm`.
    Norm {
        Layernorm = "layernorm" : "LayerNorm",
        Rmsnorm = "rmsnorm" : "RMSNorm",
    }
}

keywords! {
    /// One of Megatron's `recompute_modules`.
    RecomputeModule {
        CoreAttn = "core_attn" : "the attention core",
        Mlp = "mlp" : "the dense MLP",
        Moe = "moe" : "the expert layer",
        MoeAct = "moe_act" : "the experts' activation function",
        SharedExperts = "shared_experts" : "the shared experts",
        Layernorm = "layernorm" : "the norms",
        MlaUpProj = "mla_up_proj" : "MLA's up projections",
    }
}

keywords! {
    /// `training.activation_checkpointing` where it is a word.
    RecomputeWord {
        None = "none" : "everything saved",
        Selective = "selective" : "the attention core recomputed",
        SelectiveOp = "selective-op" : "torchtitan's: every second matrix multiplication kept",
        Full = "full" : "each block recomputed",
    }
}
