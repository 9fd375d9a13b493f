"""TLS over a connected socket: whom to trust, with which certificate of one's own, and what went wrong.

Chains of certificates are always verified; host names are unless `ssl.endpoint.identification.algorithm` is empty. As
in Java, every certificate that stands alone in a truststore is an anchor, also one that others have signed.
"""

from __future__ import annotations

import re
import secrets
import select
import socket
import ssl
import tempfile
from pathlib import Path

from evensplit.errors import AuthenticationError, ClusterUnreachable
from evensplit.kafka.auth.keystores import KeyChain, read_keys, read_trusted
from evensplit.kafka.cut_off import CutOff
from evensplit.kafka.deadline import POLL_MAX_S, Deadline
from evensplit.kafka.options.client import Address, join_address
from evensplit.kafka.options.secrets import SecretError
from evensplit.kafka.options.tls import TlsOptions

_ADVICE_TRUST = (
    "give the certificate of the authority that signed the broker's as kafka.ssl.truststore.location or "
    "kafka.ssl.truststore.certificates"
)
_ADVICE_OWN = "check kafka.ssl.keystore.*, and that the brokers trust who signed it"

# OpenSSL's numbers (x509_vfy.h).
_NOT_YET_VALID, _EXPIRED, _REVOKED = 9, 10, 23
_HOST_MISMATCH = (62, 63, 64)

_ALERTS: tuple[tuple[str, str], ...] = (
    ("CERTIFICATE_REQUIRED", "the broker asks for a client certificate; give kafka.ssl.keystore.*"),
    ("CERTIFICATE_EXPIRED", f"the broker refused the client certificate, which has expired; {_ADVICE_OWN}"),
    ("CERTIFICATE_REVOKED", f"the broker refused the client certificate, which was revoked; {_ADVICE_OWN}"),
    ("UNKNOWN_CA", f"the broker does not trust who signed the client certificate; {_ADVICE_OWN}"),
    ("ALERT_CERTIFICATE_UNKNOWN", f"the broker does not trust the client certificate; {_ADVICE_OWN}"),
    ("UNSUPPORTED_CERTIFICATE", f"the broker cannot use the client certificate; {_ADVICE_OWN}"),
    ("ACCESS_DENIED", f"the broker refused the client certificate; {_ADVICE_OWN}"),
    ("DECRYPT_ERROR", f"the broker could not verify the client certificate; {_ADVICE_OWN}"),
    (
        "PROTOCOL_VERSION",
        "the broker supports no version of TLS that is allowed here; see kafka.ssl.enabled.protocols and "
        "kafka.ssl.protocol",
    ),
    ("UNSUPPORTED_PROTOCOL", "the broker supports only unsafe versions of TLS; enable TLSv1.2 or TLSv1.3 there"),
    (
        "HANDSHAKE_FAILURE",
        "the broker has no cipher suite in common with this client, or wants a client certificate; see "
        "kafka.ssl.cipher.suites and kafka.ssl.keystore.*",
    ),
    ("NO_SHARED_CIPHER", "the broker has no cipher suite in common with this client; see kafka.ssl.cipher.suites"),
    ("UNRECOGNIZED_NAME", "the broker has no certificate for this host name; check kafka.bootstrap.servers"),
)
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
SPEAKS_NO_TLS = (
    "what listens there does not speak TLS; set kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the "
    "port of a listener with TLS"
)


