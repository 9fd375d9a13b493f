"""What is not as it should be: clusters that are away, topics that are not there, metadata that cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted
from evensplit.errors import ClusterError, ClusterUnreachable, EvenSplitError, SubscriptionError, line_of
from evensplit.spark.driver.hanging import Hanging
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.driver.silence import Silence
from evensplit.spark.options.parse import UNREACHABLE_TIMEOUT_MS_DEFAULT
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

log = logging.getLogger("evensplit")

_STANDS = "what is known of it keeps its position, and nothing of it is read"

LATE_AGAIN_S = 60.0
"""For so long the log does not say again that a cluster is late: one may be slow now and then."""


class Notices:
    """Looks through answers for what is wrong, raises where that cannot be borne, and logs it once where it can.

    `left_out`: clusters that a run to the end does without.
    `notices`: everything else, a sentence each.
    `limit_ms`: `unreachableTimeout`.
    """

    def __init__(
        self,
        fleet: MetadataPoller,
        world: ClusterMonitor,
        limit_ms: int,
        monotonic: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        self._fleet = fleet
        self._world = world
        self._hanging = Hanging(limit_ms or UNREACHABLE_TIMEOUT_MS_DEFAULT, monotonic, now_ms)
        self._silence = Silence(world, limit_ms, monotonic)
        self._monotonic = monotonic
        self._failed: dict[str, ClusterError] = {}
        self._away_since: dict[str, tuple[float, int]] = {}
        """Cluster -> since when it is away, in s, and at which level the log says so; of those of which it does."""
        self._late_due: dict[str, float] = {}
        self.left_out: tuple[str, ...] = ()
        self.notices: tuple[str, ...] = ()

    @property
    def unreachable(self) -> dict[str, str]:
        """Cluster -> why it does not answer.

        One that is late may be slow and no more; it is among them all the same.
        """
        late = {
            name: ClusterUnreachable(name, f"it has not answered within {self._world.patience_s:g} s; {why}")
            for name, why in self._world.late.items()
        }
        return {name: str(error) for name, error in {**late, **self._failed}.items()}

    def check(self, answers: Mapping[str, PollResult], *, fresh: bool, complete: bool, bear: bool) -> None:
        """Take in the answers of all clusters.

        `fresh`: nothing has been read yet, so everything has to be there. `complete`: the ends are to be fixed, so
        every cluster has to answer, unless a run without those that do not can be borne (`bear`).

        Raises:
            SubscriptionError, ClusterError: it is not so; all problems of all clusters.
        """
        failed = {name: answer for name, answer in sorted(answers.items()) if isinstance(answer, ClusterError)}
        failed.update(
            (name, ClusterUnreachable(name, f"it has not answered yet; {why}"))
            for name, why in self._world.silent().items()
        )
        missing = list(self._fleet.missing)
        incomplete: list[str] = []
        leaders: list[str] = []
        for name, answer in sorted(answers.items()):
            if isinstance(answer, ClusterSnapshot):
                missing.extend(f"cluster {name!r}: {sentence}" for sentence in answer.listing.missing)
                incomplete.extend(f"cluster {name!r}: {sentence}" for sentence in answer.listing.incomplete)
                lacking = len(answer.listing.partitions) - len(answer.latest)
                if lacking:
                    leaders.append(f"cluster {name!r}: the leaders of {counted(lacking, 'partition')} give no offsets")
        errors = list(failed.values()) if (fresh or complete) and not bear else []
        raise_all(errors, [*(missing if fresh else []), *(incomplete if fresh or complete else [])])
        self.left_out = tuple(failed) if bear else ()
        for name, error in failed.items():
            if name not in self._failed:
                what = "is left out of this run" if bear else "does not answer"
                log.warning("cluster %s %s; its splits keep their positions: %s", name, what, line_of(error))
                self._note_away(name, logging.WARNING)
        self._failed = failed
        notices = (*(f"{one}; {_STANDS}" for one in (*missing, *incomplete, *leaders)), *self._world.notices())
        for notice in notices:
            if notice not in self.notices:
                log.warning(notice)
        self._hanging.look(answers, self._world.looked_at)
        # These have said their own already.
        self.notices = (*notices, *([self._fleet.notice] if self._fleet.notice else []), *self._hanging.notices)

    def say_outages(self, answers: Mapping[str, PollResult], late: Collection[str]) -> None:
        """Log which clusters are not read because they are `late`, and which ones answer again.

        Each once for one outage. `check` has said which have failed.
        """
        now_s = self._monotonic()
        for name in late:
            if name not in self._away_since and now_s >= self._late_due.get(name, now_s):
                self._late_due[name] = now_s + LATE_AGAIN_S
                reason = self._world.reason(name)
                level = logging.WARNING if reason else logging.INFO
                self._note_away(name, level)
                what = f"within {self._world.patience_s:g} s ({reason or self._world.late[name]})"
                log.log(level, "cluster %s has not answered %s; it is not read until it does", name, what)
        for name in sorted(self._away_since.keys() - {*late, *self._failed}):
            since_s, level = self._away_since.pop(name)
            # Otherwise it is one that nobody wants any more.
            if isinstance(answers.get(name), ClusterSnapshot):
                away_s = self._world.looked_until(name) - since_s
                log.log(level, "cluster %s answers again, after %.0f s", name, away_s)

    def _note_away(self, name: str, level: int) -> None:
        since_s, before = self._away_since.get(name, (self._monotonic() - self._world.away_ms(name) / 1000, 0))
        self._away_since[name] = since_s, max(before, level)

    def check_silence(self, state: EnumeratorState, answers: Mapping[str, PollResult]) -> None:
        """See `Silence.look`; for queries that go on."""
        self._silence.look(state, answers)

    def has_news(self, answers: Mapping[str, PollResult]) -> bool:
        """Whether time alone has made something wrong that has not been said yet."""
        return self._hanging.has_news(answers) or self._silence.has_news(answers)


def raise_all(errors: Sequence[EvenSplitError], problems: Sequence[str]) -> None:
    """Raise what there is: one error as it is, several as one that lists them all."""
    if len(errors) == 1 and not problems:
        # The calls inside the thread that looked at the cluster tell a user nothing that the text does not.
        raise errors[0].with_traceback(None)
    if errors or problems:
        raise SubscriptionError([*map(str, errors), *problems])
