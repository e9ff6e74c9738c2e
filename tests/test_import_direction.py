"""Which package may import which: every import of every file, also those inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import graphshift

ROOT = Path(graphshift.__file__).parent
#: A package may import those before it, never those after it. ``lab`` may import all but ``cli``.
ORDER = (
    "_version",
    "core",
    "graph",
    "data",
    "datasets",
    "backbones",
    "explorers",
    "training",
    "estimators",
    "methods",
    "shift",
    "fitting",
    "studies",
    "report",
    "serving",
    "cli",
)


class Import(NamedTuple):
    """One import: the file, the line, the module it names, whether it happens when the file is imported."""

    file: str
    line: int
    module: str
    at_import: bool


def test_packages_import_only_those_before_them() -> None:
    wrong = {(found.file, found.module) for found in all_imports() if not allowed(found)}
    assert sorted(wrong) == [], "imports against the order"


def test_commands_import_the_lab_when_they_run() -> None:
    early = [f for f in all_imports() if f.file.startswith("cli/") and f.module.startswith("lab") and f.at_import]
    assert early == []


def test_no_cycles_when_modules_are_imported() -> None:
    check_no_cycle((name_of(found.file), found.module) for found in all_imports() if found.at_import)


def test_no_cycles_between_the_packages_of_the_lab() -> None:
    pairs = ((package_of(name_of(found.file)), package_of(found.module)) for found in all_imports())
    check_no_cycle((a, b) for a, b in pairs if a.startswith("lab.") and b.startswith("lab."))


def test_every_package_has_its_place() -> None:
    packages = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    assert packages == {*ORDER, "lab"} - {"_version"}


def test_sees_lazy_relative_and_computed_imports() -> None:
    text = """
def f():
    from ..lab import toy
    import_module(f"graphshift.lab.bench.{name}")
if TYPE_CHECKING:
    import graphshift.cli.fit
from graphshift import lab, load
import graphshift
"""
    found = list(imports_of(text, "studies/plan.py"))
    assert {(one.module, one.at_import) for one in found} == {
        ("lab.toy", False),
        ("lab.bench", False),
        ("cli.fit", False),
        ("lab", True),
        ("load", True),
        ("", True),
    }
    assert [one.module for one in found if allowed(one)] == [""]


def allowed(found: Import) -> bool:
    """Whether the order of packages permits an import; a public name (``from graphshift import EERM``) has no place."""
    importer, imported = found.file.split("/")[0].removesuffix(".py"), found.module.split(".")[0]
    if importer == "__init__":  # of the package: the public names come from everywhere in the library
        return imported not in ("cli", "lab")
    if importer == "__main__":  # of the package: the command line
        return imported == "cli"
    if imported in ("", importer):
        return True
    if "lab" in (importer, imported):
        return imported != "cli" and importer in ("lab", "cli")
    return imported in ORDER and ORDER.index(imported) < ORDER.index(importer)


def all_imports() -> list[Import]:
    """The imports of all files, with the names of modules inside the package."""
    files = sorted(ROOT.rglob("*.py"))
    return [
        found
        for path in files
        for found in imports_of(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    ]


def imports_of(text: str, file: str) -> Iterator[Import]:
    """The imports of one file from graphshift, by module inside it (``""`` for the package itself)."""
    tree = ast.parse(text, file)
    later = {child for node in ast.walk(tree) if is_later(node) for child in ast.walk(node)}
    for node in ast.walk(tree):
        for module in modules_of(node, file):
            if module == "graphshift" or module.startswith("graphshift."):
                yield Import(file, node.lineno, module.removeprefix("graphshift").lstrip("."), node not in later)


def is_later(node: ast.AST) -> bool:
    """Whether what stands inside is not run when the file is imported: a function, or for the type checker alone."""
    checking = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    return checking or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def modules_of(node: ast.AST, file: str) -> list[str]:
    """The full names of the modules that a statement imports; none if it is not an import."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        package = ("graphshift", *Path(file).parent.parts)[: -node.level + 1 or None] if node.level else ()
        base = ".".join((*package, *filter(None, [node.module])))
        names = (f"{base}.{alias.name}" for alias in node.names)  # ``from graphshift import lab`` imports a module
        return [name if base == "graphshift" or is_module(name) else base for name in names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
        first = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            return [first.value.rstrip(".")]  # of an f-string the part that is known
    return []


def is_module(name: str) -> bool:
    """Whether a full name is that of a module or a package of ours."""
    top, *rest = name.split(".")
    path = ROOT.joinpath(*rest)
    return top == "graphshift" and bool(rest) and (path.with_suffix(".py").exists() or (path / "__init__.py").exists())


def name_of(file: str) -> str:
    """The module of a file: ``core/errors.py`` is ``core.errors``."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def package_of(module: str) -> str:
    """``lab.paper.tables`` is in ``lab.paper``."""
    return ".".join(module.split(".")[:2])


def check_no_cycle(pairs: Iterable[tuple[str, str]]) -> None:
    """Fails with a cycle of modules that import each other."""
    graph: dict[str, set[str]] = {}
    for importer, imported in pairs:
        if importer != imported:
            graph.setdefault(importer, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None
