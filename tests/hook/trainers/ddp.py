"""A transformer of one's own under DistributedDataParallel: two ranks of batches of 4, 32 tokens, Adam, fp32."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(120, 48)
        layer = nn.TransformerEncoderLayer(48, 4, 192, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(48, 120)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids)))


def main(rank, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    torch.manual_seed(rank)
    model = DistributedDataParallel(Encoder())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(1, 40001):
        ids = torch.randint(0, 120, (4, 32))
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step}/40000 | loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(main, args=(f"file://{sys.argv[1]}",), nprocs=2)
