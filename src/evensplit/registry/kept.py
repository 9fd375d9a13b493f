"""Schemas that this process has seen."""

from __future__ import annotations

import threading
from collections import OrderedDict

from evensplit.registry.schemas import Schema
from evensplit.registry.settings import RegistrySettings

SCHEMAS_MAX = 1000


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


KEPT = Kept()
"""Those of this process."""
