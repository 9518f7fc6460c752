"""A small training whose loop is a library's and whose data set is the script's: every fifth sample is late. Arguments: by
what, and how many steps. The line to be named has a mark at its end: `tests/observe/hook/places.rs` looks for it."""

import os
import sys
import tempfile
import time

import torch

STEPS = int(sys.argv[2])
LATE_S = 0.15
LIBRARY = '''
def fit(model, optimizer, loader):
    for batch in loader:
        (model(batch.expand(256, 64)) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
'''
torch.manual_seed(0)
torch.set_num_threads(1)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        if index % 5 == 4:
            time.sleep(LATE_S)  # mark: library
        return torch.randn(64)


folder = os.path.join(tempfile.mkdtemp(), "site-packages")
os.mkdir(folder)
with open(os.path.join(folder, "trainer_of_a_library.py"), "w") as file:
    file.write(LIBRARY)
sys.path.insert(0, folder)
import trainer_of_a_library

model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
trainer_of_a_library.fit(model, optimizer, torch.utils.data.DataLoader(Samples(), batch_size=1))
