"""A small schema registry in this process, which answers as a real one does (tests/kafka/test_registry_contract.py).

It answers wrongly, slowly or not at all when a test says so.
"""

from __future__ import annotations

import base64
import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from evensplit.registry.schemas import KINDS
from evensplit.testing.registry.helpers import RegistryHelpers
from tests.support.metadata_server import Exchange, Server

PATH = "/apis/ccompat/v7"
LEVELS = ("NONE", *(f"{way}{far}" for way in ("BACKWARD", "FORWARD", "FULL") for far in ("", "_TRANSITIVE")))

Trouble = Callable[[Exchange], None]


class _Refused(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(status, code, message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True)
class _Content:
    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...]


class FakeRegistry(RegistryHelpers):
    """Answers at `url`. `troubles`: what the next requests get in place of an answer, one each.

    `users`: names and passwords; `token`: a bearer token; with neither it wants no login. `denied`: who may read
    nothing. `serializes`: whether it compiles `.proto` files, as Confluent's does and Apicurio's does not; what comes
    out is in `descriptors`, by the text.
    """

    def __init__(
        self,
        *,
        users: dict[str, str] | None = None,
        token: str = "",
        denied: tuple[str, ...] = (),
        serializes: bool = False,
        tls: bool = False,
    ) -> None:
        self.server = Server(self._respond, tls=tls)
        self.troubles: deque[Trouble] = deque()
        self.descriptors: dict[str, bytes] = {}
        self._logins = {f"Basic {_base64(f'{name}:{password}')}": name for name, password in (users or {}).items()}
        if token:
            self._logins[f"Bearer {token}"] = "bearer"
        self._denied = denied
        self._serializes = serializes
        self._contents: list[_Content] = []
        self.subjects: dict[str, list[int]] = {}

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.__exit__(*error)

    @property
    def url(self) -> str:
        return self.server.url(PATH)

    @property
    def asked(self) -> list[str]:
        """The paths of all requests, below `url`."""
        return [path.removeprefix(PATH) for path, _ in self.server.requests]

    def _respond(self, exchange: Exchange) -> None:
        if self.troubles:
            self.troubles.popleft()(exchange)
            return
        try:
            self._check_login(exchange)
            found = self._found(exchange)
        except _Refused as refused:
            answer(exchange, refused.status, {"error_code": refused.code, "message": refused.message})
        else:
            answer(exchange, 200, found)

    def _check_login(self, exchange: Exchange) -> None:
        given = exchange.headers.get("Authorization", "")
        if self._logins and given not in self._logins:
            raise _Refused(401, 401, f"Unauthorized {given}")
        if self._logins and self._logins[given] in self._denied:
            raise _Refused(403, 40301, f"User is denied operation Read {given}")

    def _found(self, exchange: Exchange) -> Any:
        parts = urlsplit(exchange.path)
        serialized = self._serializes and parse_qs(parts.query).get("format") == ["serialized"]
        path = [unquote(part) for part in parts.path.removeprefix(PATH).split("/")[1:]]
        match [exchange.command, *path]:
            case ["GET", "schemas", "ids", schema_id] if schema_id.isdecimal():
                if not 0 < int(schema_id) <= len(self._contents):
                    raise _Refused(404, 40403, f"Schema {schema_id} not found")
                return self._shown(int(schema_id), serialized)
            case ["GET", "subjects", subject, "versions", version]:
                ids = self.subjects.get(subject)
                if ids is None:
                    raise _Refused(404, 40401, f"Subject '{subject}' not found.")
                number = len(ids) if version in ("latest", "-1") else int(version)
                if not 0 < number <= len(ids):
                    raise _Refused(404, 40402, f"Version {version} not found.")
                return {"id": ids[number - 1], "subject": subject, "version": number} | self._shown(
                    ids[number - 1], serialized
                )
            case ["POST", "subjects", subject, "versions"]:
                return {"id": self._registered(subject, json.loads(exchange.body))}
            case ["PUT", "config", _]:
                level = json.loads(exchange.body)["compatibility"]
                if level not in LEVELS:
                    raise _Refused(400, 42203, "Invalid compatibility level")
                return {"compatibility": level}
        raise _Refused(404, 404, "HTTP 404 Not Found")

    def _shown(self, schema_id: int, serialized: bool) -> dict[str, Any]:
        content = self._contents[schema_id - 1]
        text = content.text
        if serialized and content.kind == "PROTOBUF":
            text = base64.b64encode(self.descriptors[text]).decode()
        references = [dict(zip(("name", "subject", "version"), one, strict=True)) for one in content.references]
        kind = {} if content.kind == "AVRO" else {"schemaType": content.kind}
        return {"schema": text, **kind, "references": references}

    def _registered(self, subject: str, given: dict[str, Any]) -> int:
        references = tuple((one["name"], one["subject"], one["version"]) for one in given.get("references", []))
        content = _Content(given.get("schemaType", "AVRO"), given["schema"], references)
        known = all(0 < version <= len(self.subjects.get(where, ())) for _, where, version in references)
        if content.kind not in KINDS or not known or not _can_be(content):
            raise _Refused(422, 42201, "Invalid schema")
        return self.add(subject, content.kind, content.text, references)

    def add(self, subject: str, kind: str, text: str, references: tuple[tuple[str, str, int], ...] = ()) -> int:
        """Have a schema, whatever it is and refers to."""
        content = _Content(kind, text, references)
        if content not in self._contents:
            self._contents.append(content)
        schema_id = self._contents.index(content) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id


def answer(exchange: Exchange, status: int, found: object) -> None:
    """A whole answer in JSON."""
    exchange.answer(status, json.dumps(found).encode(), {"Content-Type": "application/json"})


def status(number: int, headers: dict[str, str] | None = None, body: bytes = b"<html>") -> Trouble:
    """An answer with this status."""
    return lambda exchange: exchange.answer(number, body, headers)


def nonsense(body: bytes = b"<html>hello") -> Trouble:
    """An answer that is none of a registry."""
    return lambda exchange: exchange.answer(200, body)


def huge(exchange: Exchange) -> None:
    """An answer without end, for as long as the client reads."""
    exchange.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(400):
        exchange.wfile.write(b'{"schema": "' + b"x" * (1 << 20))


def cut(exchange: Exchange) -> None:
    """An answer that ends too early."""
    exchange.answer(200, b'{"schema"', {"Content-Length": "5000"})


def gone(exchange: Exchange) -> None:
    """No answer: the connection is closed."""


def hang(exchange: Exchange) -> None:
    """No answer until the registry is closed."""
    exchange.server.closing.wait(60)


def slow(exchange: Exchange) -> None:
    """An answer that comes a byte at a time, and does not end."""
    exchange.trickle(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 1000)


def _can_be(content: _Content) -> bool:
    if content.kind == "PROTOBUF":
        return re.search(r"\b(message|enum|import)\b", content.text) is not None
    try:
        json.loads(content.text)
    except ValueError:
        return False
    return True


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
