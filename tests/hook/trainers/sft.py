"""Supervised fine-tuning of a small Llama with TRL: LoRA, packed to 64 tokens, batches of 2, four accumulated."""

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainingArguments
from trl import SFTTrainer


def main():
    torch.set_num_threads(1)
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, **{f"w{n}": n + 4 for n in range(196)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    config = LlamaConfig(
        vocab_size=200, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128,
    )
    texts = [" ".join(f"w{(row * 31 + at * 7) % 196}" for at in range(63)) for row in range(2000)]
    args = TrainingArguments(
        output_dir="out", per_device_train_batch_size=2, gradient_accumulation_steps=4, max_steps=12000,
        logging_steps=5, save_strategy="no", report_to=[], use_cpu=True, learning_rate=2e-4,
    )
    SFTTrainer(
        model=LlamaForCausalLM(config),
        args=args,
        train_dataset=Dataset.from_dict({"text": texts}),
        dataset_text_field="text",
        tokenizer=tokenizer,
        packing=True,
        max_seq_length=64,
        peft_config=LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    ).train()


if __name__ == "__main__":
    main()
