"""The options that say where a schema registry is."""

from __future__ import annotations

import json

from evensplit.core.suggest import meant
from evensplit.core.text import short
from evensplit.registry.settings import (
    PREFIX,
    SETTING_NAMES,
    TOKEN,
    URL,
    USER_INFO,
    RegistrySettings,
    registry_problems,
)
from evensplit.spark.options.values import RawOptions


def parse_registry(given: RawOptions) -> RegistrySettings | None:
    """The registry that the options of one level name; None if they name none, or are wrong."""
    values: dict[str, str] = {}
    problems: list[str] = []
    for name, value in given.options.items():
        if not name.startswith(PREFIX):
            continue
        own = name.removeprefix(PREFIX)
        if own not in SETTING_NAMES:
            names = tuple(f"{PREFIX}{one}" for one in sorted(SETTING_NAMES))
            hint = meant(f"{PREFIX}{own}", names) or f"expected one of {', '.join(names)}"
            problems.append(f"{short(given.written(name))} is not an option; {hint}")
        elif isinstance(value, dict | list) or value is None:
            problems.append(f"{short(name)} is no text; expected a text, a number, true or false")
        else:
            values[own] = value if isinstance(value, str) else json.dumps(value)
    if URL in values:
        problems += registry_problems(values)
    else:
        others = sorted(values.keys() - {USER_INFO, TOKEN})
        problems += [
            f"{PREFIX}{name} is given without {PREFIX}{URL}; expected the option {PREFIX}{URL} too, or leave it out"
            for name in others
        ]
    given.problems.extend(f"{problem}{f' ({given.where.strip()})' if given.where else ''}" for problem in problems)
    return None if problems or URL not in values else RegistrySettings.of(values)
