"""Which brokers were asked about a partition that seems to be gone: the answer of one is not enough."""

from __future__ import annotations

from evensplit.kafka.admin.cluster_session import Leaders
from evensplit.kafka.options.client import Address


class Search:
    """What the brokers of a cluster have answered about one partition since it seemed to be gone.

    All times are on the clock that runs only while the reader waits for brokers (`Waiting`).
    """

    __slots__ = ("_brokers", "_denials", "_told", "begun_s", "denied", "last_s", "since_s")

    def __init__(self, now_s: float) -> None:
        self.begun_s = now_s
        """When it seemed to be gone for the first time."""
        self.since_s = now_s
        """Since when no broker has reported it again."""
        self.last_s = now_s
        """When a broker last answered."""
        self._brokers: set[Address] = set()
        self._told: dict[Address, bool] = {}
        self._denials: dict[Address, tuple[float, float]] = {}
        self.denied = False
        """Whether the last answer denied it."""

    def hear(self, leaders: Leaders, now_s: float, *, denied: bool, informed: bool = False) -> None:
        """Note a broker's answer. `denied`: it does not know the partition, or another topic of that name.

        `informed`: it does know another topic, so it is not a broker that starts and knows of none yet.
        """
        if denied and self._told and not self.denied:
            # The partition was there in the meantime, so earlier answers do not count any more.
            self._told.clear()
            self.since_s = now_s
        self._brokers.update(leaders.brokers)
        self.denied, self.last_s = denied, now_s
        if not denied:
            self._denials.clear()
        if leaders.answered is not None:
            self._told[leaders.answered] = denied
            if denied and informed:
                first_s, _ = self._denials.get(leaders.answered, (now_s, now_s))
                self._denials[leaders.answered] = (first_s, now_s)
            else:
                self._denials.pop(leaders.answered, None)

    def begin_anew(self, now_s: float) -> None:
        """Note that the partition is there again: earlier answers do not count, and `begun_s` stays."""
        self._told.clear()
        self._denials.clear()
        self.since_s = self.last_s = now_s
        self.denied = False

    def unheard(self) -> list[Address]:
        """The brokers that may still know the partition: they have not answered, or knew it when the last one did not.

        Metadata only moves forward, so a partition that every broker denies in the end is gone.
        """
        return sorted(one for one in self._brokers if one not in self._told or (self.denied and not self._told[one]))

    def unsure(self, grace_s: float) -> list[Address]:
        """The brokers to ask again: those of `unheard`, or all if none answered in the last quarter of `grace_s`.

        A broker that has just started, or has just become the leader, does not know everything yet.
        """
        return self.unheard() or ([] if self._was_heard_late(grace_s) else sorted(self._brokers))

    def denied_s(self) -> float:
        """For how long each broker itself has said so, again and again, and was informed; 0 if one has not."""
        spans = [self._denials.get(one, (0.0, 0.0)) for one in self._brokers]
        return min((last_s - first_s for first_s, last_s in spans), default=0.0)

    def until_s(self, grace_s: float) -> float:
        """Until when the partition is looked for: for `grace_s`, longer if it comes and goes or no broker answers."""
        lasts_s = grace_s if self._was_heard_late(grace_s) else 2 * grace_s
        return min(self.since_s + lasts_s, self.begun_s + 3 * grace_s)

    def _was_heard_late(self, grace_s: float) -> bool:
        return self.last_s - self.since_s >= 0.75 * grace_s


def is_informed(leaders: Leaders, topic: str) -> bool:
    """Whether the broker that answered knows another topic than the one that seems to be gone, or one of that name."""
    return bool(leaders.topic_ids[topic]) or any(other != topic for other, _ in leaders.known)
