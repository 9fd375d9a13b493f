"""A whole checkpoint of Spark, as far as its sources are concerned: offsets, commits and initial offsets.

All of it is read before anything is done with it. The states of this package are large: those of the last two batches,
with which a query starts, are decoded at once, and older ones when they are asked for. Errors name file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from evensplit.checkpoint.files import (
    RESTORE,
    batches_of,
    is_directory,
    is_there,
    numbers_in,
    read_checked,
    reads,
    unreadable,
)
from evensplit.checkpoint.offset_file import VOID, OffsetLine, OffsetText, States, TornFile, parse_offset_file
from evensplit.checkpoint.places.place import Place
from evensplit.core.import_spark_offsets import Positions, positions_of_state
from evensplit.core.json_text import parse_json
from evensplit.core.state.codec import SIGNATURE
from evensplit.core.state.spark_offsets import parse_positions
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import shown
from evensplit.errors import CheckpointCorrupt, CheckpointError, CheckpointVersionUnknown

INITIAL_VERSION = "v1"
NOTHING = "{}"
"""What Spark's own Kafka source writes where a pattern has matched no topic yet: all that comes is new, and begins at
earliest. In an offset file only older versions do."""
_OURS_BEGINS = f'{{"{SIGNATURE}"'
_SPARK_FORM = 'an offset of Spark\'s own Kafka source, such as {"topic":{"0":23}}'


class Kind(StrEnum):
    """Whose an offset is."""

    SPARK = "Spark's own Kafka source"
    OURS = "evensplit"
    OTHER = "another source"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch in the offset log: its file, and the decoded offsets of Kafka sources."""

    number: int
    path: Place
    text: OffsetText
    spark: Mapping[str, Positions]
    """Source -> positions, for Spark's own Kafka source."""
    ours: Mapping[str, EnumeratorState]
    """Source -> state, for this package. One of an older batch raises CheckpointCorrupt where it is damaged."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint, decoded."""

    path: Place
    batches: tuple[Batch, ...]
    """The batches that Spark has kept, oldest first, at least one."""
    committed: int | None
    """The newest batch that is done; None if no batch is."""
    kinds: Mapping[str, frozenset[Kind]]
    """Source -> whose offsets it has, for each source of the newest batch."""
    initial: Mapping[str, Positions]
    """Source -> the offsets at which it began, as Spark's own Kafka source recorded them."""
    waiting: tuple[str, ...]
    """Sources of Spark's own that have recorded where they began, and have no offsets yet."""
    repeated: tuple[str, ...]
    """Sources with the same offsets as another one in each file, as in a query that reads one source twice. Such a
    source has several lines but one directory in `sources`, which shifts the numbers of the sources after it."""

    @property
    def newest(self) -> Batch:
        """The last batch that was planned."""
        return self.batches[-1]

    @property
    def replays(self) -> bool:
        """The last batch is not done: it will be planned again."""
        return self.committed != self.newest.number

    def sources(self, *kinds: Kind) -> tuple[str, ...]:
        """The sources that are, or were, of one of these kinds, in the order of the newest file."""
        return tuple(source for source, found in self.kinds.items() if found.intersection(kinds))


def read_checkpoint(path: Place, *, whole: bool = True) -> Checkpoint:
    """Read the checkpoint in the directory `path`. `whole`: everything that Spark needs to go on must be there.

    Raises:
        CheckpointError: it is not a checkpoint, or Spark would not start from it.
        CheckpointCorrupt, CheckpointVersionUnknown: a file in it is damaged, or of a newer version; it is named. A
            state of an older batch than the last two raises that when it is asked for.
    """
    try:
        return _checkpoint(path, whole=whole)
    except OSError as error:
        raise unreadable(error.filename or path, error) from error


