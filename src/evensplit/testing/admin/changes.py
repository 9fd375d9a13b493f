"""Changes to what is there: settings of topics, first offsets, replicas and quotas, done everywhere on return."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from evensplit.errors import LocalKafkaError
from evensplit.testing.admin import requests
from evensplit.testing.admin.requests import Address, ask
from evensplit.testing.admin.topics import REQUEST_TIMEOUT_S, TopicHelpers

# As in `admin`.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.admin import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        DeleteRecordsRequest,
        DeleteRecordsResponse,
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
        DescribeConfigsRequest,
        DescribeConfigsResponse,
        ElectLeadersRequest,
        ElectLeadersResponse,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

ALTER_CONFIGS_VERSION = 1
DESCRIBE_CONFIGS_VERSION = 4
DELETE_RECORDS_VERSION = 2
REASSIGNMENTS_VERSION = 0
ELECTION_VERSION = 2
QUOTAS_VERSION = 1
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET = 0
PREFERRED = 0
QUOTAS = ("consumer_byte_rate", "producer_byte_rate", "request_percentage")


def change_settings(
    address: Address, resource_type: int, resource: str, settings: Mapping[str, str], *, timeout_s: float
) -> Any:
    """Change settings of a topic or of one broker; the answer has `error_code` and `error_message`."""
    alterable = IncrementalAlterConfigsRequest.AlterConfigsResource
    changed = alterable(
        resource_type=resource_type,
        resource_name=resource,
        configs=[
            alterable.AlterableConfig(name=name, config_operation=SET, value=value) for name, value in settings.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[changed], validate_only=False)
    answer = ask(address, request, IncrementalAlterConfigsResponse, ALTER_CONFIGS_VERSION, timeout_s=timeout_s)
    return answer.responses[0]


def topic_settings(address: Address, topic: str, names: Sequence[str], *, timeout_s: float) -> dict[str, str | None]:
    """These settings of a topic, as the broker at `address` has them."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=list(names)
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
    answer = ask(address, request, DescribeConfigsResponse, DESCRIBE_CONFIGS_VERSION, timeout_s=timeout_s)
    return {one.name: one.value for one in answer.results[0].configs}


def delete_records(address: Address, topic: str, before: Mapping[int, int], *, timeout_s: float) -> Any:
    """Delete records before these offsets; `address` is of the leader. Its answer for each partition."""
    wanted = DeleteRecordsRequest.DeleteRecordsTopic
    partitions = [wanted.DeleteRecordsPartition(partition_index=one, offset=offset) for one, offset in before.items()]
    request = DeleteRecordsRequest(topics=[wanted(name=topic, partitions=partitions)], timeout_ms=int(timeout_s * 1000))
    answer = ask(address, request, DeleteRecordsResponse, DELETE_RECORDS_VERSION, timeout_s=timeout_s)
    return answer.topics[0].partitions


def reassign(address: Address, topic: str, replicas: Mapping[int, Sequence[int]], *, timeout_s: float) -> Any:
    """Begin to move replicas; the answer's `responses` carry `error_code` and `error_message` for each partition."""
    wanted = AlterPartitionReassignmentsRequest.ReassignableTopic
    partitions = [
        wanted.ReassignablePartition(partition_index=one, replicas=list(nodes)) for one, nodes in replicas.items()
    ]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(timeout_s * 1000), topics=[wanted(name=topic, partitions=partitions)]
    )
    return ask(address, request, AlterPartitionReassignmentsResponse, REASSIGNMENTS_VERSION, timeout_s=timeout_s)


def elect_preferred(address: Address, topic: str, partitions: Sequence[int], *, timeout_s: float) -> Any:
    """Have the first replica of each partition lead it; the broker's answer."""
    wanted = ElectLeadersRequest.TopicPartitions(topic=topic, partitions=list(partitions))
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=[wanted], timeout_ms=int(timeout_s * 1000))
    return ask(address, request, ElectLeadersResponse, ELECTION_VERSION, timeout_s=timeout_s)


def change_quotas(address: Address, client_id: str, quotas: Mapping[str, float | None], *, timeout_s: float) -> Any:
    """Set quotas of a client id (KIP-546), or take away those that are None; the answer for it."""
    entry = AlterClientQuotasRequest.EntryData
    changed = entry(
        entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[
            entry.OpData(key=name, value=value if value is not None else 0.0, remove=value is None)
            for name, value in quotas.items()
        ],
    )
    request = AlterClientQuotasRequest(entries=[changed], validate_only=False)
    return ask(address, request, AlterClientQuotasResponse, QUOTAS_VERSION, timeout_s=timeout_s).entries[0]


def quotas_of(address: Address, client_id: str, *, timeout_s: float) -> dict[str, float]:
    """The quotas of a client id, as the broker at `address` has them."""
    component = DescribeClientQuotasRequest.ComponentData(entity_type="client-id", match_type=0, match=client_id)
    request = DescribeClientQuotasRequest(components=[component], strict=True)
    answer = ask(address, request, DescribeClientQuotasResponse, QUOTAS_VERSION, timeout_s=timeout_s)
    return {one.key: one.value for entry in answer.entries or [] for one in entry.values}


