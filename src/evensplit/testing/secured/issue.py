"""Certificates made on demand, and kept for as long as the cluster's directory is there."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from evensplit.errors import LocalKafkaError
from evensplit.testing.secured.certificates import Certificates


def certificates_in(directory: Path) -> Certificates:
    """The certificates in `directory`, made now unless they are there from an earlier time.

    Raises `LocalKafkaError` without the package `cryptography`, an extra.
    """
    try:
        # Loaded for brokers with TLS alone: the package does without.
        from evensplit.testing.secured import _authority
    except ImportError as error:
        raise LocalKafkaError(
            f"brokers with TLS need the package cryptography: pip install 'evensplit[testing]' ({error})"
        ) from error
    password = directory / "password"
    if not directory.exists():
        draft = Certificates(directory.with_name(f"{directory.name}.draft"), secrets.token_hex(12))
        shutil.rmtree(draft.directory, ignore_errors=True)
        draft.directory.mkdir(mode=0o700, parents=True)
        _authority.fill(draft)
        _authority.write(draft.directory / password.name, draft.password.encode())
        draft.directory.replace(directory)
    return Certificates(directory, password.read_text())
