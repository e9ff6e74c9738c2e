"""Every option of a user's own tables: its type and meaning, checked the same way from Python and from TOML."""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.datasets.node_split import PROPERTIES


def _listed(value: Any) -> Any:
    """One value stands for a list of one."""
    return [value] if isinstance(value, str | int | float | datetime.date) else value


Value: TypeAlias = StrictBool | StrictInt | StrictFloat | StrictStr
Moment: TypeAlias = StrictInt | StrictFloat | datetime.datetime | datetime.date | StrictStr
Names: TypeAlias = Annotated[tuple[StrictStr, ...], BeforeValidator(_listed)]
Values: TypeAlias = Annotated[tuple[Value, ...], BeforeValidator(_listed)]
Moments: TypeAlias = Annotated[tuple[Moment, ...], BeforeValidator(_listed)]


def _named(value: Any) -> Any:
    """A list of columns stands for a table in which nothing is said of each."""
    value = _listed(value)
    names = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    return dict.fromkeys(value, "") if names else value


def _tfidf(value: Any) -> Any:
    named = _named(value)
    return {name: how or "tfidf" for name, how in named.items()} if isinstance(named, dict) else named


Scale: TypeAlias = Literal["auto", "none", "standard", "log", "rank"]
Named: TypeAlias = Annotated[dict[StrictStr, StrictStr], BeforeValidator(_named)]
Texts: TypeAlias = Annotated[dict[StrictStr, Literal["tfidf", "hash"]], BeforeValidator(_tfidf)]
File: TypeAlias = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, Path) else value)]


class TableOptions(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """The options of :func:`graphshift.datasets.own.from_tables`, without the tables."""

    id: str = Field("id", description="column of the nodes' ids")
    label: str = Field("label", description="column of what is predicted")
    features: Names | None = Field(None, description="columns to learn from; all others if not given")
    categorical: Names = Field((), description="columns of numbers that are codes, so words")
    scale: Scale | dict[StrictStr, Scale] = Field("auto", description="how numbers are scaled, for all or by column")
    per_environment: StrictBool | Names = Field(False, description="columns of numbers to rank inside each environment")
    dates: Named = Field(default_factory=dict, description="columns of dates, with their format if it is another")
    multi_hot: Named = Field(default_factory=dict, description="columns of lists of words, with what separates them")
    text: Texts = Field(default_factory=dict, description="columns of text, with tfidf or hash")
    structure: StrictBool | None = Field(None, description="whether to describe each node by its place in the graph")
    feature_file: File | None = Field(None, description="sparse matrix of further features, .npz or .mtx")
    feature_ids: File | None = Field(None, description="text file with the node's id for each row of feature_file")
    graph: str | None = Field(None, description="column of each node's graph, where graphs have labels")
    environments: str | None = Field(None, description="column that says the environment, or by:PROPERTY")
    train: Values = Field((), description="its values that train")
    val: Values = Field((), description="its values that validate")
    tests: Values = Field((), description="its values that test")
    unlabelled: Values = Field((), description="its values whose nodes are to be predicted, without labels")
    time: str | None = Field(None, description="column that says the time")
    train_until: Moment | None = Field(None, description="last time that trains")
    val_until: Moment | None = Field(None, description="last time that validates")
    test_until: Moments = Field((), description="last time of each test period")
    target_until: Moments = Field((), description="last time of each period to be predicted, without labels")
    task: Literal["binary", "multiclass", "regression"] | None = Field(None, description="kind of task")
    metric: str = Field("", description="name of the metric")
    positive: Value | None = Field(None, description="label of class 1 in a binary task")
    undirected: StrictBool = Field(True, description="whether a row of the edge table goes both ways")
    source: str = Field("source", description="column of one end of the edges")
    target: str = Field("target", description="column of the other end")
    weight: str | None = Field(None, description="column of the edges' weights")
    edge_features: Names = Field((), description="columns of the edge table that are features of edges")
    unknown_ids: Literal["error", "drop"] = Field("error", description="what to do with edges to unknown nodes")
    missing: Names = Field((), description="further words that mean missing")
    separator: str = Field(",", min_length=1, max_length=1, description="between the fields of a CSV")
    encoding: str | None = Field(None, description="of the CSV files, such as latin-1; found out if not given")
    name: str = Field("own", description="name of the dataset")

    @property
    def split_property(self) -> str | None:
        """The property that ``environments = "by:PROPERTY"`` names; None if it is a column."""
        by = (self.environments or "").removeprefix("by:")
        return by if self.environments and by != self.environments else None


def checked_options(values: Mapping[str, Any], *, where: str = "", graphs: bool = False) -> TableOptions:
    """Checks options and explains every one that does not fit.

    Args:
        values: the options.
        where: what begins each message.
        graphs: whether there is a table of graphs.
    """
    if graphs and values.get("graph") is None:
        values = {**values, "graph": "graph"}
    try:
        options = TableOptions.model_validate(dict(values))
    except ValidationError as error:
        # A union reports one problem for each of its types; the first says enough.
        problems = {problem["loc"][:1]: _explain(problem, values) for problem in reversed(error.errors())}
        raise GraphshiftError("\n".join(where + text for text in reversed(problems.values()))) from None
    by_value = ("train", "val", "tests", "unlabelled")
    by_time = ("train_until", "val_until", "test_until", "target_until")
    if (options.environments is None) == (options.time is None):
        found = "neither is given" if options.time is None else "both are given"
        raise GraphshiftError(
            f"{where}expected environments (a column such as a country, with train, val and tests) or time (a column "
            f"such as a year, with train_until, val_until and test_until); {found}."
        )
    _check_level(options, graphs, where)
    if options.feature_ids is not None and options.feature_file is None:
        raise GraphshiftError(f"{where}feature_ids goes with feature_file, which is not given.")
    column, needed, other = ("environments", by_value, by_time) if options.time is None else ("time", by_time, by_value)
    for name in other:
        if getattr(options, name) not in ((), None):
            raise GraphshiftError(f"{where}{name} does not go with {column}; that takes {', '.join(needed)}.")
    if options.split_property is not None:
        if options.split_property not in PROPERTIES:
            expected = expected_one_of(options.split_property, list(PROPERTIES))
            raise GraphshiftError(f"{where}environments is {options.environments!r}; by: takes a property, {expected}")
        for name in by_value:
            if getattr(options, name):
                raise GraphshiftError(f"{where}{name} does not go with environments = {options.environments!r}.")
    elif getattr(options, needed[0]) in ((), None):
        raise GraphshiftError(f"{where}{needed[0]} is missing; {column} = {getattr(options, column)!r} needs it.")
    return options


def _check_level(options: TableOptions, graphs: bool, where: str) -> None:
    """What goes with a table of graphs, and what does not."""
    if options.graph is not None and not graphs:
        raise GraphshiftError(f"{where}graph goes with a table of graphs (graphs), which is not given.")
    if graphs and options.feature_file is not None:
        raise GraphshiftError(f"{where}feature_file does not go with a table of graphs; its rows are in no graph.")
    if graphs and options.split_property is not None:
        raise GraphshiftError(f"{where}environments is {options.environments!r}; graphs are not split by a property.")


def _explain(problem: Any, values: Mapping[str, Any]) -> str:
    name = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        known = ["nodes", "edges", "graphs", *TableOptions.model_fields]
        return f"{name} is not an option of tables; {expected_one_of(name, known)}"
    expected = problem["msg"][0].lower() + problem["msg"][1:]
    meaning = TableOptions.model_fields[name].description
    return f"{name} is {values.get(name)!r}; {expected.replace('input should', 'it should')}: {meaning}."
