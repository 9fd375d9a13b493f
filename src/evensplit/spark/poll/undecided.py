"""Logs that go on behind what is decided, as those see them who read what is committed."""

from __future__ import annotations

from evensplit.core.state.offset_strategies import LATEST, TopicPartition
from evensplit.kafka.admin.protocol import ClusterPort


def undecided_ends(
    port: ClusterPort, latest: dict[TopicPartition, int], *, complete: bool
) -> dict[TopicPartition, int]:
    """Where the logs end that go on behind what is decided: a position there is no loss, it is only early.

    Where nobody says that, the end of the log is not known, and is left out of `latest`.
    """
    ends = port.list_offsets(dict.fromkeys(latest, LATEST), complete=complete, undecided=True)
    for key in latest.keys() - ends.keys():
        del latest[key]
    return {key: end for key, end in ends.items() if end > latest[key]}
