"""The server of metrics: ports, hosts, who may ask for what; and that no scraper holds anything up."""

from __future__ import annotations

import gc
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest

from evensplit.observe import prometheus
from evensplit.observe.prometheus import MetricsServer, serve
from evensplit.observe.recorder import Recorder
from tests.support.batches import Script, eventful, taken
from tests.support.scrapes import Exported, parsed, value
from tests.support.waiting import wait_for


@pytest.fixture
def recorder() -> Recorder:
    return eventful()


def test_some_can_be_asked_for_by_their_names(recorder: Recorder) -> None:
    server = MetricsServer("127.0.0.1", 0)
    try:
        server.watch(recorder, partitions=False)
        address = (
            f"http://127.0.0.1:{server.port}/metrics?name%5B%5D=evensplit_readers&name%5B%5D=evensplit_moves_total"
        )
        with urllib.request.urlopen(address, timeout=30) as answer:
            found = parsed(answer.read().decode())
    finally:
        server.close()
    assert {name for name, _ in found} == {"evensplit_readers", "evensplit_moves_total"}


@pytest.fixture
def started() -> Iterator[list[int]]:
    """Ports that are in use at the end are free again."""
    before = set(prometheus._servers)
    yield []
    for key in set(prometheus._servers) - before:
        prometheus._servers.pop(key).close()


def scraped(port: int, host: str = "127.0.0.1") -> str:
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.usefixtures("started")
def test_there_is_one_server_whoever_asks(recorder: Recorder) -> None:
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


@pytest.mark.usefixtures("started")
def test_a_port_that_is_taken_is_a_warning(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken_by_another:
        port = taken_by_another.getsockname()[1]
        assert serve(recorder, port, "127.0.0.1") is None
        assert serve(recorder, port, "127.0.0.1") is None
    assert f"no metrics are served at 127.0.0.1, port {port}: Address already in use" in caplog.text
    assert "set metrics_port to another one, or to 0" in caplog.text
    assert len(caplog.records) == 2
    assert serve(recorder, port, "127.0.0.1") == port


@pytest.mark.usefixtures("started")
def test_a_host_that_is_not_here_is_a_warning(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    assert serve(recorder, 0, "192.0.2.1") is None
    assert serve(recorder, 0, "no such host") is None
    assert len(caplog.records) == 2


@pytest.mark.usefixtures("started")
def test_it_listens_where_it_is_told_to(recorder: Recorder) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = serve(recorder, 0, "::1")
    assert port
    assert value(parsed(scraped(port, "[::1]")), "batches_total") == 2
    with pytest.raises(urllib.error.URLError):
        scraped(port)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "192.0.2.1", ""])
def test_a_page_of_elsewhere_that_takes_a_name_of_its_own_for_this_machine_is_refused(
    recorder: Recorder, host: str
) -> None:
    server = MetricsServer("127.0.0.1", 0)
    try:
        server.watch(recorder, partitions=False)
        address = f"http://127.0.0.1:{server.port}/metrics"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(address, headers={"Host": host}), timeout=30)
        with caught.value as error:
            assert error.code == 403
            assert "evensplit_" not in (text := error.read().decode())
            assert f"not known as {host!r}" in text
        for known in ("localhost", "LOCALHOST:9400", "[::1]:9400", "127.0.0.1"):
            asked = urllib.request.Request(address, headers={"Host": known})
            with urllib.request.urlopen(asked, timeout=30) as answer:
                assert "evensplit_batches_total" in answer.read().decode()
    finally:
        server.close()


def test_who_listens_for_others_is_called_by_any_name(recorder: Recorder) -> None:
    server = MetricsServer("0.0.0.0", 0)
    try:
        server.watch(recorder, partitions=False)
        address = f"http://127.0.0.1:{server.port}/metrics"
        asked = urllib.request.Request(address, headers={"Host": "spark-driver:9400"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert "evensplit_batches_total" in answer.read().decode()
    finally:
        server.close()


def test_a_scraper_that_drips_bytes_is_cut_off(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait for the next byte is ever too long, and still nobody else would be answered."""
    monkeypatch.setattr(prometheus, "REQUESTS_MAX", 1)
    monkeypatch.setattr(prometheus, "DEADLINE_S", 0.3)
    server = MetricsServer("127.0.0.1", 0)
    over = threading.Event()
    ended: list[str] = []

    def drip(connection: socket.socket) -> None:
        while not over.wait(0.02):
            try:
                connection.sendall(b"x")
            except OSError as error:
                ended.append(type(error).__name__)
                return

    one = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    dripping = threading.Thread(target=drip, args=(one,), daemon=True)
    try:
        server.watch(recorder, partitions=False)
        one.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        dripping.start()
        wait_for(lambda: bool(ended), what="the end of its connection")
        monkeypatch.setattr(prometheus, "DEADLINE_S", 30.0)

        def answered() -> bool:
            with suppress(OSError):
                return bool(scraped(server.port))
            return False

        wait_for(answered, what="a scrape after it")
    finally:
        over.set()
        dripping.join(30)
        one.close()
        server.close()


def test_scrapers_that_hang_hold_up_neither_the_recorder_nor_others_for_ever(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prometheus._Handler.timeout == prometheus.TIMEOUT_S
    monkeypatch.setattr(prometheus._Handler, "timeout", 1.0)
    server = MetricsServer("127.0.0.1", 0)
    hanging: list[socket.socket] = []
    try:
        server.watch(recorder, partitions=False)
        for number in range(prometheus.REQUESTS_MAX + 3):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            one.sendall(b"GET /metrics HTTP/1.1\r\n" if number % 2 else b"")
            hanging.append(one)
        script = Script(query="another", name="another")
        taken(recorder, [script.batch()])
        assert recorder.find("another") is not None

        def answered() -> Exported:
            # As long as all of them are there, nobody else is answered.
            with suppress(OSError):
                return parsed(scraped(server.port))
            return {}

        found = wait_for(answered, what="a scrape after the others were given up")
        assert value(found, "batches_total", query="another") == 1
    finally:
        for one in hanging:
            one.close()
        server.close()
