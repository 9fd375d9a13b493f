"""Certificates for servers and stores of tests, made once for a run."""

from __future__ import annotations

import ssl
from pathlib import Path

from evensplit.testing.secured.certificates import Certificates
from evensplit.testing.secured.issue import certificates_in


def make_certificates(directory: Path) -> Certificates:
    """Certificates as those of a `LocalKafka` with TLS."""
    return certificates_in(directory / "certificates")


def serving(
    certificates: Certificates, which: str = "valid", *, wants_client: bool = False, old: bool = False
) -> ssl.SSLContext:
    """The TLS context of a server. `old`: TLS 1.2 at most."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker_pem(which))
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates.ca)
    if old:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context
