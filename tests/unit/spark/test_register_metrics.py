"""What `register` is told of metrics: all that is wrong at once, before anything is done; and no harm otherwise."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from evensplit.errors import OptionError
from evensplit.observe import prometheus
from evensplit.observe.web.address import LOOPBACK
from evensplit.spark import session
from evensplit.spark.listen.listener import Registration
from evensplit.spark.session import register
from tests.support.sessions import NoSession


@pytest.mark.parametrize("port", [-1, 65_536, "9400", 9400.0, True])
def test_a_port_that_is_none_is_refused_before_anything_is_done(port: Any) -> None:
    with pytest.raises(OptionError, match="expected a whole number from 0"):
        register(NoSession(), metrics_port=port)  # type: ignore[arg-type]


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        register(NoSession(), metrics_port=-1, metrics_host=" ")  # type: ignore[arg-type]
    assert len(caught.value.problems) == 2
    with pytest.raises(OptionError) as caught:
        register(NoSession(), metrics_host="0.0.0.0", metrics_partitions=True)  # type: ignore[arg-type]
    assert caught.value.problems == (
        "metrics_host is given without metrics_port, and would do nothing",
        "metrics_partitions is given without metrics_port, and would do nothing",
    )


def test_what_is_wrong_of_metrics_and_of_a_dashboard_is_one_error() -> None:
    with pytest.raises(OptionError) as caught:
        register(NoSession(), metrics_port=-1, dashboard_port=70_000, dashboard_host="0.0.0.0")  # type: ignore[arg-type]
    assert [problem.split(" is ")[0] for problem in caught.value.problems] == [
        "metrics_port",
        "the dashboard's host",
        "the dashboard's port",
    ]
    with pytest.raises(OptionError) as caught:
        register(NoSession(), metrics_host="0.0.0.0", dashboard_host="127.0.0.1")  # type: ignore[arg-type]
    assert caught.value.problems == (
        "metrics_host is given without metrics_port, and would do nothing",
        "dashboard_host is given without dashboard_port, and would do nothing",
    )


def test_a_session_is_told_the_source_once_for_each_number_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark warns of each source that replaces another one."""
    registration, told = Registration(), list[int | None]()
    spark = SimpleNamespace(dataSource=SimpleNamespace(register=lambda source: told.append(source.parallelism)))
    monkeypatch.setattr(session, "listen", lambda _: registration)
    for tasks in (2, 2, 3, 3):
        monkeypatch.setattr(session, "_parallelism", lambda _, tasks=tasks: tasks)
        assert register(spark) is registration  # type: ignore[arg-type]
    assert told == [2, 3]


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "evensplit.observe.prometheus")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    registration = Registration()
    session._serve_metrics(registration, 0, LOOPBACK, partitions=False)
    assert registration.metrics_port is None
    assert "pip install 'evensplit[observe]'" in caplog.text


def test_whatever_goes_wrong_is_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(prometheus, "serve", fails)
    registration = Registration()
    session._serve_metrics(registration, 9_400, LOOPBACK, partitions=False)
    assert "no metrics are served at 127.0.0.1, port 9400" in caplog.text
    assert "can't start new thread" in caplog.text
