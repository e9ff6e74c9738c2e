"""Every option of a user's own tables: its type and meaning, checked the same way from Python and from TOML."""

import datetime
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of


def _listed(value: Any) -> Any:
    """One value stands for a list of one."""
    return [value] if isinstance(value, str | int | float | datetime.date) else value


Value: TypeAlias = StrictBool | StrictInt | StrictFloat | StrictStr
Moment: TypeAlias = StrictInt | StrictFloat | datetime.datetime | datetime.date | StrictStr
Names: TypeAlias = Annotated[tuple[StrictStr, ...], BeforeValidator(_listed)]
Values: TypeAlias = Annotated[tuple[Value, ...], BeforeValidator(_listed)]
Moments: TypeAlias = Annotated[tuple[Moment, ...], BeforeValidator(_listed)]


class TableOptions(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """The options of :func:`graphshift.datasets.own.from_tables`, without the tables."""

    id: str = Field("id", description="column of the nodes' ids")
    label: str = Field("label", description="column of what is predicted")
    features: Names | None = Field(None, description="columns to learn from; all others if not given")
    categorical: Names = Field((), description="columns of numbers that are codes, so words")
    environments: str | None = Field(None, description="column that says the environment")
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
    unknown_ids: Literal["error", "drop"] = Field("error", description="what to do with edges to unknown nodes")
    missing: Names = Field((), description="further words that mean missing")
    separator: str = Field(",", min_length=1, max_length=1, description="between the fields of a CSV")
    encoding: str | None = Field(None, description="of the CSV files, such as latin-1; found out if not given")
    name: str = Field("own", description="name of the dataset")


def checked_options(values: Mapping[str, Any], *, where: str = "") -> TableOptions:
    """Checks options and explains every one that does not fit; ``where`` begins each message."""
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
    column, needed, other = ("environments", by_value, by_time) if options.time is None else ("time", by_time, by_value)
    for name in other:
        if getattr(options, name) not in ((), None):
            raise GraphshiftError(f"{where}{name} does not go with {column}; that takes {', '.join(needed)}.")
    if getattr(options, needed[0]) in ((), None):
        raise GraphshiftError(f"{where}{needed[0]} is missing; {column} = {getattr(options, column)!r} needs it.")
    return options


def _explain(problem: Any, values: Mapping[str, Any]) -> str:
    name = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        known = ["nodes", "edges", *TableOptions.model_fields]
        return f"{name} is not an option of tables; {expected_one_of(name, known)}"
    expected = problem["msg"][0].lower() + problem["msg"][1:]
    meaning = TableOptions.model_fields[name].description
    return f"{name} is {values.get(name)!r}; {expected.replace('input should', 'it should')}: {meaning}."
