"""Whatever a document says of TLS and SASL, nothing of this machine is had by it, refused or not."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from evensplit.errors import AuthenticationError, ClusterUnreachable
from evensplit.kafka.auth.oauth import open_oauth
from evensplit.kafka.auth.tls_socket import tls_context
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.options import secrets
from evensplit.kafka.options.local_access import EVERYTHING, Allowed
from evensplit.kafka.options.sasl import MODULES, TOKEN_URL
from evensplit.kafka.options.security import SECURITY_NAMES
from evensplit.spark.options.parse import parse_clusters

CANARY = "canary-of-this-machine"
PLACE = str(Path(tempfile.gettempdir()) / "evensplit-canary")

WAYS = (
    "${{env:CANARY}}",
    "${{env::CANARY}}",
    "\\44{{env:CANARY}}",
    "$\\{{env:CANARY}}",
    "x${{file:{place}}}",
    "\\44{{file:{place}}}",
    "${{vault:{place}}}",
    "\\44{{vault:{place}}}",
    "{place}",
    "/{place}",
    "/proc/self/root{place}",
    "file:{place}",
    "FILE://localhost{place}",
    "FILE:{place}",
    "literal",
)
ways = st.sampled_from([way.format(place=PLACE) for way in WAYS])
NEEDED = {
    "PLAIN": ("username", "password"),
    "SCRAM-SHA-256": ("username", "password"),
    "OAUTHBEARER": ("clientId", "clientSecret"),
}


def jaas(name: str, options: dict[str, str]) -> str:
    return f"{name} required " + " ".join(f'{key}="{value}"' for key, value in options.items()) + ";"


@st.composite
def logins(draw: st.DrawFn) -> dict[str, str]:
    """A login that is complete, with something of the machine wherever a document could have it."""
    mechanism = draw(st.sampled_from(sorted(NEEDED)))
    options = {name: draw(ways) for name in NEEDED[mechanism]}
    options |= draw(st.dictionaries(st.sampled_from(("ssl.truststore.location", "extension_a", "scope")), ways))
    login = {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(MODULES[mechanism], options)}
    if mechanism == "OAUTHBEARER":
        login[TOKEN_URL] = draw(st.one_of(ways, st.just(f"file:{PLACE}"), st.just("http://127.0.0.1:9/")))
    return login


stores = st.dictionaries(
    st.sampled_from(["ssl.truststore.location", "ssl.keystore.location", "ssl.truststore.type"]), ways, max_size=2
)
secured = st.one_of(
    st.builds(lambda login: {"security.protocol": "SASL_PLAINTEXT", **login}, logins()),
    st.builds(lambda login, tls: {"security.protocol": "SASL_SSL", **login, **tls}, logins(), stores),
    st.builds(lambda tls: {"security.protocol": "SSL", **tls}, stores),
)
anything = st.dictionaries(st.sampled_from(sorted(SECURITY_NAMES)), ways, max_size=2)


@contextmanager
def machine() -> Iterator[list[str]]:
    """A machine with a secret in a variable and in a file; the files that are opened on it."""
    opened: list[str] = []
    unwatched = Path.open

    def watched(path: Path, *arguments: object, **options: object) -> object:
        opened.append(str(path))
        return unwatched(path, *arguments, **options)  # type: ignore[call-overload]

    Path(PLACE).write_text(CANARY)
    with mock.patch.dict(os.environ, {"CANARY": CANARY}), mock.patch.object(Path, "open", watched):
        yield opened


@given(secured, st.one_of(st.just({}), anything))
@example({"security.protocol": "SSL"}, {"ssl.truststore.location": PLACE})
@example(
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
    {"sasl.jaas.config": "OAuthBearerLoginModule required;", TOKEN_URL: f"file:{PLACE}"},
)
def test_nothing_is_had_that_is_not_allowed(said: dict[str, str], more: dict[str, str]) -> None:
    own = {f"kafka.{name}": value for name, value in {**said, **more}.items()}
    refused: list[str] = []
    listed = {"c": {**own, "kafka.bootstrap.servers": "b:1", "subscribe": "t"}}
    clusters, _ = parse_clusters({}, listed, Allowed(("OTHER",), ("/no/such/place",)), refused)
    with machine() as opened:
        for cluster in clusters:
            settings = pickle.loads(pickle.dumps(cluster.settings.security))
            with suppress(AuthenticationError, ClusterUnreachable):
                access = settings.resolve("c")
                assert CANARY not in str((access.tls, access.sasl and (access.sasl.module, access.sasl.values)))
                if access.tls is not None:
                    tls_context("c", access.tls)
                if access.sasl is not None and access.sasl.mechanism == "OAUTHBEARER":
                    assert open_oauth("c", access.sasl, Deadline.after(0))[1] != CANARY
        assert not [path for path in opened if path.endswith("evensplit-canary")]
    assert CANARY not in "".join(refused)


def test_the_law_would_notice() -> None:
    with machine() as opened:
        assert secrets.resolve(f"${{env:CANARY}}${{file:{PLACE}}}", EVERYTHING) == 2 * CANARY
    assert opened == [PLACE]
