"""Arrow arrays as the kernel's encoder takes them: their buffers, of which nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

Column = tuple[int, int, bool, Sequence[pa.Buffer | None], Sequence["Column"]]
"""Rows, how many rows of the buffers are before them, whether offsets have 64 bits, buffers, columns inside."""

_NARROW = (pa.types.is_binary, pa.types.is_string, pa.types.is_list)
_WIDE = (pa.types.is_large_binary, pa.types.is_large_string, pa.types.is_large_list)
_NUMBERS = (pa.types.is_int32, pa.types.is_int64)


def column_of(array: pa.Array) -> Column:
    """The array for `RecordEncoder.append`: binary, string, a list of structs of these, or integers of 32 or 64 bits.

    A slice is taken as it is. Raises `TypeError` for an array of another type.
    """
    kind, buffers = array.type, array.buffers()
    wide = any(is_of(kind) for is_of in _WIDE)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        # `values` is the whole child, which the offsets count from; `flatten` would leave out what is not in the slice.
        return len(array), array.offset, wide, buffers[:2], [column_of(array.values)]
    if pa.types.is_struct(kind):
        # A field is cut like its struct, and has an offset of its own.
        fields = [column_of(array.field(number)) for number in range(kind.num_fields)]
        return len(array), array.offset, False, buffers[:1], fields
    if wide or any(is_of(kind) for is_of in (*_NARROW, *_NUMBERS)):
        return len(array), array.offset, wide, buffers, []
    raise TypeError(f"a column of {kind}, expected binary, string, list<struct<key: string, value: binary>> or int")
