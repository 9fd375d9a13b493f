"""Metadata as documents and services give it, and what is said of what is wrong in it: never a secret."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

import pytest

from evensplit.errors import MetadataError
from evensplit.metadata import ClusterMetadata, Metadata, MetadataService, Stream, open_service, parse_document
from evensplit.metadata.document import Format

SECRET = "hunter2"

# As Flink's YamlFileMetadataService writes and reads it.
FLINK = """\
- clusterMetadataList:
  - bootstrapServers: bootstrap-server-0:443
    clusterId: cluster0
    topics:
    - topic0
    - topic1
  - bootstrapServers: bootstrap-server-1:443
    clusterId: cluster1
    topics:
    - topic2
    - topic3
  streamId: stream0
- clusterMetadataList:
  - bootstrapServers: bootstrap-server-2:443
    clusterId: cluster2
    topics:
    - topic4
    - topic5
  streamId: stream1
"""


def parse(text: str, form: Format = "yaml") -> Metadata:
    return parse_document(dedent(text).encode(), "fleet", form)


def problems(text: str, form: Format = "yaml") -> tuple[str, ...]:
    with pytest.raises(MetadataError) as caught:
        parse(text, form)
    assert caught.value.source == "fleet"
    assert str(caught.value).startswith("metadata of fleet: ")
    assert SECRET not in str(caught.value) + repr(caught.value)
    return caught.value.problems


def document(*topics: str) -> bytes:
    cluster = {"clusterId": "c", "bootstrapServers": "b:1", "topics": [*topics]}
    return json.dumps([{"streamId": "s", "clusterMetadataList": [cluster]}]).encode()


def metadata(*clusters: ClusterMetadata, complete: bool = True) -> Metadata:
    """An answer with one stream over these clusters."""
    return Metadata((Stream("s", clusters),), complete)


def answer(*topics: str) -> Metadata:
    return metadata(ClusterMetadata("c", ("b:1",), topics))


def problem(service: MetadataService) -> str:
    with pytest.raises(MetadataError) as caught:
        service.read()
    told = str(caught.value) + repr(caught.value) + repr(service)
    assert SECRET not in told
    assert caught.value.__cause__ is None or SECRET not in str(caught.value.__cause__)
    return str(caught.value)


def refused(location: str, **options: Any) -> str:
    with pytest.raises(MetadataError) as caught:
        open_service(location, **options)
    assert SECRET not in str(caught.value) + repr(caught.value)
    return str(caught.value)


def cluster(name: str = "c", servers: Any = ("b:1",), topics: Any = ("t",), **changes: Any) -> ClusterMetadata:
    return ClusterMetadata(name, servers, topics, **changes)
