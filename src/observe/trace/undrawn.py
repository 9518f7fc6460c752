"""Weights as they come: nothing draws their values while a model of a library is built, as a trace reads none."""

import contextlib

import torch

DRAWN = ("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_")


@contextlib.contextmanager
def weights():
    """Functions of `torch.nn.init` that draw values do nothing."""
    own = {name: getattr(torch.nn.init, name) for name in DRAWN if hasattr(torch.nn.init, name)}
    for name in own:
        setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)
    try:
        yield
    finally:
        for name, function in own.items():
            setattr(torch.nn.init, name, function)
