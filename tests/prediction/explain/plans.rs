//! Plans, and what their runs may do instead: keys with values, blanks between, "-" for a key that goes.

/// Names, texts, and what a run of each may do.
pub type Book = &'static [(&'static str, &'static str, &'static [&'static str])];

/// What most people train: a node of GPUs or less.
pub const FIRST: Book = &[
    (
        "8b_fsdp",
        "model: {preset: llama-3-8b, framework: torchtitan, sequence_length: 8192}\n\
         training: {micro_batch_size: 1, activation_checkpointing: selective-op, compile: true}\n\
         hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 8}\ndistribution: {strategy: fsdp}\n",
        &[
            "training.activation_checkpointing=none",
            "training.activation_checkpointing=full",
            "training.compile=false",
            "training.micro_batch_size=2",
            "model.sequence_length=4096",
            "training.precision=fp32",
            "distribution.sharding=zero2",
            "distribution.sharding=none",
        ],
    ),
    (
        "13b_megatron",
        "model: {preset: llama-2-13b, framework: megatron, sequence_length: 4096, batch_size: 32}\n\
         training: {micro_batch_size: 1, distributed_optimizer: true}\n\
         hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 8}\n\
         distribution: {tensor_parallel: 2, sequence_parallel: true}\n",
        &[
            "distribution.sequence_parallel=false",
            "training.activation_checkpointing=full",
            "training.micro_batch_size=2",
            "training.distributed_optimizer=false distribution.sharding=none",
            "training.attention=eager",
            "model.sequence_length=8192",
            "training.gradient_dtype=bf16",
        ],
    ),
    (
        "gpt2_hf",
        "model: {preset: gpt2-medium, framework: pytorch, sequence_length: 1024}\n\
         training: {micro_batch_size: 8, precision: bf16-mixed, gradient_accumulation_steps: 4}\n\
         hardware: {gpu_type: NVIDIA A100 40GB}\n",
        &[
            "training.attention=eager",
            "training.precision=fp32",
            "training.precision=bf16",
            "training.activation_checkpointing=full",
            "training.micro_batch_size=16 training.gradient_accumulation_steps=2",
            "training.micro_batch_size=4 training.gradient_accumulation_steps=8",
            "model.sequence_length=512",
            "training.gradient_accumulation_steps=8",
        ],
    ),
    (
        "7b_lora",
        "model: {preset: llama-2-7b, framework: pytorch, sequence_length: 2048}\n\
         training: {precision: bf16, micro_batch_size: 4, activation_checkpointing: full, \
         lora: {rank: 16, targets: [q_proj, v_proj]}}\nhardware: {gpu_type: NVIDIA A100 80GB}\n",
        &[
            "training.lora=-",
            "training.activation_checkpointing=none",
            "training.micro_batch_size=8",
            "model.sequence_length=4096",
            "training.attention=eager",
            "training.precision=fp32",
        ],
    ),
    (
        "1b_8bit",
        "model: {preset: llama-3.2-1b, framework: pytorch, sequence_length: 4096}\n\
         training: {precision: bf16, micro_batch_size: 2, optimizer: adamw-8bit, activation_checkpointing: full, \
         loss: fused}\nhardware: {gpu_type: NVIDIA A100 40GB}\n",
        &[
            "training.optimizer=adamw",
            "training.loss=hf",
            "training.activation_checkpointing=none",
            "training.precision=bf16-mixed",
            "training.micro_batch_size=4",
            "training.attention=eager",
        ],
    ),
    (
        "moe_megatron",
        "model: {preset: mixtral-8x7b, framework: megatron, sequence_length: 4096, batch_size: 64}\n\
         training: {micro_batch_size: 1, distributed_optimizer: true, activation_checkpointing: selective}\n\
         hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 16, nodes: 2, gpus_per_node: 8}\n\
         distribution: {tensor_parallel: 2, expert_parallel: 8, expert_tensor_parallel: 1, sequence_parallel: true}\n",
        &[
            "distribution.sequence_parallel=false",
            "training.activation_checkpointing=full",
            "training.micro_batch_size=2",
            "model.sequence_length=2048",
            "training.distributed_optimizer=false distribution.sharding=none",
        ],
    ),
    (
        "bert_hf",
        "model: {preset: bert-large, framework: pytorch, sequence_length: 512}\n\
         training: {precision: fp16-mixed, micro_batch_size: 16}\nhardware: {gpu_type: NVIDIA V100 32GB}\n",
        &[
            "training.attention=eager",
            "training.precision=fp32",
            "training.activation_checkpointing=full",
            "training.micro_batch_size=32",
            "model.sequence_length=256",
            "training.optimizer=sgd",
        ],
    ),
];

/// Experts, stages, long contexts, many nodes, quantised bases, offloading, images.
pub const FURTHER: Book = &[
    (
        "experts_30b",
        "model: {preset: qwen3-30b-a3b, framework: megatron, sequence_length: 4096, batch_size: 128}\n\
         training: {micro_batch_size: 1, distributed_optimizer: true, activation_checkpointing: selective}\n\
         hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 16, nodes: 2, gpus_per_node: 8}\n\
         distribution: {expert_parallel: 8, expert_tensor_parallel: 1}\n",
        &[
            "training.activation_checkpointing=full",
            "training.activation_checkpointing=none",
            "training.micro_batch_size=2",
            "model.sequence_length=2048",
            "training.gradient_dtype=bf16",
            "training.distributed_optimizer=false distribution.sharding=none",
        ],
    ),
    (
        "stages_70b",
        "model: {preset: llama-3-70b, framework: megatron, sequence_length: 8192, batch_size: 128}\n\
         training: {micro_batch_size: 1, distributed_optimizer: true}\n\
         hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 64, nodes: 8, gpus_per_node: 8}\n\
         distribution: {tensor_parallel: 8, pipeline_parallel: 4, sequence_parallel: true}\n",
        &[
            "distribution.sequence_parallel=false",
            "distribution.pipeline_schedule=gpipe",
            "training.activation_checkpointing=full",
            "training.micro_batch_size=2",
            "model.sequence_length=4096",
            "training.attention=eager",
            "training.gradient_dtype=bf16",
        ],
    ),
    (
        "context_128k",
        "model: {preset: llama-3.1-8b, framework: torchtitan, sequence_length: 131072}\n\
         training: {micro_batch_size: 1, activation_checkpointing: full, compile: true}\n\
         hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 8}\n\
         distribution: {strategy: fsdp, context_parallel: 8, data_parallel: 1}\n",
        &[
            "model.sequence_length=65536",
            "training.activation_checkpointing=selective-op",
            "training.activation_checkpointing=none",
            "training.compile=false",
            "training.precision=fp32",
            "distribution.sharding=none",
        ],
    ),
    (
        "nodes_70b",
        "model: {preset: llama-3.1-70b, framework: torchtitan, sequence_length: 8192}\n\
         training: {micro_batch_size: 1, activation_checkpointing: full, compile: true}\n\
         hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 128, nodes: 16, gpus_per_node: 8}\n\
         distribution: {strategy: fsdp}\n",
        &[
            "training.activation_checkpointing=selective-op",
            "training.micro_batch_size=2",
            "model.sequence_length=4096",
            "training.precision=fp32",
            "distribution.shard_group=8",
            "distribution.sharding=zero2",
            "training.compile=false",
        ],
    ),
    (
        "base_in_4_bits",
        "model: {preset: qwen2.5-14b, framework: pytorch, sequence_length: 4096}\n\
         training: {precision: bf16, micro_batch_size: 2, activation_checkpointing: full, \
         lora: {rank: 16, targets: [q_proj, k_proj, v_proj, o_proj], base_bits: 4}}\n\
         hardware: {gpu_type: NVIDIA A100 80GB}\n",
        &[
            "training.lora.base_bits=-",
            "training.activation_checkpointing=none",
            "training.micro_batch_size=4",
            "model.sequence_length=2048",
            "training.attention=eager",
        ],
    ),
    (
        "offloaded_8b",
        "model: {preset: qwen3-8b, framework: pytorch, sequence_length: 4096}\n\
         training: {precision: bf16-fp32-master, micro_batch_size: 1, activation_checkpointing: full, \
         cpu_offload: optimizer}\nhardware: {gpu_type: NVIDIA A100 80GB}\ncluster: {num_gpus: 8}\n\
         distribution: {strategy: zero2}\n",
        &[
            "training.cpu_offload=none",
            "distribution.sharding=zero3",
            "training.activation_checkpointing=none",
            "training.micro_batch_size=2",
            "model.sequence_length=8192",
            "training.attention=eager",
        ],
    ),
    (
        "vit_large",
        "model: {preset: vit-large, framework: pytorch}\n\
         training: {precision: bf16-mixed, micro_batch_size: 64}\nhardware: {gpu_type: NVIDIA A100 40GB}\n",
        &[
            "training.precision=fp32",
            "training.precision=bf16",
            "training.micro_batch_size=128",
            "training.micro_batch_size=32",
            "training.activation_checkpointing=full",
        ],
    ),
    (
        "resnet_50",
        "model: {preset: resnet-50, framework: torchvision}\n\
         training: {precision: fp16-mixed, micro_batch_size: 256, optimizer: sgd-momentum}\n\
         hardware: {gpu_type: NVIDIA A100 40GB}\ncluster: {num_gpus: 8}\n",
        &["training.precision=fp32", "training.micro_batch_size=128", "training.micro_batch_size=512"],
    ),
];
