"""Options declared: the schema registry, and which of its schemas keys and values are decoded by."""

from __future__ import annotations

from evensplit.kafka.options.option import CLUSTER, SOURCE, Form, Option
from evensplit.registry.settings import PREFIX, TOKEN, URL, USER_INFO
from evensplit.spark.options.spec.formats import VALUE_FORMAT, VALUE_SCHEMA, of_keys

_PLACES = (SOURCE, CLUSTER)

REGISTRY_URL = Option(
    name=f"{PREFIX}{URL}",
    type=Form("text", "a URL such as https://registry:8081, or several, separated by commas"),
    meaning="The schema registry, with the API of Confluent's. Several URLs are tried in turn. See [Schema registry]"
    "(../howto/schema-registry.md).",
    example="https://registry:8081",
    places=_PLACES,
)
REGISTRY_LOGIN = Option(
    name=f"{PREFIX}{USER_INFO}",
    type=Form("text", "user:password, or a placeholder for it"),
    meaning="Who asks it: `user:password`. It may be a placeholder, as in [Security](../howto/security.md).",
    example="${file:/etc/registry.properties:login}",
    places=_PLACES,
    needs=REGISTRY_URL.name,
)
REGISTRY_TOKEN = Option(
    name=f"{PREFIX}{TOKEN}",
    type=Form("text", "a token, or a placeholder for it"),
    meaning="A bearer token, in place of a login.",
    example="${env:REGISTRY_TOKEN}",
    places=_PLACES,
    needs=REGISTRY_URL.name,
)
REGISTRY_OTHER = Option(
    name=f"{PREFIX}<name>",
    type=Form("text", "the value of this setting of Confluent's clients"),
    meaning="The other settings of Confluent's clients: `ssl.*`, with the names and meanings of `kafka.ssl.*`, "
    "`basic.auth.credentials.source` and `bearer.auth.credentials.source`.",
    example="/etc/registry.pem",
    places=_PLACES,
    needs=REGISTRY_URL.name,
)
VALUE_SUBJECT = Option(
    name="value.subject",
    type=Form("text", "a subject, or one of its versions, such as orders-value:3"),
    default_text="`<topic>-value`, if one topic is read",
    meaning="Where in the registry the schema is that values are decoded by, if not in `value.schema`: a subject, of "
    "which the latest version is taken when the query starts, or one of its versions, as `subject:3`. Each value is "
    "read by the schema that has written it, and becomes what this one says.",
    example="orders-value:3",
    needs=VALUE_FORMAT.name,
    excludes=(VALUE_SCHEMA.name,),
)
KEY_SUBJECT = of_keys(VALUE_SUBJECT, "orders-key")

REGISTRY_OPTIONS: tuple[Option, ...] = (
    REGISTRY_URL,
    REGISTRY_LOGIN,
    REGISTRY_TOKEN,
    REGISTRY_OTHER,
    VALUE_SUBJECT,
    KEY_SUBJECT,
)
