"""Rules for several options together: which exist, need, exclude or limit each other."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from evensplit.core.policies import BY_RATE
from evensplit.core.state.settings import COUNT, RATE, Settings
from evensplit.kafka.options.option import Option
from evensplit.registry.settings import PREFIX, URL
from evensplit.spark.options.hints import sought
from evensplit.spark.options.per_cluster import ClusterOptions
from evensplit.spark.options.rows.row_columns import ReaderSchemas, RowColumns
from evensplit.spark.options.spec.all import DECLARED
from evensplit.spark.options.spec.clusters import METADATA, METADATA_OWN
from evensplit.spark.options.spec.formats import ON_DECODE_ERROR
from evensplit.spark.options.spec.limits import MAX_BYTES, MAX_OFFSETS, MIN_OFFSETS, PRIORITY
from evensplit.spark.options.spec.query import (
    BALANCE,
    CAPACITY,
    ON_TIMESTAMP_OVERFLOW,
    POLICY,
    REBALANCE_GAIN,
    REBALANCE_MOVES,
)
from evensplit.spark.options.values import RawOptions


def refuse_unknown(
    given: RawOptions, names: Sequence[str], prefixes: Sequence[str], elsewhere: Sequence[str] = ()
) -> None:
    """Say of each option that it does not exist, unless it is one of `names` or begins with a prefix.

    `elsewhere`: those that exist, but not on this level.
    """
    known = {name.lower(): name for name in names}
    for name in sorted(given.options):
        prefixed = name.startswith(tuple(prefixes))
        found = sought(name, prefixed=prefixed)
        if name in known or (prefixed and not found):
            continue
        usual, hint = found or (given.written(name), "")
        belongs = next((other for other in elsewhere if other.lower() == name), None)
        close = difflib.get_close_matches(name, list(known), n=1)
        if belongs:
            usual, hint = belongs, "it holds for all clusters: give it outside"
        elif not hint and close:
            hint = f"did you mean {known[close[0]]}?"
        elif not hint:
            hint = f"expected one of {', '.join((*names, *(f'{prefix}*' for prefix in prefixes)))}"
        given.problems.append(f"{usual} is not an option{given.where}; {hint}")


def has_what_it_needs(option: Option, given: RawOptions) -> bool:
    """Whether the option that `option` needs is given, if it needs one."""
    return not option.needs or option.needs in given


def check_together(given: RawOptions) -> None:
    """Say of each option that needs or excludes others that they are not, or are, given beside it."""
    for option in DECLARED:
        if option.name not in given:
            continue
        beside = given.among(option.excludes)
        if not has_what_it_needs(option, given):
            given.problems.append(_lonely(option.name, option.needs))
        elif beside:
            given.problems.append(
                f"{option.name} is given beside {' and '.join(beside)}{given.where}; expected {option.name} alone, or "
                f"leave {option.name} out"
            )
    if METADATA.name not in given:
        given.problems.extend(_lonely(name, METADATA.name) for name in own_of_metadata(given))


def own_of_metadata(given: RawOptions) -> list[str]:
    """The names, as they were written, of options that are for the user's own metadata class."""
    prefix = METADATA_OWN.name.removesuffix("<name>")
    names = {one.name.lower() for one in DECLARED}
    return sorted(given.written(name) for name in given.options if name.startswith(prefix) and name not in names)


def without_effect(given: RawOptions, rows: RowColumns, schemas: ReaderSchemas) -> Iterator[str]:
    """The options given that change nothing, by themselves or for want of another one."""
    for option in DECLARED:
        needed = option.useless_without
        if option.name in given and (option.ignored or (needed and needed not in given)):
            yield option.name
    if PRIORITY.name in given and not given.among((MAX_OFFSETS.name, MAX_BYTES.name)):
        yield PRIORITY.name
    if str(given.value(BALANCE.name)).strip().lower() == COUNT:
        yield from given.among([one.name for one in (CAPACITY, REBALANCE_GAIN, REBALANCE_MOVES)])
    if schemas.known and not any(one.framing for one in (schemas.key, schemas.value)):
        yield from (given.written(name) for name in sorted(given.options) if name.startswith(PREFIX))
    used = {*rows.columns, *(rows.where.condition.columns if rows.where is not None else ())}
    if ON_TIMESTAMP_OVERFLOW.name in given and "timestamp" not in used:
        yield ON_TIMESTAMP_OVERFLOW.name
    if ON_DECODE_ERROR.name in given and not any(one is not None and one.tree for one in (rows.key, rows.value)):
        yield ON_DECODE_ERROR.name


def for_streams(given: RawOptions, *, refused: bool) -> tuple[str, ...]:
    """The options given that are for streaming queries only: those that a batch query refuses, or those it ignores."""
    return tuple(
        one.name for one in DECLARED if one.only == "stream" and one.refused_elsewhere is refused and one.name in given
    )


def check_limits(given: RawOptions, least: int | None, most: int | None) -> None:
    """Say that a batch cannot have at least `least` offsets and at most `most`."""
    if most is not None and least is not None and least > most:
        given.problems.append(
            f"{MIN_OFFSETS.name} is {least}, which is higher than the {MAX_OFFSETS.name} ({most}); expected "
            f"{MIN_OFFSETS.name} of at most {most}, or a higher {MAX_OFFSETS.name}"
        )


def check_balance(given: RawOptions, settings: Settings) -> None:
    """Say that rates cannot be weighed by a policy that does not look at loads, or at owners."""
    if settings.balance == RATE and settings.policy not in BY_RATE:
        given.problems.append(
            f"{BALANCE.name} is {RATE} and {POLICY.name} is {settings.policy}; expected {' or '.join(BY_RATE)} as "
            f"{POLICY.name}, or {COUNT} as {BALANCE.name}"
        )


def check_registries(given: RawOptions, clusters: Iterable[ClusterOptions], rows: RowColumns) -> None:
    """Say of each cluster that it has no schema registry, where keys or values are read by the schemas of one."""
    read = [name for name, one in (("keys", rows.key), ("values", rows.value)) if one is not None and one.by_writer]
    # Of wrong options of a registry nobody knows whose it is.
    if not read or any(PREFIX in problem for problem in given.problems):
        return
    given.problems.extend(
        f"{PREFIX}{URL} of cluster {cluster.id!r} is missing, and its {' and '.join(read)} are read by schemas of a "
        "registry; expected it there, or outside for all clusters"
        for cluster in clusters
        if cluster.registry is None
    )


def _lonely(name: str, needed: str) -> str:
    return f"{name} is given without {needed}; expected the option {needed} too, or leave it out"
