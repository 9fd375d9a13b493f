"""Judges the order of records in the topic that our own sink writes to, and for how long its readers had to wait."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.checker.judgements.crashes import HIDDEN, judge_crashes
from evensplit.testing.chaos.checker.sinks import Attempt
from evensplit.testing.chaos.history.events import ReadersWaited, WrittenRead

_PLACE = ("cluster", "topic", "partition")
_LONGEST = "readers of the sink waited at most (s)"
READ_AGAIN = "records in the sink's topic"


def judge_written(context: Context, query: str, attempts: Sequence[Attempt]) -> list[Attempt]:
    """Add what is wrong with the order in the topic. What was seen at one time, by batches of the job.

    In each partition of the topic, a batch has to come after all of the one before it. Records that one task has
    written there, and read from one partition, have to be in the order of their offsets.
    """
    _judge_waiting(context, query)
    _judge_reader(context, query, attempts)
    parts = [one for attempt in attempts for one in _by_batch(attempt)]
    tables = [one.rows for one in attempts if len(one.rows)]
    if tables:
        _judge_order(context, query, pa.concat_tables(tables))
    context.figures.setdefault("batches", {})[query] = len({one.batch for one in parts})
    return sorted(parts, key=lambda one: (one.batch, one.at_s if one.at_s == one.at_s else 1e18, one.token))


def _by_batch(attempt: Attempt) -> list[Attempt]:
    """An attempt for each batch of the job that is in one."""
    if not len(attempt.rows):
        return []
    batches = pc.unique(attempt.rows["batch"]).to_pylist()
    return [
        Attempt(
            batch,
            f"{attempt.batch}",
            attempt.at_s,
            attempt.rows.filter(pc.equal(attempt.rows["batch"], batch)),
            attempt.files,
        )
        for batch in batches
    ]


def _judge_order(context: Context, query: str, rows: pa.Table) -> None:
    codes = [pc.dictionary_encode(rows[name].cast(pa.string()).combine_chunks()).indices for name in _PLACE]
    place = np.unique(np.stack([np.asarray(one) for one in codes]), axis=1, return_inverse=True)[1].reshape(-1)
    partition, at, batch, task, offset = (
        np.asarray(rows[name], np.int64) for name in ("sink_partition", "sink_offset", "batch", "task", "offset")
    )
    order = np.lexsort((at, partition))
    early = np.zeros(len(order), bool)
    early[1:] = (partition[order][1:] == partition[order][:-1]) & (batch[order][1:] < batch[order][:-1])
    if count := int(early.sum()):
        first = order[np.flatnonzero(early)[0]]
        what = f"{count} times a batch comes after a later one, e.g. at offset {at[first]} of partition "
        context.find("reordered", f"{what}{partition[first]}", query, float("nan"), count)
    order = np.lexsort((at, place, task, batch, partition))
    same = np.ones(len(order), bool)[1:]
    for column in (partition, batch, task, place):
        same &= column[order][1:] == column[order][:-1]
    back = np.flatnonzero(same & (offset[order][1:] <= offset[order][:-1])) + 1
    if len(back):
        first = order[back[0]]
        what = f"{len(back)} records of one task came after ones of higher offsets, e.g. at offset {at[first]} of "
        context.find("reordered", f"{what}partition {partition[first]}", query, float("nan"), len(back))


def _judge_waiting(context: Context, query: str) -> None:
    waits = [one for one in context.events if isinstance(one, ReadersWaited)]
    context.figures[_LONGEST] = max((one.waited_s for one in waits), default=0.0)
    for one in waits:
        if not one.over:
            what = f"partition {one.partition}: what is at offset {one.offset} could not be read until the end"
            context.find("held up", f"{what}, for {one.waited_s:.0f} s", query, one.at_s)


def _judge_reader(context: Context, query: str, attempts: Sequence[Attempt]) -> None:
    """The run has to have seen all that another client finds in the topic: what it has not seen, nobody can judge."""
    told = [one for one in context.events if isinstance(one, WrittenRead)]
    if not told:
        context.find("incomplete", "the sink's topic was not read to its end", query, context.end_s)
        return
    context.figures[READ_AGAIN] = sum(one.committed for one in told)
    context.figures[HIDDEN] = sum(one.hidden for one in told)
    tables = [one.rows for one in attempts if len(one.rows)]
    partition, at, batch = (
        np.concatenate([np.asarray(one[name], np.int64) for one in tables]) if tables else np.zeros(0, np.int64)
        for name in ("sink_partition", "sink_offset", "batch")
    )
    judge_crashes(context, query, partition, at, batch)
    for one in told:
        if one.reader_at < one.end:
            what = f"partition {one.partition}: the run has read it to offset {one.reader_at} of {one.end}"
            context.find("incomplete", what, query, one.at_s)
        seen = int(np.sum((partition == one.partition) & (at < one.end)))
        if seen != one.committed:
            what = f"partition {one.partition}: the run saw {seen} records, and another client {one.committed}"
            context.find("history", what, query, one.at_s)
