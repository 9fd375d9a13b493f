"""The options of TLS and SASL: what they are understood as, what placeholders stand for, and no secret anywhere."""

from __future__ import annotations

import pickle
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.errors import AuthenticationError, OptionError
from evensplit.kafka.options.client import parse_settings
from evensplit.kafka.options.sasl import MODULES
from evensplit.kafka.options.security import PLAINTEXT, SECURITY_NAMES, SecuritySettings
from evensplit.kafka.options.tls import VERIFY_HOST
from evensplit.spark.options.parse import parse_clusters, parse_options
from tests.support.client_options import (
    KERBEROS,
    LOGIN,
    OAUTH,
    OAUTH_MODULE,
    SCRAM,
    SERVERS,
    TOKENS,
    TOKENS_MODULE,
    understood,
)


@pytest.mark.parametrize(
    "values",
    [
        {"security.protocol": "SSL"},
        {"security.protocol": "sasl_ssl", "sasl.mechanism": "scram-sha-512", "sasl.jaas.config": SCRAM},
        LOGIN,
        {**LOGIN, "sasl.mechanism": "SCRAM-SHA-256", "security.protocol": "SASL_PLAINTEXT"},
        {
            **LOGIN,
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'PlainLoginModule required username="a" password="b";',
        },
        {**OAUTH, "sasl.jaas.config": f'{OAUTH_MODULE} unsecuredLoginStringClaim_sub="alice";'},
        {
            **OAUTH,
            "sasl.jaas.config": f'{OAUTH_MODULE} clientId="a" clientSecret="b" scope="c" extension_logicalCluster="d";',
            "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
            ),
        },
        {
            **OAUTH,
            "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
            "sasl.oauthbearer.client.credentials.client.id": "a",
            "sasl.oauthbearer.client.credentials.client.secret": "b",
        },
        {**OAUTH, "sasl.oauthbearer.token.endpoint.url": "file:///run/token"},
        {"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "kafka"},
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.jaas.config": (
                "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
                'keyTab="/etc/k.keytab" principal="a@B" serviceName="kafka";'
            ),
        },
        {
            **KERBEROS,
            "sasl.jaas.config": (
                "Krb5LoginModule required useKeyTab=${env:ON} keyTab='${env:KEYTAB}' principal='${env:ME}' "
                "useTicketCache=${env:ON} ticketCache='/run/tickets' renewTGT=true doNotPrompt=true;"
            ),
        },
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
            "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        },
        {**LOGIN, "security.protocol": "${env:PROTOCOL}", "sasl.mechanism": "${env:MECHANISM}"},
        {**LOGIN, "sasl.jaas.config": "${file:/run/kafka.properties:jaas}"},
        {**LOGIN, "sasl.jaas.config": "ScramLoginModule required username=${env:U} password='${env:P}';"},
        {"security.protocol": "SSL", "ssl.truststore.location": "/t.jks", "ssl.truststore.password": "${env:P}"},
        {"security.protocol": "SSL", "ssl.keystore.key": "k", "ssl.keystore.certificate.chain": "c"},
        {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1", "ssl.protocol": "TLS"},
    ],
)
def test_what_is_understood(values: dict[str, str]) -> None:
    settings = understood(values)
    assert settings.security != PLAINTEXT
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(pickle.loads(pickle.dumps(settings))) == hash(settings)
    assert understood({**values, "sasl.kerberos.kinit.cmd": "x", "ssl.provider": "y"}) == settings


def test_tls_as_it_is_said() -> None:
    def tls(**values: str) -> object:
        named = {f"ssl.{name.replace('_', '.')}": value for name, value in values.items()}
        options = understood({"security.protocol": "SSL", **named}).security.resolve("east").tls
        assert options is not None
        return options.verify_host, options.lowest, options.highest, options.ciphers

    old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    assert tls() == (True, old, new, "")
    assert tls(endpoint_identification_algorithm="") == (False, old, new, "")
    assert tls(endpoint_identification_algorithm="HTTPS") == (True, old, new, "")
    assert tls(enabled_protocols="TLSv1.3") == (True, new, new, "")
    assert tls(protocol="TLSv1.2") == (True, old, old, "")
    suites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    names = "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305"
    assert tls(cipher_suites=suites) == (True, old, old, names)
    newer = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    assert tls(cipher_suites=f"{newer},{suites}") == (True, old, new, names)


