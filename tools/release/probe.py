"""Run in an environment that a wheel was installed in: the kernel decodes records, and the command line answers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from kafka.record.memory_records import MemoryRecordsBuilder

import evensplit
from evensplit._kernel import ColumnBuilder
from evensplit.kafka.columns import COLUMNS
from evensplit.kafka.fetch.columns import row_schema, to_record_batch

version, environment = sys.argv[1], Path(sys.prefix)
assert environment in Path(evensplit.__file__).parents, evensplit.__file__
assert not [tool for tool in ("cargo", "rustc", "cc") if shutil.which(tool)]
assert evensplit.__version__ == version, evensplit.__version__
said = subprocess.check_output([environment / "bin" / "evensplit", "--version"], text=True)
assert said.split() == ["evensplit", version], said

records = MemoryRecordsBuilder(magic=2, compression_type=1, batch_size=1 << 20)
for number in range(1000):
    records.append(timestamp=number, key=b"%d" % (number % 7), value=b"%d" % number, headers=[])
records.close()
frame = bytearray(records.buffer())
builder = ColumnBuilder(columns=COLUMNS, rows_max=10_000, bytes_max=1 << 24, uncompressed_bytes_max=1 << 24)
builder.append(
    frame, 0, len(frame), cluster="eu", topic="orders", partition=3, offset_start=0, offset_end=1000, aborted=()
)
rows = to_record_batch(builder.finish(), row_schema(COLUMNS))
assert rows.column("value").to_pylist() == [b"%d" % number for number in range(1000)], rows
print("{}.{}".format(*sys.version_info))
