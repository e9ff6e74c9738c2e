"""CPU, CUDA and MPS by one name."""

import torch

from graphshift.core.errors import GraphshiftError


def is_available(name: str) -> bool:
    """Whether this machine's PyTorch can compute there."""
    return (
        name == "cpu"
        or (name == "cuda" and torch.cuda.is_available())
        or (name == "mps" and torch.backends.mps.is_available())
    )


def torch_device(name: str) -> torch.device:
    """The device of that name, if it is available."""
    if not is_available(name):
        raise GraphshiftError(f"device is {name!r} and this machine's PyTorch has none; use 'cpu'.")
    return torch.device(name)
