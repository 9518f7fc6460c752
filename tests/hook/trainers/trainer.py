"""GPT-2 from scratch with transformers' Trainer: batches of 3, two accumulated, 48 tokens, AdamW, fp32."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = torch.randint(0, 200, (rows, 48))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def main():
    torch.set_num_threads(1)
    config = GPT2Config(vocab_size=200, n_positions=64, n_embd=64, n_layer=2, n_head=4)
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=3,
        gradient_accumulation_steps=2,
        max_steps=60000,
        logging_steps=5,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
    )
    Trainer(model=GPT2LMHeadModel(config), args=args, train_dataset=Tokens(600)).train()


if __name__ == "__main__":
    main()
