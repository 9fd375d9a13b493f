"""What tests do to a schema registry: they register schemas."""

from __future__ import annotations

import http.client
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from evensplit.errors import LocalKafkaError

REQUEST_TIMEOUT_S = 60.0
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryHelpers(ABC):
    """Schemas for tests, in any registry on this machine that wants no login."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it has Confluent's API: what `schema.registry.url` is."""

    def register(
        self, subject: str, text: str, kind: str = "AVRO", references: Sequence[tuple[str, str, int]] = ()
    ) -> int:
        """Register a schema as the next version of a subject, and return its id; one that is there keeps its id.

        `kind`: `AVRO`, `JSON` or `PROTOBUF`. `references`: for each schema that it refers to its name there, and a
        subject and its version. Raises `LocalKafkaError` when the registry refuses, with its answer.
        """
        named = [{"name": name, "subject": where, "version": version} for name, where, version in references]
        schema = {"schema": text, "schemaType": kind, "references": named}
        answer = self.request("POST", f"/subjects/{quote(subject, safe='')}/versions", schema)
        return int(answer["id"])

    def set_compatibility(self, subject: str, level: str) -> None:
        """Say what may follow in a subject: `NONE`, `BACKWARD`, `FORWARD`, `FULL`, or these with `_TRANSITIVE`.

        Raises `LocalKafkaError` when the registry refuses.
        """
        self.request("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})

    def request(self, method: str, path: str, body: object = None, *, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        """What the registry answers to a request below its `url`, as JSON.

        Raises `LocalKafkaError` when it refuses, and OSError or HTTPException when it does not answer.
        """
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout_s)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, f"{place.path}{path}", data, {"Content-Type": CONTENT_TYPE})
            response = connection.getresponse()
            said = response.read().decode(errors="replace")
        finally:
            connection.close()
        if response.status != 200:
            raise LocalKafkaError(f"{method} {self.url}{path}: status {response.status}: {said[:2000]}")
        return json.loads(said)
