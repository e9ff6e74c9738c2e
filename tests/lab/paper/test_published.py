"""Published numbers and items against the paper's own LaTeX."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphshift.lab.paper import EXPERIMENTS, ITEMS, PUBLISHED, Published

PAPER = Path(__file__).resolve().parents[3].parent / "shared" / "paper" / "eerm-iclr2022.tex"

Cells = list[tuple[float, float]]


@pytest.fixture(scope="module")
def paper() -> str:
    if not PAPER.is_file():
        pytest.skip(f"the paper is not here: {PAPER} does not exist")
    return PAPER.read_text()


def row(text: str, begin: str) -> Cells:
    """The cells ``mean ± std`` of the one line of a table that begins with these words."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(begin) and r"\pm" in line]
    return [(float(mean), float(std)) for mean, std in re.findall(r"(\d+\.\d+) \$\\pm\$ (\d+\.\d+)", line)]


def published(source: str) -> dict[tuple[str, str], Published]:
    return {(p.experiment, p.label): p for p in PUBLISHED if p.source == source}


def test_table_2_is_the_papers(paper: str) -> None:
    expected = {}
    for training, words in (("hopkins", "John Hopkins"), ("bingham", "Bingham"), ("washu", "WashU")):
        cells = row(paper, words)  # ERM and EERM side by side for each test
        assert len(cells) == 6
        for i, method in enumerate(("ERM", "EERM")):
            tests = dict(zip(("Penn94", "Brown11", "Texas80"), cells[i::2], strict=True))
            expected[f"facebook-{training}", f"{method}, gcn"] = tests
    found = published("the paper, Table 2")
    assert {key: p.tests for key, p in found.items()} == expected
    assert all(p.mean is None for p in found.values())


def test_table_3_is_the_papers(paper: str) -> None:
    expected = {}
    for backbone, word in (("sage", "SAGE"), ("gprgnn", "GPR")):
        for method, macro in (("ERM", r"\base"), ("EERM", r"\model")):
            tests = dict(zip(("2015-2016", "2017-2018", "2019-2020"), row(paper, f"{macro} - {word}"), strict=True))
            expected[f"arxiv-{backbone}", f"{method}, {backbone}"] = tests
    found = published("the paper, Table 3")
    assert {key: p.tests for key, p in found.items()} == expected
    assert all(p.mean is None for p in found.values())


def test_other_numbers_are_means_and_say_whose_they_are() -> None:
    others = [p for p in PUBLISHED if not p.source.startswith("the paper") and p.experiment[:9] != "citation-"]
    assert {(p.experiment, p.label, p.mean) for p in others} == {
        ("twitch-gcn", "ERM, gcn", 51.9),
        ("twitch-gcn", "EERM, gcn", 53.3),
        ("twitch-gat", "EERM, gat", 59.7),
        ("twitch-gcnii", "EERM, gcnii", 59.6),
        ("twitch-gcn", "the best of all methods there", 62.26),
        ("elliptic-sage", "EERM, sage", 63.8),
        ("elliptic-sage", "ERM, sage, tuned", 75.1),
        ("elliptic-sage", "the best of all methods there", 81.1),
    }
    assert all(p.source and p.tests == {} for p in others)
    assert all(p.experiment in EXPERIMENTS for p in PUBLISHED)


def test_numbers_of_citation_have_the_means_that_are_quoted() -> None:
    found: dict[str, list[float]] = {}
    for p in PUBLISHED:
        if p.experiment.startswith("citation-"):
            ((name, (value, _)),) = p.tests.items()
            assert EXPERIMENTS[p.experiment].options["target"] == name
            found.setdefault(p.label, []).append(value)
    means = {label: round(sum(values) / 6, 1) for label, values in found.items()}
    assert means == {"GCN": 67.0, "A2GNN": 77.1, "EviGDA": 78.9}


#: A word that the title of each item shares with the paper's caption, whatever its case.
WORDS = {
    "table1": "datasets",
    "fig2": "cora",
    "fig3": "photo",
    "fig4": "twitch",
    "table2": "",
    "fig5": "elliptic",
    "table3": "arxiv",
    "table4": "twitch",
    "fig6": "iid",
    "fig7": "facebook-100",
    "fig8": "label rates",
    "fig9": "t-sne",
}


def captions(paper: str) -> dict[str, str]:
    """Every caption under the number that LaTeX gives it; figures and tables are counted apart."""
    found: dict[str, str] = {}
    counts = {"fig": 0, "table": 0}
    around = ""
    for line in paper.splitlines():
        if begun := re.search(r"\\begin\{(figure|table|algorithm)\}", line):
            around = begun[1]
        if not (caption := re.search(r"\\caption(?:of\{(\w+)\})?\{(.*)", line)):
            continue
        kind = {"figure": "fig", "table": "table"}.get(caption[1] or around)
        if kind is not None:
            counts[kind] += 1
            found[f"{kind}{counts[kind]}"] = caption[2].lower()
    return found


def test_every_figure_and_table_is_an_item_under_its_number(paper: str) -> None:
    found = captions(paper)
    numbers = {*(f"fig{i}" for i in range(1, 18)), *(f"table{i}" for i in range(1, 5))}
    assert set(found) == numbers
    own = {name for name in ITEMS if re.fullmatch(r"(fig|table)\d+", name)}
    assert own == numbers - {"fig1"}  # a drawing of the method
    for name, word in WORDS.items():
        assert word in found[name]
        assert word in ITEMS[name].title.lower()
    assert "fb-100" in found["table2"]
    assert "Facebook-100" in ITEMS["table2"].title


@pytest.mark.parametrize("number", range(10, 18))
def test_the_appendix_shows_what_its_captions_say(paper: str, number: int) -> None:
    caption, item = captions(paper)[f"fig{number}"], ITEMS[f"fig{number}"]
    (name,) = item.experiments
    dataset, generator = name.split("-")
    assert rf"\texttt{{{dataset}}}" in caption
    assert f"generated by {generator}" in caption
    assert item.shows == (("spurious",) if "spurious features" in caption else ("tests",))
    assert item.title.startswith(f"{dataset.capitalize()}, {generator.upper()} generator")
