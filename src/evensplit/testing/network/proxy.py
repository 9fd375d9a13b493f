"""A way to a broker on this machine that can be cut, slowed down and held, as a network can."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Self

from evensplit.errors import LocalKafkaError
from evensplit.testing.network.metadata_memory import Conversation, MetadataMemory
from evensplit.testing.process.ports import HOST

PIECE = 65_536
CLOSED_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """How a network fails. All of it can be at once."""

    cut: bool = False
    """Connections are closed, and new ones as soon as they come."""
    requests_held: bool = False
    """Nothing gets to the broker. Connections stay open, and new ones are taken. It gets there when this is over."""
    answers_held: bool = False
    """Nothing comes back from the broker. With `requests_held`, too, connections are half-open."""
    delay_s: float = 0.0
    """Each piece of data comes so much later, in either direction."""
    jitter_s: float = 0.0
    """And up to so much later than that, at random."""
    reset_chance: float = 0.0
    """The probability, 0 to 1, with which a piece of data is lost and its connection reset."""
    bytes_per_s_max: float = 0.0
    """So much gets through in each direction of a connection; 0: no limit."""
    stale_metadata: bool = False
    """Requests for metadata get the last answer from before, with a proxy that reads Kafka's protocol."""


class NetworkProxy:
    """Listens on a free port of 127.0.0.1, and passes all data on to `target`, unless there is trouble.

        with NetworkProxy(("127.0.0.1", 9092)) as proxy:
            proxy.trouble = Trouble(delay_s=0.2)

    `trouble` can be changed at any time, from any thread, and holds for connections that are open. Random choices come
    from `seed`. `port`: to listen on; 0: a free one. `reads_kafka`: the data are Kafka's protocol, without TLS, so that
    metadata can be stale; for other data, `stale_metadata` raises `LocalKafkaError`.
    """

    def __init__(self, target: tuple[str, int], *, seed: int = 0, port: int = 0, reads_kafka: bool = False) -> None:
        self._target = target
        self._random = Random(seed)  # noqa: S311
        self._memory = MetadataMemory() if reads_kafka else None
        self._trouble = Trouble()
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="network proxy")
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._accepted, HOST, port)).result(CLOSED_WITHIN_S)
        self.address: tuple[str, int] = self._server.sockets[0].getsockname()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def trouble(self) -> Trouble:
        """How the network fails now."""
        return self._trouble

    @trouble.setter
    def trouble(self, trouble: Trouble) -> None:
        if trouble.stale_metadata and self._memory is None:
            raise LocalKafkaError("stale metadata need a proxy with reads_kafka=True, for brokers without TLS")
        self._do(self._change(trouble)).result(CLOSED_WITHIN_S)

    @property
    def metadata_remembered(self) -> int:
        """To how many requests for metadata the answer is known, and can be stale."""
        return len(self._memory.answers) if self._memory is not None else 0

    def drop_connections(self) -> None:
        """Close those that are open; new ones are taken as before."""
        self._do(self._drop()).result(CLOSED_WITHIN_S)

    def close(self) -> None:
        """Close all connections, and listen no more. Twice does no harm."""
        if self._loop.is_closed():
            return
        self._do(self._end()).result(CLOSED_WITHIN_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, what: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(what, self._loop)

    async def _change(self, trouble: Trouble) -> None:
        self._trouble = trouble
        if trouble.cut:
            self._abort_all()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _drop(self) -> None:
        self._abort_all()

    async def _end(self) -> None:
        self._server.close()
        self._abort_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _abort_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._trouble.cut:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._connect(reader, writer)
        except OSError:
            # The broker is down, or either side has hung up: so it has for the other one.
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(*self._target)
        self._writers.add(broker_writer)
        try:
            conversation = Conversation(self._memory) if self._memory is not None else None
            ways = (
                self._pass_on(reader, broker_writer, conversation, requests=True),
                self._pass_on(broker_reader, writer, conversation, requests=False),
            )
            done, waiting = await asyncio.wait(
                [asyncio.create_task(way) for way in ways], return_when=asyncio.FIRST_COMPLETED
            )
            for task in waiting:
                task.cancel()
            await asyncio.gather(*done, *waiting, return_exceptions=True)
        finally:
            self._writers.discard(broker_writer)
            for one in (writer, broker_writer):
                with suppress(OSError, RuntimeError):
                    one.close()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        conversation: Conversation | None,
        *,
        requests: bool,
    ) -> None:
        """Pass data on in one direction until a side has hung up."""
        while data := await reader.read(PIECE):
            trouble = self._trouble
            if trouble.reset_chance and self._random.random() < trouble.reset_chance:
                writer.transport.abort()
                return
            wait_s = trouble.delay_s + self._random.uniform(0.0, trouble.jitter_s)
            if trouble.bytes_per_s_max:
                wait_s += len(data) / trouble.bytes_per_s_max
            if wait_s:
                await asyncio.sleep(wait_s)
            while self._trouble.requests_held if requests else self._trouble.answers_held:
                await self._changed.wait()
            if conversation is not None:
                stale = self._trouble.stale_metadata
                data = conversation.request(data) if requests else conversation.answer(data, stale=stale)
            writer.write(data)
            await writer.drain()
