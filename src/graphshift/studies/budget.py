"""How much of a comparison fits into the time: candidates are timed, the dearest left out, the rest repeated."""

import math
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.estimators import recorded_estimator
from graphshift.studies.job_runner import attempt, reason_of
from graphshift.studies.jobs import Job, Schedule
from graphshift.studies.plan import Arm
from graphshift.studies.progress import duration
from graphshift.studies.resolved import ResolvedPlan

#: Epochs that a GNN is timed with.
TIMED = 4

#: Of the budget that is planned for: what is left keeps the promise on a machine that is a little slower than timed.
PLANNED = 0.85

#: Of the budget that timing may take, beside what is needed, before it gives up on further candidates.
_TIMING = 0.2

#: Seconds that a worker takes to start, beside reading the data.
_START = 4.0

#: Of the budget that one fit without epochs may take, to be timed in full.
_MOST_FOR_ONE = 0.2

#: Training nodes that such a fit is tried with first, and the fewest that a tree of a smaller forest is grown from.
_FEW = 1_000

#: A forest that takes longer than this share of the budget has fewer trees, each grown from fewer rows. It is fitted
#: anew for every environment that is left out, and in both blends.
_FOREST = 0.03
_FEWER_TREES = 100

#: Graphs for each validation graph that are predicted to estimate a score without labels, about.
_COPIES = 30

#: Seconds that a fit of a needed candidate may always take.
_ALWAYS = 5.0

_FEWEST_EPOCHS = 10
_MOST_SEEDS, _MOST_TRIALS = 10, 48


@dataclass(frozen=True)
class Size:
    """How much a comparison does: seeds of each arm, trials of its tuning, epochs of a fit, seeds of leaving out."""

    seeds: int
    trials: int
    epochs: int
    leave_out: int = 0

    def fits(self, rules: int, environments: int) -> int:
        """Of one arm, at most: each rule may choose a setting of its own."""
        return self.trials + self.seeds * (rules if self.trials else 1) + self.leave_out * environments


@dataclass(frozen=True)
class Cost:
    """What fits of an arm take.

    Attributes:
        fixed: seconds of a final run besides its epochs: it is scored in many ways.
        epoch: seconds of an epoch; 0 for a method without.
        trial: seconds of a trial of tuning besides its epochs.
        settings: of an arm that was made smaller, so that it need not be left out.
    """

    fixed: float
    epoch: float = 0.0
    trial: float = 0.0
    settings: Mapping[str, int] = field(default_factory=dict)

    def of(self, size: Size, rules: int, environments: int) -> float:
        """Seconds of all fits of the arm."""
        runs = size.fits(rules, environments) - size.trials
        return runs * (self.fixed + self.epoch * size.epochs) + size.trials * (self.trial + self.epoch * size.epochs)

    def once(self, epochs: int) -> float:
        """Seconds of one run."""
        return self.fixed + self.epoch * epochs


