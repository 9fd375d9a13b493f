"""Who was asked for a partition that seems to be gone: one broker's word does not make it so."""

from __future__ import annotations

from evensplit.kafka.admin.cluster_session import Leaders
from evensplit.kafka.options.client import Address


class Search:
    """What the brokers of a cluster said of one partition since it seemed to be gone.

    `since_s`: what the lane's clock of waiting showed then.
    """

    __slots__ = ("_brokers", "_denied", "_told", "since_s")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self._brokers: set[Address] = set()
        self._told: dict[Address, bool] = {}
        self._denied = False

    def hear(self, leaders: Leaders, *, denied: bool) -> None:
        """Note a broker's answer. `denied`: it does not know the partition, or another topic of that name."""
        self._brokers.update(leaders.brokers)
        self._denied = denied
        if leaders.answered is not None:
            self._told[leaders.answered] = denied

    def unheard(self) -> list[Address]:
        """The brokers that may know better: they could not be asked; or knew the partition, when the last one did not.

        Metadata only goes forward, so what every broker denies in the end is gone.
        """
        return sorted(one for one in self._brokers if one not in self._told or (self._denied and not self._told[one]))
