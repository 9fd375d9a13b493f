"""The workloads with typed columns: decoded by the source, beside Spark's own source and Spark's own functions."""

from __future__ import annotations

from dataclasses import replace

from bench.peer.data import DAMAGED_ORDERS, ORDER_BYTES, ORDER_SCHEMA, ORDERS
from bench.peer.plan import OURS, OURS_UNDAMAGED, PARTITIONS, SPARK, Goal, Host, Kind, Scale, Side, Topic, Workload

Steps = tuple[str | tuple[str, ...], ...]

_PARSED = (f"from_json(cast(value as string), '{ORDER_SCHEMA}') as value",)
_TWO = ("value.id as id", "value.amount as amount")
_ALL_FIELDS = {"value.format": "json", "value.schema": ORDER_SCHEMA, "columns": "value"}
_TWO_FIELDS = {**_ALL_FIELDS, "columns": "value.id, value.amount"}


def typed(cores: int, scale: Scale) -> list[Workload]:
    """JSON with all fields, and with two of them; and with values that are malformed."""
    orders = Topic("orders", ORDER_BYTES, "lz4", scale.rows_typed, PARTITIONS, content=ORDERS)
    damaged = Topic("damaged-orders", ORDER_BYTES, "lz4", scale.rows_typed, PARTITIONS, content=DAMAGED_ORDERS)
    made = [
        _beside_spark("json-all", "JSON, all 8 fields", orders, cores, (_PARSED,), _ALL_FIELDS, (), 8),
        _beside_spark("json-two", "JSON, 2 of 8 fields", orders, cores, (_PARSED, _TWO), _TWO_FIELDS, (_TWO,), 12),
    ]
    if cores == 1:
        made += [_damaged(how, orders, damaged) for how in ("null", "column")]
    return [replace(one, rounds=scale.rounds) for one in made]


def _beside_spark(
    key: str, title: str, topic: Topic, cores: int, theirs: Steps, options: dict[str, str], ours: Steps, times: float
) -> Workload:
    """With two cores the broker shares them, so less is asked for."""
    return Workload(
        key=f"{key}-{cores}",
        title=title,
        kind=Kind.RATE,
        topic=topic,
        cores=cores,
        sides=(
            Side(SPARK, Host.SPARK, "kafka", steps=theirs),
            Side(OURS, Host.OURS, "evensplit", {**options, "readers": str(cores)}, ours),
        ),
        goals=(Goal(OURS, (SPARK,), times if cores == 1 else 0.6 * times),),
        same=True,
    )


def _damaged(how: str, orders: Topic, damaged: Topic) -> Workload:
    columns = "value, value_error, value_raw" if how == "column" else "value"
    options = {**_ALL_FIELDS, "onDecodeError": how, "columns": columns, "readers": "1"}
    return Workload(
        key=f"json-damaged-{how}",
        title=f"JSON, 1 % malformed, `{how}`",
        kind=Kind.RATE,
        topic=damaged,
        cores=1,
        sides=(
            Side(OURS, Host.OURS, "evensplit", options),
            Side(OURS_UNDAMAGED, Host.OURS, "evensplit", {**options, "subscribe": orders.name}),
        ),
        goals=(Goal(OURS, (OURS_UNDAMAGED,), 0.9),),
        also=(orders,),
    )
