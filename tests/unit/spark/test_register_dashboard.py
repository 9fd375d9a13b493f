"""What `register` is told of a dashboard: all that is wrong before anything is done; and no harm otherwise."""

from __future__ import annotations

import socket
import sys
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

from evensplit.errors import OptionError
from evensplit.observe.dashboard import server
from evensplit.observe.web.address import LOOPBACK
from evensplit.spark import session
from evensplit.spark.listen.listener import Registration
from evensplit.spark.session import register
from tests.support.sessions import NoSession
from tests.support.views import small

pytestmark = pytest.mark.usefixtures("closed")


@pytest.mark.parametrize("port", [-1, 65_536, "4848", 4848.0, True])
def test_a_port_that_is_none_is_refused_before_anything_is_done(port: Any) -> None:
    with pytest.raises(OptionError, match="expected a whole number from 0"):
        register(NoSession(), dashboard_port=port)  # type: ignore[arg-type]


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        register(NoSession(), dashboard_port=-1, dashboard_host="0.0.0.0")  # type: ignore[arg-type]
    assert len(caught.value.problems) == 2
    with pytest.raises(OptionError) as caught:
        register(NoSession(), dashboard_host="0.0.0.0", dashboard_token="horse")  # type: ignore[arg-type]
    assert caught.value.problems == (
        "dashboard_host is given without dashboard_port, and would do nothing",
        "dashboard_token is given without dashboard_port, and would do nothing",
    )


def test_a_port_that_is_taken_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    registration = Registration()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        session._serve_dashboard(registration, LOOPBACK, port, None)
    assert registration.dashboard_url is None
    assert (
        f"no dashboard: nothing can be served at port {port} of 127.0.0.1: another program listens there" in caplog.text
    )
    assert "or 0 for any free one (ES-106). The queries run on without" in caplog.text


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("server", "app", "rendering"):
        monkeypatch.delitem(sys.modules, f"evensplit.observe.dashboard.{name}")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    registration = Registration()
    session._serve_dashboard(registration, LOOPBACK, 0, None)
    assert registration.dashboard_url is None
    assert "pip install 'evensplit[dashboard]'" in caplog.text


def test_whatever_goes_wrong_is_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(server, "serve", fails)
    session._serve_dashboard(Registration(), LOOPBACK, 4_848, None)
    assert "no dashboard is served at 127.0.0.1, port 4848" in caplog.text


def test_asked_for_again_it_is_the_same_and_shows_both_sessions() -> None:
    first, second = Registration(), Registration()
    session._serve_dashboard(first, LOOPBACK, 0, None)
    session._serve_dashboard(first, LOOPBACK, 0, None)
    assert first.dashboard_url is not None
    port = int(first.dashboard_url.rstrip("/").rsplit(":", 1)[1])
    session._serve_dashboard(second, LOOPBACK, port, None)
    assert second.dashboard_url == first.dashboard_url
    small(second.recorder, 1)
    with urllib.request.urlopen(second.dashboard_url, timeout=30) as answer:
        assert "east/orders/0" in answer.read().decode()


class Conf(dict[str, str]):
    """A session's settings; with `broken`, none can be had."""

    broken = False

    def get(self, key: str, default: str | None = "never asked without") -> str | None:  # type: ignore[override]
        if self.broken:
            raise RuntimeError("the session has ended")
        return super().get(key, default)

    def set(self, key: str, value: str) -> None:
        self[key] = value


@pytest.mark.parametrize("chosen, then", [(None, "2000"), ("60000", "60000")])
def test_who_looks_hears_of_an_idle_query_every_two_seconds_unless_another_interval_was_chosen(
    chosen: str | None, then: str
) -> None:
    conf = Conf({} if chosen is None else {session.IDLE_INTERVAL: chosen})
    session._hear_sooner(SimpleNamespace(conf=conf))  # type: ignore[arg-type]
    assert conf == {session.IDLE_INTERVAL: then}


def test_a_session_whose_settings_cannot_be_had_is_left_alone() -> None:
    conf = Conf()
    conf.broken = True
    session._hear_sooner(SimpleNamespace(conf=conf))  # type: ignore[arg-type]
    assert conf == {}