@dataclass(frozen=True)
class Sizing:
    """What fits: the size, the arms, why others do not, about how many seconds all of it takes, and smaller arms."""

    size: Size
    arms: Sequence[str]
    dropped: Mapping[str, str]
    seconds: float
    smaller: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def timed(
    plan: ResolvedPlan,
    data: ShiftDataset,
    needed: Sequence[str],
    budget: float,
    *,
    report: Callable[[int, str], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[dict[str, Cost], dict[str, str]]:
    """What a fit of each arm takes here, measured; and why some were not.

    With as many edits as tuning may try: the budget is to be kept.

    Args:
        plan: with one seed and no trials.
        data: its data.
        needed: arms that are timed first, whatever it takes.
        budget: seconds.
        report: called with how many arms are done and the name of the next.
        clock: that is asked for the time.
    """
    costs, dropped = dict[str, Cost](), dict[str, str]()
    ordered = sorted(plan.arms, key=lambda arm: (arm.name not in needed, "epochs" in plan.settings(arm)))
    attempt(_job(plan, ordered[0], 1), data)  # the first fit of a process also loads what all fits share
    start = clock()
    for i, arm in enumerate(ordered):
        if report is not None:
            report(i, arm.name)
        if arm.name in needed:
            start = clock()  # what is needed takes what it takes
        elif clock() - start > _TIMING * budget:
            dropped[arm.name] = "timing the others took a fifth of the budget"
            continue
        found = _guessed_cost(plan, arm, data, clock)
        if isinstance(found, Cost) and arm.settings["method"] == "forest":
            found = _smaller_forest(found, plan.settings(arm), data, budget)
        scored = next((cost for cost in costs.values() if cost.epoch), None)  # GNNs are scored alike
        if found is None and "epochs" in plan.settings(arm) and scored is not None:
            found = _cost_of_epochs(plan, arm, data, scored)
        elif found is None or (
            isinstance(found, Cost) and not found.settings and found.once(0) < _MOST_FOR_ONE * budget
        ):
            found = _cost(plan, arm, data, clock)
        if isinstance(found, str):
            dropped[arm.name] = f"it failed: {found}"
        else:
            costs[arm.name] = found
    return costs, dropped


def _guessed_cost(plan: ResolvedPlan, arm: Arm, data: ShiftDataset, clock: Callable[[], float]) -> Cost | str | None:
    """What a model without a GNN takes, by a fit to some of the nodes; None where all of them can be tried at once.

    A forest on many nodes and columns may take longer than the whole budget, and cannot be stopped.
    """
    job, nodes = _job(plan, arm, 1), sum(int(e.mask.sum()) for e in data.train)
    share = _FEW / nodes
    if "epochs" in job.settings or share > 0.5:
        return None
    few = replace(data, train=[_thinned(e, share) for e in data.train])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphshiftWarning)
            model = recorded_estimator({**job.settings, "selection": "last"})
            before = clock()
            model.fit(few.train)
            fitting = clock() - before
            before = clock()
            model.predict(few.train[0])
            predicting = (clock() - before) / few.train[0].num_nodes
    except Exception as error:
        return reason_of(error)
    seen = sum(e.num_nodes for e in data.train)
    fitting = max(fitting - predicting * seen, 0.0) / share
    known = sum(e.num_nodes for e in data.val)
    trial = fitting + predicting * (seen + known)
    more = sum(e.num_nodes for e in data.tests) + (_COPIES * known if plan.expect else 0)
    return Cost(trial + predicting * more, 0.0, trial * _wider(arm))


def _smaller_forest(cost: Cost, settings: Mapping[str, Any], data: ShiftDataset, budget: float) -> Cost:
    """What a forest takes that is made small enough for the budget: fewer trees, then fewer rows for each."""
    rows = sum(int(e.mask.sum()) for e in data.train)
    excess = cost.once(0) / max(_FOREST * budget, _ALWAYS)
    if excess <= 1 or settings["rows_per_tree"]:
        return cost
    trees = min(settings["trees"], max(_FEWER_TREES, int(settings["trees"] / excess)))
    left = excess * trees / settings["trees"]
    fewer = {"trees": trees} | ({"rows_per_tree": max(_FEW, int(rows / left))} if left > 1 else {})
    share = trees / settings["trees"] * min(1.0, fewer.get("rows_per_tree", rows) / rows)
    return replace(cost, fixed=cost.fixed * share, trial=cost.trial * share, settings=fewer)


def _wider(arm: Arm) -> float:
    """How much longer a trial may take than the default: tuning also tries neighbours' means, which are dense."""
    return 3.0 if "columns" in (arm.space or {}) else 1.0


def _thinned(environment: Environment, share: float) -> Environment:
    """The environment with some of its counted nodes; of each class as many, so that none is lost."""
    counted, kept = environment.counted, torch.zeros_like(environment.mask)
    order = counted[torch.argsort(environment.labels, stable=True)]
    kept[order[:: max(1, int(1 / share))]] = True
    return environment.replace(mask=kept)


def _cost(plan: ResolvedPlan, arm: Arm, data: ShiftDataset, clock: Callable[[], float]) -> Cost | str:
    """What fits of an arm take, or why it failed: a run of one epoch, and for a GNN a few epochs more."""
    job = _job(plan, arm, 1)
    before = clock()
    record = attempt(job, data)
    taken, training = clock() - before, record.seconds or 0.0
    if not record.ok:
        return str(record.reason)
    if "epochs" not in job.settings:
        return Cost(taken, 0.0, training * _wider(arm))
    each, _ = _epoch(job, data)
    return Cost(max(taken - each, 0.0), each, max(training - each, 0.0))


def _cost_of_epochs(plan: ResolvedPlan, arm: Arm, data: ShiftDataset, scored: Cost) -> Cost | str:
    """What fits of a GNN take, if they are scored as another's are, or why it failed: a few epochs are timed."""
    try:
        each, first = _epoch(_job(plan, arm, 1), data)
    except Exception as error:
        return reason_of(error)
    return replace(scored, fixed=scored.fixed + first, epoch=each, trial=scored.trial + first)


def _epoch(job: Job, data: ShiftDataset) -> tuple[float, float]:
    """The seconds of an epoch, and by how many more the first one takes."""
    settings = {**job.settings, "epochs": TIMED}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        model = recorded_estimator(settings).fit(data.train, data.val, also=job.rules[1:])
    seconds = [row["seconds"] for row in model.history_]
    each = (seconds[-1] - seconds[0]) / max(len(seconds) - 1, 1)
    return each, max(seconds[0] - each, 0.0)


def _job(plan: ResolvedPlan, arm: Arm, epochs: int) -> Job:
    """A final run of an arm, with as many edits as tuning may try."""
    most = {name: max(values) for name, values in (arm.space or {}).items() if name == "edits_per_node"}
    short = {"epochs": epochs} if "epochs" in plan.settings(arm) else {}
    alone = replace(arm, settings={**arm.settings, **most, **short}, space=None, baseline=None)
    return Schedule(replace(plan, arms=(alone,), leave_out=0)).jobs({})[0]


def fitted_to(
    costs: Mapping[str, Cost],
    needed: Sequence[str],
    epochs: int,
    seconds: float,
    *,
    budget: float | None = None,
    workers: int = 1,
    rules: int = 1,
    environments: int = 0,
    blended: Sequence[Sequence[str]] = (),
    committee: bool = False,
) -> Sizing:
    """As many arms as fit into the time, the cheapest first, then as many seeds and trials as fit.

    The arms in ``needed`` are kept in any case, with fewer seeds and epochs if need be.

    Args:
        costs: of the arms that were timed.
        needed: arms to keep.
        epochs: of a whole fit.
        seconds: that are left for fits.
        budget: of which they are left; an arm to keep is dropped if one fit takes more than half of it. None stands for
            ``seconds``.
        workers: that share the fits.
        rules: by which settings are chosen.
        environments: training environments that can be left out in turn.
        blended: groups of arms; room is kept for a blend of one of each, the dearest, which is run when all is done,
            and of more than two for one without the last.
        committee: whether one more arm is the mean of one model of each.
    """

    def total(names: Sequence[str], size: Size) -> float:
        own = sum(costs[name].of(size, rules, environments) for name in names) / workers
        if committee:
            runs = size.seeds + size.leave_out * environments
            own += sum(costs[name].once(size.epochs) for name in names) * runs / workers
        groups = [[costs[name] for name in names if name in group] for group in blended]
        members = [max(group, key=lambda cost: cost.once(size.epochs)) for group in groups if group]
        if len(members) < 2:
            return own
        members += members[:-1] if len(members) > 2 else []  # a second blend, without the last
        fits = math.ceil((size.seeds + size.leave_out * environments) / workers)
        return own + sum(cost.once(size.epochs) for cost in members) * fits

    once, dropped = 1 if environments else 0, dict[str, str]()
    for name in (name for name in needed if name in costs and not costs[name].epoch):  # epochs can be made fewer
        if costs[name].fixed / workers > max((budget or seconds) / 2, _ALWAYS):
            dropped[name] = f"one fit takes about {duration(costs[name].fixed)}"
    kept = [name for name in costs if name in needed and name not in dropped]
    # Environments that are left out say more about other graphs than the second half of the epochs does.
    smallest = [Size(2, 0, epochs, once), Size(1, 0, epochs, once)]
    smallest += [Size(1, 0, fewer, once) for fewer in [*_halves(epochs)][:once]]
    smallest += [Size(1, 0, fewer) for fewer in (epochs, *_halves(epochs))]
    size = next((one for one in smallest if total(kept, one) <= seconds), smallest[-1])
    for name in sorted((name for name in costs if name not in needed), key=lambda name: costs[name].once(epochs)):
        if total([*kept, name], size) <= seconds:
            kept.append(name)
        else:
            dropped[name] = f"it takes about {duration(total([name], size))}, more than is left of the budget"
    while size.leave_out == once and size.epochs == epochs:
        larger = next((one for one in _larger(size) if total(kept, one) <= seconds), None)
        if larger is None:
            break
        size = larger
    names = [name for name in costs if name in kept]
    smaller = {name: costs[name].settings for name in names if costs[name].settings}
    return Sizing(size, names, dropped, total(names, size), smaller)


def _halves(epochs: int) -> Iterator[int]:
    while epochs // 2 >= _FEWEST_EPOCHS:
        epochs //= 2
        yield epochs


def _larger(size: Size) -> list[Size]:
    """The next larger sizes, by one fit of every arm or two: the one that is worth most first."""
    more_seeds = replace(size, seeds=size.seeds + 1)
    more_trials = replace(size, trials=max(2, size.trials + 1))  # one trial would try the defaults alone
    path = ((3, 0), (3, 8), (5, 8), (5, 24), (_MOST_SEEDS, 24), (_MOST_SEEDS, _MOST_TRIALS))
    goal = next((goal for goal in path if size.seeds < goal[0] or size.trials < goal[1]), path[-1])
    first = more_seeds if size.seeds < goal[0] else more_trials
    return [one for one in (first, more_seeds, more_trials) if one.seeds <= _MOST_SEEDS and one.trials <= _MOST_TRIALS]


def time_left(budget: float, spent: float, reading: float, workers: int, starts: int = 1) -> float:
    """Seconds for fits, of a budget of which some are spent; workers take their time to start and to read the data."""
    return max(PLANNED * budget - spent - starts * (reading + _START if workers else 0.0), 0.0)


#: The longest budget, in seconds: a week. What runs for longer should be planned, not guessed.
_LONGEST = 7 * 24 * 3600.0

_UNITS = {"": 60.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds_of(budget: str | float, where: str = "budget") -> float:
    """A time in seconds: a number of them, or a text such as ``90s``, ``20m`` or ``2h``."""
    if isinstance(budget, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|)", budget.strip())
        found = float(match[1]) * _UNITS[match[2]] if match else 0.0
    else:
        found = float(budget)
    if not found > 0:
        raise GraphshiftError(f"{where} is {budget!r:.80}; expected a time, as 90s, 20m or 2h.")
    if found > _LONGEST:
        raise GraphshiftError(
            f"{where} is {budget!r:.80}; expected at most {_LONGEST / 3600:.0f}h. For more, plan a study yourself: "
            "graphshift compare says what it runs, and goes on where it was stopped."
        )
    return found
