"""How tasks read: the options that every task of a query is handed."""

from __future__ import annotations

from dataclasses import dataclass

from evensplit.registry.settings import RegistrySettings
from evensplit.typed.decoding import FAIL, Decoding, RowFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options that act where records are read. Pickled into every task."""

    columns: tuple[str, ...]
    """The columns of rows, some of `kafka.columns.TABLE` in that order."""

    key: Decoding | None = None
    """How keys are decoded; None: not."""

    value: Decoding | None = None
    """How values are decoded; None: not."""

    where: RowFilter | None = None
    """Which rows are wanted; None: all."""

    registry: RegistrySettings | None = None
    """The schema registry that the schemas of keys and values are from; None: they are from none."""

    on_decode_error: str = FAIL
    """What becomes of keys and values that cannot be decoded: FAIL, an error; NULL or COLUMN, null."""

    fail_on_data_loss: bool
    """Records that are gone are an error; else they are left out."""

    null_timestamps: bool
    """Timestamps that Spark cannot hold are null; else they are an error."""

    batch_bytes_max: int
    """A record batch that is longer, as the broker keeps it or decompressed, is an error."""

    poll_timeout_ms: int | None
    """How long a task waits for the next records of a partition; None: as long as one call may take."""

    @property
    def counts(self) -> bool:
        """Whether records may be left out, or become null, which is to be counted."""
        return self.where is not None or self.on_decode_error != FAIL

    @property
    def by_writer(self) -> bool:
        """Whether schemas of a registry say how keys or values are decoded."""
        return any(side is not None and side.by_writer for side in (self.key, self.value))
