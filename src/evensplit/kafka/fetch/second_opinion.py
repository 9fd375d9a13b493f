"""Who was asked for a partition that seems to be gone: one broker's word does not make it so."""

from __future__ import annotations

from evensplit.kafka.admin.cluster_session import Leaders
from evensplit.kafka.options.client import Address


class Search:
    """What the brokers of a cluster said of one partition since it seemed to be gone.

    All times are those of the lane's clock of waiting.
    """

    __slots__ = ("_brokers", "_denied", "_told", "begun_s", "last_s", "since_s")

    def __init__(self, now_s: float) -> None:
        self.begun_s = now_s
        """When it seemed to be gone for the first time."""
        self.since_s = now_s
        """Since when no broker has named it again."""
        self.last_s = now_s
        """When a broker was heard last."""
        self._brokers: set[Address] = set()
        self._told: dict[Address, bool] = {}
        self._denied = False

    def hear(self, leaders: Leaders, now_s: float, *, denied: bool) -> None:
        """Note a broker's answer. `denied`: it does not know the partition, or another topic of that name."""
        if denied and self._told and not self._denied:
            # It had been there in the meantime, so what was said before tells nothing any more.
            self._told.clear()
            self.since_s = now_s
        self._brokers.update(leaders.brokers)
        self._denied, self.last_s = denied, now_s
        if leaders.answered is not None:
            self._told[leaders.answered] = denied

    def unheard(self) -> list[Address]:
        """The brokers that may know better: they could not be asked; or knew the partition, when the last one did not.

        Metadata only goes forward, so what every broker denies in the end is gone.
        """
        return sorted(one for one in self._brokers if one not in self._told or (self._denied and not self._told[one]))

    def unsure(self, grace_s: float) -> list[Address]:
        """The brokers to be asked again: those of `unheard`, or all if none was heard in the last quarter of `grace_s`.

        A broker that has just started, or leads since a moment ago, does not know everything.
        """
        return self.unheard() or ([] if self._was_heard_late(grace_s) else sorted(self._brokers))

    def until_s(self, grace_s: float) -> float:
        """How long the partition is looked for: for `grace_s`, and longer if it comes and goes, or nobody answers."""
        lasts_s = grace_s if self._was_heard_late(grace_s) else 2 * grace_s
        return min(self.since_s + lasts_s, self.begun_s + 3 * grace_s)

    def _was_heard_late(self, grace_s: float) -> bool:
        return self.last_s - self.since_s >= 0.75 * grace_s