def _checkpoint(path: Place, *, whole: bool) -> Checkpoint:
    numbers = batches_of(path)
    batches = tuple(_batches(path / "offsets", numbers))
    # After the batches, which say so if this is an incomplete copy.
    if whole and not is_there(path / "metadata"):
        raise CheckpointError(f"{path} has no file metadata, with the id of the query; expected a whole checkpoint")
    newest = batches[-1]
    committed = _committed(path, newest.number)
    needs_start = whole or committed != newest.number
    if newest.number and needs_start and (len(batches) < 2 or batches[-2].number != newest.number - 1):
        raise CheckpointCorrupt(
            f"{path / 'offsets' / str(newest.number - 1)} is not there; expected the offsets of the batch before the "
            f"newest one, {newest.number}, without which Spark does not start. {RESTORE} or, if the query ran with "
            "asyncProgressTrackingEnabled, run it once more in Spark with asyncProgressTrackingCheckpointIntervalMs=0 "
            "for two batches"
        )
    kinds = {source: _kinds(source, batches) for source in newest.text.offsets}
    batches = tuple(_with_nothing(batch, kinds) for batch in batches)
    newest = batches[-1]
    # Where the last source has a directory of its own, none is shared.
    last = list(newest.text.offsets)[-1]
    repeated = () if is_there(path / "sources" / last) else _repeated(batches)
    initial: dict[str, Positions] = {}
    waiting: list[str] = []
    for source, found in kinds.items():
        file = path / "sources" / source / "0"
        if not found and _is_positions(file):
            waiting.append(source)
        if not found & {Kind.SPARK, Kind.OURS}:
            continue
        _check_lines(source, batches)
        if not is_there(file):
            continue
        try:
            initial[source] = _initial(file)
        except (CheckpointCorrupt, CheckpointVersionUnknown):
            # It may be another source's, and is asked for by the first batch only.
            if not repeated:
                raise
    return Checkpoint(path, batches, committed, kinds, initial, tuple(waiting), repeated)


def _batches(directory: Place, numbers: Sequence[int]) -> list[Batch]:
    found: list[Batch] = []
    known: dict[str, EnumeratorState] = {}
    paths = [directory / str(number) for number in numbers]
    for number, path, data in zip(numbers, paths, reads(paths, checked=True), strict=True):
        # Spark has thrown away its oldest files since they were listed.
        if not isinstance(data, FileNotFoundError):
            found.append(_batch(path, number, data, known))
    if not found:
        raise CheckpointError(f"{directory} has no offset files any more: try again in a moment")
    for batch in found[-2:]:
        tuple(batch.ours.values())
    return found


def _batch(path: Place, number: int, data: bytes, known: dict[str, EnumeratorState]) -> Batch:
    try:
        file = parse_offset_file(path, number, data)
    except TornFile as error:
        raise CheckpointCorrupt(f"{path}: {error}. {RESTORE}") from error
    for damage in file.damaged.values():
        line, detail = damage.line, damage.detail
        if line.text.startswith(_OURS_BEGINS):
            detail = f"expected an offset of evensplit, found {shown(line.text)}, which is not JSON"
        elif file.text.version != "v2" or line.prefix:
            # Whose it is, and so whether it has to be JSON, the other files say.
            continue
        else:
            detail = f"{detail}, found {shown(line.text)}"
        raise CheckpointCorrupt(f"{path}, line {line.number}: {detail}. {RESTORE}")
    return Batch(number, path, file.text, file.spark, States(file, known))


def _json(text: str) -> object:
    try:
        return parse_json(text)
    except ValueError:
        return None


def _kinds(source: str, batches: tuple[Batch, ...]) -> frozenset[Kind]:
    """Whose the offsets of one source are: of several in turn where a query has changed the source."""
    found = set()
    for batch in batches:
        if source in batch.spark:
            found.add(Kind.SPARK)
        elif source in batch.ours:
            found.add(Kind.OURS)
        elif source in batch.text.offsets and batch.text.offsets[source].text not in (VOID, NOTHING):
            found.add(Kind.OTHER)
    return frozenset(found)


def _with_nothing(batch: Batch, kinds: Mapping[str, frozenset[Kind]]) -> Batch:
    """`batch`, where a source of Spark's that had found no partition has no positions, which are not unknown ones."""
    nothing: dict[str, Positions] = {
        source: {}
        for source, line in batch.text.offsets.items()
        if line.text == NOTHING and Kind.SPARK in kinds.get(source, ())
    }
    return replace(batch, spark={**batch.spark, **nothing}) if nothing else batch


