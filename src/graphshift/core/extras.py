"""Packages that are not needed to train: what to install when one is missing."""

import importlib

from graphshift.core.errors import GraphshiftError

#: The extra of ``pip install "graphshift[EXTRA]"`` that brings each package.
EXTRAS = {
    "matplotlib": "plots",
    "optuna": "tune",
    "pyarrow": "parquet",
    "pymetis": "partition",
    "ray": "ray",
    "lightning": "lightning",
    "tensorboard": "tensorboard",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "onnxruntime": "onnx",
    "fastapi": "serve",
    "uvicorn": "serve",
}


def require_extra(package: str, what: str) -> None:
    """Imports a package of :data:`EXTRAS`, or says how to install it; ``what`` needs it: ``"drawing figures"``, say."""
    if (message := missing_extra(package, what)) is not None:
        raise GraphshiftError(message)


def missing_extra(package: str, what: str) -> str | None:
    """The message that a package is missing; None if it is installed. The arguments are :func:`require_extra`'s."""
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, and something that it needs is not
            raise
        return f"{what} needs {package}: pip install 'graphshift[{EXTRAS[package]}]'."
    return None
