"""Two models of one's own, each in a process that the script has spawned, without a group: as of seeds tried side by side."""

import torch
from torch import nn


def main(rank):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        loss = model(torch.randn(16, 24)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.multiprocessing.spawn(main, nprocs=2)
