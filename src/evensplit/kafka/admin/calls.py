"""One call at a time over one session, each within a deadline, in threads and forked processes too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from evensplit.errors import ClusterUnreachable
from evensplit.kafka.admin.cluster_session import Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.network import NETWORK, Network
from evensplit.kafka.options.client import ClientSettings


class Calls:
    """The calls of one kind to a cluster: they wait for each other, and for no others.

    In a forked process it starts anew, and leaves the connections of the process before alone.
    """

    def __init__(self, cluster: str, settings: ClientSettings, network: Network = NETWORK) -> None:
        self._cluster = cluster
        self._settings = settings
        self._network = network
        self.session = Session(cluster, settings, network)

    @contextmanager
    def call(self, timeout_s: float | None = None) -> Iterator[tuple[Session, Deadline]]:
        """Make one call, after those before it. One deadline covers all of it, the waiting included.

        The deadline is `timeout_s` from now, by default the request timeout.

        Raises:
            ClusterUnreachable: an earlier call did not end by then.
        """
        timeout_s = self._settings.request_timeout_ms / 1000 if timeout_s is None else timeout_s
        deadline = Deadline.after(timeout_s, self._network.clock)
        if self.session.pid != os.getpid():
            self.close()
        session = self.session
        if not session.lock.acquire(timeout=deadline.remaining_s):
            raise ClusterUnreachable(
                self._cluster, f"an earlier call did not end {time_given(self._settings, deadline)}"
            )
        try:
            yield session, deadline
        finally:
            session.lock.release()
            # Only now, or what is closed between the look and the release would stay open.
            if session is not self.session:
                _close_unless_used(session)

    def close(self) -> None:
        """Let go of all connections; never waits. A call that is under way ends as if nothing had happened."""
        session, self.session = self.session, Session(self._cluster, self._settings, self._network)
        if session.pid != os.getpid():
            # Forked: no thread here uses it, and its lock may have been held at that moment.
            session.close()
        else:
            _close_unless_used(session)


def time_given(settings: ClientSettings, deadline: Deadline) -> str:
    """`within` how many milliseconds a call was to end, and by which option, if it was that."""
    given_ms = round(deadline.given_s * 1000)
    by = " (kafka.request.timeout.ms)" if given_ms == settings.request_timeout_ms else ""
    return f"within {given_ms} ms{by}"


def _close_unless_used(session: Session) -> None:
    """Close a session, unless a call uses it: that call closes it afterwards."""
    if session.lock.acquire(blocking=False):
        session.close()
        session.lock.release()
