"""An estimator as it shows itself in Jupyter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphshift.core.html import html_curve, html_details, html_table

if TYPE_CHECKING:
    from graphshift.estimators.base import Estimator


def estimator_html(model: Estimator) -> str:
    """What was chosen, the course of training, every setting."""
    fitted = hasattr(model, "task_")
    settings = model.settings_ if fitted else model.settings()
    given = {name: value for name, value in settings.items() if name == "method" or name in model._given}
    title = f"{model.label}: {'fitted' if fitted else 'not fitted'}"
    shown, rows = "", list(given.items())
    if fitted:
        score = "" if model.best_score_ is None else f", score {model.best_score_:.4g}"
        epoch = f"epoch {model.best_epoch_} by {settings['selection']}{score}; " if model.uses_backbone else ""
        kept = f"{epoch}{model.seconds_:.1f} s; {model.n_features_in_:,} features; {model.task_.kind}"
        shown = html_curve([row["loss"] for row in model.history_], "loss")
        shown += html_curve([row["val"] for row in model.history_ if "val" in row], "validation")
        title += f" ({kept})"
    every = html_details("every setting", html_table("", ["setting", "value"], list(settings.items())))
    return html_table(title, ["setting", "value"], rows) + shown + every
