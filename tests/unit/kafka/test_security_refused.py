"""Options of TLS and SASL that are wrong: all of them are told at once, and no value."""

from __future__ import annotations

import pytest

from evensplit.kafka.options.sasl import MODULES
from tests.support.client_options import KERBEROS, LOGIN, OAUTH, OAUTH_MODULE, SCRAM, TOKENS, TOKENS_MODULE, problems

FILE_RETRIEVER = "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever"


@pytest.mark.parametrize(
    "values, said",
    [
        ({"security.protocol": "SENTINEL"}, ["security.protocol has an unknown value; expected PLAINTEXT, SSL,"]),
        (
            {"sasl.mechanism": "PLAIN", "ssl.truststore.location": "/t"},
            [
                "sasl.mechanism is given, but kafka.security.protocol is PLAINTEXT, its default; expected SASL_SSL or",
                "ssl.truststore.location is given, but kafka.security.protocol is PLAINTEXT, its default; expected SSL",
            ],
        ),
        ({**LOGIN, "security.protocol": "SSL"}, ["sasl.jaas.config is given, but", "sasl.mechanism is given, but"]),
        ({**LOGIN, "sasl.mechanism": "SENTINEL"}, ["sasl.mechanism has an unknown value; expected PLAIN, SCRAM-"]),
        (
            {**LOGIN, "sasl.mechanism": "PLAIN"},
            ["sasl.jaas.config has ScramLoginModule, but kafka.sasl.mechanism is PLAIN; expected PlainLoginModule"],
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.jaas.config": SCRAM},
            [
                "sasl.jaas.config has ScramLoginModule, but kafka.sasl.mechanism is GSSAPI, its default; expected "
                "kafka.sasl.mechanism SCRAM-SHA-256 or SCRAM-SHA-512, or Krb5LoginModule"
            ],
        ),
        ({**LOGIN, "sasl.jaas.config": "SENTINEL required;"}, ["sasl.jaas.config has an unknown login module, but"]),
        ({**LOGIN, "sasl.jaas.config": 'M required a="SENTINEL'}, ["sasl.jaas.config at character 14: a quoted text"]),
        (
            {**LOGIN, "sasl.jaas.config": 'ScramLoginModule required user="SENTINEL";'},
            ["sasl.jaas.config has no username and no password; expected ScramLoginModule required username="],
        ),
        (
            {**LOGIN, "sasl.jaas.config": 'ScramLoginModule required username="SENTINEL" password="";'},
            ["sasl.jaas.config has no password; expected"],
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, ["sasl.jaas.config is missing; expected Plain"]),
        (OAUTH, ["sasl.oauthbearer.token.endpoint.url is missing, which says where tokens come from"]),
        (
            {
                **OAUTH,
                "sasl.oauthbearer.token.endpoint.url": "ftp://SENTINEL",
                "sasl.oauthbearer.header.urlencode": "x",
            },
            [
                "sasl.oauthbearer.header.urlencode has an unknown value; expected true or false",
                "sasl.oauthbearer.token.endpoint.url is no URL of https, http or file",
                "sasl.oauthbearer.client.credentials.client.id is missing; expected it, or clientId in",
                "sasl.oauthbearer.client.credentials.client.secret is missing; expected it, or clientSecret in",
            ],
        ),
        (
            {**LOGIN, "sasl.oauthbearer.scope": "SENTINEL"},
            ["sasl.oauthbearer.scope is given, but kafka.sasl.mechanism is SCRAM-SHA-512; expected OAUTHBEARER"],
        ),
        (
            {
                **OAUTH,
                "sasl.oauthbearer.token.endpoint.url": "file:///run/token",
                "sasl.jaas.config": f'{OAUTH_MODULE} ssl.truststore.type="BKS" ssl.truststore.location="/t";',
            },
            ["sasl.jaas.config: ssl.truststore.type has an unknown value; expected PEM, PKCS12, JKS"],
        ),
        (
            {"security.protocol": "SASL_SSL"},
            [
                "sasl.mechanism is missing, and Kafka's default is GSSAPI (Kerberos), for which "
                "kafka.sasl.kerberos.service.name is missing, too; expected kafka.sasl.mechanism PLAIN, SCRAM-SHA-256, "
                "SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM, or for Kerberos the name that brokers have there, such as "
                "kafka"
            ],
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
            ["sasl.kerberos.service.name is missing; expected the name that brokers have in Kerberos, such as kafka"],
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "kafka", "sasl.oauthbearer.scope": "a"},
            ["sasl.oauthbearer.scope is given, but kafka.sasl.mechanism is GSSAPI, its default; expected OAUTHBEARER"],
        ),
        (
            {**KERBEROS, "sasl.jaas.config": 'Krb5LoginModule required useKeyTab=false keyTab="/a" principal="me";'},
            ["sasl.jaas.config has keyTab without useKeyTab=true; expected both"],
        ),
        (
            {**KERBEROS, "sasl.jaas.config": 'Krb5LoginModule required ticketCache="/a";'},
            ["sasl.jaas.config has ticketCache without useTicketCache=true; expected both"],
        ),
        (
            {**KERBEROS, "sasl.jaas.config": "Krb5LoginModule required useTicketCache=false;"},
            ["sasl.jaas.config has useTicketCache=false, and no useKeyTab=true; expected one of them"],
        ),
        (
            {**KERBEROS, "sasl.jaas.config": 'Krb5LoginModule required useKeyTab=true keyTab="/a";'},
            ["sasl.jaas.config has useKeyTab without keyTab and principal"],
        ),
        (
            {
                **KERBEROS,
                "sasl.jaas.config": (
                    'Krb5LoginModule required useKeyTab=true keyTab="/a" principal="*" isInitiator=false '
                    'useKeytab=SENTINEL credsType="x" debug=SENTINEL;'
                ),
            },
            [
                "sasl.jaas.config has useKeytab, credsType, which Krb5LoginModule does not know",
                "sasl.jaas.config has debug with an unknown value; expected true or false",
                "sasl.jaas.config has isInitiator=false, which is for brokers",
                'sasl.jaas.config has principal="*", which is for brokers; expected the name',
            ],
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.jaas.config": 'IAMLoginModule required awsProfileName="SENTINEL";',
            },
            ["sasl.mechanism is AWS_MSK_IAM; expected", "sasl.jaas.config has awsProfileName, which this client does"],
        ),
        (
            {**LOGIN, "sasl.login.callback.handler.class": "com.example.SENTINEL"},
            [
                "sasl.login.callback.handler.class names a class that is Java, and that this client does not know; ex",
                "sasl.login.callback.handler.class is given, but kafka.sasl.mechanism is SCRAM-SHA-512; expected OAUT",
            ],
        ),
        ({**LOGIN, "sasl.login.class": "com.SENTINEL"}, ["sasl.login.class is given, but such a class is Java"]),
        (
            {**LOGIN, "ssl.engine.factory.class": "com.SENTINEL"},
            ["ssl.engine.factory.class is given, but such a class is Java"],
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/t", "ssl.truststore.certificates": "SENTINEL"},
            ["ssl.truststore.location and kafka.ssl.truststore.certificates are both given; expected one of them"],
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.password": "SENTINEL", "ssl.keystore.password": "SENTINEL"},
            [
                "ssl.truststore.password is given without kafka.ssl.truststore.location",
                "ssl.keystore.password is given without kafka.ssl.keystore.location",
            ],
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.key": "SENTINEL", "ssl.keystore.type": "JKS"},
            [
                "ssl.keystore.key is given, but kafka.ssl.keystore.type is JKS; expected PEM, or a location",
                "ssl.keystore.key is given without kafka.ssl.keystore.certificate.chain; expected both",
            ],
        ),
        ({"security.protocol": "SSL", "ssl.key.password": "SENTINEL"}, ["ssl.key.password is given without"]),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "BKS", "ssl.truststore.location": " "},
            ["ssl.truststore.type has an unknown value; expected PEM, PKCS12", "ssl.truststore.location is empty"],
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "LDAPS"},
            ["ssl.endpoint.identification.algorithm has an unknown value; expected https, or nothing"],
        ),
        ({"security.protocol": "SSL", "ssl.protocol": "TLSv1.1"}, ["ssl.protocol has a value that is unknown, or not"]),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, ["ssl.enabled.protocols has a value"]),
        (
            {"security.protocol": "SSL", "ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.3"},
            ["ssl.protocol is TLSv1.2, but kafka.ssl.enabled.protocols does not have it"],
        ),
        (
            {"security.protocol": "SSL", "ssl.cipher.suites": "A,B"},
            ["ssl.cipher.suites has 2 suites that are not known"],
        ),
        (
            {"security.protocol": "SSL", "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"},
            ["ssl.cipher.suites has some suites of TLS 1.3 and not others"],
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.protocol": "TLSv1.2",
                "ssl.cipher.suites": ("TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"),
            },
            ["ssl.cipher.suites has suites of TLS 1.3 alone, but kafka.ssl.protocol is TLSv1.2; expected some of"],
        ),
        (
            {**TOKENS, "sasl.jaas.config": f"{TOKENS_MODULE};", "sasl.oauthbearer.jwt.retriever.class": FILE_RETRIEVER},
            ["sasl.oauthbearer.jwt.retriever.class is FileJwtRetriever, but kafka.sasl.oauthbearer.token.endpoint."],
        ),
        (
            {
                **TOKENS,
                "sasl.oauthbearer.token.endpoint.url": "file:///SENTINEL",
                "sasl.oauthbearer.jwt.retriever.class": "a.ClientCredentialsJwtRetriever",
            },
            ["sasl.oauthbearer.jwt.retriever.class is ClientCredentialsJwtRetriever, but"],
        ),
        (
            {
                **TOKENS,
                "sasl.jaas.config": f"{TOKENS_MODULE};",
                "sasl.login.callback.handler.class": "a.OAuthBearerUnsecuredLoginCallbackHandler",
            },
            ["sasl.login.callback.handler.class is OAuthBearerUnsecuredLoginCallbackHandler, but kafka.sasl.oauthbear"],
        ),
        (
            {
                **LOGIN,
                "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
                "sasl.login.callback.handler.class": "a.OAuthBearerLoginCallbackHandler",
                "sasl.kerberos.service.name": "SENTINEL",
            },
            [
                "sasl.client.callback.handler.class is given, but kafka.sasl.mechanism is SCRAM-SHA-512; expected AWS",
                "sasl.login.callback.handler.class is given, but kafka.sasl.mechanism is SCRAM-SHA-512; expected OAUT",
                "sasl.kerberos.service.name is given, but kafka.sasl.mechanism is SCRAM-SHA-512; expected GSSAPI",
            ],
        ),
        (
            {**LOGIN, "ssl.truststore.location": "${vault:SENTINEL}"},
            ["ssl.truststore.location has a placeholder of an unknown kind; expected ${env:NAME}, ${file:PATH} or"],
        ),
    ],
)
def test_what_is_wrong_is_told_all_at_once_and_without_a_value(values: dict[str, str], said: list[str]) -> None:
    found = problems(values)
    assert len(found) == len(said)
    for start in said:
        assert any(problem.startswith(f"kafka.{start}") for problem in found), (start, found)


