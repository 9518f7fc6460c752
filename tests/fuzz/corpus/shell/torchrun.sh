#!/bin/bash
#SBATCH --nodes=2
export OMP_NUM_THREADS=8
GPUS=${GPUS:-8}
for rank in 0 1; do echo "$rank"; done
torchrun --nproc_per_node=$GPUS \
    pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size $((GPUS * 8)) --bf16
