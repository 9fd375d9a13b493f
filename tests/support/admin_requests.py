"""Requests to brokers about themselves, as this package writes them and as kafka-python does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.kafka.wire.api import CREATE_TOPICS, DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS, Api, Build
from evensplit.kafka.wire.requests import write_describe_log_dirs
from evensplit.kafka.wire.transaction_requests import write_create_topic, write_describe_configs
from evensplit.testing.messages import request_class

Case = tuple[Build, Callable[[int], Any]]
"""How this package writes a request in a version, and the same as kafka-python's class has it."""


def grouped(found: Mapping[TopicPartition, Any]) -> dict[str, list[tuple[int, Any]]]:
    topics: dict[str, list[tuple[int, Any]]] = {}
    for (topic, number), value in found.items():
        topics.setdefault(topic, []).append((number, value))
    return topics


def message(api: Api[Any], build: Callable[[Any, int], Mapping[str, Any]], version: int) -> Any:
    """kafka-python's. `build` is given its class and the version, and gives its fields."""
    kind = request_class(api)
    return kind(version=version, **build(kind, version))


def describe_log_dirs(partitions: Mapping[TopicPartition, None]) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        topics = [
            kind.DescribableLogDirTopic(version=version, topic=name, partitions=[number for number, _ in listed])
            for name, listed in grouped(partitions).items()
        ]
        return {"topics": topics}

    return partial(write_describe_log_dirs, list(partitions)), partial(message, DESCRIBE_LOG_DIRS, build)


def create_topic(
    topic: str, partitions: int, replicas: int, config: Mapping[str, str], timeout_ms: int, by_default: bool
) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        one = kind.CreatableTopic
        configs = [one.CreatableTopicConfig(version=version, name=name, value=value) for name, value in config.items()]
        has = -1 if by_default and version >= 4 else replicas
        new = {"name": topic, "num_partitions": partitions, "replication_factor": has, "assignments": []}
        topics = [one(version=version, **new, configs=configs)]
        return {"topics": topics, "timeout_ms": timeout_ms, "validate_only": False}

    write = partial(write_create_topic, topic, partitions, replicas, config, timeout_ms, by_default=by_default)
    return write, partial(message, CREATE_TOPICS, build)


def describe_configs(kind_of: int, name: str, keys: list[str]) -> Case:
    def build(kind: Any, version: int) -> dict[str, Any]:
        fields = {"resource_type": kind_of, "resource_name": name, "configuration_keys": keys}
        explained = {"include_documentation": False} if version >= 3 else {}
        resources = [kind.DescribeConfigsResource(version=version, **fields)]
        return {"resources": resources, "include_synonyms": False, **explained}

    return partial(write_describe_configs, kind_of, name, keys), partial(message, DESCRIBE_CONFIGS, build)
