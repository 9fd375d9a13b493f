"""What Spark's `from_protobuf` says of messages, and what the kernel says.

Spark's own jar for it is in few repositories. PySpark has the library that it parses with, and the rules by which rows
are made of that are few: `FromProtobuf.java`.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyspark
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from evensplit.testing.process.java import find_java
from evensplit.typed.decoding import PROTOBUF_FORMAT, Decoding, Decodings
from evensplit.typed.protobuf.descriptors import Descriptors, from_set
from evensplit.typed.protobuf.programs import program
from evensplit.typed.protobuf.reading import read_type
from evensplit.typed.types import Array, DataType, Map, Struct
from tests.support.decoded import decoded, frame_of
from tests.support.from_json import Answer, cells

Question = tuple[bytes, str, Sequence[bytes]]
"""A descriptor set, the full name of a message that is not inside of another, messages as bytes."""

SOURCE = Path(__file__).with_name("FromProtobuf.java")


def compiled(tmp: Path, *sources: tuple[str, str]) -> bytes:
    """The descriptor set that protoc makes of files, by name; the messages of the last one are meant."""
    from grpc_tools import protoc

    for name, text in sources:
        (tmp / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp / name).write_text(text)
    made = tmp / "made.desc"
    common = Path(protoc.__file__).parent / "_proto"
    names = [name for name, _ in sources]
    flags = ["--include_imports", f"--descriptor_set_out={made}"]
    assert protoc.main(["protoc", f"-I{tmp}", f"-I{common}", *flags, *names]) == 0
    return made.read_bytes()


def spark_answers(questions: Iterable[Question]) -> list[list[Answer]]:
    """Spark's answer to each message of each question."""
    jars = sorted(Path(pyspark.__file__).parent.glob("jars/spark-connect_2.13-*.jar"))
    asked = list(questions)
    lines = []
    for described, name, values in asked:
        lines.append(f"set {name} {base64.b64encode(described).decode()}")
        lines.extend(f"value {base64.b64encode(value).decode()}" for value in values)
    command = [str(find_java().path), "-XX:TieredStopAtLevel=1", "-cp", str(jars[-1]), str(SOURCE)]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = iter(done.stdout.splitlines())
    return [[_answer(next(said)) for _ in values] for _, _, values in asked]


def _answer(line: str) -> Answer:
    bad = line.startswith("bad ")
    return Answer(bad, None if bad else _exact(json.loads(line)))


def _exact(found: Any) -> object:
    """A value as `from_json.cells` has it."""
    if isinstance(found, list):
        return tuple(map(_exact, found))
    if isinstance(found, dict):
        if "d" in found:
            return repr(struct.unpack("<d", struct.pack("<q", found["d"]))[0])
        return base64.b64decode(found["b"])
    return found


def decoding(descriptors: Descriptors, name: str, *paths: str) -> Decoding:
    """How messages are decoded."""
    of = read_type(descriptors, name, [tuple(path.split(".")) for path in paths])
    return Decoding(PROTOBUF_FORMAT, of, program=program(descriptors, name, of))


def kernel_answers(described: bytes, name: str, values: Sequence[bytes], *paths: str) -> list[Answer]:
    """The kernel's answer to each message. What it calls bad is null."""
    return answers_of(decoding(from_set(described), name, *paths), values)


def answers_of(how: Decoding, values: Sequence[bytes]) -> list[Answer]:
    """The kernel's answer to each message. What it calls bad is null."""
    rows, _ = decoded(frame_of(values), ("value", "value_error"), Decodings(value=how, null_faults=True))
    bad = rows.column("value_error").is_valid().to_pylist()
    return [Answer(*answer) for answer in zip(bad, cells(rows.column("value")), strict=True)]


def projected(value: Any, whole: DataType, part: DataType) -> Any:
    """What a value of type `whole` has of the fields of `part`."""
    if value is None or whole == part:
        return value
    if isinstance(whole, Struct) and isinstance(part, Struct):
        inner = {one.name: (cell, one.type) for one, cell in zip(whole.fields, value, strict=True)}
        return tuple(projected(*inner[one.name], one.type) for one in part.fields)
    if isinstance(whole, Array) and isinstance(part, Array):
        return tuple(projected(one, whole.element, part.element) for one in value)
    assert isinstance(whole, Map)
    return value


def descriptor_set(*files: Any) -> bytes:
    """A descriptor set of these FileDescriptorProtos."""
    return bytes(FileDescriptorSet(file=files).SerializeToString())
