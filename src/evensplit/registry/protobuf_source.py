"""Descriptors of `.proto` files: those of a registry that compiles, else made by protoc where that is installed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evensplit.registry.schemas import Schema

_MAIN = "schema.proto"


def descriptor_of(schema: Schema) -> bytes:
    """The file as a serialized FileDescriptorProto; empty where the registry has only its source, without protoc.

    Raises ValueError for a source that protoc refuses.
    """
    return schema.descriptor or _compiled(schema)[0]


def descriptors_of(schema: Schema) -> tuple[bytes, dict[str, bytes]]:
    """The file, and the files that it is made of by the names of their imports, as serialized FileDescriptorProtos.

    Raises ValueError where one of them is not known, or refused by protoc.
    """
    references = schema.all_references()
    if schema.descriptor and all(one.descriptor for one in references.values()):
        return schema.descriptor, {name: one.descriptor for name, one in references.items()}
    main, others = _compiled(schema)
    if not main:
        raise ValueError(
            "the registry gives the source of the schema only; pip install grpcio-tools, which has protoc, or give a "
            "descriptor set"
        )
    return main, others


def _compiled(schema: Schema) -> tuple[bytes, dict[str, bytes]]:
    """The same by protoc; nothing where grpcio-tools is not installed."""
    try:
        from grpc_tools import protoc
    except ModuleNotFoundError:
        return b"", {}
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    references = schema.all_references()
    with tempfile.TemporaryDirectory(prefix="evensplit-") as made:
        root = Path(made).resolve()
        for name, text in {**{name: one.text for name, one in references.items()}, _MAIN: schema.text}.items():
            path = (root / name).resolve()
            if not path.is_relative_to(root):
                raise ValueError(f"the schema refers to {name!r}; expected the name of an import")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        out = root / "descriptors"
        paths = (f"-I{root}", f"-I{Path(protoc.__file__).parent / '_proto'}")
        arguments = ("protoc", *paths, f"--descriptor_set_out={out}", "--include_imports", _MAIN)
        if protoc.main(arguments) != 0 or not out.exists():
            raise ValueError(f"protoc refuses the source of schema {schema.id}; it has said why on stderr")
        files = {file.name: file for file in FileDescriptorSet.FromString(out.read_bytes()).file}
    main = files.pop(_MAIN).SerializeToString()
    return main, {name: file.SerializeToString() for name, file in files.items() if name in references}
