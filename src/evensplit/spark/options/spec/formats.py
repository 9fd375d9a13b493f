"""Options declared: how keys and values are decoded, and which of it is wanted."""

from __future__ import annotations

from dataclasses import replace

from evensplit.kafka.options.option import Choice, Form, Names, Option, one_of
from evensplit.typed.decoding import BINARY_FORMAT, COLUMN, CONFLUENT, FAIL, FORMATS, FRAMINGS, NULL

VALUE_FORMAT = Option(
    name="value.format",
    type=one_of(*FORMATS),
    default=BINARY_FORMAT,
    meaning="What values are written in: `binary` (the column `value` has bytes), `string` (it has text), `json`, "
    "`avro` or `protobuf` (it has the type that the schema says). See [Typed columns](../howto/typed-columns.md).",
    example="string",
)
KEY_FORMAT = replace(VALUE_FORMAT, name="key.format", meaning="The same for keys and the column `key`.")


def of_keys(option: Option, example: str) -> Option:
    """The same option for keys."""
    return replace(
        option,
        name=option.name.replace("value.", "key."),
        default_text=option.default_text.replace("value", "key"),
        meaning="The same for keys.",
        example=example,
        needs=KEY_FORMAT.name,
        excludes=tuple(name.replace("value.", "key.") for name in option.excludes),
    )


VALUE_SCHEMA = Option(
    name="value.schema",
    type=Form(
        "schema",
        "a schema in DDL, such as `id BIGINT, address STRUCT<city: STRING>`, or in Spark's JSON; or file:/path",
    ),
    default_text="that of `value.subject` in the schema registry, if there is one",
    meaning="The schema of values, or `file:/path`, a file on the driver that has it. For `json`, DDL as in Spark, or "
    "the JSON of a `StructType`; fields that a value has beyond it are left out, and those that it lacks are null. For "
    "`avro`, a schema of Avro. For `protobuf`, a descriptor set, in base64 if not in a file.",
    example="id BIGINT, amount DOUBLE, address STRUCT<city: STRING>",
    needs=VALUE_FORMAT.name,
)
KEY_SCHEMA = of_keys(VALUE_SCHEMA, "id BIGINT")
VALUE_MESSAGE = Option(
    name="value.message",
    type=Form("text", "the name of a message"),
    default_text="the first one of the file",
    meaning="For `protobuf`, the message that a value is: its full name, or the last part of it.",
    example="shop.Order",
    needs=VALUE_FORMAT.name,
)
KEY_MESSAGE = of_keys(VALUE_MESSAGE, "shop.OrderId")
VALUE_FRAMING = Option(
    name="value.framing",
    type=one_of(*FRAMINGS),
    default_text="`confluent` where a schema registry is named, otherwise `none`",
    meaning="What is before each value: `none`, nothing; or `confluent`, the frame that clients of a schema registry "
    "write: a zero byte, the id of the schema and, for `protobuf`, which of its messages it is. Without a registry, it "
    "is checked and passed over.",
    example=CONFLUENT,
    needs=VALUE_FORMAT.name,
)
KEY_FRAMING = of_keys(VALUE_FRAMING, CONFLUENT)
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
ACCEPT_SCHEMA = Option(
    name="acceptSchema",
    type=Names("fingerprints of schemas, as an error has named them"),
    default=(),
    default_text="none",
    meaning="Schemas that may follow another one. A checkpoint keeps the schema, format and framing by which keys and "
    "values are decoded, since a batch that is repeated must have the same rows. If they are others at a restart, an "
    "error says what changes and names a fingerprint, which accepts this change when it is given here.",
    example="5f70bf18a0860070",
    field="accepted_schemas",
    only="stream",
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
    VALUE_MESSAGE,
    VALUE_FRAMING,
    KEY_FORMAT,
    KEY_SCHEMA,
    KEY_MESSAGE,
    KEY_FRAMING,
    ON_DECODE_ERROR,
    ACCEPT_SCHEMA,
    WHERE,
)
