"""The end of a run: the faults stop, and everything has to come right within a bound (liveness)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from evensplit.core.batch.alignment import HOLD
from evensplit.core.model import SplitId
from evensplit.core.state.codec import same
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.balance import may_read
from evensplit.testing.sim.simulated import Simulated
from evensplit.testing.sim.stream.host import StreamHost
from evensplit.testing.sim.world import Log, first_from

ROUNDS_MAX = 60
"""Batches within which everything has to be assigned and read."""

GROWN = 40
"""So many records come to each log of the others while one cluster does not answer."""

ROUNDS_AWAY_MAX = 10
"""Batches within which everything has to be read that may be while a cluster does not answer."""

QUIET_ROUNDS = 6
"""Batches in an unchanged world, which must not change a byte (law S16)."""


def finish(simulation: Simulated) -> None:
    """End every fault, and wait. Raises `Broken` if something stays unread, unassigned, or never comes to rest."""
    calm(simulation)
    if isinstance(simulation.driver, StreamHost) and simulation.profile.alignment_ms is not None:
        _go_on_without_one(simulation)
    _until_nothing("liveness", "without faults", simulation, unfinished)
    if isinstance(simulation.driver, StreamHost):
        # What is left out is removed only now, and then forgotten. A query that looks at its clusters once may end
        # meanwhile, having waited for what was away too long; the next process finds what it did not.
        for _ in range(ROUNDS_MAX):
            sessions = simulation.sessions
            for _ in range(2):
                simulation.driver.outlast()
                one_round(simulation)
                one_round(simulation)
            if sessions == simulation.sessions:
                break
    simulation.driver.frozen = True
    # A look can come after the batch of its round.
    one_round(simulation)
    one_round(simulation)
    before = _offset(simulation)
    for _ in range(QUIET_ROUNDS):
        one_round(simulation)
        after = _offset(simulation)
        if after != before:
            raise Broken("S16", f"the world is unchanged, and the offset is not: {before} became {after}")


def _until_nothing(
    law: str, when: str, simulation: Simulated, missing: Callable[[Simulated], str], rounds_max: int = ROUNDS_MAX
) -> None:
    """Raise `Broken` if something is `missing` after so many rounds that everything should have been done."""
    reason = ""
    for _ in range(rounds_max):
        one_round(simulation)
        reason = missing(simulation)
        if not reason:
            return
    raise Broken(law, f"{when}, after {rounds_max} rounds: {reason}")


def _go_on_without_one(simulation: Simulated) -> None:
    """S17: a cluster that does not answer keeps nobody from reading what may be read without it."""
    profile, clusters = simulation.profile, [one for one in simulation.world.listed_clusters() if one.topics]
    if profile.bounded or not profile.discovery or not simulation.state.begun or len(clusters) < 2:
        return
    away = clusters[simulation.events % len(clusters)]
    away.reachable = False
    simulation.note(f"{away.id} does not answer, and the others get records")
    for cluster in clusters:
        for topic in cluster.topics.values() if cluster is not away else ():
            for log in topic.logs:
                log.end += GROWN
                log.reached = max(log.reached, log.end)
    _until_nothing("S17", f"without {away.id}", simulation, partial(_unread_without, away.id), ROUNDS_AWAY_MAX)
    away.reachable = True


def _unread_without(away: str, simulation: Simulated) -> str:
    """What may be read although `away` does not answer, and is not; empty if there is nothing.

    Where clusters that are away count as idle, that is everything; else what is not further than `alignment` ahead of
    the time that was reached.
    """
    state, ahead_ms = simulation.state, simulation.profile.alignment_ms or 0
    for key, _, log in simulation.world.real():
        split, end = state.splits.get(key), log.end
        if key.cluster == away or split is None or not split.active or split.finished:
            continue
        if simulation.profile.away == HOLD:
            beyond = -1 if state.reached_ms is None else first_from(key, log, state.reached_ms + ahead_ms)
            end = min(end, beyond) if beyond >= 0 else end if state.reached_ms is not None else 0
        may = any(may_read(state.eligible, reader, key) for reader in state.participants)
        if may and split.position is not None and split.position < end:
            return f"{key} is at {split.position}, behind {end}"
    return ""


def _offset(simulation: Simulated) -> str:
    planned = simulation.driver.checkpoints.planned
    return "" if planned is None else planned.text


def calm(simulation: Simulated) -> None:
    """Nothing goes wrong from here on."""
    simulation.note("the faults stop")
    simulation.faults = frozenset()
    simulation.driver.faults = frozenset()
    simulation.driver.still = True
    simulation.readers.faults = frozenset()
    simulation.network.calm()
    simulation.world.heal()
    simulation.readers.heal(simulation.events)


def one_round(simulation: Simulated) -> None:
    """Everything that is under way arrives, and the driver gets through a batch, with a look at every cluster."""
    session = simulation.sessions
    for _ in range(6):
        simulation.advance()
        simulation.deliver_all()
    if simulation.sessions == session:
        simulation.look()


def unfinished(simulation: Simulated) -> str:
    """What still has to happen; empty when all is assigned and read."""
    state, readers = simulation.state, simulation.state.participants
    if not (state.settled and state.session.assigned):
        return f"the first assignment was not made; registered: {', '.join(map(str, state.session.registrations))}"
    missing = [reader for reader in range(state.readers) if reader not in state.session.registrations]
    if missing:
        return f"reader {missing[0]} is not registered"
    real: dict[SplitId, bool] = {}
    looks_again = simulation.profile.discovery or not isinstance(simulation.driver, StreamHost)
    for key, topic_id, log in simulation.world.real():
        real[key] = True
        split = state.splits.get(key)
        if not looks_again and (split is None or split.removed_at_ms is not None):
            # Neither what is new is looked for nor what is back.
            continue
        if split is None:
            return f"{key} was not discovered"
        if split.topic_id != topic_id and not split.finished:
            return f"{key} was created anew, and that was not declared"
        if not split.finished and any(may_read(state.eligible, reader, key) for reader in readers):
            lag = _behind(state, key, log)
            if lag:
                return lag
    for key, split in state.splits.items():
        if key not in real and split.active:
            return f"{key} is no longer there, and still counts"
    for cluster in simulation.world.listed_clusters() if looks_again else ():
        known = state.clusters.get(cluster.id)
        # Spark's driver is not told of clusters without topics.
        told = cluster.topics or not isinstance(simulation.driver, StreamHost)
        if told and known is not None and known.removed_at_ms is not None:
            return f"cluster {cluster.id} is there, and removed"
    if (
        state.settings.bounded
        and not isinstance(simulation.driver, StreamHost)
        and len(state.session.signalled) != state.readers
    ):
        return "not every reader was told that nothing follows"
    last = simulation.driver.checkpoints.planned
    if last is None or not last.committed or not same(state, last.state):
        return "the last batch is not committed"
    driver = simulation.driver
    return driver.owed.unpaid(state) if isinstance(driver, StreamHost) else ""


def _behind(state: EnumeratorState, key: SplitId, log: Log) -> str:
    split = state.splits[key]
    if split.removed_at_ms is not None:
        return f"{key} is there, and retained"
    if split.owner is None:
        return f"{key} has no owner"
    if split.position is None:
        return f"{key} has no start"
    if split.position > log.end:
        return f"{key} is at {split.position}, and its log ends at {log.end}"
    end = log.end if split.stop is None else min(split.stop, log.end)
    return f"{key} is at {split.position}, behind {end}" if split.position < end else ""
