"""What a package's files declare, read from their source without running it.

``graphshift fit --help`` shows every hyper-parameter of every method. Importing the methods would import torch and
PyTorch Geometric, which takes seconds; reading a dozen short files takes a hundredth of one. A test holds what is read
here to what importing gives.
"""

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from graphshift.core.hparams import Hparam


@dataclass(frozen=True)
class DeclaredClass:
    """A class as its source has it: its own hyper-parameters, without inherited ones."""

    name: str
    registered: str | None  # the name that it is registered under; None for a class that is only inherited from
    bases: tuple[str, ...]
    hparams: dict[str, Hparam] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)  # as written


def declared_names(package: str) -> list[str]:
    """The names that the files of a package, or a module, register."""
    return sorted(name for tree in _trees(package) for node in ast.walk(tree) if (name := _registered(node)))


@cache
def declared_classes(package: str) -> dict[str, DeclaredClass]:
    """The classes of a package's files, or of a module, by the name of the class."""
    found = {}
    for tree in _trees(package):
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                bases = tuple(base.id for base in node.bases if isinstance(base, ast.Name))
                own = DeclaredClass(node.name, _registered(node), bases)
                for name, annotation, value in _hparams(node):
                    own.hparams[name], own.types[name] = value, annotation
                found[node.name] = own
    return found


@cache
def _trees(package: str) -> list[ast.Module]:
    return [ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in _files(package)]


def _files(package: str) -> list[Path]:
    root = Path(__file__).parents[1]  # ``find_spec`` of a submodule would import its parents
    path = root.joinpath(*package.split(".")[1:])
    if not package.startswith("graphshift."):
        spec = importlib.util.find_spec(package)
        path = Path(spec.origin) if spec is not None and spec.origin else path
    if path.is_dir():
        return sorted(path.glob("*.py"))
    return [path if path.suffix else path.with_suffix(".py")]


def _registered(node: ast.AST) -> str | None:
    """The name in ``@SOMETHING.register("name", …)`` above a class or a function."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "register":
                return str(ast.literal_eval(call.args[0]))
    return None


def _hparams(node: ast.ClassDef) -> Iterator[tuple[str, str, Hparam]]:
    """The lines ``name: type = hparam(default, …)`` of a class; their arguments are literals."""
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(line.value, ast.Call):
            call = line.value
            if isinstance(call.func, ast.Name) and call.func.id == "hparam":
                about: dict[str, Any] = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
                yield line.target.id, ast.unparse(line.annotation), Hparam(ast.literal_eval(call.args[0]), **about)
