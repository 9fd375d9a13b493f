"""What a Python process of Spark does about its sockets and its garbage."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from evensplit.spark.task import process, task_reader
from evensplit.spark.task.process import Collections, acknowledge_at_once

needs_quick = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has it")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection within this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            yield one, other


def delays(one: socket.socket) -> tuple[bool, bool]:
    """Whether it waits before it sends, and before it acknowledges."""
    quick = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    return not one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), not quick


@needs_quick
def test_nothing_waits_for_an_acknowledgement(pair: tuple[socket.socket, socket.socket]) -> None:
    for one in pair:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        assert delays(one) == (True, True)
    acknowledge_at_once()
    assert [delays(one) for one in pair] == [(False, False), (False, False)]


@needs_quick
def test_a_task_does_that_when_its_reader_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[bool] = []
    monkeypatch.setattr(task_reader, "acknowledge_at_once", lambda: called.append(True))
    task_reader.task_reader()
    assert called == [True]


def test_other_descriptors_are_left_alone() -> None:
    here, there = socket.socketpair()
    with here, there, socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket() as unconnected:
        acknowledge_at_once()
        assert not unconnected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        here.send(b"still open")
        assert there.recv(99) == b"still open"


def test_a_socket_stays_as_it_is_where_sockets_have_a_timeout_by_default(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    here, there = socket.socketpair()
    before = socket.getdefaulttimeout()
    with here, there:
        socket.setdefaulttimeout(30)
        try:
            acknowledge_at_once()
        finally:
            socket.setdefaulttimeout(before)
        assert all(os.get_blocking(one.fileno()) for one in (here, there, *pair))


def test_nothing_is_raised_where_descriptors_cannot_be_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "_DESCRIPTORS", tmp_path / "none")
    acknowledge_at_once()


def test_what_is_loaded_is_set_aside_once_when_the_second_task_begins() -> None:
    before = gc.get_freeze_count()
    collections, frozen = Collections(), []
    try:
        for _ in range(3):
            collections.begin_task()
            frozen.append(gc.get_freeze_count())
    finally:
        gc.unfreeze()
    assert frozen[0] == before
    assert frozen[1] > before
    assert frozen[2] <= frozen[1], "what is freed meanwhile is gone"
