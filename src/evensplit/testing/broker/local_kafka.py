"""A real Kafka cluster on this machine, for tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from evensplit.errors import LocalKafkaError
from evensplit.testing.admin import access, changes, requests
from evensplit.testing.admin.access import AccessHelpers
from evensplit.testing.admin.topics import REQUEST_TIMEOUT_S
from evensplit.testing.broker.local_broker import LocalBroker, PortTakenError
from evensplit.testing.broker.node_files import OWN_PROPERTIES, Node, NodeFiles, node_properties, random_kafka_id
from evensplit.testing.broker.prepared import Prepared, prepare
from evensplit.testing.network.proxy import NetworkProxy
from evensplit.testing.process.directory_lock import cannot_be_used, locked_directory
from evensplit.testing.process.jars import Progress
from evensplit.testing.process.keeper import Keeper
from evensplit.testing.process.ports import HOST, kept_ports
from evensplit.testing.secured.certificates import BROKER_CERTIFICATES, Certificates
from evensplit.testing.secured.issue import certificates_in
from evensplit.testing.secured.security import KEYSTORE, Secured, of_listener

PORT_ATTEMPTS = 5
PORTS_FILE = "ports"
# Far from the ids of brokers, which begin at 0.
CONTROLLER_ID = 9000
# A broker's network threads take connections in turn, and change their certificates one after the other.
LOOKS = 8


class LocalKafka(AccessHelpers):
    """A real Kafka 4.3 cluster (KRaft) of one or more brokers on this machine, to test your own jobs with.

        from evensplit.testing import LocalKafka

        with LocalKafka() as kafka:
            kafka.create_topic("clicks", partitions=4)
            run_my_job(bootstrap_servers=kafka.bootstrap_servers)

    Each broker is a Java process (Java 17 or later; JAVA_HOME, else PATH) that listens on 127.0.0.1 alone, on free
    ports. Kafka's jars are downloaded at the first use and kept (`resolve_jars`). A broker is there in about two
    seconds and takes about 300 MB of memory. Several clusters at once are several `LocalKafka` objects.

    `brokers`: how many, 1 or more. Their node ids are 0, 1, ... One alone is its own controller. Several have a
    controller in a process of its own, so that any of them, in any order, can be killed, paused and stopped while
    the rest elect new leaders; it goes down and comes back with the whole cluster only.
    `security`: what brokers ask of clients (`Secured`): TLS, users and passwords, access rules. None: nothing.
    `racks`: the `broker.rack` of each broker, as many as there are brokers.
    `properties`: broker settings, above the defaults given here. Those that say what a broker is and where
    (`listeners`, `node.id`, `log.dirs` and their like) cannot be set.
    `proxied`: clients reach each broker through a proxy in this process, `kafka.broker(0).proxy`, which can be cut,
    slowed down and held (`Trouble`). `internal_servers` lead past it.
    `directory`: where to keep settings, logs and data. It is created if need be and *kept* in the end; data from an
    earlier `LocalKafka` in it are used again, and its ports, if they are free. One that another `LocalKafka` runs on
    is refused, before anything in it is touched. Without it, a temporary directory that is removed in the end.
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

    **Security.** `bootstrap_servers` names the secured listener. Each broker has a second one, without any security,
    on a port of its own (`internal_servers`): brokers among themselves, `create_topic` and the like use it, and tests
    that want to see what is really there. With TLS, `certificates` has the files for clients.

        with LocalKafka(security=Secured("SASL_SSL", users={"alice": "secret"}, acls=True)) as kafka:
            kafka.create_topic("clicks")
            kafka.allow("alice", topic="clicks")
            run_my_job(kafka.bootstrap_servers, "alice", "secret", truststore=kafka.certificates.ca)

    Everything raises `LocalKafkaError` when a broker does not do what it should; the error ends with what the broker
    logged last. Not safe to use from several threads at once.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        security: Secured | None = None,
        racks: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        proxied: bool = False,
        directory: Path | None = None,
        start_timeout_s: float = 120,
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
        super().__init__(security)
        self._count = brokers
        self._racks = list(racks) if racks is not None else [None] * brokers
        self._properties = dict(properties or {})
        self._proxied = proxied
        self._directory = directory
        self._start_timeout_s = start_timeout_s
        self._jvm_options = list(jvm_options)
        self._progress = progress
        self._keeper: Keeper | None = None
        self._kept = ExitStack()
        self._prepared: Prepared | None = None
        self._brokers: list[LocalBroker] = []
        self._controllers: list[LocalBroker] = []
        self._proxies: list[NetworkProxy] = []
        self._cluster_id = ""
        self._certificates: Certificates | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
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
    def internal_servers(self) -> str:
        """As `bootstrap_servers`, for the listeners without security; the same ones if the cluster is not secured."""
        return ",".join(f"{HOST}:{broker.internal_port}" for broker in self._started())

    @property
    def certificates(self) -> Certificates:
        """Files for clients of a cluster with TLS, and what opens them. `LocalKafkaError` for one without."""
        self._started()
        if self._certificates is None:
            raise LocalKafkaError('these brokers have no TLS: give LocalKafka security=Secured("SSL") or "SASL_SSL"')
        return self._certificates

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
    def controller(self) -> LocalBroker:
        """The controller of a cluster of several brokers, to be killed, paused and started. It is no broker."""
        self._started()
        if not self._controllers:
            raise LocalKafkaError("a broker that is alone is its own controller: use broker(0)")
        return self._controllers[0]

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

        The first time on free ports, those of an earlier one in the directory if they are, later on the same ones and
        with the same data. If the first start fails, nothing is left of it.
        """
        if self._keeper is not None:
            self._start_brokers(self._brokers)
            return self
        with ExitStack() as kept:
            if self._directory is not None:
                kept.enter_context(locked_directory(self._directory))
            prepared = prepare(self._progress)
            self._keeper = kept.enter_context(Keeper())
            kept.callback(self._forget)
            for attempt in range(1, PORT_ATTEMPTS + 1):
                formatted = self._make_brokers(self._keeper, prepared)
                try:
                    self._start_brokers(self._brokers)
                    break
                except PortTakenError:
                    if attempt == PORT_ATTEMPTS:
                        raise
                    self.kill()
                    for files in formatted:
                        shutil.rmtree(files.data)
                    ((self._directory or self._keeper.directory) / PORTS_FILE).unlink(missing_ok=True)
            self.create_users()
            self._kept = kept.pop_all()
        return self

    def stop(self) -> None:
        """Shut all brokers down in order; data and ports stay, for `start()`.

        Raises `LocalKafkaError`, after stopping the others, when one had died by itself or had to be killed.
        """
        brokers, controllers = self._started(), self._controllers
        # A broker's orderly end needs the controller's consent.
        failures = [*_all_do(LocalBroker.ask_to_stop, brokers), *_all_do(LocalBroker.wait_for_stop, brokers)]
        failures += _all_do(LocalBroker.stop, controllers)
        if failures:
            raise failures[0]

    def close(self) -> None:
        """End the processes and remove the temporary directory; both are gone on return. Twice does no harm.

        With a `directory` of your own, the brokers are shut down in order and the directory stays. Raises
        `LocalKafkaError`, after all that, when a broker had died by itself.
        """
        if self._keeper is None or not self._keeper.is_mine:
            return
        nodes = [*self._brokers, *self._controllers]
        deaths: list[str] = []
        try:
            if self._directory is not None:
                self.stop()
            deaths = [death for node in nodes if (death := node.forget_death()) is not None]
        finally:
            self._kept.close()
        if deaths:
            raise LocalKafkaError("\n".join(deaths))

    def kill(self, broker: int | None = None) -> None:
        """End one broker, or the whole cluster, with SIGKILL; gone on return. Data and ports stay, for `start()`."""
        for each in self._some(broker):
            each.kill()

    def pause(self, broker: int | None = None) -> None:
        """Hold one broker, or the whole cluster, with SIGSTOP: connections stay open, nothing is answered.

        Until `resume()`, which answers requests that came meanwhile, unless their clients have given up.
        """
        for each in self._some(broker):
            each.pause()

    def resume(self, broker: int | None = None) -> None:
        """Let one paused broker, or all of them, go on."""
        for each in self._some(broker):
            each.resume()

    def addresses(self) -> list[tuple[str, int]]:
        """Host and port, without security, of each broker that runs and is not paused."""
        return [(HOST, broker.internal_port) for broker in self._awake()]

    def present_certificate(self, which: str) -> None:
        """Have every running broker present another certificate from now on, as `Secured.broker_certificate` names it.

        On return all new connections get it; those that are open stay. It is kept over restarts. `LocalKafkaError`
        for a cluster without TLS, another word, and when it is not done in time.
        """
        if which not in BROKER_CERTIFICATES:
            raise LocalKafkaError(f"a broker's certificate is one of {', '.join(BROKER_CERTIFICATES)}, not {which!r}")
        file = self.certificates.broker_pem(which)
        what = f"present the certificate {which!r}"
        for broker in self._awake():
            address = (HOST, broker.internal_port)
            setting = {of_listener(KEYSTORE): str(file)}
            answer = changes.change_settings(
                address, changes.BROKER_RESOURCE, str(broker.node_id), setting, timeout_s=REQUEST_TIMEOUT_S
            )
            requests.check(answer, self._cluster_id, what)
        expected = file.read_text()

        def all_do(left_s: float) -> bool:
            timeout_s = min(left_s, requests.ATTEMPT_TIMEOUT_S)
            addresses = [(HOST, each.port) for each in self._awake()] * LOOKS
            return all(access.presented(address, timeout_s=timeout_s) in expected for address in addresses)

        requests.wait_until(all_do, what, REQUEST_TIMEOUT_S)

    def _forget(self) -> None:
        self._close_proxies()
        self._brokers, self._controllers = [], []
        self._keeper = None

    def _started(self) -> list[LocalBroker]:
        if self._keeper is None:
            raise LocalKafkaError("this LocalKafka is not started: use it in a `with` block, or call start()")
        return self._brokers

    def _some(self, broker: int | None) -> list[LocalBroker]:
        return [*self._started(), *self._controllers] if broker is None else [self.broker(broker)]

    def _make_brokers(self, keeper: Keeper, prepared: Prepared) -> list[NodeFiles]:
        """New brokers, on the ports that the directory had the last time if they are free, and which have new data."""
        self._prepared = prepared
        home = (self._directory or keeper.directory).absolute()
        try:
            nodes = self._lay_out(home / PORTS_FILE)
        except OSError as error:
            raise cannot_be_used(home, error) from error
        places = [NodeFiles(home / f"node-{node.node_id}", keeper.directory / f"tmp-{node.node_id}") for node in nodes]
        known = {known for files in places if (known := files.cluster_id()) is not None}
        if len(known) > 1:
            raise LocalKafkaError(f"{home} holds nodes of {len(known)} clusters: {', '.join(sorted(known))}")
        self._cluster_id = known.pop() if known else random_kafka_id()
        properties = self._properties
        if self._security is not None:
            self._certificates = certificates_in(home / "certificates") if self._security.has_tls else None
            properties = {**self._security.properties(self._certificates), **properties}
        formatted = []
        members = []
        for node, files in zip(nodes, places, strict=True):
            try:
                files.write_settings(node_properties(node, nodes[0], self._count, files.data, properties))
                if files.cluster_id() is None:
                    files.format(self._cluster_id, node.node_id, prepared.bootstrap)
                    formatted.append(files)
            except OSError as error:
                raise cannot_be_used(home, error) from error
            members.append(LocalBroker(node, files, lambda broker: self._start_brokers([broker])))
        self._brokers = members[-self._count :]
        for broker, proxy in zip(self._brokers, self._proxies, strict=False):
            broker.proxy = proxy
        self._controllers = members[: -self._count]
        return formatted

    def _lay_out(self, kept: Path) -> list[Node]:
        """The nodes and their ports; the first is the controller."""
        count = self._count
        two_listeners = self._security is not None or self._proxied
        controller_port, *ports = kept_ports(kept, 1 + count + (count if two_listeners else 0))
        internal: Sequence[int | None] = ports[count:] or [None] * count
        self._close_proxies()
        plain = self._security is None or not self._security.has_tls
        self._proxies = [NetworkProxy((HOST, port), reads_kafka=plain) for port in ports[:count] if self._proxied]
        proxies: Sequence[int | None] = [proxy.address[1] for proxy in self._proxies] or [None] * count
        alone = controller_port if count == 1 else None
        brokers = [
            Node(each, ports[each], alone, self._racks[each], internal[each], proxies[each]) for each in range(count)
        ]
        return brokers if count == 1 else [Node(CONTROLLER_ID, None, controller_port), *brokers]

    def _close_proxies(self) -> None:
        for proxy in self._proxies:
            proxy.close()

    def _start_brokers(self, brokers: Sequence[LocalBroker]) -> None:
        assert self._keeper is not None
        assert self._prepared is not None
        for node in [*self._controllers, *brokers]:
            node.forget_death()
            if node.pid is None:
                node.launch(self._keeper, self._prepared, self._jvm_options)
        requests.wait_until(self._is_ready, f"{self!r} is ready", self._start_timeout_s)

    def _is_ready(self, left_s: float) -> bool:
        awake, attempt_s = self._awake(), min(left_s, requests.ATTEMPT_TIMEOUT_S)
        for node in [*self._controllers, *awake]:
            node.check_alive()
        expected = {(broker.node_id, broker.internal_port) for broker in awake}
        for broker in awake:
            known = requests.metadata((HOST, broker.internal_port), [], timeout_s=attempt_s)
            if known.cluster_id != self._cluster_id or not expected <= {(b.node_id, b.port) for b in known.brokers}:
                return False
        # A controller is asked through a broker.
        asked = bool(awake and self._controllers) and not self._controllers[0].is_paused
        return not asked or requests.controller_answers((HOST, awake[0].internal_port), timeout_s=attempt_s)

    def _awake(self) -> list[LocalBroker]:
        return [broker for broker in self._started() if broker.pid is not None and not broker.is_paused]


def _all_do(action: Callable[[LocalBroker], None], brokers: Sequence[LocalBroker]) -> list[LocalKafkaError]:
    """Have every broker do it, whatever becomes of the others; the failures."""
    failures = []
    for broker in brokers:
        try:
            action(broker)
        except LocalKafkaError as failure:
            failures.append(failure)
    return failures
