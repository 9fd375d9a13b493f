"""Settings under Confluent's names, and every way in which they can be wrong."""

from __future__ import annotations

import pickle

import pytest

from evensplit.kafka.options.local_access import EVERYTHING, NOTHING
from evensplit.kafka.options.secrets import Secret, SecretError
from evensplit.registry.settings import SETTING_NAMES, RegistrySettings, registry_problems
from tests.support.registry_clients import SECRET

URL = "https://registry:8081"


def test_several_urls_are_tidied() -> None:
    settings = RegistrySettings.of({"url": " https://a:1/ ,http://b/registry/,, HTTP://c "})
    assert settings.urls == ("https://a:1", "http://b/registry", "http://c")
    assert settings.shown == "https://a:1, http://b/registry, http://c"
    assert (settings.user_info, settings.token, settings.tls, settings.authorization()) == (None, None, None, "")


def test_they_can_be_sent_to_tasks() -> None:
    values = {
        "url": URL,
        "basic.auth.user.info": f"alice:{SECRET}",
        "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
        "ssl.keystore.key": SECRET,
        "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----",
    }
    settings = RegistrySettings.of(values, timeout_ms=5)
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert hash(again) == hash(settings)
    assert SECRET not in repr(again)
    assert again.user_info == Secret(f"alice:{SECRET}")


def test_how_long_one_waits_does_not_make_it_another_registry() -> None:
    values = {"url": URL, "bearer.auth.token": SECRET}
    patient, hasty = RegistrySettings.of(values, timeout_ms=9), RegistrySettings.of(values, timeout_ms=1)
    assert patient.identity == hasty.identity != RegistrySettings.of({"url": URL}).identity


def test_placeholders_of_others_are_limited() -> None:
    values = {"url": URL, "bearer.auth.token": "${env:HOME}"}
    assert RegistrySettings.of(values).authorization().startswith("Bearer /")
    asked: list[str] = []

    def allowed(name: str) -> object:
        asked.append(name)
        return NOTHING

    with pytest.raises(SecretError, match=r"metadata\.allow does not have it"):
        RegistrySettings.of(values, allowed).authorization()  # type: ignore[arg-type]
    assert asked == ["bearer.auth.token"]
    assert RegistrySettings.of(values).allowed is EVERYTHING


@pytest.mark.parametrize(
    "values",
    [
        {"url": URL},
        {"url": "http://a, https://b:1/x"},
        {"url": f"https://alice:{SECRET}@registry", "basic.auth.credentials.source": "url"},
        {"url": URL, "basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": f"alice:{SECRET}"},
        {"url": URL, "basic.auth.user.info": "${env:LOGIN}"},
        {"url": URL, "bearer.auth.token": "${file:/token}", "bearer.auth.credentials.source": "STATIC_TOKEN"},
        {"url": URL, "ssl.truststore.location": "/ca.pem", "ssl.endpoint.identification.algorithm": ""},
    ],
)
def test_right_ones(values: dict[str, str]) -> None:
    assert registry_problems(values) == []
    assert set(values) <= SETTING_NAMES
    assert RegistrySettings.of(values).urls


@pytest.mark.parametrize(
    "values, expected",
    [
        ({}, ["schema.registry.url is missing or empty; expected a URL such as https://registry:8081"]),
        ({"url": " , "}, ["schema.registry.url is missing or empty"]),
        ({"url": "${env:URL}"}, ["schema.registry.url has a placeholder; expected URLs as they are"]),
        ({"url": f"registry:8081/{SECRET}"}, ["schema.registry.url has a malformed URL; expected a URL such as"]),
        ({"url": f"ftp://x:{SECRET}@a"}, ["schema.registry.url has ftp://a; expected a URL such as https://host"]),
        ({"url": f"http://a?{SECRET}"}, ["schema.registry.url has http://a?…; expected nothing behind the path"]),
        ({"url": f"http://x:{SECRET}@a,http://b"}, ["url has several URLs with different users; expected one user"]),
        (
            {"url": f"http://x:{SECRET}@a", "basic.auth.user.info": f"y:{SECRET}"},
            ["schema.registry.basic.auth.user.info is given beside a user in the URL; expected one login"],
        ),
        (
            {"url": URL, "basic.auth.user.info": f"y:{SECRET}", "bearer.auth.token": SECRET},
            ["schema.registry.basic.auth.user.info is given beside bearer.auth.token; expected one login"],
        ),
        ({"url": URL, "basic.auth.user.info": SECRET}, ["basic.auth.user.info has no colon; expected user:password"]),
        ({"url": URL, "basic.auth.user.info": f"a:${{vault:{SECRET}}}"}, ["has a placeholder of an unknown kind"]),
        ({"url": URL, "bearer.auth.token": f"{SECRET} x"}, ["bearer.auth.token has characters that no token has"]),
        ({"url": URL, "bearer.auth.token": " "}, ["schema.registry.bearer.auth.token is empty; expected a token"]),
        (
            {"url": URL, "basic.auth.credentials.source": "SASL_INHERIT"},
            ["basic.auth.credentials.source has a value that is not supported; expected URL or USER_INFO"],
        ),
        (
            {"url": URL, "basic.auth.credentials.source": "USER_INFO"},
            ["source is USER_INFO, but there is no schema.registry.basic.auth.user.info; expected it"],
        ),
        (
            {"url": URL, "bearer.auth.credentials.source": "OAUTHBEARER"},
            [
                "source has a value that is not supported; expected STATIC_TOKEN",
                "is given without schema.registry.bearer",
            ],
        ),
        (
            {"url": "http://a", "ssl.truststore.location": "/ca.pem"},
            ["schema.registry.url has no URL that begins with https, but schema.registry.ssl.truststore.location is"],
        ),
        (
            {"url": URL, "ssl.keystore.password": SECRET},
            ["schema.registry.ssl.keystore.password is given without schema.registry.ssl.keystore.location"],
        ),
    ],
)
def test_wrong_ones(values: dict[str, str], expected: list[str]) -> None:
    found = registry_problems(values)
    assert len(found) == len(expected), found
    for problem, part in zip(found, expected, strict=True):
        assert problem.startswith("schema.registry.")
        assert part in problem
        assert SECRET not in problem
        assert "kafka." not in problem
