"""Every nemesis, and which of them a run can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evensplit.errors import ChaosError
from evensplit.testing.chaos.nemesis import access, brokers, metadata, network, spark, topics, writing
from evensplit.testing.chaos.nemesis.base import NEEDS, Nemesis

NEMESES: Mapping[str, Nemesis] = {
    one.kind.name: one
    for module in (brokers, network, access, topics, metadata, spark, writing)
    for one in module.NEMESES
}
"""Name -> nemesis, those of one resource together."""


def usable(names: Sequence[str], there: frozenset[str]) -> dict[str, Nemesis]:
    """Those of the nemeses `names` (all, if it is empty) whose needs are `there`.

    `ChaosError` for names that are unknown, and for those asked for by name whose needs are not there; all at once.
    """
    problems = [f"{name!r} is no nemesis" for name in names if name not in NEMESES]
    problems += [
        f"{name} needs {NEEDS[needs]}, which this run does not have"
        for name in names
        if name in NEMESES and (needs := NEMESES[name].needs) not in {"", *there}
    ]
    if problems:
        raise ChaosError(f"{'; '.join(problems)}. `evensplit chaos --list` has them all")
    return {name: one for name, one in NEMESES.items() if (not names or name in names) and one.needs in {"", *there}}
