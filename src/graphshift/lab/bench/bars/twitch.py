"""Twitch DE: 3,170 sparse features. A step beside three ERM steps, and what the policies hold after many epochs."""

from __future__ import annotations

from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.workload import explorer_bytes, new_method, stepping

_STEP, _POLICIES = 1.1, 300.0
_ABSENT = "the files of twitch are not there (--data-dir)"


def run(bench: Bench) -> None:
    """Measures on the real graph, or says that it is not there."""
    epochs = bench.sizes.policy_epochs
    step = ("twitch-random-over-3-erm", "Twitch DE: EERM step, random, over three ERM steps")
    policies = (f"twitch-policies-after-{epochs}", f"Twitch DE: policies of 3 explorers after {epochs} epochs")
    if not bench.has_data("twitch"):
        bench.measured(*step, None, bar=_STEP, reason=_ABSENT)
        bench.measured(*policies, None, unit="MB", bar=_POLICIES, reason=_ABSENT)
        return
    environment = bench.real_data("twitch").train[0]
    with bench.stage("random beside ERM"):
        erm, random = (new_method(environment, kind) for kind in ("erm", "random"))
        three, one = bench.time(stepping(erm, environment, 3), stepping(random, environment))
        bench.outcome.data |= {"three_erm_steps": three, "random_step": one}
        bench.measured(*step, one / three, bar=_STEP)
    with bench.stage(f"{epochs} epochs of reinforce"):
        method = new_method(environment, "reinforce")
        stepping(method, environment, epochs)()
        held = explorer_bytes(method)
        bench.outcome.data["policy_bytes"] = held
        bench.measured(*policies, held / 1e6, unit="MB", bar=_POLICIES)
