"""A real Kafka cluster on this machine, for tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evensplit.errors import LocalKafkaError
from evensplit.testing import admin
from evensplit.testing.jars import Progress
from evensplit.testing.keeper import Keeper
from evensplit.testing.local_broker import LocalBroker, PortTaken
from evensplit.testing.node_files import OWN_PROPERTIES, NodeFiles, node_properties, random_kafka_id
from evensplit.testing.ports import free_ports
from evensplit.testing.prepared import Prepared, prepare

PORT_ATTEMPTS = 5
REQUEST_TIMEOUT_S = 30.0
ATTEMPT_TIMEOUT_S = 3.0


class LocalKafka:
    """A real Kafka 4.3 cluster (KRaft) of one or more brokers on this machine, to test your own jobs with.

        from evensplit.testing import LocalKafka

        with LocalKafka() as kafka:
            kafka.create_topic("clicks", partitions=4)
            run_my_job(bootstrap_servers=kafka.bootstrap_servers)

    Each broker is a Java process (Java 17 or later; JAVA_HOME, else PATH) that listens on 127.0.0.1 alone, on free
    ports. Kafka's jars are downloaded at the first use and kept (`resolve_jars`). A broker is there in about two
    seconds and takes about 300 MB of memory. Several clusters at once are several `LocalKafka` objects.

    `brokers`: how many, 1 or more. Their node ids are 0, 1, ... Each is a controller as well, so that with three the
    cluster goes on without any one of them; while fewer than a majority run, nothing that changes metadata works
    (creating topics, electing leaders, starting a broker).
    `racks`: the `broker.rack` of each broker, as many as there are brokers.
    `properties`: broker settings, above the defaults given here. Those that say what a broker is and where
    (`listeners`, `node.id`, `log.dirs` and their like) cannot be set.
    `directory`: where to keep settings, logs and data. It is created if need be and *kept* in the end; data from an
    earlier `LocalKafka` in it are used again. Without it, a temporary directory that is removed in the end.
    `start_timeout_s`: how long the brokers may take to start, above 0.
    `jvm_options`: for each broker's Java, above the defaults, which favour a quick start: brokers that are to be
    fast for long are better off with `["-XX:TieredStopAtLevel=4", "-Xmx2g"]`.
    `progress`: called while something has to be downloaded or prepared first.

    **Lifetime.** The processes and the temporary directory are gone after the `with` block, or after `close()`; and
    also when this process ends in any other way: an exception, Ctrl-C, SIGTERM, SIGKILL. A process forked off this
    one can use the brokers, but not this object.

    **Outages.** `kill()` is SIGKILL, `pause()` is SIGSTOP (connections stay open and nothing answers), `stop()` is
    an orderly shutdown, and `start()` or `resume()` brings back what they took away, on the same ports and with the
    same data. All of them exist for a single broker too: `kafka.broker(1).kill()`.

    Everything raises `LocalKafkaError` when a broker does not do what it should; the error ends with what the broker
    logged last. Not safe to use from several threads at once.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        racks: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
        start_timeout_s: float = 60,
        jvm_options: Sequence[str] = (),
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        if brokers < 1:
            raise LocalKafkaError(f"brokers must be 1 or more, not {brokers}")
        if racks is not None and len(racks) != brokers:
            raise LocalKafkaError(f"racks must name one rack for each of the {brokers} brokers, not {list(racks)}")
        if start_timeout_s <= 0:
            raise LocalKafkaError(f"start_timeout_s must be above 0, not {start_timeout_s}")
        taken = sorted(OWN_PROPERTIES.intersection(properties or {}))
        if taken:
            raise LocalKafkaError(f"properties that LocalKafka sets itself cannot be given: {', '.join(taken)}")
        self._count = brokers
        self._racks = list(racks) if racks is not None else [None] * brokers
        self._properties = dict(properties or {})
        self._directory = directory
        self._start_timeout_s = start_timeout_s
        self._jvm_options = list(jvm_options)
        self._progress = progress
        self._keeper: Keeper | None = None
        self._brokers: list[LocalBroker] = []
        self._cluster_id = ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except LocalKafkaError as failure:
            if error is None:
                raise
            # The reason for leaving is the error to see, and a dead broker may well be the reason for it.
            error.add_note(str(failure))

    def __repr__(self) -> str:
        return f"LocalKafka({', '.join(broker.address for broker in self._brokers) or 'not started'})"

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:port` of every broker, separated by commas. Also while they are down; the ports stay."""
        return ",".join(broker.address for broker in self._started())

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster: 22 characters, random."""
        self._started()
        return self._cluster_id

    @property
    def brokers(self) -> tuple[LocalBroker, ...]:
        """All brokers, in the order of their node ids."""
        return tuple(self._started())

    @property
    def is_running(self) -> bool:
        """Whether every broker's process is there. False as soon as one has died, by order or by itself."""
        return bool(self._brokers) and all(broker.is_running for broker in self._brokers)

    def broker(self, node_id: int) -> LocalBroker:
        """The broker with this node id, 0 up to but not including `brokers`."""
        if not 0 <= node_id < len(self._started()):
            raise LocalKafkaError(f"there is no broker {node_id}; the cluster has 0 to {len(self._brokers) - 1}")
        return self._brokers[node_id]

    def start(self) -> Self:
        """Start every broker that is down, and wait until all that run know each other and answer.

        The first time on new free ports, later on the same ones and with the same data. If the first start fails,
        nothing is left of it.
        """
        if self._keeper is not None:
            self._start_brokers(self._brokers)
            return self
        prepared = prepare(self._progress)
        self._keeper = keeper = Keeper()
        try:
            for attempt in range(1, PORT_ATTEMPTS + 1):
                formatted = self._make_brokers(keeper, prepared)
                try:
                    self._start_brokers(self._brokers)
                    break
                except PortTaken:
                    if attempt == PORT_ATTEMPTS:
                        raise
                    self.kill()
                    for files in formatted:
                        shutil.rmtree(files.data)
        except BaseException:
            self._brokers = []
            self._keeper = None
            keeper.close()
            raise
        return self

    def stop(self) -> None:
        """Shut all brokers down in order; data and ports stay, for `start()`.

        Raises `LocalKafkaError`, after stopping the others, when one had died by itself or had to be killed.
        """
        self._all_do(LocalBroker.ask_to_stop)
        self._all_do(LocalBroker.wait_for_stop)

    def close(self) -> None:
        """End the processes and remove the temporary directory; both are gone on return. Twice does no harm.

        With a `directory` of your own, the brokers are shut down in order and the directory stays. Raises
        `LocalKafkaError`, after all that, when a broker had died by itself.
        """
        if self._keeper is None or not self._keeper.is_mine:
            return
        keeper, brokers = self._keeper, self._brokers
        deaths: list[str] = []
        try:
            if self._directory is not None:
                self.stop()
            deaths = [death for broker in brokers if (death := broker.forget_death()) is not None]
        finally:
            self._brokers = []
            self._keeper = None
            keeper.close()
        if deaths:
            raise LocalKafkaError("\n".join(deaths))

    def kill(self, broker: int | None = None) -> None:
        """End one broker, or all, with SIGKILL; gone on return. Data and ports stay, for `start()`."""
        for each in self._some(broker):
            each.kill()

    def pause(self, broker: int | None = None) -> None:
        """Hold one broker, or all, with SIGSTOP: connections stay open and nothing is answered until `resume()`."""
        for each in self._some(broker):
            each.pause()

    def resume(self, broker: int | None = None) -> None:
        """Let one paused broker, or all of them, go on."""
        for each in self._some(broker):
            each.resume()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Create a topic; on return every running broker knows it, with a leader for each partition.

        `config`: topic settings, such as `{"cleanup.policy": "compact"}`. Raises `BrokerError` when Kafka refuses
        (the topic exists, more replicas than brokers ...), `LocalKafkaError` when it is not done in time.
        """
        what = f"create topic {name!r}"
        answer = self._ask(what, admin.create_topic, name, partitions, replication_factor, config or {}, timeout_s)
        admin.check(answer, self._cluster_id, what)
        self._wait_for_topic(name, partitions, what, timeout_s)

    def add_partitions(self, name: str, total: int, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Grow a topic to `total` partitions; on return every running broker knows them, each with a leader.

        Raises `BrokerError` when Kafka refuses (no such topic, not more than now ...), `LocalKafkaError` when it is
        not done in time.
        """
        what = f"grow topic {name!r} to {total} partitions"
        answer = self._ask(what, admin.add_partitions, name, total, timeout_s)
        admin.check(answer, self._cluster_id, what)
        self._wait_for_topic(name, total, what, timeout_s)

    def delete_topic(self, name: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Delete a topic; on return no running broker knows it any more.

        Raises `BrokerError` when Kafka refuses (no such topic), `LocalKafkaError` when it is not done in time.
        """
        what = f"delete topic {name!r}"
        answer = self._ask(what, admin.delete_topic, name, timeout_s)
        admin.check(answer, self._cluster_id, what)

        def gone(left_s: float) -> bool:
            return not any(topic.partitions for topic in self._topic_everywhere(name, left_s))

        admin.wait_until(gone, what, timeout_s)

    def _started(self) -> list[LocalBroker]:
        if self._keeper is None:
            raise LocalKafkaError("this LocalKafka is not started: use it in a `with` block, or call start()")
        return self._brokers

    def _some(self, broker: int | None) -> list[LocalBroker]:
        return self._started() if broker is None else [self.broker(broker)]

    def _all_do(self, action: Callable[[LocalBroker], None]) -> None:
        """Have every broker do it, and raise the first failure after that."""
        failures = []
        for broker in self._started():
            try:
                action(broker)
            except LocalKafkaError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def _make_brokers(self, keeper: Keeper, prepared: Prepared) -> list[NodeFiles]:
        """New brokers on new ports, and which of their data directories are new."""
        self._prepared = prepared
        numbers = free_ports(2 * self._count)
        ports = [(numbers[2 * node], numbers[2 * node + 1]) for node in range(self._count)]
        home = (self._directory or keeper.directory).absolute()
        nodes = [NodeFiles(home / f"broker-{node}", keeper.directory / f"tmp-{node}") for node in range(self._count)]
        known = {known for files in nodes if (known := files.cluster_id()) is not None}
        if len(known) > 1:
            raise LocalKafkaError(f"{home} holds brokers of {len(known)} clusters: {', '.join(sorted(known))}")
        self._cluster_id = known.pop() if known else random_kafka_id()
        formatted = []
        for node_id, files in enumerate(nodes):
            files.write_settings(node_properties(node_id, ports, self._racks[node_id], files.data, self._properties))
            if files.cluster_id() is None:
                files.format(self._cluster_id, node_id, prepared.bootstrap)
                formatted.append(files)
        self._brokers = [
            LocalBroker(node_id, ports[node_id], files, lambda broker: self._start_brokers([broker]))
            for node_id, files in enumerate(nodes)
        ]
        return formatted

    def _start_brokers(self, brokers: Sequence[LocalBroker]) -> None:
        assert self._keeper is not None
        down = [broker for broker in brokers if broker.forget_death() is not None or broker.pid is None]
        for broker in down:
            broker.launch(self._keeper, self._prepared, self._jvm_options)
        admin.wait_until(self._all_know_each_other, f"{self!r} is ready", self._start_timeout_s)

    def _all_know_each_other(self, left_s: float) -> bool:
        awake = self._awake()
        for broker in awake:
            broker.check_alive()
        expected = {(broker.node_id, broker.port) for broker in awake}
        for broker in awake:
            known = admin.metadata(broker.port, [], timeout_s=min(left_s, ATTEMPT_TIMEOUT_S))
            if known.cluster_id != self._cluster_id or not expected <= {(b.node_id, b.port) for b in known.brokers}:
                return False
        return True

    def _awake(self) -> list[LocalBroker]:
        return [broker for broker in self._started() if broker.pid is not None and not broker.is_paused]

    def _ask(self, what: str, request: Callable[..., Any], *arguments: Any) -> Any:
        *arguments_, timeout_s = arguments
        awake = self._awake()
        if not awake:
            raise LocalKafkaError(f"{what}: no broker of {self!r} is running")
        try:
            return request(awake[0].port, *arguments_, timeout_s=timeout_s)
        except OSError as error:
            raise LocalKafkaError(
                f"{what}: no answer from {awake[0].address} within {timeout_s:g} s: {error}"
            ) from error

    def _topic_everywhere(self, name: str, left_s: float) -> list[Any]:
        return [
            admin.metadata(broker.port, [name], timeout_s=min(left_s, ATTEMPT_TIMEOUT_S)).topics[0]
            for broker in self._awake()
        ]

    def _wait_for_topic(self, name: str, partitions: int, what: str, timeout_s: float) -> None:
        def known(left_s: float) -> bool:
            return all(
                len(topic.partitions) == partitions and all(p.leader_id >= 0 for p in topic.partitions)
                for topic in self._topic_everywhere(name, left_s)
            )

        admin.wait_until(known, what, timeout_s)
