"""Rows of tokens that are packed for recurrent layers: how many are as long at each place is known on the host."""

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

import held


def packed(rows, lengths, batch_first=False, **_):
    """Rows of tokens one behind the other, and how many rows are as long at each place; all are full where nobody knows their lengths
    (aten/src/ATen/native/PackedSequence.cpp, `_pack_padded_sequence`)."""
    samples, longest = rows.shape[:2] if batch_first else rows.shape[1::-1]
    value = held.value_of(lengths)
    with unset_fake_temporarily():
        known = [longest] * samples if value is None else value.tolist()
        sizes = torch.tensor([sum(length > at for length in known) for at in range(max(known))], device="cpu")
    return rows.new_empty((sum(known), *rows.shape[2:])), sizes


def padded(data, sizes, batch_first, value, longest):
    """As `_pad_packed_sequence` of that file, which writes the lengths into memory that a fake tensor has not."""
    with unset_fake_temporarily():
        known = sizes.tolist()
    made = torch.full((max(longest, len(known)), known[0], *data.shape[1:]), value, dtype=data.dtype, device=data.device)
    offset, start, lengths = 0, 0, []
    for at, (rows, following) in enumerate(zip(known, [*known[1:], 0]), 1):
        if following == rows:
            continue
        end = offset + rows * (at - start)
        made[start:at, :rows].copy_(data[offset:end].view(at - start, rows, *data.shape[1:]))
        lengths[:0] = [at] * (rows - following)
        offset, start = end, at
    with unset_fake_temporarily():
        lengths = torch.tensor(lengths, device="cpu")
    return made.transpose(0, 1) if batch_first else made, lengths


def install():
    torch._VF._pad_packed_sequence = padded
