"""What `register` is told of metrics and a dashboard: all that is wrong at once, before anything; and no harm else."""

from __future__ import annotations

import socket
import sys
import urllib.request
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from evensplit.errors import OptionError
from evensplit.observe import prometheus
from evensplit.observe.dashboard import server
from evensplit.observe.web.address import LOOPBACK
from evensplit.spark import session
from evensplit.spark.listen.inbox import DeferredListener
from evensplit.spark.listen.registration import Registration
from evensplit.spark.session import register
from tests.support.sessions import NoSession
from tests.support.views import small

pytestmark = pytest.mark.usefixtures("closed")


@pytest.mark.parametrize("name", ["metrics_port", "dashboard_port", "counts_port"])
@pytest.mark.parametrize("port", [-1, 65_536, "9400", 9400.0, True])
def test_a_port_that_is_none_is_refused_before_anything_is_done(name: str, port: Any) -> None:
    with pytest.raises(OptionError, match="expected a whole number from 0"):
        register(NoSession(), **{name: port})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given, said",
    [
        ({"metrics_port": -1, "metrics_host": " "}, ["metrics_port", "metrics_host"]),
        ({"dashboard_port": -1, "dashboard_host": "0.0.0.0"}, ["the dashboard's host", "the dashboard's port"]),
        (
            {"metrics_port": -1, "dashboard_port": 70_000, "dashboard_host": "0.0.0.0"},
            ["metrics_port", "the dashboard's host", "the dashboard's port"],
        ),
        (
            {"metrics_host": "0.0.0.0", "metrics_partitions": True, "dashboard_host": "::", "dashboard_token": "horse"},
            ["metrics_host", "metrics_partitions", "dashboard_host", "dashboard_token"],
        ),
    ],
)
def test_all_that_is_wrong_is_said_at_once(given: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        register(NoSession(), **given)  # type: ignore[arg-type]
    assert sorted(problem.split(" is ")[0] for problem in caught.value.problems) == sorted(said)
    for problem in caught.value.problems:
        name = problem.split(" is ")[0]
        port = f"{name.partition('_')[0]}_port"
        if name in given and port not in given:
            assert problem == f"{name} is given without {port}, and would do nothing"


def test_a_session_is_told_the_source_once_for_each_number_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark warns of each source that replaces another one."""
    registration, told = DeferredListener().registration, list[int | None]()
    spark = SimpleNamespace(dataSource=SimpleNamespace(register=lambda source: told.append(source.parallelism)))
    monkeypatch.setattr(session, "listen", lambda _: SimpleNamespace(registration=registration, wait=lambda: None))
    for tasks in (2, 2, 3, 3):
        monkeypatch.setattr(session, "_parallelism", lambda _, tasks=tasks: tasks)
        assert register(spark) is registration  # type: ignore[arg-type]
    assert told == [2, 3]


def test_a_port_of_counts_is_kept_until_another_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    registration, told, ports = DeferredListener().registration, list[Any](), list[int]()

    def receive(context: object, port: int) -> str:
        ports.append(port)
        return f"port {port}"

    spark = SimpleNamespace(dataSource=SimpleNamespace(register=lambda source: told.append(source.counts_to)))
    monkeypatch.setattr(session, "listen", lambda _: SimpleNamespace(registration=registration, wait=lambda: None))
    monkeypatch.setattr(session, "_parallelism", lambda _: 2)
    monkeypatch.setattr(session, "receive", receive)
    for port in (7070, None, 0, None, "off", None):
        register(spark, counts_port=port)  # type: ignore[arg-type]
    assert (told, ports) == (["port 7070", "port 0", None], [7070, 0])
    registration.parallelism = None
    register(spark)  # type: ignore[arg-type]
    assert ports == [7070, 0, 0]


def metrics(registration: Registration) -> object:
    session._serve_metrics(registration, 0, LOOPBACK, partitions=False)
    return registration.metrics_port


def dashboard(registration: Registration) -> object:
    session._serve_dashboard(registration, LOOPBACK, 0, None)
    return registration.dashboard_url


@pytest.mark.parametrize(
    "serve, modules, lacking, extra",
    [
        (metrics, ["prometheus"], "prometheus_client", "observe"),
        (dashboard, ["dashboard.server", "dashboard.app", "dashboard.rendering"], "jinja2", "dashboard"),
    ],
)
def test_without_the_extra_it_says_what_to_install(
    serve: Callable[[Registration], object],
    modules: list[str],
    lacking: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in modules:
        monkeypatch.delitem(sys.modules, f"evensplit.observe.{name}")
    monkeypatch.setitem(sys.modules, lacking, None)
    assert serve(DeferredListener().registration) is None
    assert f"pip install 'evensplit[{extra}]'" in caplog.text


@pytest.mark.parametrize(
    "serve, module, said",
    [(metrics, prometheus, "no metrics are served"), (dashboard, server, "no dashboard is served")],
)
def test_whatever_goes_wrong_is_a_warning(
    serve: Callable[[Registration], object],
    module: ModuleType,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "serve", fails)
    assert serve(DeferredListener().registration) is None
    assert f"{said} at 127.0.0.1, port 0" in caplog.text
    assert "can't start new thread" in caplog.text


def test_a_port_that_is_taken_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    registration = DeferredListener().registration
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        session._serve_dashboard(registration, LOOPBACK, port, None)
    assert registration.dashboard_url is None
    assert (
        f"no dashboard: nothing can be served at port {port} of 127.0.0.1: another program listens there" in caplog.text
    )
    assert "or 0 for any free one (ES-106). The queries run on without" in caplog.text


def test_asked_for_again_it_is_the_same_and_shows_both_sessions() -> None:
    first, second = DeferredListener().registration, DeferredListener().registration
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
def test_a_setting_of_spark_is_changed_unless_the_session_has_it_set(chosen: str | None, then: str) -> None:
    conf = Conf({} if chosen is None else {session.IDLE_INTERVAL: chosen})
    session._preset(SimpleNamespace(conf=conf), session.IDLE_INTERVAL, "2000", "as before")  # type: ignore[arg-type]
    assert conf == {session.IDLE_INTERVAL: then}


def test_a_session_whose_settings_cannot_be_had_is_left_alone() -> None:
    conf = Conf()
    conf.broken = True
    session._preset(SimpleNamespace(conf=conf), session.ARROW_BYTES, "1", "as before")  # type: ignore[arg-type]
    assert conf == {}
