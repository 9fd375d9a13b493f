"""Every option does as declared: example, default, bounds, wrong values, what it needs and excludes, and names."""

from __future__ import annotations

import base64
import json
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from evensplit.core.state.settings import Settings
from evensplit.errors import OptionError
from evensplit.kafka.columns import COLUMNS
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.options.client_options import BOOTSTRAP_SERVERS, CLIENT_OPTIONS, PREFIX
from evensplit.kafka.options.option import (
    Choice,
    Duration,
    Name,
    Names,
    NumberOrWord,
    Option,
    Regex,
    SecretForm,
    Text,
    Variable,
    WholeNumber,
)
from evensplit.registry.schemas import Schema
from evensplit.registry.settings import RegistrySettings
from evensplit.spark.options.limits import Limits
from evensplit.spark.options.parse import (
    MetadataOptions,
    SourceOptions,
    check_batch,
    check_streaming,
    parse_options,
)
from evensplit.spark.options.reading import ReadOptions
from evensplit.spark.options.spec.all import ALIASES, BY_NAME, DECLARED
from evensplit.spark.options.spec.clusters import (
    CLUSTERS,
    METADATA,
    METADATA_OWN,
    NO_RECORD,
    STARTING_TIMESTAMP,
    SUBSCRIPTIONS,
)
from evensplit.spark.options.spec.formats import (
    KEY_FORMAT,
    KEY_FRAMING,
    KEY_MESSAGE,
    KEY_SCHEMA,
    ON_DECODE_ERROR,
    VALUE_FORMAT,
    VALUE_FRAMING,
    VALUE_MESSAGE,
    VALUE_SCHEMA,
)
from evensplit.spark.options.spec.limits import MAX_BYTES, MIN_OFFSETS, PRIORITY
from evensplit.spark.options.spec.query import COLUMNS_OPTION, POLL_TIMEOUT
from evensplit.spark.options.spec.registry import (
    KEY_SUBJECT,
    REGISTRY_OTHER,
    REGISTRY_URL,
    VALUE_SUBJECT,
)
from tests.support.options import problems_of

ONE_CLUSTER = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"}
FLEET = {METADATA.name: "/etc/fleet.yaml"}

SIDES = (
    (VALUE_FORMAT, VALUE_SCHEMA, VALUE_FRAMING, VALUE_MESSAGE, VALUE_SUBJECT),
    (KEY_FORMAT, KEY_SCHEMA, KEY_FRAMING, KEY_MESSAGE, KEY_SUBJECT),
)

BY_RULES = {
    *("clusters", "metadata", "metadata.location", "metadata.options", "metadata.allowed", "common"),
    *("settings", "settings.bounded", "settings.key_schema", "settings.value_schema"),
    *("reading", "reading.columns", "reading.key", "reading.value", "reading.where", "reading.registry"),
    *("settings.capacities", "limits", "pins", "registry", "schemas_known"),
    *("ignored", "ignored_in_batch", "refused_in_batch"),
}
"""Attributes of the parsed options that rules make, and no single option."""


def beside(option: Option) -> dict[str, str]:
    """The options with which `option` can be given, as few as can be, and so that it has an effect."""
    found = dict(FLEET if option.needs == METADATA.name else ONE_CLUSTER)
    alone = {*option.excludes, *(other.name for other in DECLARED if option.name in other.excludes)}
    alone |= {one.name for one in SUBSCRIPTIONS if option in SUBSCRIPTIONS}
    for name in alone & set(found):
        del found[name]
    if option is NO_RECORD:
        found[STARTING_TIMESTAMP.name] = STARTING_TIMESTAMP.example
    for form, schema, framing, message, subject in SIDES:
        if option in (schema, framing, ON_DECODE_ERROR):
            found |= {form.name: "json", schema.name: "another DOUBLE"}
        if option is message:
            found |= {form.name: "protobuf", schema.name: MESSAGES}
        if option is subject:
            found |= {form.name: "json", REGISTRY_URL.name: REGISTRY_URL.example}
    if option is REGISTRY_URL or option.needs == REGISTRY_URL.name:
        found |= {VALUE_FORMAT.name: "json", VALUE_SCHEMA.name: "another DOUBLE"}
    if option.needs == REGISTRY_URL.name:
        found |= {REGISTRY_URL.name: REGISTRY_URL.example}
    if option is PRIORITY:
        found[MAX_BYTES.name] = MAX_BYTES.example
    if option.useless_without:
        found[option.useless_without] = BY_NAME[option.useless_without.lower()].example
    return found


def given_as(option: Option, value: str) -> SourceOptions:
    return parse_options({**beside(option), written(option): value}, looked_up)


def looked_up(registry: RegistrySettings, subject: str, version: int | None) -> Schema:
    """A schema of which one can see what it was asked for."""
    properties = {f"{subject} {version}": {"type": "string"}}
    return Schema(7, "JSON", json.dumps({"type": "object", "properties": properties}))


