"""Metrics at a port: of whom, with what; alone, or beside the dashboard."""

from __future__ import annotations

import gc
import gzip
import logging
import socket
import urllib.error
import urllib.request

import pytest

from evensplit.observe.dashboard.server import serve as serve_dashboard
from evensplit.observe.prometheus import serve
from evensplit.observe.recorder import Recorder
from tests.support.batches import Script, eventful, taken
from tests.support.scrapes import parsed, value

pytestmark = pytest.mark.usefixtures("closed")


@pytest.fixture
def recorder() -> Recorder:
    return eventful()


def scraped(port: int, query: str = "", **headers: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics{query}", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        body = answer.read()
        return str((gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body).decode())


def test_some_can_be_asked_for_by_their_names(recorder: Recorder) -> None:
    port = serve(recorder, 0, "127.0.0.1")
    assert port
    found = parsed(scraped(port, "?name%5B%5D=evensplit_readers&name%5B%5D=evensplit_moves_total"))
    assert {name for name, _ in found} == {"evensplit_readers", "evensplit_moves_total"}


def test_the_format_is_the_one_that_is_asked_for(recorder: Recorder) -> None:
    port = serve(recorder, 0, "127.0.0.1")
    assert port
    assert not scraped(port).endswith("# EOF\n")
    assert scraped(port, Accept="application/openmetrics-text; version=1.0.0").endswith("# EOF\n")
    assert scraped(port, **{"Accept-Encoding": "gzip"}) == scraped(port)
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", data=b"", timeout=60)


def test_there_is_one_server_for_all_who_ask(recorder: Recorder) -> None:
    port = serve(recorder, 0, "127.0.0.1")
    assert port
    assert value(parsed(scraped(port)), "batches_total") == 2
    assert serve(recorder, port, "127.0.0.1") == serve(recorder, 0, "127.0.0.1") == port
    other = Recorder()
    taken(other, [Script(query="another", name="another").batch()])
    assert serve(other, port, "127.0.0.1", partitions=True) == port
    found = parsed(scraped(port))
    assert value(found, "batches_total") == 2
    assert value(found, "batches_total", query="another") == 1
    assert any(name == "evensplit_partition_position" for name, _ in found)
    del other
    gc.collect()
    assert value(parsed(scraped(port)), "batches_total", query="another") is None
    assert serve(Recorder(), 0, "127.0.0.1") not in (port, None)


def test_a_port_that_is_taken_is_a_warning(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken_by_another:
        port = taken_by_another.getsockname()[1]
        assert serve(recorder, port, "127.0.0.1") is None
        assert f"no metrics: nothing can be served at port {port} of 127.0.0.1: another program" in caplog.text
        assert serve(recorder, 0, "192.0.2.1") is None
        assert len(caplog.records) == 2
    assert serve(recorder, port, "127.0.0.1") == port


@pytest.mark.parametrize("first", ["metrics", "dashboard"])
def test_metrics_and_a_dashboard_at_one_port(recorder: Recorder, first: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="evensplit")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    token = "correct-horse"
    for what in (first, "dashboard" if first == "metrics" else "metrics"):
        if what == "metrics":
            assert serve(recorder, port, "127.0.0.1", token=token) == port
        else:
            assert serve_dashboard(recorder, "127.0.0.1", port, token) == f"http://127.0.0.1:{port}/"
    assert f"the metrics are at http://127.0.0.1:{port}/metrics; they ask for the dashboard's token" in caplog.text
    assert "horse" not in caplog.text
    with pytest.raises(urllib.error.HTTPError, match="401"):
        scraped(port)
    allowed = {"Authorization": f"Bearer {token}"}
    assert value(parsed(scraped(port, **allowed)), "batches_total") == 2
    with urllib.request.urlopen(
        urllib.request.Request(f"http://127.0.0.1:{port}/", headers=allowed), timeout=60
    ) as answer:
        assert "orders" in answer.read().decode()
