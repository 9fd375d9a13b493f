"""Descriptors of `.proto` files: those of a registry that compiles, else made by protoc where that is installed."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from evensplit.core.text import shown
from evensplit.registry.schemas import Schema

_NAME_BYTES_MAX = 1_000
_PART_BYTES_MAX = 255
"""The most that the name of a file or a folder may have, on all common file systems."""

_FORBIDDEN = re.compile(r"[\0-\x1f\x7f\\:]")
_IMPORT = re.compile(r'^[ \t]*import\s+(?:(?:public|weak|option)\s+)?"([^"\n]+)"\s*;', re.MULTILINE)

_META = """syntax = "proto2";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  optional string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
}
extend google.protobuf.FileOptions { optional Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { optional Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { optional Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { optional Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { optional Meta enum_value_meta = 1088; }
"""
_DECIMAL = """syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
"""
_IMPLICIT: Mapping[str, str] = {"confluent/meta.proto": _META, "confluent/type/decimal.proto": _DECIMAL}
"""Files that Confluent's registry and clients have by themselves, so that nobody refers to them -> what is in them."""


def descriptor_of(schema: Schema) -> bytes:
    """The file as a serialized FileDescriptorProto; empty where the registry has only its source, without protoc.

    Raises ValueError for a source that protoc refuses.
    """
    return schema.descriptor or _compiled(schema)[0]


def descriptors_of(schema: Schema) -> tuple[bytes, dict[str, bytes]]:
    """The file, and the files that it is made of by the names of their imports, as serialized FileDescriptorProtos.

    Files of `google/protobuf` are not among them. Raises ValueError where one of them is not known, or refused by
    protoc.
    """
    references = schema.all_references()
    given = [schema.descriptor, *(one.descriptor for one in references.values())]
    if all(given) and not any(_lacks_implicit(one, references) for one in given):
        return schema.descriptor, {name: one.descriptor for name, one in references.items()}
    main, others = _compiled(schema)
    if not main:
        raise ValueError(
            "the registry gives the source of the schema only, or not all that it imports; pip install grpcio-tools, "
            "which has protoc, or give a descriptor set"
        )
    return main, others


def _lacks_implicit(descriptor: bytes, references: Iterable[str]) -> bool:
    # Most descriptors do not have to be read for this.
    if b"confluent/" not in descriptor:
        return False
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        imports = FileDescriptorProto.FromString(descriptor).dependency
    except DecodeError as error:
        raise ValueError(f"the registry gives no descriptor: {error}") from None
    return any(name in _IMPLICIT and name not in references for name in imports)


def _compiled(schema: Schema) -> tuple[bytes, dict[str, bytes]]:
    """The same by protoc; nothing where grpcio-tools is not installed."""
    try:
        from grpc_tools import protoc
    except ModuleNotFoundError:
        return b"", {}
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    references = {name: one.text for name, one in schema.all_references().items()}
    _check_names(schema, references)
    main = _free_name(references)
    texts = {**_IMPLICIT, **references, main: schema.text}
    with tempfile.TemporaryDirectory(prefix="evensplit-") as made:
        root, out = Path(made).resolve() / "sources", Path(made).resolve() / "descriptors"
        for name, text in texts.items():
            what = f"schema {schema.id}" if name == main else f"{shown(name)}, to which schema {schema.id} refers,"
            _write(root / name, text, what)
        common = Path(protoc.__file__).parent / "_proto"
        arguments = ("protoc", f"-I{root}", f"-I{common}", f"--descriptor_set_out={out}", "--include_imports", main)
        if protoc.main(arguments) != 0 or not out.exists():
            raise _refused(schema, texts)
        files = {file.name: file for file in FileDescriptorSet.FromString(out.read_bytes()).file}
    compiled = files.pop(main).SerializeToString()
    return compiled, {name: file.SerializeToString() for name, file in files.items() if name in texts}


def _write(path: Path, text: str, what: str) -> None:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"the source of {what} has characters that UTF-8 cannot have") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _refused(schema: Schema, texts: Mapping[str, str]) -> ValueError:
    imported = {name for text in texts.values() for name in _IMPORT.findall(text)} - texts.keys()
    missing = sorted(name for name in imported if not name.startswith("google/protobuf/"))
    cure = f": {shown(missing[0])} is imported, and is not among its references in the registry" if missing else ""
    return ValueError(f"protoc refuses the source of schema {schema.id}{cure}; it has said why on stderr")


def _check_names(schema: Schema, names: Iterable[str]) -> None:
    """Raises ValueError unless each is a relative path that stays below its root, and none is a folder of another."""
    files = set(names)
    for name in sorted(files):
        parts = name.split("/")
        encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
        if (
            any(part in ("", ".", "..") for part in parts)
            or _FORBIDDEN.search(name)
            or max(map(len, encoded)) > _PART_BYTES_MAX
            or sum(map(len, encoded)) + len(parts) > _NAME_BYTES_MAX
            or any("\ud800" <= character <= "\udfff" for character in name)
        ):
            raise ValueError(
                f"schema {schema.id} refers to {shown(name)}; expected the path of an import: names of at most "
                f"{_PART_BYTES_MAX} bytes, with a slash between them"
            )
        for above in ("/".join(parts[:count]) for count in range(1, len(parts))):
            if above in files:
                raise ValueError(
                    f"schema {schema.id} refers to {shown(above)} and to {shown(name)}; "
                    "expected no file to be a folder, too"
                )


def _free_name(names: Iterable[str]) -> str:
    """A name for the file itself, that neither a reference has nor a folder of one, whatever the case."""
    taken = {name.split("/")[0].casefold() for name in (*names, *_IMPLICIT)}
    name = "schema.proto"
    while name in taken:
        name = f"_{name}"
    return name