def written(option: Option) -> str:
    return option.name.replace("<name>", "ssl.truststore.location" if option is REGISTRY_OTHER else "team")


def descriptor_set() -> str:
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    for name in ("First", "Order", "OrderId"):
        field = file.message_type.add(name=name).field.add(name=f"id_of_{name}", number=1)
        field.type, field.label = FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.LABEL_OPTIONAL
    return base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()


MESSAGES = descriptor_set()


def value_of(parsed: SourceOptions, option: Option) -> Any:
    if option.name.startswith(PREFIX):
        return getattr(parsed.clusters[0].settings, option.field)
    return attrgetter(option.field)(parsed)


def refused(option: Option, value: str) -> str:
    """The only sentence about a wrong value."""
    (found,) = problems_of({**beside(option), written(option): value})
    return found


def has_type(*types: type) -> list[Any]:
    """The declared options with one of these types of values."""
    return [pytest.param(one, id=one.name) for one in DECLARED if isinstance(one.type, types)]


every = pytest.mark.parametrize("option", [pytest.param(one, id=one.name) for one in DECLARED])


@every
def test_the_example_is_accepted_and_has_an_effect(option: Option) -> None:
    parsed = given_as(option, option.example)
    assert (option.name in parsed.ignored) == bool(option.ignored)
    if not (option.ignored or option in REQUIRED):
        assert said(parsed) != said(parse_options(beside(option), looked_up))
    if option.field:
        assert value_of(parsed, option) == option.type.parse(option.example) != option.default


REQUIRED = (BOOTSTRAP_SERVERS, CLUSTERS, METADATA, *SUBSCRIPTIONS)
"""Options of which one has to be there, so that there is nothing to compare with."""


def said(options: SourceOptions) -> SourceOptions:
    """The options without those that were merely given."""
    return replace(options, common={}, ignored_in_batch=(), refused_in_batch=())


@every
def test_without_the_option_its_default_holds(option: Option) -> None:
    if not option.field:
        assert option.default_shown
        return
    without = {name: value for name, value in beside(option).items() if name != option.name}
    assert value_of(parse_options(without), option) == option.default
    if option.has_default:
        assert value_of(given_as(option, option.type.written(option.default)), option) == option.default
        assert option.default_shown == f"`{option.type.written(option.default)}`"


@pytest.mark.parametrize("option", has_type(WholeNumber))
def test_a_number_has_bounds(option: Option) -> None:
    kind: Any = option.type
    for right in (kind.least, kind.most):
        parsed = given_as(option, f" {right} ")
        if option.field and option not in (MIN_OFFSETS, POLL_TIMEOUT):
            assert value_of(parsed, option) == right
    unit = f" of {kind.unit}" if kind.unit else ""
    for wrong in (str(kind.least - 1), str(kind.most + 1), "", "many", "1.5", "1e3", "1_0", "²", "9" * 5000):
        found = refused(option, wrong)
        shown = repr(wrong if len(wrong) <= 100 else f"{wrong[:100]}…")
        bounds = f", {kind.least} or more" if kind.most == 2**63 - 1 else f" from {kind.least} to {kind.most}"
        highest = f": the highest is {kind.most}" if wrong.isdigit() and len(wrong) > 18 and "more" in bounds else ""
        assert found == f"{option.name} is {shown}; expected a whole number{unit}{bounds}{highest}"


@pytest.mark.parametrize("option", has_type(NumberOrWord))
def test_a_number_has_bounds_and_a_word_stands_for_one_outside(option: Option) -> None:
    kind: Any = option.type
    for right in (kind.least, kind.most):
        assert value_of(given_as(option, f" {right} "), option) == right
    assert value_of(given_as(option, f" {kind.word.upper()} "), option) == kind.stands_for < kind.least
    assert kind.parse(kind.written(kind.stands_for)) == kind.stands_for
    for wrong in (str(kind.least - 1), str(kind.most + 1), "", "many", "1.5"):
        expected = f"a whole number from {kind.least} to {kind.most}, or {kind.word}"
        assert refused(option, wrong) == f"{option.name} is {wrong!r}; expected {expected}"


@pytest.mark.parametrize("option", has_type(Duration))
def test_a_duration_has_a_unit_and_is_less_than_nothing_only_where_that_means_something(option: Option) -> None:
    kind: Any = option.type
    assert value_of(given_as(option, " 1.5 H "), option) == 5_400_000
    for text, right in (("0", kind.zero), ("0s", kind.zero), ("-1s", kind.negative), ("-0", kind.negative)):
        if right:
            assert value_of(given_as(option, text), option) == 0
        else:
            assert refused(option, text).startswith(
                f"{option.name} is {text!r}; expected a number above 0 with its unit"
            )
    for wrong in ("", "soon", "1.5", "9" * 15 + "d"):
        assert f"{option.name} is {wrong!r}; expected {kind.expected}" in refused(option, wrong)
    assert kind.expected.startswith("a number above 0 with its unit (ms, s, m, h or d), such as 30s or 1.5h")