class ChangeHelpers(TopicHelpers):
    """Changes to topics and clients, besides making and removing topics."""

    def set_topic_config(self, name: str, config: Mapping[str, str], *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Change settings of a topic, such as `{"retention.ms": "1000"}`; on return every running broker knows them.

        Raises `BrokerError` when Kafka refuses (no such topic, no such setting ...), `LocalKafkaError` when it is not
        done in time.
        """
        what = f"set {', '.join(config)} of topic {name!r}"
        requests.check(self._ask(what, timeout_s, change_settings, TOPIC_RESOURCE, name, config), self.cluster_id, what)

        def known(left_s: float) -> bool:
            attempt_s = min(left_s, requests.ATTEMPT_TIMEOUT_S)
            return all(
                config.items() <= topic_settings(each, name, list(config), timeout_s=attempt_s).items()
                for each in self.addresses()
            )

        requests.wait_until(known, what, timeout_s)

    def delete_records(self, name: str, before: Mapping[int, int], *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Delete the records of each partition before an offset (-1: all); on return every live replica has.

        Raises `BrokerError` when Kafka refuses (an offset beyond the end ...), `LocalKafkaError` when it is not done
        in time, or a partition has no leader.
        """
        what = f"delete records of topic {name!r}"
        leaders = self._leaders(name, what, timeout_s)
        for address in {leaders.get(partition) for partition in before}:
            if address is None:
                led = sorted(partition for partition, leader in leaders.items() if leader is not None)
                raise LocalKafkaError(f"{what}: of partitions {sorted(before)}, those in {led} have a leader")
            its = {partition: offset for partition, offset in before.items() if leaders[partition] == address}
            try:
                answers = delete_records(address, name, its, timeout_s=timeout_s)
            except OSError as error:
                raise _no_answer(what, address, timeout_s) from error
            for answer in answers:
                requests.check_code(answer.error_code, self.cluster_id, f"{what}, partition {answer.partition_index}")

    def end_offsets(self, name: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> dict[int, int]:
        """The offset after the last committed record of each partition, as its leader has it.

        Raises `LocalKafkaError` when a partition has no leader, or another one than its brokers say at the moment.
        """
        what = f"look up the ends of topic {name!r}"
        found: dict[int, int] = {}
        for partition, address in sorted(self._leaders(name, what, timeout_s).items()):
            if address is not None:
                try:
                    found[partition] = requests.end_offset(address, name, partition, timeout_s=timeout_s)
                except OSError as error:
                    raise _no_answer(what, address, timeout_s) from error
            if found.get(partition, -1) < 0:
                raise LocalKafkaError(f"{what}: partition {partition} has no leader at the moment")
        if not found:
            raise LocalKafkaError(f"{what}: the broker that was asked does not know it")
        return found

    def reassign(
        self, name: str, replicas: Mapping[int, Sequence[int]], *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        """Move each partition to these brokers, the first of which is to lead it.

        On return all of them are in sync, and every running broker knows them and the new leaders. Raises
        `BrokerError` when Kafka refuses (no such broker ...), `LocalKafkaError` when it is not done in time.
        """
        what = f"move replicas of topic {name!r}"
        answer = self._ask(what, timeout_s, reassign, name, replicas)
        requests.check(answer, self.cluster_id, what)
        for one in answer.responses:
            for partition in one.partitions:
                requests.check(partition, self.cluster_id, f"{what}, partition {partition.partition_index}")

        def moved(left_s: float) -> bool:
            return all(
                one.replica_nodes == list(replicas[one.partition_index])
                and set(one.isr_nodes) == set(replicas[one.partition_index])
                for topic in self._topic_everywhere(name, left_s)
                for one in topic.partitions
                if one.partition_index in replicas
            )

        requests.wait_until(moved, what, timeout_s)

        def led(left_s: float) -> bool:
            attempt_s = min(left_s, requests.ATTEMPT_TIMEOUT_S)
            for address in self.addresses()[:1]:
                elect_preferred(address, name, list(replicas), timeout_s=attempt_s)
            return all(
                one.leader_id == replicas[one.partition_index][0]
                for topic in self._topic_everywhere(name, left_s)
                for one in topic.partitions
                if one.partition_index in replicas
            )

        requests.wait_until(led, f"{what}: their first ones lead", timeout_s)

    def limit_client(
        self,
        client_id: str,
        *,
        consumer_byte_rate: float | None = None,
        producer_byte_rate: float | None = None,
        request_percentage: float | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Give clients with this id quotas, at each broker: bytes per second to read and to write, and per cent of its
        threads.

        None takes a quota away. On return every running broker knows it. Raises `BrokerError` when Kafka refuses,
        `LocalKafkaError` when it is not done in time.
        """
        given = dict(zip(QUOTAS, (consumer_byte_rate, producer_byte_rate, request_percentage), strict=True))
        what = f"quotas of clients {client_id!r}"
        requests.check(self._ask(what, timeout_s, change_quotas, client_id, given), self.cluster_id, what)
        expected = {name: value for name, value in given.items() if value is not None}

        def known(left_s: float) -> bool:
            attempt_s = min(left_s, requests.ATTEMPT_TIMEOUT_S)
            return all(quotas_of(each, client_id, timeout_s=attempt_s) == expected for each in self.addresses())

        requests.wait_until(known, what, timeout_s)

    def _leaders(self, name: str, what: str, timeout_s: float) -> dict[int, Address | None]:
        """The address of the leader of each partition; None where there is none."""

        def found(address: Address, *, timeout_s: float) -> Any:
            return requests.metadata(address, [name], timeout_s=timeout_s)

        answer = self._ask(what, timeout_s, found)
        addresses = {one.node_id: (one.host, one.port) for one in answer.brokers}
        return {one.partition_index: addresses.get(one.leader_id) for one in answer.topics[0].partitions}


def _no_answer(what: str, address: Address, timeout_s: float) -> LocalKafkaError:
    return LocalKafkaError(f"{what}: no answer from {address} within {timeout_s:g} s")
