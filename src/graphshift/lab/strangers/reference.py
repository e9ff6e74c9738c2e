"""The references: what anybody makes of the same columns in ten lines of scikit-learn, and ERM with its defaults."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.metrics import METRICS
from graphshift.methods.erm import ERM

_WIDE = 200  # columns of numbers: words, which nobody scales


def reference_scores(nodes: pd.DataFrame, options: Mapping[str, Any], data: ShiftDataset) -> dict[str, float]:
    """The mean test score of each reference by the metric of the data.

    Args:
        nodes: the table, as it was written.
        options: of the file that ``init`` wrote: the columns that are no features.
        data: the same as environments, for the split and the labels.
    """
    roles = [options.get(name) for name in ("id", "label", "environments", "time")]
    table = nodes.set_index(nodes[options["id"]].astype(str)).drop(columns=[c for c in roles if c in nodes])
    found: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for codes in (False, True):
            shape = _columns(table, codes=codes)
            for name, model in _models(classes=data.task.is_classification).items():
                model = make_pipeline(shape, model)
                x, y = _pooled(table, data)
                model.fit(x, y)
                found[f"{name}, codes as words" if codes else name] = float(
                    np.mean([_score(model, table, e, data) for e in data.tests])
                )
            if not _codes(table):
                break
        erm = ERM().set_params(**data.defaults).fit(data)
        found["ERM"] = float(np.mean([erm.score(e) for e in data.tests]))
    return found


def _models(*, classes: bool) -> dict[str, Any]:
    if classes:
        return {"logistic": LogisticRegression(max_iter=1000), "forest": RandomForestClassifier(random_state=0)}
    return {"ridge": Ridge(), "forest": RandomForestRegressor(random_state=0)}


def _codes(table: pd.DataFrame) -> list[str]:
    """Whole numbers of which each value is there several times."""
    found = []
    for name in table.select_dtypes("number") if table.shape[1] < _WIDE else []:
        known = table[name].dropna()
        if (known % 1 == 0).all() and 2 < known.nunique() < len(known) / 5:
            found.append(name)
    return found


def _columns(table: pd.DataFrame, *, codes: bool) -> Any:
    as_words = _codes(table) if codes else []
    numbers = [name for name in table.select_dtypes("number") if name not in as_words]
    words = [name for name in table if name not in numbers and name not in as_words]
    steps: list[Any] = []
    if numbers:
        fill = SimpleImputer()
        steps.append((fill if len(numbers) > _WIDE else make_pipeline(fill, StandardScaler()), numbers))
    for name in words:
        texts = table[name].dropna().astype(str)
        lists = bool(texts.str.contains(";").mean() > 0.2)
        if lists:
            steps.append((CountVectorizer(tokenizer=_split, token_pattern=None, binary=True, min_df=2), name))
        elif texts.str.count(" ").mean() >= 2:
            steps.append((TfidfVectorizer(), name))
        else:
            as_words = [*as_words, name]
    if as_words:
        steps.append((OneHotEncoder(handle_unknown="ignore"), as_words))
    return make_column_transformer(*steps)


def _split(text: str) -> list[str]:
    return text.split(";")


def _rows(table: pd.DataFrame, e: Environment, data: ShiftDataset) -> pd.DataFrame:
    ids = [str(one) for one in data.facts["ids"][e.name]]
    rows = table.loc[[ids[i] for i in e.counted.tolist()]]
    return rows.assign(**{name: rows[name].astype(str) for name in rows if rows[name].dtype == object})


def _pooled(table: pd.DataFrame, data: ShiftDataset) -> tuple[pd.DataFrame, Any]:
    return (
        pd.concat([_rows(table, e, data) for e in data.train]),
        np.concatenate([e.labels.numpy() for e in data.train]),
    )


def _score(model: Any, table: pd.DataFrame, e: Environment, data: ShiftDataset) -> float:
    x = _rows(table, e, data)
    if not data.task.is_classification:
        return METRICS[data.task.metric].compute(e.labels.numpy(), model.predict(x))
    shares = np.zeros((len(x), data.task.num_classes))
    shares[:, model.classes_] = model.predict_proba(x)
    return METRICS[data.task.metric].compute(e.labels.numpy(), shares)
