"""Metadata of clusters that a test changes: as a file in Flink's format, or as JSON for an HTTP server."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class FleetCluster:
    """One cluster as the metadata name it."""

    servers: str
    topics: list[str]
    properties: dict[str, str] = field(default_factory=dict)
    starting: str = ""


class FleetFile:
    """A YAML document with one stream, written anew, as a whole, by every change.

    `clusters`: in the order in which they are written. Change them and `write`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clusters: dict[str, FleetCluster] = {}

    def remove(self, *names: str) -> None:
        """Name these clusters no longer."""
        for name in names:
            del self.clusters[name]
        self.write()

    def text(self) -> str:
        """The document."""
        lines = ["- streamId: numbers", "  clusterMetadataList:" + ("" if self.clusters else " []")]
        for name, one in self.clusters.items():
            lines += [
                f"    - clusterId: {name}",
                f"      bootstrapServers: {one.servers}",
                f"      topics: [{', '.join(one.topics)}]",
            ]
            lines += [f"      properties: {json.dumps(one.properties)}"] * bool(one.properties)
            lines += [f"      startingOffsets: {one.starting}"] * bool(one.starting)
        return "\n".join([*lines, ""])

    def json(self) -> bytes:
        """The same for a server."""
        listed = [
            {"clusterId": name, "bootstrapServers": one.servers, "topics": one.topics, "properties": one.properties}
            for name, one in self.clusters.items()
        ]
        return json.dumps([{"streamId": "numbers", "clusterMetadataList": listed}]).encode()

    def write(self) -> None:
        """Replace the file, so that every reader finds the old document or the new one."""
        beside = self.path.with_suffix(".new")
        beside.write_text(self.text())
        beside.replace(self.path)
