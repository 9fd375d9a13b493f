"""Options declared: how keys and values are decoded, and which of it is wanted."""

from __future__ import annotations

from evensplit.kafka.options.option import Choice, Form, Option, one_of
from evensplit.typed.decoding import BINARY_FORMAT, COLUMN, FAIL, FORMATS, NULL

VALUE_FORMAT = Option(
    name="value.format",
    type=one_of(*FORMATS),
    default=BINARY_FORMAT,
    meaning="What values are written in: `binary` (the column `value` has bytes), `string` (it has text), or `json` "
    "(it is a struct of the fields in `value.schema`). See [Typed columns](../howto/typed-columns.md).",
    example="string",
)
KEY_FORMAT = Option(
    name="key.format",
    type=one_of(*FORMATS),
    default=BINARY_FORMAT,
    meaning="The same for keys and the column `key`.",
    example="string",
)
_SCHEMA = Form(
    "schema",
    "a schema in DDL, such as `id BIGINT, address STRUCT<city: STRING>`, or in Spark's JSON; or file:/path",
)
VALUE_SCHEMA = Option(
    name="value.schema",
    type=_SCHEMA,
    default_text="none; `json` needs one",
    meaning="The schema of values: DDL as in Spark, the JSON of a `StructType`, or `file:/path`, a file on the driver "
    "with one of them. Fields that a value has beyond it are left out, and those that it lacks are "
    "null.",
    example="id BIGINT, amount DOUBLE, address STRUCT<city: STRING>",
    needs=VALUE_FORMAT.name,
)
KEY_SCHEMA = Option(
    name="key.schema",
    type=_SCHEMA,
    default_text="none; `json` needs one",
    meaning="The same for keys.",
    example="id BIGINT",
    needs=KEY_FORMAT.name,
)
ON_DECODE_ERROR = Option(
    name="onDecodeError",
    type=Choice({one: one for one in (FAIL, NULL, COLUMN)}),
    default=FAIL,
    meaning="What to do with a key or value that cannot be decoded: `fail` with an error that names the record; make "
    "it `null`; or make it null and say why in a `column` `value_error`, with the bytes in `value_raw` (`key_error`, "
    "`key_raw` for keys).",
    example="column",
    field="reading.on_decode_error",
)

WHERE = Option(
    name="where",
    type=Form("condition", "a condition in Spark's SQL over the columns, such as value.amount >= 900"),
    default_text="none: all rows",
    meaning="Which rows are wanted: a condition in Spark's SQL over the columns and the fields of `key` and `value`, "
    "also those that `columns` leaves out. Rows for which it is not true are never built. See [Only some "
    "rows](../howto/typed-columns.md#only-some-rows) for what it may contain.",
    example="topic LIKE 'orders%' AND offset >= 100",
)

FORMAT_OPTIONS: tuple[Option, ...] = (
    VALUE_FORMAT,
    VALUE_SCHEMA,
    KEY_FORMAT,
    KEY_SCHEMA,
    ON_DECODE_ERROR,
    WHERE,
)
