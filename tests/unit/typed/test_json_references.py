"""What a `$ref` of JSON Schema refers to."""

from __future__ import annotations

import pytest

from tests.unit.typed.test_json_schema import ADDRESS, INTEGER, STRING, of, read


@pytest.mark.parametrize(
    "reference, found",
    [
        *(
            ("#/$defs/a~1b", "string"),
            ("#/$defs/a~0b", "string"),
            ("#/$defs/a%25b", "string"),
            ("#/$defs/%C3%B6", "string"),
        ),
        *(("#/$defs/%7E0", "string"), ("#/$defs/", "string"), ("#/$defs/list/allOf/0", "string"), ("#named", "string")),
        *(
            ("http://x.y/z/main.json#named", "string"),
            ("main.json#/$defs/", "string"),
            ("./../z/main.json#named", "string"),
        ),
        *(
            ("/z/main.json#old", "string"),
            ("//x.y/z/main.json#named", "string"),
            ("inner.json", "struct<a:bigint,b:bigint>"),
        ),
        *(
            ("other.json", "struct<c:string>"),
            ("http://x.y/z/other.json#/properties/c", "string"),
            ("else/where", "string"),
        ),
        *(("urn:example:1", "struct<a:boolean>"), ("urn:example:1#t", "boolean")),
        *(
            ("#/$defs/x", None),
            ("#/$defs/list/allOf/1", None),
            ("#/$defs/list/allOf/-1", None),
            ("#/$defs/a~1b/type/x", None),
        ),
        *(
            ("#nothing", None),
            ("http://x.y/other.json", None),
            ("?main", None),
            ("#/$defs/list/allOf/" + "9" * 5000, None),
        ),
    ],
)
def test_what_a_reference_refers_to(reference: str, found: str | None) -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "http://x.y/z/main.json#",
        **of(it={"$ref": reference}),
        "$defs": {
            **dict.fromkeys(("a/b", "a~b", "a%b", "ö", "~", ""), STRING),
            "list": {"allOf": [STRING]},
            "named": {"$anchor": "named", **STRING},
            "old": {"$id": "#old", **STRING},
            "inner": {
                "$id": "inner.json",
                **of(a={"$ref": "#/$defs/i"}, b={"$ref": "#i"}),
                "$defs": {"i": {"$anchor": "i", **INTEGER}},
            },
            "urn": {
                "$id": "urn:example:1",
                **of(a={"$ref": "#t"}),
                "$defs": {"t": {"$anchor": "t", "type": "boolean"}},
            },
        },
    }
    others = {"other.json": of(c={"$ref": "else/where"}), "else/where": {"$id": "http://no.where/", **STRING}}
    if found is None:
        with pytest.raises(ValueError, match=r"it refers to .*, which is not there|it has a URL of more than 4,000"):
            read(schema, **others)
    else:
        assert read(schema, **others) == f"struct<it:{found}>"


def test_what_stands_beside_a_reference_counts_since_2019() -> None:
    beside = {"$ref": "#/definitions/A", **of(zip=STRING)}
    schema = {**of(a=beside), "definitions": {"A": ADDRESS}}
    assert read(schema) == "struct<a:struct<zip:string,city:string>>"
    for draft in ("04", "06", "07"):
        old = {"$schema": f"http://json-schema.org/draft-{draft}/schema#", **schema}
        assert read(old) == "struct<a:struct<city:string>>"


def test_the_id_of_draft_4() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://x/y",
        **of(a={"$ref": "/y#/d"}),
        "d": STRING,
    }
    assert read(schema) == "struct<a:string>"
