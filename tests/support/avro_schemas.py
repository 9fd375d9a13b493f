"""Schemas of Avro and values, generated: a writer's schema, a reader's that was made of it, and what the writer writes.

A type is as in JSON, with every named type written out wherever it is used; `text` writes it as JSON has it. Of two
branches of a union no two become the same type in Python, but for named ones.
"""

from __future__ import annotations

import json
import random
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

PROMOTED = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
    "bytes": ["string"],
}

_LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
]

_SCALARS = ["boolean", "int", "long", "float", "double", "string", "bytes"]
_NAMED = ("record", "enum", "fixed")
_IN_UNIONS = [["boolean"], ["int", "long"], ["float", "double"], ["string"], ["bytes"], ["array"], ["map"]]


def kind_of(schema: Any) -> str:
    """The kind of a type."""
    if isinstance(schema, list):
        return "union"
    return str(schema["type"] if isinstance(schema, dict) else schema)


def text(schema: Any) -> str:
    """A schema as JSON, its named types written out where they are first."""
    return json.dumps(_named_once(schema, set()))


def _named_once(schema: Any, known: set[str]) -> Any:
    kind = kind_of(schema)
    if kind == "union":
        return [_named_once(branch, known) for branch in schema]
    if kind in _NAMED:
        if schema["name"] in known:
            return schema["name"]
        known.add(schema["name"])
    if kind == "record":
        fields = [{**one, "type": _named_once(one["type"], known)} for one in schema["fields"]]
        return {**schema, "fields": fields}
    for part in ("items", "values"):
        if kind in ("array", "map") and part in schema:
            return {**schema, part: _named_once(schema[part], known)}
    return schema