@pytest.mark.parametrize("option", has_type(Choice))
def test_each_word_of_a_choice_in_any_case_and_no_other(option: Option) -> None:
    kind: Any = option.type
    for word, value in kind.words.items():
        # These need other options.
        alone = option not in (VALUE_FORMAT, KEY_FORMAT) or word in ("binary", "string")
        if option.name != "kafka.security.protocol" and alone:
            parsed = given_as(option, f" {word.upper()} ")
            assert not option.field or value_of(parsed, option) == value
    for wrong in ("", "zzzzz"):
        found = refused(option, wrong)
        assert found.startswith(f"{option.name} ")
        assert all(word in found for word in kind.words)


@pytest.mark.parametrize("option", has_type(Name, Names, Regex, Text, Variable))
def test_a_text_is_not_empty(option: Option) -> None:
    if option.name.startswith(PREFIX) or option is METADATA_OWN:
        # As in Kafka's consumer, an empty text is none; and a class of the user's own may want one.
        given_as(option, "")
        return
    wrong = "," if isinstance(option.type, Names) else ""
    assert option.type.expected in refused(option, wrong)


@pytest.mark.parametrize("option", has_type(SecretForm, Variable))
def test_a_wrong_value_that_may_be_a_secret_is_not_shown(option: Option) -> None:
    assert refused(option, "hunter2 hunter2") == (
        f"{option.name} has a wrong value, not shown as it may be a secret; expected {option.type.expected}"
        f"{NO_JSON if isinstance(option.type, SecretForm) else ''}"
    )


NO_JSON = ": Expecting value: line 1 column 1 (char 0)"


@pytest.mark.parametrize("option", [pytest.param(one, id=one.name) for one in DECLARED if one.needs])
def test_an_option_that_needs_another_one_is_nothing_without(option: Option) -> None:
    """Also if its value is wrong."""
    (found,) = problems_of({**ONE_CLUSTER, written(option): ""})
    assert found == (
        f"{written(option)} is given without {option.needs}; expected the option {option.needs} too, or leave it out"
    )


EXCLUDING = [(one, BY_NAME[name.lower()]) for one in DECLARED for name in one.excludes]


@pytest.mark.parametrize("option, other", EXCLUDING, ids=lambda one: one.name)
def test_options_that_exclude_each_other(option: Option, other: Option) -> None:
    found = problems_of({**beside(option), option.name: option.example, other.name: other.example})
    expected = f"{option.name} is given beside {other.name}; expected {option.name} alone, or leave {option.name} out"
    assert found == (expected,)


@pytest.mark.parametrize("option", [pytest.param(one, id=one.name) for one in DECLARED if one.only])
def test_an_option_for_one_kind_of_query(option: Option) -> None:
    parsed = given_as(option, option.example)
    its, other = (check_streaming, check_batch) if option.only == "stream" else (check_batch, check_streaming)
    its(parsed)
    if option.refused_elsewhere:
        with pytest.raises(OptionError, match=f"{option.name} is given, but"):
            other(parsed)
    else:
        other(parsed)
        assert option.name in parsed.ignored_in_batch


def test_every_name_is_that_of_one_option() -> None:
    names = [one.name.lower() for one in DECLARED] + [alias.lower() for alias in ALIASES]
    assert len(set(names)) == len(names) == len(DECLARED) + sum(len(one.aliases.split()) for one in DECLARED)


def test_every_value_is_read_into_an_attribute_that_there_is() -> None:
    """And there is none that no option, and no rule, sets."""
    parts = {
        "": SourceOptions,
        "metadata": MetadataOptions,
        "settings": Settings,
        "reading": ReadOptions,
        "limits": Limits,
    }
    declared = {one.field for one in DECLARED if one.field and not one.name.startswith(PREFIX)}
    there = {f"{part}.{one.name}".removeprefix(".") for part, options in parts.items() for one in fields(options)}
    assert declared == there - BY_RULES
    client = {one.name for one in fields(ClientSettings)}
    assert {one.field for one in CLIENT_OPTIONS if one.field} == client - {
        "bootstrap_servers",
        "security",
        "poll_timeout_ms",
    }


def test_meanings_are_sentences() -> None:
    for one in DECLARED:
        assert one.meaning[0].isupper(), one.name
        assert one.meaning.endswith("."), one.name
        assert not one.default_text.endswith("."), one.name
    assert all(f"`{name}`" in COLUMNS_OPTION.meaning for name in COLUMNS)
