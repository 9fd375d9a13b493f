"""The dashboard at a port: of its own, or shared by the sessions of this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from evensplit.errors import OptionError, PortError, line_of
from evensplit.observe.dashboard.app import Pages
from evensplit.observe.health.unreadable import Unreadable
from evensplit.observe.recorder import Recorder
from evensplit.observe.web.address import LOOPBACK, PORT_DEFAULT, problems
from evensplit.observe.web.server import Server, shared

log = logging.getLogger(__name__)


class Dashboard:
    """The dashboard of all that `recorder` hears of, at `url`, until it is closed or the process ends.

    Recorders are not kept alive by it: their queries are shown as long as something else holds them.

    `host`: where to listen; one that other machines can reach needs a `token`, which every request then has to carry.
    `port`: 0 for any free one.
    `overview`: an address that names no source is that of all queries, not that of the one with the latest news.

    Raises:
        OptionError: host, port or token cannot be; all that is wrong at once.
        PortError: nothing can listen there.
    """

    def __init__(
        self,
        recorder: Recorder,
        host: str = LOOPBACK,
        port: int = PORT_DEFAULT,
        token: str | None = None,
        *,
        overview: bool = False,
    ) -> None:
        wrong = problems(host, port, token)
        if wrong:
            raise OptionError(wrong)
        self._pages = Pages(overview=overview)
        self._pages.watch(recorder)
        self._server = Server(host, port, token)
        self._server.add(*self._pages.routes)

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<dashboard at {self.url}>"

    @property
    def url(self) -> str:
        """Where it is, without the token."""
        return self._server.url

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self._server.port

    def watch(self, recorder: Recorder) -> None:
        """Show what `recorder` hears as well. Adding one again changes nothing."""
        self._pages.watch(recorder)

    def note(
        self,
        notes: Sequence[str],
        query_id: str | None = None,
        passing: Sequence[str] = (),
        *,
        awaited: bool = False,
    ) -> None:
        """Show these sentences above everything, in place of the earlier ones; of one query, above its page.

        `passing`: what is as it should be, and is not told among all queries. `awaited`: clusters were asked for the
        lag of the query, and have not answered yet.
        """
        self._pages.note(notes, query_id, passing, awaited=awaited)

    def unreadable(self, ones: Sequence[Unreadable]) -> None:
        """Show these checkpoints among all queries, with what is wrong with them, in place of the earlier ones."""
        self._pages.unreadable(ones)

    def close(self) -> None:
        """Let go of the port and of all browsers. Can be called again."""
        self._pages.close()
        self._server.close()


def serve(recorder: Recorder, host: str, port: int, token: str | None) -> str | None:
    """Show what `recorder` hears on the dashboard of this process at `host` and `port`. Return its address.

    Where that cannot be, return None and log a warning that says why. Port 0 is any free one, the same for all who
    give it. Raises OptionError as `Dashboard` does.
    """
    wrong = problems(host, port, token)
    if wrong:
        raise OptionError(wrong)
    with _lock:
        known = (one for one in _served if one.asked == (host, port))
        try:
            server = next(known, None) or shared(host, port, token)
        except PortError as error:
            log.warning("no dashboard: %s. The queries run on without it", line_of(error))
            return None
        if server.token != token:
            log.warning(
                "no dashboard: port %d of %s is served with another token. Give the same one, or choose another port. "
                "The queries run on without it",
                server.port,
                host,
            )
            return None
        if server not in _served:
            pages = _served[server] = Pages()
            server.add(*pages.routes)
            log.info("the dashboard is at %s", server.url)
        _served[server].watch(recorder)
        return server.url


_served: dict[Server, Pages] = {}
_lock = threading.Lock()