def test_placeholders_are_kept_until_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text('jaas=ScramLoginModule required username="bob" password="from ${env:NOTHING}";\n')
    within = 'ScramLoginModule required username="${env:EVENSPLIT_USER}" password="<${env:EVENSPLIT_PASSWORD}>";'
    for name, value in {"USER": "al,ice", "PASSWORD": 'SENTINEL" x="', "MECHANISM": "SCRAM-SHA-512"}.items():
        monkeypatch.setenv(f"EVENSPLIT_{name}", value)
    settings = understood({**LOGIN, "sasl.jaas.config": within, "sasl.mechanism": "${env:EVENSPLIT_MECHANISM}"})
    before = pickle.dumps(settings)
    sasl = settings.security.resolve("east").sasl
    assert sasl is not None
    assert (sasl.mechanism, sasl.module) == (
        "SCRAM-SHA-512",
        {"username": "al,ice", "password": '<SENTINEL" x=">'},
    )
    assert "SENTINEL" not in repr(sasl)
    assert pickle.dumps(settings) == before
    assert b"SENTINEL" not in before
    whole = understood({**LOGIN, "sasl.jaas.config": f"${{file:{file}:jaas}}"}).security.resolve("east").sasl
    assert whole is not None
    assert whole.module == {"username": "bob", "password": "from ${env:NOTHING}"}


@pytest.mark.parametrize(
    "values, said",
    [
        (
            {**LOGIN, "sasl.jaas.config": "${env:EVENSPLIT_NOT_THERE}"},
            "kafka.sasl.jaas.config: the environment variable 'EVENSPLIT_NOT_THERE' is not set in this process",
        ),
        (
            {**LOGIN, "sasl.jaas.config": 'ScramLoginModule required username="a" password="${file:/no/file}";'},
            "kafka.sasl.jaas.config: the file '/no/file' cannot be read here: No such file or directory",
        ),
        ({**LOGIN, "sasl.mechanism": "${env:EVENSPLIT_SECRET}"}, "kafka.sasl.mechanism has an unknown value; expected"),
        (
            {**LOGIN, "sasl.jaas.config": "${env:EVENSPLIT_SECRET}"},
            "kafka.sasl.jaas.config at its end: expected one of",
        ),
        ({"security.protocol": "${env:EVENSPLIT_SECRET}"}, "kafka.security.protocol has an unknown value"),
        ({**LOGIN, "sasl.jaas.config": "${env:EVENSPLIT_OTHER}"}, "kafka.sasl.jaas.config at its end: expected one of"),
        ({**LOGIN, "sasl.jaas.config": "${env:EVENSPLIT_BYTES}"}, "variable 'EVENSPLIT_BYTES' is no text in UTF-8"),
        (
            {**LOGIN, "sasl.jaas.config": 'ScramLoginModule required username="a" password="${env:EVENSPLIT_NONE}";'},
            "kafka.sasl.jaas.config has no password; expected ScramLoginModule required",
        ),
        (
            {**KERBEROS, "sasl.jaas.config": "Krb5LoginModule required useKeyTab=${env:EVENSPLIT_ON};"},
            "kafka.sasl.jaas.config has useKeyTab without keyTab and principal",
        ),
        (
            {**TOKENS, "sasl.jaas.config": f'{TOKENS_MODULE} ssl.truststore.location="${{env:EVENSPLIT_NONE}}";'},
            "kafka.sasl.jaas.config: ssl.truststore.location is empty; expected a value",
        ),
        (
            {**TOKENS, "sasl.jaas.config": f'{TOKENS_MODULE} {VERIFY_HOST}="${{env:EVENSPLIT_NONE}}";'},
            f"kafka.sasl.jaas.config: {VERIFY_HOST} has a placeholder with an empty value",
        ),
        (
            {**TOKENS, "sasl.jaas.config": f'{TOKENS_MODULE} {VERIFY_HOST}="${{env:EVENSPLIT_SECRET}}";'},
            f"kafka.sasl.jaas.config: {VERIFY_HOST} has an unknown value",
        ),
        (
            {"security.protocol": "SSL", VERIFY_HOST: " ${env:EVENSPLIT_NONE}"},
            f"kafka.{VERIFY_HOST} has a placeholder with an empty value, which would trust any host name",
        ),
    ],
)
def test_what_placeholders_stand_for_is_looked_at_when_it_is_known(
    values: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENSPLIT_SECRET", "SENTINEL")
    monkeypatch.setenv("EVENSPLIT_NONE", "")
    monkeypatch.setenv("EVENSPLIT_ON", "true")
    monkeypatch.setenv("EVENSPLIT_OTHER", "${env:EVENSPLIT_SECRET}")
    monkeypatch.setenv("EVENSPLIT_BYTES", "SENTINEL\udcff")
    with pytest.raises(AuthenticationError) as caught:
        understood(values).security.resolve("east")
    assert said in str(caught.value)
    assert "SENTINEL" not in str(caught.value)


def test_a_cluster_overrides_what_is_outside_and_may_do_without_security() -> None:
    outside = {f"kafka.{name}": value for name, value in LOGIN.items()}
    outside |= {"kafka.ssl.truststore.location": "/ca.pem", "subscribe": "t"}
    own = SCRAM.replace("SENTINEL", "OTHER")
    listed = {
        "a": {"kafka.bootstrap.servers": "a:1"},
        "b": {"kafka.bootstrap.servers": "b:1", "kafka.sasl.jaas.config": own},
        "c": {"kafka.bootstrap.servers": "c:1", "kafka.security.protocol": "PLAINTEXT"},
        "d": {"kafka.bootstrap.servers": "d:1", "kafka.security.protocol": "SSL"},
    }
    clusters, found = parse_clusters(outside, listed)
    assert found == ()
    given_to = {cluster.id: dict(cluster.settings.security.values) for cluster in clusters}
    assert given_to["a"]["sasl.jaas.config"].reveal() == SCRAM
    assert given_to["b"]["sasl.jaas.config"].reveal() == own
    assert given_to["b"]["ssl.truststore.location"].reveal() == "/ca.pem"
    assert given_to["c"] == {}
    assert set(given_to["d"]) == {"security.protocol", "ssl.truststore.location"}
    assert "SENTINEL" not in repr(clusters)
    assert "OTHER" not in repr(clusters)


SECRETS = st.sampled_from(sorted(SECURITY_NAMES - {"ssl.truststore.location", "ssl.keystore.location"}))
AROUND = st.sampled_from(
    [
        "{}",
        " {}",
        "{}=",
        '"{}"',
        'M required a="{}";',
        'ScramLoginModule required username="alice" password="{}";',
        'PlainLoginModule required username="{}" password="{}" {}="{}";',
        "https://a:{}@host/token?x={}",
        "-----BEGIN PRIVATE KEY-----{}-----END PRIVATE KEY-----",
        "TLSv1.2,{}",
        "${{env:EVENSPLIT_SECRET}}",
        "${{{}}}",
    ]
)
PROTOCOLS = st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "${env:EVENSPLIT_PROTOCOL}"])


