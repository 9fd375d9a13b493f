"""Schemas that this process has seen, and those that it could not have."""

from __future__ import annotations

import threading
from collections import OrderedDict

from evensplit.errors import SchemaUnusable
from evensplit.registry.schemas import Schema
from evensplit.registry.settings import RegistrySettings

SCHEMAS_MAX = 1000

MISSED_MAX = 10_000
MISSED_S = 5.0
"""For so long, in s, what a registry does not have is not asked for again."""


class Kept:
    """Schemas by registry and id, of which the one that was used longest ago goes first. Safe for threads."""

    def __init__(self, schemas_max: int = SCHEMAS_MAX) -> None:
        self._schemas_max = schemas_max
        self._found: OrderedDict[tuple[RegistrySettings, int], Schema] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, registry: RegistrySettings, schema_id: int) -> Schema | None:
        """The schema; None if it is not kept. `registry`: an `identity`."""
        with self._lock:
            found = self._found.get((registry, schema_id))
            if found is not None:
                self._found.move_to_end((registry, schema_id))
            return found

    def put(self, registry: RegistrySettings, schema: Schema) -> None:
        """Keep a schema, complete with all that it refers to."""
        with self._lock:
            self._found[registry, schema.id] = schema
            self._found.move_to_end((registry, schema.id))
            while len(self._found) > self._schemas_max:
                self._found.popitem(last=False)

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._found.clear()


class Missed:
    """Why schemas could not be had, by registry and id, each for a while. Safe for threads.

    If there are too many, the oldest goes first. Times are in s, of a clock that only ever goes on.
    """

    def __init__(self, missed_max: int = MISSED_MAX, missed_s: float = MISSED_S) -> None:
        self._missed_max = missed_max
        self._missed_s = missed_s
        self._found: OrderedDict[tuple[RegistrySettings, int], tuple[float, SchemaUnusable]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, registry: RegistrySettings, schema_id: int, now_s: float) -> SchemaUnusable | None:
        """The error, to be raised; None if it is not known, or no more. `registry`: an `identity`."""
        with self._lock:
            found = self._found.get((registry, schema_id))
            if found is None:
                return None
            since_s, error = found
            if now_s - since_s >= self._missed_s:
                del self._found[registry, schema_id]
                return None
        # One of its own for each who raises it: an error keeps the stacks that it has passed through.
        return type(error)(error.registry, error.detail)

    def put(self, registry: RegistrySettings, schema_id: int, error: SchemaUnusable, now_s: float) -> None:
        """Keep why this schema could not be had."""
        with self._lock:
            self._found[registry, schema_id] = now_s, type(error)(error.registry, error.detail)
            self._found.move_to_end((registry, schema_id))
            while len(self._found) > self._missed_max:
                self._found.popitem(last=False)

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._found.clear()


KEPT = Kept()
"""Those of this process."""

MISSED = Missed()
"""Those that this process could not have."""
