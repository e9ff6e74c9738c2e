"""Training needs no extra: what is left out without one says what to install."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.extras import EXTRAS, missing_extra, require_extra
from graphshift.report.figures import can_draw, new_figure

ROOT = Path(__file__).resolve().parents[1]

WITHOUT = """
import importlib, pkgutil, sys, warnings

class Hiding:  # finds all but the extras, also for those who only look whether one is there
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *rest):
        return None if name in %s else self.finder.find_spec(name, *rest)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
import graphshift as gs
for module in pkgutil.walk_packages(gs.__path__, "graphshift."):
    if not module.name.endswith(("__main__", "_library")):
        importlib.import_module(module.name)

from pathlib import Path
from graphshift.report.study_report import write_report
from graphshift.studies import Arm, Plan, run_study

data = gs.load("planted", nodes=60)
model = gs.ERM(epochs=2, hidden_channels=4).fit(data.train, val=data.val)
model.save("model")
assert (gs.load_model("model").predict(data.tests[0]) == model.predict(data.tests[0])).all()

arms = [Arm("ERM", {"method": "erm", "epochs": 1}), Arm("EERM", {"method": "eerm", "epochs": 1})]
study = run_study(Plan("planted", arms, [0, 1], {"nodes": 60}), Path("study"), workers=0, threads=1, progress=False)
assert [record.status for record in study.records] == ["ok"] * 4, study.records
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", gs.GraphshiftWarning)
    write_report(study, Path("study"))
print("REPORT", *(str(one.message) for one in caught if issubclass(one.category, gs.GraphshiftWarning)))
tuned = [Arm("ERM", {"method": "erm", "epochs": 1}, {"lr": [0.01, 0.1]})]
try:
    run_study(Plan("planted", tuned, [0], {"nodes": 60}, trials=2), workers=0, threads=1, progress=False)
except gs.GraphshiftError as error:
    print("TUNING", error)
"""


def test_training_and_studies_need_no_extra(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT % list(EXTRAS)],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.split()[:1]}
    assert "'graphshift[plots]'" in lines["REPORT"]
    assert "'graphshift[tune]'" in lines["TUNING"]
    assert (tmp_path / "study" / "report.html").is_file()
    assert not (tmp_path / "study" / "figures").exists()


def test_a_missing_extra_is_told_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_extra("matplotlib", "drawing") is None
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    command = re.escape("pip install 'graphshift[plots]'")
    with pytest.raises(GraphshiftError, match=f"^drawing needs matplotlib: {command}"):
        require_extra("matplotlib", "drawing")
    with pytest.raises(GraphshiftError, match=command):
        new_figure(1, 1)
    with pytest.warns(GraphshiftWarning, match=command):
        assert not can_draw()


def test_a_package_that_is_broken_is_not_called_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lightning.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lightning", raising=False)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        missing_extra("lightning", "an example")


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert extras.keys() == {*EXTRAS.values(), "all"}
    for package, extra in EXTRAS.items():
        assert package in [re.split(r"[\[>=]", wanted)[0].removesuffix("-skinny") for wanted in extras[extra]]
        assert not any(wanted.startswith(package) for wanted in project["dependencies"])
    (everything,) = extras["all"]
    assert everything == f"graphshift[{','.join(name for name in extras if name != 'all')}]"
