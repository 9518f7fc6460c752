"""BERT with accelerate: batches of 6, 64 tokens, two accumulated, fp32, AdamW."""

import torch
from accelerate import Accelerator
from tqdm import tqdm
from transformers import BertConfig, BertForMaskedLM


def main():
    torch.set_num_threads(1)
    accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
    config = BertConfig(
        vocab_size=150, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=64,
    )
    model = BertForMaskedLM(config)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.randint(0, 150, (60000, 64))), batch_size=6
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    bar = tqdm(total=len(loader))
    for _ in range(2):
        for (ids,) in loader:
            with accelerator.accumulate(model):
                loss = model(input_ids=ids, labels=ids).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                bar.update(1)
                bar.set_postfix(loss=loss.item())


if __name__ == "__main__":
    main()
