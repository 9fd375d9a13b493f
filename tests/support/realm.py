"""A Kerberos realm with a real KDC of MIT's, in a directory, for as long as a `with` block lasts."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evensplit.testing.process.ports import HOST, free_ports
from evensplit.testing.secured.certificates import Certificates
from evensplit.testing.secured.security import Secured, of_listener
from tests.support.waiting import wait_for

REALM = "EVENSPLIT.TEST"
SERVICE = "kafka"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "klist")


def lacking() -> str:
    """The programs and packages that this machine lacks for a realm and its client; empty if none."""
    programs = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if programs:
        return f"{', '.join(programs)} (Debian: krb5-kdc, krb5-admin-server, krb5-user)"
    return "" if importlib.util.find_spec("gssapi") else "the Python package gssapi (requirements/kerberos.txt)"


@dataclass(frozen=True)
class Realm:
    """Where it keeps what. `environment`: what programs and libraries have to know to be in this realm."""

    directory: Path
    environment: Mapping[str, str]

    @property
    def config(self) -> Path:
        """krb5.conf"""
        return self.directory / "krb5.conf"

    def keytab(self, principal: str) -> Path:
        """The keytab of a new principal, such as `alice`."""
        path = self.directory / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}@{REALM}")
        self.run("kadmin.local", "-q", f"ktadd -k {path} {principal}@{REALM}")
        return path

    def tickets(self, principal: str, keytab: Path, cache: Path, *options: str) -> None:
        """Put the tickets of a principal into a file, as `kinit` does."""
        self.run("kinit", *options, "-c", f"FILE:{cache}", "-k", "-t", str(keytab), f"{principal}@{REALM}")

    def valid(self, cache: Path) -> bool:
        """Whether there are tickets in a file that have not expired."""
        return self._run("klist", ["-s", "-c", f"FILE:{cache}"]).returncode == 0

    def listed(self, cache: Path) -> str:
        """The tickets in a file, as `klist` writes them."""
        return self.run("klist", "-c", f"FILE:{cache}")

    def run(self, program: str, *arguments: str) -> str:
        """Run one of MIT's programs and return its output; if it fails, so does the test, with that output."""
        done = self._run(program, arguments)
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"
        return done.stdout

    def _run(self, program: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [_found(program), *arguments],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@contextmanager
def realm(directory: Path) -> Iterator[Realm]:
    """A realm whose KDC answers."""
    (port,) = free_ports(1)
    made = Realm(
        directory,
        {"KRB5_CONFIG": str(directory / "krb5.conf"), "KRB5_KDC_PROFILE": str(directory / "kdc.conf")},
    )
    made.config.write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
        " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = {HOST}:{port}\n }}\n[domain_realm]\n {HOST} = {REALM}\n"
    )
    (directory / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = {HOST}:{port}\n kdc_tcp_listen = {HOST}:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {directory / 'principal'}\n"
        f"  key_stash_file = {directory / 'stash'}\n  acl_file = {directory / 'acl'}\n }}\n"
        f"[logging]\n kdc = FILE:{directory / 'kdc.log'}\n"
    )
    made.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of the test")
    with (directory / "kdc.out").open("wb") as output:
        kdc = subprocess.Popen(
            [_found("krb5kdc"), "-n"], env={**os.environ, **made.environment}, stdout=output, stderr=output
        )
    try:
        wait_for(lambda: kdc.poll() is not None or _answers(port), within_s=60, what="a KDC that listens")
        assert kdc.poll() is None, (directory / "kdc.out").read_text()
        yield made
    finally:
        kdc.terminate()
        kdc.wait(30)


@dataclass(frozen=True)
class Kerberized(Secured):
    """Brokers that ask for tickets of a realm, and let users do what rules allow. `keytab`: of `kafka/127.0.0.1`."""

    protocol: str = "SASL_PLAINTEXT"
    # Stands in for GSSAPI, which `LocalKafka` does not know: it needs no users, either.
    mechanisms: Sequence[str] = ("OAUTHBEARER",)
    acls: bool = True
    keytab: Path = Path()

    def properties(self, certificates: Certificates | None) -> dict[str, str]:
        """As of all secured brokers, with GSSAPI in place of the mechanism."""
        module = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{self.keytab}" principal="{SERVICE}/{HOST}@{REALM}";'
        )
        found = {name: value for name, value in super().properties(certificates).items() if "oauth" not in name}
        return {
            **found,
            of_listener("sasl.enabled.mechanisms"): "GSSAPI",
            of_listener("gssapi.sasl.jaas.config"): module,
            of_listener("sasl.kerberos.service.name"): SERVICE,
        }


def _answers(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True


def _path() -> str:
    # Where Debian keeps what serves.
    return f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"


def _found(program: str) -> str:
    found = shutil.which(program, path=_path())
    assert found is not None
    return found
