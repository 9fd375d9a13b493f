"""Values to try a job on: for the type of a column, an expression in Python over `number`, in the layout of ruff."""

from __future__ import annotations

from evensplit.cli.init.literals import literal
from evensplit.typed.types import Array, DataType, Decimal, Map, Struct

_SCALARS = {
    "boolean": "number % 2 == 0",
    "byte": "number",
    "short": "number",
    "int": "number",
    "long": "number",
    "float": "number + 0.5",
    "double": "number + 0.5",
    "binary": '"AA=="',
    "date": '"2026-01-31"',
    "timestamp": '"2026-01-31T12:00:00Z"',
    "timestamp_ntz": '"2026-01-31T12:00:00"',
}


def sample(of: DataType, name: str = "", indent: int = 0) -> str:
    """An expression whose JSON is a value of that type. `name`: of the field that it is for, `indent`: of its line."""
    if isinstance(of, Struct):
        lines = [f"{literal(field.name)}: {sample(field.type, field.name, indent + 4)}" for field in of.fields]
        return _within("{", lines, "}", indent)
    if isinstance(of, Array):
        return _within("[", [sample(of.element, name, indent + 4)], "]", indent)
    if isinstance(of, Map):
        return _within("{", [f"{_key(of.key)}: {sample(of.value, name, indent + 4)}"], "}", indent)
    if isinstance(of, Decimal):
        return "0"
    return _SCALARS.get(of.kind, 'f"text {number}"')


def _key(of: DataType) -> str:
    """The key of a map, which is a text in JSON."""
    if isinstance(of, Decimal) or getattr(of, "kind", "") in ("byte", "short", "int", "long", "float", "double"):
        return '"1"'
    value = _SCALARS.get(of.kind, '"name"')
    return value if value.startswith('"') else '"true"'


def _within(opening: str, lines: list[str], closing: str, indent: int) -> str:
    # With a comma at the end, ruff keeps a line for each.
    inner = "".join(f"{' ' * (indent + 4)}{line},\n" for line in lines)
    return f"{opening}\n{inner}{' ' * indent}{closing}"