def tls_context(cluster: str, options: TlsOptions) -> ssl.SSLContext:
    """A context as `options` say. Files are read now.

    Raises:
        AuthenticationError: a store, a certificate or a key cannot be read or used; it names the option and the file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.verify_host
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.minimum_version, context.maximum_version = options.lowest, options.highest
    if options.ciphers:
        context.set_ciphers(options.ciphers)
    try:
        if options.trust is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=b"".join(read_trusted(options.trust)))
        if options.own is not None:
            _load_keys(context, read_keys(options.own))
    except SecretError as error:
        raise AuthenticationError(cluster, str(error)) from None
    except ssl.SSLError as error:
        raise AuthenticationError(
            cluster, f"kafka.ssl.truststore.*: its certificates cannot be used: {reason_of(error)}"
        ) from None
    return context


def _load_keys(context: ssl.SSLContext, keys: KeyChain) -> None:
    """Hand a key to OpenSSL, which reads keys from files only: a file that only this user can read, deleted at once."""
    try:
        wrong = _load_by_file(context, keys)
    except OSError as error:
        raise SecretError(
            f"{keys.where}: OpenSSL takes a key from a file alone, and none can be written where temporary files go "
            f"({error.strerror or error}); set TMPDIR, where this runs, to a directory with space for them"
        ) from None
    if wrong:
        raise SecretError(f"{keys.where}: {wrong}")


def _load_by_file(context: ssl.SSLContext, keys: KeyChain) -> str:
    """Describe what is wrong with the key; empty if it is fine."""
    wrong = ""
    with tempfile.TemporaryDirectory(prefix="evensplit-") as directory:
        path = Path(directory) / secrets.token_hex(8)
        try:
            path.touch(0o600, exist_ok=False)
            path.write_text(f"{keys.key}\n{keys.chain}\n")
            # With None, OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=keys.password.reveal() if keys.password else "")
        except ssl.SSLError as error:
            reason = reason_of(error)
            mismatch = "MISMATCH" in reason or reason == "NO_CERTIFICATE_ASSIGNED"
            wrong = (
                "the key is not the one of the certificate"
                if mismatch
                else f"the key cannot be read; check kafka.ssl.key.password ({reason})"
            )
        except ValueError:
            wrong = "the password of the key is longer than OpenSSL takes"
        finally:
            path.unlink(missing_ok=True)
    return wrong


def start_tls(
    cluster: str,
    address: Address,
    connection: socket.socket,
    context: ssl.SSLContext,
    deadline: Deadline,
    cut: CutOff,
) -> ssl.SSLSocket:
    """Speak TLS from now on. The socket is left non-blocking; whatever goes wrong, the caller closes it.

    `cut`: what ends a handshake that never ends by itself; it watches the socket from now on.

    Raises:
        AuthenticationError: one side does not trust the other one, or they have no version or cipher in common.
        ConnectionError: the other side went away; a listener without TLS may do that.
        TimeoutError: it took too long.
    """
    connection.setblocking(False)
    poll = select.poll()
    poll.register(connection, 0)
    # The dot at the end of a full name is for name servers alone; certificates have none.
    host = address[0].removesuffix(".")
    secured = context.wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)
    try:
        cut.watch(secured)
        _shake_hands(secured, poll, deadline)
        return secured
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
        secured.close()
        if cut.passed:
            raise TimeoutError from None
        raise ConnectionResetError("it closed the connection in the middle of the TLS handshake") from None
    except ssl.SSLError as error:
        secured.close()
        reason = reason_of(error)
        if any(name in reason for name in _NO_TLS):
            raise AuthenticationError(cluster, f"{join_address(address)}: {SPEAKS_NO_TLS} ({reason})") from None
        raise refused(cluster, address, error) from None
    except BaseException:
        secured.close()
        raise


def _shake_hands(secured: ssl.SSLSocket, poll: select.poll, deadline: Deadline) -> None:
    while True:
        event = select.POLLIN
        try:
            secured.do_handshake()
            return
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLWantWriteError:
            event = select.POLLOUT
        poll.modify(secured, event)
        poll.poll(min(deadline.remaining_s, POLL_MAX_S) * 1000)
        if deadline.passed:
            raise TimeoutError


def refused(cluster: str, address: Address, error: ssl.SSLError) -> AuthenticationError | ClusterUnreachable:
    """Tell what an error of TLS before the first response means: mostly that trying again does not help.

    In TLS 1.3 a broker refuses a client's certificate when the handshake is over for the client.
    """
    where, reason = join_address(address), reason_of(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(cluster, f"{where}: {_distrust(address[0], error)}")
    if "BAD_CERTIFICATE" in reason:
        # Java says the same of a certificate that is missing.
        return AuthenticationError(
            cluster,
            f"{where}: the broker asks for a client certificate and got none, or one that it rejects; give "
            f"kafka.ssl.keystore.*, signed by an authority that the brokers trust ({reason})",
        )
    for name, meaning in _ALERTS:
        if name in reason:
            return AuthenticationError(cluster, f"{where}: {meaning} ({reason})")
    return ClusterUnreachable(cluster, f"{where}: TLS broke: {reason}")


def reason_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason, without the line of its source."""
    if error.reason:
        return str(error.reason)
    return re.sub(r"\s*\(_ssl\.c:\d+\)", "", str(error.strerror or error))


def _distrust(host: str, error: ssl.SSLCertVerificationError) -> str:
    code, said = error.verify_code, error.verify_message
    if code == _EXPIRED:
        return f"the certificate of the broker, or of who signed it, has expired; renew it there ({said})"
    if code == _NOT_YET_VALID:
        return f"the certificate of the broker is not valid yet; check the clocks of both sides ({said})"
    if code == _REVOKED:
        return f"the certificate of the broker was revoked; renew it there ({said})"
    if code in _HOST_MISMATCH:
        return (
            f"the certificate of the broker is not for the host {host!r}; use a name that is in it in "
            "kafka.bootstrap.servers and the brokers' advertised.listeners, or have it issued for this name. (An empty "
            f"kafka.ssl.endpoint.identification.algorithm would trust any host with a trusted certificate) ({said})"
        )
    return f"the certificate of the broker is signed by an authority that is not trusted here; {_ADVICE_TRUST} ({said})"
