"""Where a schema registry is, and as whom to ask it, under the names of Confluent's clients.

Source: `SchemaRegistryClientConfig` and the credential providers of Confluent's Java client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from evensplit.http.urls import basic, shown_url, url_problem, without_user
from evensplit.kafka.options.local_access import EVERYTHING, Allowed
from evensplit.kafka.options.secrets import Secret, SecretError, has_placeholder, placeholder_problems, resolve
from evensplit.kafka.options.tls import TLS_NAMES, TlsOptions, tls_problems

PREFIX = "schema.registry."
"""What comes before each of these names in an option. The URL's option is `schema.registry.url`."""

URL = "url"
USER_INFO = "basic.auth.user.info"
USER_INFO_SOURCE = "basic.auth.credentials.source"
TOKEN = "bearer.auth.token"  # noqa: S105
TOKEN_SOURCE = "bearer.auth.credentials.source"  # noqa: S105
SETTING_NAMES = frozenset((URL, USER_INFO, USER_INFO_SOURCE, TOKEN, TOKEN_SOURCE)) | TLS_NAMES

TIMEOUT_MS = 30_000

_SOURCES = {USER_INFO_SOURCE: ("URL", "USER_INFO"), TOKEN_SOURCE: ("STATIC_TOKEN",)}
_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True, repr=False)
class RegistrySettings:
    """A schema registry, and how to ask it. Can be pickled; its repr has no secret."""

    urls: tuple[str, ...]
    """Where it is, without users and passwords: tried in turn."""

    user_info: Secret | None = None
    """`user:password`, perhaps with placeholders, which are resolved at each question."""

    token: Secret | None = None
    """A bearer token in place of that."""

    tls: TlsOptions | None = None
    """For https; None: the certificates that the system trusts."""

    timeout_ms: int = TIMEOUT_MS
    """How long a question may take, with all that it leads to."""

    allowed: Allowed = EVERYTHING
    """What placeholders may use of this machine."""

    def __repr__(self) -> str:
        return f"RegistrySettings({self.shown!r})"

    @classmethod
    def of(
        cls,
        values: Mapping[str, str],
        allowed: Callable[[str], Allowed] = lambda _: EVERYTHING,
        timeout_ms: int = TIMEOUT_MS,
    ) -> RegistrySettings:
        """Build it from values without problems, by their names in SETTING_NAMES.

        `allowed`: what the value of that name may use of this machine.
        """
        urls = _listed(values[URL])
        user = next((user for url in urls if (user := _user(url))), "")
        user_info = values.get(USER_INFO, user)
        name = USER_INFO if USER_INFO in values else TOKEN
        return cls(
            tuple(without_user(urlsplit(url)).rstrip("/") for url in urls),
            Secret(user_info) if user_info else None,
            Secret(values[TOKEN]) if TOKEN in values else None,
            TlsOptions.of(values, allowed) if TLS_NAMES & values.keys() else None,
            timeout_ms,
            allowed(name),
        )

    @property
    def shown(self) -> str:
        """Its URLs for an error or a log."""
        return ", ".join(map(shown_url, self.urls))

    @property
    def identity(self) -> RegistrySettings:
        """The same for all that ask the same registry as the same user, however long they wait."""
        return RegistrySettings(self.urls, self.user_info, self.token, self.tls, 0, self.allowed)

    def authorization(self) -> str:
        """The header `Authorization`; empty if there is none.

        Raises:
            SecretError: a placeholder cannot be resolved, or what it stands for cannot be sent.
        """
        if self.user_info is not None:
            found = resolve(self.user_info.reveal(), self.allowed)
            if ":" not in found:
                raise SecretError(f"{PREFIX}{USER_INFO} has no colon; expected user:password")
            return basic(found)
        if self.token is None:
            return ""
        token = resolve(self.token.reveal(), self.allowed).strip()
        if not _TOKEN.fullmatch(token):
            raise SecretError(f"{PREFIX}{TOKEN} {_token_problem(token)}")
        return f"Bearer {token}"


def registry_problems(values: Mapping[str, str]) -> list[str]:
    """A sentence for each problem of `values`, by their names in SETTING_NAMES, as options name them: never a value."""
    known = {name: text for name, text in values.items() if not has_placeholder(text)}
    return [
        *(f"{PREFIX}{URL} {problem}" for problem in _url_problems(values)),
        *(f"{PREFIX}{problem}" for problem in _login_problems(values, known)),
        *(problem.replace("kafka.ssl.", f"{PREFIX}ssl.") for problem in tls_problems(values, known)),
    ]


def _url_problems(values: Mapping[str, str]) -> Iterator[str]:
    if has_placeholder(values.get(URL, "")):
        yield "has a placeholder; expected URLs as they are"
        return
    urls = _listed(values.get(URL, ""))
    if not urls:
        yield "is missing or empty; expected a URL such as https://registry:8081, or several, separated by commas"
    for url in urls:
        problem = url_problem(url)
        if problem:
            yield f"has {shown_url(url)}; {problem}"
        elif urlsplit(url).query or urlsplit(url).fragment:
            yield f"has {shown_url(url)}; expected nothing behind the path"
    right = [url for url in urls if not url_problem(url)]
    if len({_user(url) for url in right}) > 1:
        yield "has several URLs with different users; expected one user for all of them"
    if TLS_NAMES & values.keys() and right and not any(urlsplit(url).scheme == "https" for url in right):
        yield f"has no URL that begins with https, but {PREFIX}{min(TLS_NAMES & values.keys())} is given; expected one"


def _login_problems(values: Mapping[str, str], known: Mapping[str, str]) -> Iterator[str]:
    in_url = any(_user(url) for url in _listed(values.get(URL, "")) if not url_problem(url))
    given = [name for name in (USER_INFO, TOKEN) if name in values]
    if len(given) > 1 or (given and in_url):
        yield f"{given[0]} is given beside {'a user in the URL' if in_url else given[-1]}; expected one login"
    for name in given:
        yield from (f"{name} {problem}" for problem in placeholder_problems(values[name]))
    if USER_INFO in known and ":" not in known[USER_INFO]:
        yield f"{USER_INFO} has no colon; expected user:password"
    if TOKEN in known and not _TOKEN.fullmatch(known[TOKEN].strip()):
        yield f"{TOKEN} {_token_problem(known[TOKEN].strip())}"
    for name, sources in _SOURCES.items():
        if known.get(name, sources[0]).strip().upper() not in sources:
            yield f"{name} has a value that is not supported; expected {' or '.join(sources)}"
    if known.get(USER_INFO_SOURCE, "").strip().upper() == "USER_INFO" and USER_INFO not in values:
        yield f"{USER_INFO_SOURCE} is USER_INFO, but there is no {PREFIX}{USER_INFO}; expected it"
    if TOKEN_SOURCE in values and TOKEN not in values:
        yield f"{TOKEN_SOURCE} is given without {PREFIX}{TOKEN}; expected both"


def _token_problem(token: str) -> str:
    return f"{'has characters that no token has' if token else 'is empty'}; expected a token"


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _user(url: str) -> str:
    return unquote(urlsplit(url).netloc.rpartition("@")[0])
