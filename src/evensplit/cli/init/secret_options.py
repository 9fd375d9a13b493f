"""Which options hold secrets, so that none is written into a file: only placeholders such as ${env:NAME} are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from evensplit.kafka.options.jaas import JaasError, parse_jaas
from evensplit.kafka.options.secrets import is_placeholder
from evensplit.metadata.hiding import HIDDEN_CHARS_MIN
from evensplit.spark.options.rules import own_of_metadata
from evensplit.spark.options.values import RawOptions

INSTEAD = "expected a placeholder such as ${env:NAME} or ${file:PATH}"

_HARMLESS = ("true", "false")
_NAMES = re.compile(r"password|passphrase|secret|(?<!metadata)token$|user\.info$|keystore\.key$|credentials?$", re.I)
_PARAMETER = re.compile(r"[?&][^=&#]*(?:pass|secret|token|key|sig)[^=&#]*=", re.I)


def secret_problems(options: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each option with a secret in clear. None of them shows a value.

    What an option is to a metadata class of the user's own is not known, so each may be one, as where they are hidden.
    """
    own = {name.lower() for name in own_of_metadata(RawOptions(options, []))}
    for name, value in options.items():
        low = name.lower()
        if low.endswith("sasl.jaas.config"):
            if _in_clear(value):
                yield f"{name} has a password in clear, which is not written into a file; {INSTEAD} in its place"
        elif _NAMES.search(low):
            user, colon, rest = value.partition(":")
            of_user = low.endswith("user.info") and colon and not user.startswith("${")
            if not is_placeholder(rest if of_user else value):
                yield f"{name} has a secret in clear, which is not written into a file; {INSTEAD}"
        elif low in own:
            if not (is_placeholder(value) or _is_harmless(value)):
                yield (
                    f"{name} may hold a secret, which is not written into a file; {INSTEAD} that your class looks up, "
                    "or leave it out and put it into SOURCE in the code that is written"
                )
        elif _in_url(value):
            yield (
                f"{name} has a URL with a password or a token in it, which is not written into a file; expected the "
                "URL without it, and the login as an option of its own"
            )


def _is_harmless(value: str) -> bool:
    return len(value.strip()) < HIDDEN_CHARS_MIN or value.strip().lower() in _HARMLESS


def _in_clear(jaas: str) -> bool:
    """Whether a login module has a password that is no placeholder. One that cannot be read may have."""
    if is_placeholder(jaas):
        return False
    try:
        module = parse_jaas(jaas)
    except JaasError:
        return True
    return any(_NAMES.search(name) and not is_placeholder(value) for name, value in module.options.items())


def _in_url(value: str) -> bool:
    for url in value.split(","):
        if "://" not in url:
            continue
        try:
            parts = urlsplit(url.strip())
        except ValueError:
            return True
        if "@" in parts.netloc or _PARAMETER.search(url):
            return True
    return False
