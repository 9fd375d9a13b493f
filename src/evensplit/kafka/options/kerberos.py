"""Checks the options of Java's login module for Kerberos.

Source: `Krb5LoginModule` of OpenJDK, which refuses most of the same contradictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evensplit.kafka.options.secrets import has_placeholder

SWITCHES = (
    "clearPass",
    "debug",
    "doNotPrompt",
    "isInitiator",
    "refreshKrb5Config",
    "renewTGT",
    "storeKey",
    "storePass",
    "tryFirstPass",
    "useFirstPass",
    "useKeyTab",
    "useTicketCache",
)
"""Options that are true or false."""
_NAMES = frozenset((*SWITCHES, "keyTab", "principal", "serviceName", "ticketCache"))


def is_on(options: Mapping[str, str], name: str) -> bool:
    """Whether a switch is on; it is off by default."""
    return options.get(name, "").strip().lower() == "true"


def kerberos_problems(options: Mapping[str, str], *, final: bool) -> Iterator[str]:
    """Yield each problem, as the end of a sentence about the login module. `final`: no placeholder is left."""
    unknown = [name for name in options if name not in _NAMES]
    if unknown:
        yield f"has {', '.join(unknown)}, which Krb5LoginModule does not know; leave it out"
    known = {name: text.strip() for name, text in options.items() if final or not has_placeholder(text)}
    for name in SWITCHES:
        if known.get(name, "true").lower() not in ("true", "false"):
            yield f"has {name} with an unknown value; expected true or false"
    off = {name for name in SWITCHES if name not in options or known.get(name, "").lower() == "false"}
    if known.get("isInitiator", "").lower() == "false":
        yield "has isInitiator=false, which is for brokers; leave it out"
    if known.get("principal") == "*":
        yield 'has principal="*", which is for brokers; expected the name that this client has in Kerberos'
    if is_on(options, "useKeyTab") and not (options.get("keyTab") and options.get("principal")):
        yield 'has useKeyTab without keyTab and principal; expected keyTab="..." principal="..."'
    for name, switch in (("keyTab", "useKeyTab"), ("ticketCache", "useTicketCache")):
        if name in options and switch in off:
            yield f"has {name} without {switch}=true; expected both, or leave {name} out"
    if known.get("useTicketCache", "").lower() == "false" and "useKeyTab" in off:
        yield "has useTicketCache=false, and no useKeyTab=true; expected one of them, as no password can be asked for"
