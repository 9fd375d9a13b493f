"""JSON documents decoded by the kernel, as the values of records."""

from __future__ import annotations

from collections.abc import Sequence

from evensplit.typed.decoding import JSON_FORMAT, Decoding, Decodings
from evensplit.typed.schema import parse_struct
from tests.support.decoded import decoded, frame_of
from tests.support.from_json import Answer, cells


def kernel_answers(ddl: str, documents: Sequence[bytes]) -> list[Answer]:
    """The kernel's answer to each document. What it calls bad is null."""
    decodings = Decodings(value=Decoding(JSON_FORMAT, parse_struct(ddl)), null_faults=True)
    rows, _ = decoded(frame_of(documents), ("value", "value_error"), decodings)
    bad = rows.column("value_error").is_valid().to_pylist()
    return [Answer(*answer) for answer in zip(bad, cells(rows.column("value")), strict=True)]