@given(st.dictionaries(SECRETS, AROUND, max_size=5), PROTOCOLS, st.sampled_from([*MODULES, ""]))
def test_no_secret_is_in_anything_that_can_be_seen(values: dict[str, str], protocol: str, mechanism: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENSPLIT_SECRET", "SENTINEL")
        patch.setenv("EVENSPLIT_PROTOCOL", "SASL_SSL")
        options = {
            name: around.replace("{}", "SENTINEL").replace("{{", "{").replace("}}", "}")
            for name, around in values.items()
        }
        options["security.protocol"] = protocol
        if mechanism:
            options.setdefault("sasl.mechanism", mechanism)
        settings, found, _ = parse_settings({**SERVERS, **options})
        assert "SENTINEL" not in "".join(found)
        assert "SENTINEL" not in repr(settings)
        as_given = {"subscribe": "t", "kafka.bootstrap.servers": "b:1", **{f"kafka.{n}": v for n, v in options.items()}}
        said = ""
        try:
            said = repr(parse_options(as_given))
        except OptionError as error:
            said = f"{error} {error!r}"
        assert "SENTINEL" not in said
        if settings is None:
            return
        written = pickle.dumps(settings)
        assert (b"SENTINEL" in written) == any("SENTINEL" in value for value in options.values())
        said = ""
        try:
            said = repr(settings.security.resolve("east"))
        except AuthenticationError as error:
            said = f"{error} {error!r}"
        assert "SENTINEL" not in said
        assert pickle.dumps(settings) == written


def test_plaintext_is_the_same_however_it_is_said() -> None:
    assert understood({"security.protocol": "plaintext"}) == understood({})
    assert SecuritySettings().resolve("east").tls is None