@pytest.mark.parametrize("mechanism", MODULES)
def test_every_login_module_fits_its_own_mechanism_alone(mechanism: str) -> None:
    for other, module in MODULES.items():
        found = problems({**LOGIN, "sasl.mechanism": mechanism, "sasl.jaas.config": f"{module} required;"})
        assert any("has " + module in problem for problem in found) == (MODULES[other] != MODULES[mechanism])


@pytest.mark.parametrize(
    "values, said",
    [
        (
            {"security.protocol": "tls"},
            "protocol has an unknown value; expected PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; did you mean SSL?",
        ),
        ({"security.protocol": "SASL"}, "did you mean SASL_PLAINTEXT or SASL_SSL?"),
        ({"security.protocol": "x"}, "has an unknown value; expected PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (
            {**LOGIN, "sasl.mechanism": "SCRAM"},
            "sasl.mechanism has an unknown value; expected PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI, "
            "AWS_MSK_IAM; did you mean SCRAM-SHA-256 or SCRAM-SHA-512?",
        ),
        ({**LOGIN, "sasl.mechanism": "scram_sha512"}, "; did you mean SCRAM-SHA-512?"),
        ({**LOGIN, "sasl.mechanism": "Kerberos"}, "; did you mean GSSAPI?"),
    ],
)
def test_a_protocol_or_a_mechanism_that_there_is_not_with_the_nearest_ones(values: dict[str, str], said: str) -> None:
    """The value itself is not shown: it may be a password."""
    (found,) = problems(values)
    assert found.endswith(said)
