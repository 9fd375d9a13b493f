"""`evensplit audit sink` at a real broker: markers and aborted records are not missing, and others are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.testing import LocalKafka
from tests.support.checkpoints import checkpoint
from tests.support.transactions import Writer, decided, ends

pytestmark = pytest.mark.kafka


def test_the_log_says_what_is_a_record(kafka: LocalKafka, topic: str, tmp_path: Path) -> None:
    """Records 0 to 4, a marker, 5 aborted ones and a marker, and records 12 and 13 and a marker."""
    kafka.create_topic(topic)
    writer = Writer(kafka, topic)
    for count, commit in ((5, True), (5, False), (2, True)):
        writer.write(*(b"%d" % number for number in range(count)))
        writer.end(commit=commit)
    _, (end,) = ends(kafka, topic)
    decided(kafka, topic, end)
    assert end == 15
    kept = checkpoint(
        tmp_path / "kept", [f'{{"{topic}":{{"0":15}}}}'], committed=0, initial={"0": f'v1\n{{"{topic}":{{"0":0}}}}'}
    )

    def audit(offsets: list[int], *options: str, code: int) -> list[tuple[str, int, int]]:
        lines = (json.dumps({"topic": topic, "partition": 0, "offset": offset}) for offset in offsets)
        (tmp_path / "sink.json").write_text("\n".join(lines))
        call = ["audit", "sink", str(tmp_path / "sink.json"), "--checkpoint", str(kept), "--format", "json"]
        result = CliRunner().invoke(evensplit, [*call, "--bootstrap-servers", kafka.bootstrap_servers, *options])
        assert result.exit_code == code, result.output
        return [(one["fault"], one["first"], one["last"]) for one in json.loads(result.stdout)["ranges"]]

    committed = ("--option", "kafka.isolation.level=read_committed")
    records = [0, 1, 2, 3, 4, 12, 13]
    assert audit(records, *committed, code=0) == []
    assert audit(records[:3] + records[4:], *committed, code=1) == [("missing", 3, 3)]
    assert audit(records, code=1) == [("missing", 6, 10)]
    assert audit([*records, 7, 3], *committed, code=1) == [("twice", 3, 3)]
