"""The workloads with typed columns: decoded by the source, beside Spark's own source and Spark's own functions."""

from __future__ import annotations

from dataclasses import replace

from bench.peer.data import AVRO_ORDERS, DAMAGED_ORDERS, ORDER_AVRO, ORDER_BYTES, ORDER_SCHEMA, ORDERS
from bench.peer.plan import OURS, OURS_UNDAMAGED, PARTITIONS, SPARK, Goal, Host, Kind, Scale, Side, Topic, Workload

Steps = tuple[str | tuple[str, ...], ...]

_TWO = ("value.id as id", "value.amount as amount")
_CONDITION = "value.amount >= 900"
"""One in ten orders is of so much."""
_JSON = {"value.format": "json", "value.schema": ORDER_SCHEMA}
_AVRO = {"value.format": "avro", "value.schema": ORDER_AVRO, "value.framing": "confluent"}
_FORMATS = (
    ("json", "JSON", _JSON, (f"from_json(cast(value as string), '{ORDER_SCHEMA}') as value",), (8, 12, 18)),
    ("avro", "Avro", _AVRO, (f"from_avro(substring(value, 6, 1000000), '{ORDER_AVRO}', map()) as value",), (5, 8, 12)),
)


def typed(cores: int, scale: Scale) -> list[Workload]:
    """JSON and Avro with all fields, with two of them, and with these where a condition holds; and malformed JSON."""
    orders = Topic("orders", ORDER_BYTES, "lz4", scale.rows_typed, PARTITIONS, content=ORDERS)
    damaged = Topic("damaged-orders", ORDER_BYTES, "lz4", scale.rows_typed, PARTITIONS, content=DAMAGED_ORDERS)
    avro = Topic("avro-orders", ORDER_BYTES // 2, "lz4", scale.rows_typed, PARTITIONS, content=AVRO_ORDERS)
    made = []
    for key, name, options, parsed, times in _FORMATS:
        topic = orders if key == "json" else avro
        two = {**options, "columns": "value.id, value.amount"}
        where = {**two, "where": _CONDITION}
        for what, title, theirs, own, ours, goal in (
            ("all", "all 8 fields", (parsed,), {**options, "columns": "value"}, (), times[0]),
            ("two", "2 of 8 fields", (parsed, _TWO), two, (_TWO,), times[1]),
            ("where", "2 fields where 10 % pass", (parsed, _CONDITION, _TWO), where, (_TWO,), times[2]),
        ):
            made.append(_beside_spark(f"{key}-{what}", f"{name}, {title}", topic, cores, theirs, own, ours, goal))
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
    options = {**_JSON, "onDecodeError": how, "columns": columns, "readers": "1"}
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
