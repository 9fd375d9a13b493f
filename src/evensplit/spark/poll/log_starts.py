"""Where the logs of a cluster begin: asked for with each look, or once for each log."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.core.state.offset_strategies import EARLIEST, TopicPartition
from evensplit.kafka.admin.protocol import ClusterPort


class LogStarts:
    """Finds the first offsets of logs. `watched`: with each look; otherwise they are as when each was first seen."""

    def __init__(self, *, watched: bool) -> None:
        self._watched = watched
        self._known: dict[tuple[str, int, str], int] = {}

    def find(
        self, port: ClusterPort, ids: Mapping[TopicPartition, str], *, complete: bool
    ) -> Mapping[TopicPartition, int]:
        """The first offset of each partition in `ids`, the ids of their topics; without those whose leader gives none.

        Raises what `ClusterPort.list_offsets` raises.
        """
        if self._watched:
            # What was known before says nothing of now.
            return port.list_offsets(dict.fromkeys(ids, EARLIEST), complete=complete) if ids else {}
        # A look that was given up may go on beside this one, so what is known is replaced as a whole.
        known = self._known
        asked = [key for key in ids if (*key, ids[key]) not in known]
        if asked:
            found = port.list_offsets(dict.fromkeys(asked, EARLIEST), complete=complete)
            known = {**known, **{(*key, ids[key]): start for key, start in found.items()}}
        if len(known) > len(ids):
            # What is not listed is looked up anew when it comes back.
            kept = frozenset((*key, ids[key]) for key in ids)
            known = {key: start for key, start in known.items() if key in kept}
        self._known = known
        return {key: known[*key, ids[key]] for key in ids if (*key, ids[key]) in known}
