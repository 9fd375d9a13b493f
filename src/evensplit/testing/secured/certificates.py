"""The certificates of a `LocalKafka` with TLS, in every form in which clients want them.

Keys, certificates, PEM and PKCS12 come from the package `cryptography`, in about a tenth of a second: Java's keytool
would take a JVM for each of some twenty steps. JKS, which only Java writes, is converted by that keytool when somebody
asks for it.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.java import find_java

BROKER_CERTIFICATES = ("valid", "renewed", "expired", "other-host")
CONVERSION_TIMEOUT_S = 60.0
# Keytool takes passwords from the environment, which other users of the machine cannot see.
PASSWORD_VARIABLE = "EVENSPLIT_STORE_PASSWORD"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files for the clients of a `LocalKafka` with TLS, as `kafka.certificates` gives them.

    `password` opens every store and every encrypted key. Files with keys can be read by their owner alone. All of
    it goes when the cluster's directory goes.
    """

    directory: Path
    password: str = field(repr=False)

    @property
    def ca(self) -> Path:
        """The CA that the brokers' and the clients' certificates are from; a truststore in PEM."""
        return self.directory / "ca.pem"

    @property
    def truststore_pkcs12(self) -> Path:
        return self.directory / "truststore.p12"

    @property
    def truststore_jks(self) -> Path:
        """Made when it is first asked for, in about a second."""
        return self._converted(self.truststore_pkcs12)

    @property
    def client_certificate(self) -> Path:
        """A client's certificate, common name `client`, in PEM."""
        return self.directory / "client.crt"

    @property
    def client_key(self) -> Path:
        """The key of `client_certificate`: PKCS#8 in PEM, not encrypted."""
        return self.directory / "client.key"

    @property
    def client_key_encrypted(self) -> Path:
        """The same key, encrypted with `password`."""
        return self.directory / "client-encrypted.key"

    @property
    def client_pem(self) -> Path:
        """Key and certificate in one file, as `ssl.keystore.location` wants them in PEM."""
        return self.directory / "client.pem"

    @property
    def client_pem_encrypted(self) -> Path:
        """The same with the encrypted key."""
        return self.directory / "client-encrypted.pem"

    @property
    def client_pkcs12(self) -> Path:
        return self.directory / "client.p12"

    @property
    def client_jks(self) -> Path:
        """Made when it is first asked for, in about a second."""
        return self._converted(self.client_pkcs12)

    @property
    def other_ca(self) -> Path:
        """A CA that no broker trusts, and that has signed no broker's certificate."""
        return self.directory / "other-ca.pem"

    @property
    def other_client_certificate(self) -> Path:
        """A client's certificate from `other_ca`, common name `client` as well."""
        return self.directory / "other-client.crt"

    @property
    def other_client_key(self) -> Path:
        return self.directory / "other-client.key"

    @property
    def other_client_pem(self) -> Path:
        return self.directory / "other-client.pem"

    def broker_pem(self, which: str) -> Path:
        """Key and certificate of the brokers: "valid", "renewed", "expired" or "other-host"."""
        return self.directory / f"broker-{which}.pem"

    def _converted(self, source: Path) -> Path:
        """The JKS form of a PKCS12 store."""
        target = source.with_suffix(".jks")
        if target.exists():
            return target
        draft = target.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        stores = ["-srckeystore", str(source), "-srcstoretype", "PKCS12", "-destkeystore", str(draft)]
        passwords = ["-srcstorepass:env", PASSWORD_VARIABLE, "-deststorepass:env", PASSWORD_VARIABLE]
        keytool = [str(find_java().path), "-XX:TieredStopAtLevel=1", "sun.security.tools.keytool.Main"]
        try:
            said = subprocess.run(
                [*keytool, "-importkeystore", "-noprompt", *stores, "-deststoretype", "JKS", *passwords],
                capture_output=True,
                text=True,
                timeout=CONVERSION_TIMEOUT_S,
                check=False,
                env={**os.environ, PASSWORD_VARIABLE: self.password},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LocalKafkaError(f"Java's keytool could not make {target} from {source}: {error}") from error
        if said.returncode != 0:
            reason = (said.stdout + said.stderr).strip()
            raise LocalKafkaError(f"Java's keytool ended with {said.returncode} and made no {target}: {reason}")
        draft.chmod(0o600)
        draft.replace(target)
        return target
