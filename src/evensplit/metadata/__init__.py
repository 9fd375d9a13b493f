"""Where streams, clusters and topics come from, when the options do not name them: files, HTTP, classes of your own.

`open_service` finds the service that a location means, its `read` gives `Metadata`, and `select` says what of that is
to be read. A class of your own needs `read() -> Metadata` and is called with its options:

    class Registry:
        def __init__(self, options: Mapping[str, str]) -> None: ...
        def read(self) -> Metadata:
            east = ClusterMetadata("east", ("broker-1:9092",), ("orders",))
            return Metadata((Stream("orders", (east,)),))
"""

from __future__ import annotations

from evensplit.errors import MetadataError
from evensplit.metadata.document import parse_document
from evensplit.metadata.hiding import hidden
from evensplit.metadata.selection import select
from evensplit.metadata.services import open_service, shown_location
from evensplit.metadata.streams import ClusterMetadata, Metadata, MetadataService, Selection, Stream

__all__ = [
    "ClusterMetadata",
    "Metadata",
    "MetadataError",
    "MetadataService",
    "Selection",
    "Stream",
    "hidden",
    "open_service",
    "parse_document",
    "select",
    "shown_location",
]
