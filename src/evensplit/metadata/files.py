"""Metadata from a file, which may be written to at any time."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from evensplit.errors import MetadataError
from evensplit.metadata.document import Format, parse_document
from evensplit.metadata.nodes import DOCUMENT_BYTES_MAX
from evensplit.metadata.streams import Metadata


class FileService:
    """Reads a document (see `document`) from a file, anew each time.

    The name of the file says what it is: `.json`, `.yaml` or `.yml`; of any other name it is JSON if it begins with a
    bracket. As long as the bytes are the same, so is the answer. A file that is being replaced by renaming another one
    is always whole; one that is written in place may be found torn, which is an error unless what is there is a whole
    document, and the next `read` finds what is there then. `shown`: what the file is called in messages, if not `path`.
    """

    def __init__(self, path: Path, shown: str = "") -> None:
        self._path = path
        self._shown = shown or str(path)
        self._data = b""
        self._answer: Metadata | None = None

    def __repr__(self) -> str:
        return f"FileService({self._shown!r})"

    def read(self) -> Metadata:
        """Read the file. Raises MetadataError: it cannot be read, or its content cannot be used."""
        data = self._read()
        if self._answer is None or data != self._data:
            answer = parse_document(data, self._shown, _format(self._path, data))
            self._data, self._answer = data, answer
        return self._answer

    def close(self) -> None:
        """Forget what was read."""
        self._data, self._answer = b"", None

    def _read(self) -> bytes:
        try:
            # A pipe or a terminal would never end, and opening one can wait for ever.
            found = self._path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise MetadataError(self._shown, ["expected a file, found a directory or a device"])
            with self._path.open("rb") as file:
                before = os.fstat(file.fileno())
                data = file.read(DOCUMENT_BYTES_MAX + 1)
                after = os.fstat(file.fileno())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            # The error has the name of the file in it, which may be a mistyped URL.
            raise MetadataError(self._shown, [f"expected a file that can be read: {reason}"]) from None
        if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
            raise MetadataError(self._shown, ["it is being written; expected it to stay as it is while it is read"])
        return data


def _format(path: Path, data: bytes) -> Format:
    suffix = path.suffix.lower()
    if suffix in (".json", ".yaml", ".yml"):
        return "json" if suffix == ".json" else "yaml"
    return "json" if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{") else "yaml"