def without_logic(schema: Any) -> Any:
    """A schema without its logical types."""
    if isinstance(schema, list):
        return [without_logic(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    logical = ("logicalType", "precision", "scale")
    return {
        key: without_logic(value) if key in ("type", "items", "values", "fields") else value
        for key, value in schema.items()
        if key not in logical
    }


@dataclass
class Schemas:
    """Makes schemas and values by chance."""

    chance: random.Random
    plain_defaults: bool = True
    """A default shows which branch of a union it is of."""
    names: int = 0
    known: list[Any] = field(default_factory=list)
    """The enums and fixeds so far."""
    evolved: dict[str, Any] = field(default_factory=dict)
    """Name of one of the writer's types -> that of the reader."""

    def name(self, of: str) -> str:
        """A new name."""
        self.names += 1
        return f"{of}{self.names}"

    def record(self, depth: int = 3) -> Any:
        """A record."""
        count = self.chance.randint(1, 6)
        fields = [{"name": self.name("f"), "type": self.schema(depth - 1)} for _ in range(count)]
        return {"type": "record", "name": f"{self.namespace()}{self.name('R')}", "fields": fields}

    def namespace(self) -> str:
        """A namespace."""
        return self.chance.choice(["a.", "a.b."])

    def schema(self, depth: int) -> Any:
        """Any type."""
        pick = self.chance.random()
        if depth <= 0 or pick < 0.4:
            return deepcopy(self.chance.choice(_LOGICAL if pick < 0.12 else _SCALARS))
        if pick < 0.6:
            return self.union(depth)
        return self.one(self.chance.choice(["record", "array", "map", "enum", "fixed", "known"]), depth)

    def one(self, kind: str, depth: int) -> Any:
        """A type of this kind."""
        if kind == "known":
            return deepcopy(self.chance.choice(self.known)) if self.known else "string"
        if kind == "record":
            return self.record(depth)
        if kind in ("array", "map"):
            return {"type": kind, "items" if kind == "array" else "values": self.schema(depth - 1)}
        if kind not in ("enum", "fixed"):
            return kind
        made: dict[str, Any] = {"type": kind, "name": f"{self.namespace()}{self.name(kind[0].upper())}"}
        if kind == "enum":
            made["symbols"] = [self.name("S") for _ in range(self.chance.randint(1, 5))]
        else:
            # None of no bytes: a damaged list of them has billions, which Spark makes.
            made["size"] = self.chance.choice([1, 2, 4, 16])
            if made["size"] == 4 and self.chance.random() < 0.5:
                made.update(logicalType="decimal", precision=5, scale=1)
        self.known.append(made)
        return made

    def union(self, depth: int) -> Any:
        """A union."""
        if self.chance.random() < 0.6:
            other = self.schema(depth - 1)
            if kind_of(other) in ("union", "null"):
                return other
            return ["null", other] if self.chance.random() < 0.6 else [other, "null"]
        if self.chance.random() < 0.2:
            pair = self.chance.choice([["int", "long"], ["double", "float"], ["null", "long", "int"]])
            return list(pair)
        kinds = [self.chance.choice(group) for group in self.chance.sample(_IN_UNIONS, self.chance.randint(1, 4))]
        kinds += self.chance.choices(["record", "enum", "fixed"], k=self.chance.randint(0, 2))
        branches = [self.one(kind, depth - 1) for kind in kinds]
        if self.chance.random() < 0.5:
            branches.insert(self.chance.randint(0, len(branches)), "null")
        return branches

    def value(self, schema: Any) -> Any:
        """A value as fastavro takes it: in a union, the name of the branch with it."""
        kind, chance = kind_of(schema), self.chance
        if kind == "union":
            branch = chance.choice(schema)
            return (branch["name"] if kind_of(branch) in _NAMED else kind_of(branch), self.value(branch))
        if kind == "record":
            return {one["name"]: self.value(one["type"]) for one in schema["fields"]}
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(chance.choice([0, 1, 1, 2, 5]))]
        if kind == "map":
            return {self.word(): self.value(schema["values"]) for _ in range(chance.choice([0, 1, 1, 2, 5]))}
        if kind == "enum":
            return chance.choice(schema["symbols"])
        if kind == "fixed":
            return bytes(chance.choices([0, 0, 0, 255, 7], k=schema["size"]))
        return self.scalar(kind, isinstance(schema, dict))

    def scalar(self, kind: str, logical: bool) -> Any:
        """A value without parts."""
        chance = self.chance
        if kind in ("int", "long"):
            bits = chance.choice([3, 8, 20, 30] if kind == "int" else [3, 8, 31, 40, 50])
            if kind == "long" and logical and chance.random() < 0.05:
                bits = 62
            return chance.randint(-(1 << bits), 1 << bits)
        if kind in ("float", "double"):
            return chance.choice([0.0, -0.0, 1.5, -2.25, 1e30, float("inf"), chance.randint(-1000, 1000) / 8])
        if kind == "boolean":
            return chance.random() < 0.5
        if kind == "bytes":
            if logical:
                return chance.randint(-(10**9), 10**9).to_bytes(chance.choice([4, 5, 20]), "big", signed=True)
            return self.word().encode()
        return self.word() if kind == "string" else None

    def word(self) -> str:
        """A text."""
        return "".join(self.chance.choices("abcxyz \u00e9\u20ac\U0001f600", k=self.chance.randint(0, 12)))

    def default(self, schema: Any) -> Any:
        """A default, as in JSON."""
        kind = kind_of(schema)
        if kind == "union":
            return self.default(schema[0])
        if kind == "record":
            return {one["name"]: self.default(one["type"]) for one in schema["fields"]}
        if kind == "array":
            return [self.default(schema["items"]) for _ in range(self.chance.choice([0, 1, 2]))]
        if kind == "map":
            return {self.word(): self.default(schema["values"]) for _ in range(self.chance.choice([0, 1, 2]))}
        if kind == "fixed":
            return "".join(self.chance.choices("\x00\u00ffa", k=schema["size"]))
        if kind == "bytes":
            return "".join(self.chance.choices("\x00\u00ffa", k=self.chance.randint(1, 3)))
        if kind == "enum":
            return self.chance.choice(schema["symbols"])
        if kind in ("float", "double"):
            return self.chance.choice([0, 1.5, -3])
        return self.scalar(kind, False)

    def with_plain_default(self, schema: Any) -> Any:
        """A type whose default shows which branch of a union it is of."""
        if (
            self.plain_defaults
            and kind_of(schema) == "union"
            and kind_of(schema[0]) not in ("null", "boolean", "int", "long", "string")
        ):
            return schema[0]
        return schema

    def evolve(self, schema: Any) -> Any:
        """What a reader may have for a type."""
        kind, chance = kind_of(schema), self.chance
        if kind == "union":
            branches = [self.evolve_named(branch) for branch in schema]
            if chance.random() < 0.2:
                chance.shuffle(branches)
            if chance.random() < 0.1 and len(branches) > 1:
                left = branches.pop(chance.randrange(len(branches)))
                branches = [left] if branches == ["null"] else branches
            if chance.random() < 0.1 and "null" not in branches:
                branches.append("null")
            return branches if len(branches) > 1 or chance.random() < 0.9 else branches[0]
        made = self.evolve_named(schema)
        if chance.random() < 0.1:
            return ["null", made]
        if chance.random() < 0.1 and kind in PROMOTED and not isinstance(schema, dict):
            return chance.choice(PROMOTED[kind])
        return made

    def evolve_named(self, schema: Any) -> Any:
        """What a reader may have for a type that may be in a union."""
        kind = kind_of(schema)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            return {**schema, part: self.evolve(schema[part])}
        if kind not in _NAMED:
            return schema
        if schema["name"] not in self.evolved:
            self.evolved[schema["name"]] = getattr(self, f"evolve_{kind}")(deepcopy(schema))
        return self.evolved[schema["name"]]

    def evolve_fixed(self, schema: Any) -> Any:
        """Another fixed."""
        return schema if self.chance.random() < 0.95 else {**schema, "size": schema["size"] + 1}

    def evolve_enum(self, schema: Any) -> Any:
        """Other symbols."""
        symbols = schema["symbols"]
        if self.chance.random() < 0.3:
            self.chance.shuffle(symbols)
        if self.chance.random() < 0.3:
            symbols[0] = self.name("S")
            if self.chance.random() < 0.7:
                schema["default"] = self.chance.choice(symbols)
        return schema

    def evolve_record(self, schema: Any) -> Any:
        """Other fields."""
        fields, chance = [], self.chance
        for one in schema["fields"]:
            if chance.random() < 0.15:
                continue
            made = {**one, "type": self.evolve(one["type"])}
            if chance.random() < 0.1:
                made.update(name=self.name("n"), aliases=[one["name"]])
            fields.append(made)
        if chance.random() < 0.3:
            chance.shuffle(fields)
        if chance.random() < 0.4 or not fields:
            of = self.with_plain_default(self.schema(1))
            fields.insert(0, {"name": self.name("d"), "type": of, "default": self.default(of)})
        if chance.random() < 0.1:
            schema.update(aliases=[schema["name"]], name=f"{self.namespace()}{self.name('N')}")
        return {**schema, "fields": fields}
