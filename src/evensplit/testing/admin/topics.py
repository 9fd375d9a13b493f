"""Creating, growing and deleting topics, such that the change is everywhere on return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from evensplit.errors import LocalKafkaError
from evensplit.testing.admin import requests

REQUEST_TIMEOUT_S = 60.0


class TopicHelpers(ABC):
    """Topics for tests, on any cluster that can be reached without credentials."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """`host:port` of the brokers, separated by commas."""

    @property
    @abstractmethod
    def cluster_id(self) -> str:
        """Kafka's id of the cluster."""

    @abstractmethod
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each broker that can be asked now."""

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
        answer = self._ask(what, timeout_s, requests.create_topic, name, partitions, replication_factor, config or {})
        requests.check(answer, self.cluster_id, what)
        self._wait_for_topic(name, partitions, what, timeout_s)

    def add_partitions(self, name: str, total: int, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Grow a topic to `total` partitions; on return every running broker knows them, each with a leader.

        Raises `BrokerError` when Kafka refuses (no such topic, not more than now ...), `LocalKafkaError` when it is
        not done in time.
        """
        what = f"grow topic {name!r} to {total} partitions"
        answer = self._ask(what, timeout_s, requests.add_partitions, name, total)
        requests.check(answer, self.cluster_id, what)
        self._wait_for_topic(name, total, what, timeout_s)

    def delete_topic(self, name: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Delete a topic; on return no running broker knows it any more.

        Raises `BrokerError` when Kafka refuses (no such topic), `LocalKafkaError` when it is not done in time.
        """
        what = f"delete topic {name!r}"
        answer = self._ask(what, timeout_s, requests.delete_topic, name)
        requests.check(answer, self.cluster_id, what)

        def gone(left_s: float) -> bool:
            return not any(topic.partitions for topic in self._topic_everywhere(name, left_s))

        requests.wait_until(gone, what, timeout_s)

    def _ask(self, what: str, timeout_s: float, request: Callable[..., Any], *arguments: Any) -> Any:
        addresses = self.addresses()
        if not addresses:
            raise LocalKafkaError(f"{what}: no broker of {self!r} is running")
        try:
            return request(addresses[0], *arguments, timeout_s=timeout_s)
        except OSError as error:
            host, port = addresses[0]
            raise LocalKafkaError(f"{what}: no answer from {host}:{port} within {timeout_s:g} s: {error}") from error

    def _topic_everywhere(self, name: str, left_s: float) -> list[Any]:
        timeout_s = min(left_s, requests.ATTEMPT_TIMEOUT_S)
        return [requests.metadata(each, [name], timeout_s=timeout_s).topics[0] for each in self.addresses()]

    def _wait_for_topic(self, name: str, partitions: int, what: str, timeout_s: float) -> None:
        def known(left_s: float) -> bool:
            return all(
                len(topic.partitions) == partitions and all(each.leader_id >= 0 for each in topic.partitions)
                for topic in self._topic_everywhere(name, left_s)
            )

        requests.wait_until(known, what, timeout_s)