def _repeated(batches: tuple[Batch, ...]) -> tuple[str, ...]:
    """Sources that have the same offset as another one in each file, whatever the ids of clusters are."""
    sources = list(batches[-1].text.offsets)
    if len(sources) < 2:
        return ()
    said: dict[str, tuple[str, ...]] = dict.fromkeys(sources, ())
    # From the newest on: most differ there, and so of most no older state is decoded.
    for batch in reversed(batches):
        many = Counter(said.values())
        said = {source: texts for source, texts in said.items() if many[texts] > 1}
        same = len({batch.text.offsets[one].text if one in batch.text.offsets else "" for one in said}) == 1
        for source, texts in said.items():
            text = batch.text.offsets[source].text if same and source in batch.text.offsets else None
            said[source] = (*texts, _said(batch, source) if text is None else text)
    many = Counter(said.values())
    return tuple(source for source, texts in said.items() if many[texts] > 1 and set(texts) != {VOID})


def _said(batch: Batch, source: str) -> str:
    """What tells an offset from others: positions, or what stands there."""
    if source in batch.ours:
        return str(list(positions_of_state(batch.ours[source]).values()))
    if source in batch.spark:
        return str([batch.spark[source]])
    return batch.text.offsets[source].text if source in batch.text.offsets else ""


def _check_lines(source: str, batches: tuple[Batch, ...]) -> None:
    """Raises CheckpointCorrupt for the first offset of a Kafka source that is none."""
    for batch in batches:
        line: OffsetLine | None = batch.text.offsets.get(source)
        if line is None:
            raise CheckpointCorrupt(
                f"{batch.path} has no line for source {source}; expected the sources of the newest file in each file. "
                f"{RESTORE}"
            )
        if line.text not in (VOID, NOTHING) and source not in batch.spark and source not in batch.ours:
            form = _SPARK_FORM if any(source in one.spark for one in batches) else "an offset of evensplit"
            raise CheckpointCorrupt(
                f"{batch.path}, line {line.number}: expected {form}, as source {source} has in "
                f"other files, found {shown(line.text)}. {RESTORE}"
            )


def _committed(path: Place, newest: int) -> int | None:
    """The newest batch that is committed; None: there is none."""
    commits = path / "commits"
    found = max(numbers_in(commits), default=None) if is_directory(commits) else None
    if found is not None and found > newest:
        raise CheckpointCorrupt(
            f"{commits / str(found)} says that batch {found} is done, but the newest batch in {path / 'offsets'} is "
            f"{newest}. {RESTORE}"
        )
    if found is not None:
        read_checked(commits / str(found))
    return found


def _initial(path: Place) -> Positions:
    """What Spark's own Kafka source wrote at its start: a zero byte, the version in a line, and the positions.

    Spark 2.1.0 wrote no version.
    """
    data = read_checked(path)
    try:
        text = data[1:].decode()
    except UnicodeDecodeError as error:
        raise CheckpointCorrupt(f"{path}: it is not UTF-8: {error}. {RESTORE}") from error
    line = 1
    if text.startswith("v"):
        version, _, text = text.partition("\n")
        line = 2
        if version != INITIAL_VERSION:
            if version[1:].isascii() and version[1:].isdecimal():
                raise CheckpointVersionUnknown(f"{path} has version {version}; expected {INITIAL_VERSION}")
            raise CheckpointCorrupt(f"{path}, line 1: expected {INITIAL_VERSION}, found {shown(version)}. {RESTORE}")
    document = _json(text)
    positions = {} if document == {} else parse_positions(document)
    if positions is None:
        raise CheckpointCorrupt(f"{path}, line {line}: expected {_SPARK_FORM}, found {shown(text)}. {RESTORE}")
    return positions


def _is_positions(path: Place) -> bool:
    """Whether that is what Spark's own Kafka source wrote at its start, as far as one can tell."""
    try:
        _initial(path)
    except (CheckpointError, FileNotFoundError):
        return False
    return True
