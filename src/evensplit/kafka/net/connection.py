"""One connection to one broker: requests out, responses in, each within its deadline.

A connection belongs to one thread at a time, and to the process that opened it. Little that the other side sends is
taken on trust: the length of a response is bounded by what was asked, memory grows with what has really arrived, a
response has to carry the number of its request, and is read by code that is bounded too (`wire`). Whatever goes wrong,
the connection is closed, since what would come next is unknown.

Sources: Kafka's protocol guide (framing, correlation ids); KIP-35, KIP-511 (ApiVersions); KIP-368 (sessions that end).
"""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from evensplit.errors import (
    AnswerRefused,
    AuthenticationError,
    BrokerError,
    ClusterError,
    ClusterUnreachable,
    UnsupportedBroker,
)
from evensplit.kafka.auth.tls_socket import reason_of, refused
from evensplit.kafka.cut_off import CutOff
from evensplit.kafka.deadline import POLL_MAX_S, Deadline
from evensplit.kafka.net.network import NETWORK, Network
from evensplit.kafka.net.transport import PROBE_S
from evensplit.kafka.options.client import Address, ClientSettings, join_address
from evensplit.kafka.options.security import Access
from evensplit.kafka.wire.api import API_VERSIONS, FETCH, SASL_HANDSHAKE, Api, Build, Request, software_version
from evensplit.kafka.wire.error_codes import ILLEGAL_SASL_STATE, UNSUPPORTED_VERSION, describe_code
from evensplit.kafka.wire.frames import BODY_BEGIN, HEAD_BYTES, AnswerTooLong, Frame, Sent, describe_length, framed
from evensplit.kafka.wire.primitives import OutOfTime, Undecodable
from evensplit.kafka.wire.requests import write_api_versions, write_sasl_handshake
from evensplit.kafka.wire.responses import ApiVersions

READ_S = 1.0
"""So long it may take to read an answer that has come: that may have been in the last moment of its deadline."""

SESSION_USED = 0.85
"""So much of the time that the broker lets a login hold, a connection is used."""

_LENGTH_BYTES = 4
_GROWTH_BYTES = 1 << 20
_TLS_RECORDS = (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03")
_SPEAKS_TLS = "the listener speaks TLS; set kafka.security.protocol to SSL or SASL_SSL, or use a port without TLS"
_WANTS_SASL = (
    "the listener requires a login; set kafka.security.protocol to SASL_SSL or SASL_PLAINTEXT, and give "
    "kafka.sasl.mechanism and kafka.sasl.jaas.config"
)

_Response = TypeVar("_Response")


class Connection:
    """A connection to `address`, with versions agreed on, and logged in where that is needed.

    `features`: the level of each one that the cluster has agreed on, as far as the broker says (KIP-584).

    Requests are answered in the order in which they were sent, and several may be under way: `send`, `send`,
    `receive`, `receive`. Every method that talks to the broker raises

    - ClusterUnreachable: no connection, none any more, or no answer before the deadline;
    - AnswerRefused, a kind of it: what came cannot be the answer, or is longer than is taken;
    - UnsupportedBroker: what listens there is no Kafka broker, or one without a version of the request that this
      package knows;
    - AuthenticationError: TLS or the login failed, or the listener wants them and they are not in the settings.

    and the connection is then closed. Errors name the cluster and `host:port`.
    """

    def __init__(
        self,
        cluster: str,
        address: Address,
        settings: ClientSettings,
        deadline: Deadline,
        network: Network = NETWORK,
    ) -> None:
        self.cluster = cluster
        self.address = address
        self._where = join_address(address)
        self._client_id = settings.client_id
        self._pid = os.getpid()
        self._network = network
        self._number = 0
        self._sent: deque[Sent] = deque()
        self._scratch = Frame()
        self._versions: Mapping[int, tuple[int, int]] = {}
        self.muted_until = 0.0
        """Before that moment of the network's clock the broker, which throttles this client, reads nothing from it."""
        self._open = True
        self._settings = settings
        self._answered = self._greetings = 0
        self._heard = False
        self._renew_at_s: float | None = None
        access = settings.security.resolve(cluster)
        self._secured, self._logged_in = access.tls is not None, access.sasl is not None
        self._poll = network.poll()
        if access.tls is None:
            self._open_over(network.open(cluster, address, settings, deadline), access, deadline)
        else:
            with CutOff(deadline.at_s) as cut:
                transport = network.open(cluster, address, settings, deadline, (access.tls, cut))
                self._open_over(transport, access, deadline)

    def _open_over(self, transport: socket.socket, access: Access, deadline: Deadline) -> None:
        """Find out what the broker can do, and log in."""
        self._socket = transport
        # Tried first and waited for only then: most of the time the bytes are there, and it is one call instead of two.
        self._socket.setblocking(False)
        self._poll.register(self._socket, 0)
        try:
            self._versions, self.features = self._negotiate(deadline)
            self._greetings = self._answered
            if access.sasl is not None:
                # It loads much, for OAuth and Kerberos too, and many clusters need no login.
                from evensplit.kafka.auth.login import log_in

                begun_s = self._network.clock.now_s()
                ask = partial(self.request, deadline=deadline)
                life_ms = log_in(self.cluster, self.address, access.sasl, ask, deadline)
                self._renew_at_s = begun_s + SESSION_USED * life_ms / 1000 if life_ms > 0 else None
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        """Whether it is open, was opened by this process, owes no response, and its login holds for long enough."""
        return self._open and not self._sent and self._pid == os.getpid() and not self.spent

    @property
    def spent(self) -> bool:
        """Whether its login is about to end: it is not to be used for further requests."""
        return self._renew_at_s is not None and self._network.clock.now_s() >= self._renew_at_s

    def is_quiet(self) -> bool:
        """Whether it is usable, and the other side has neither closed it nor sent anything unasked. Does not wait."""
        if not self.usable:
            return False
        self._poll.modify(self._socket, select.POLLIN)
        if not self._poll.poll(0):
            return not self.has_bytes()
        if not self._secured:
            return False
        try:
            # It may be for TLS alone, as a session ticket or a new key.
            self._socket.recv(1)
        except OSError as error:
            return isinstance(error, ssl.SSLWantReadError)
        return False

    def has_bytes(self) -> bool:
        """Whether there is something to receive that the socket's file descriptor does not tell of any more."""
        return isinstance(self._socket, ssl.SSLSocket) and self._open and self._socket.pending() > 0

    def fileno(self) -> int:
        """The socket's file descriptor, to wait for a response on several connections at once."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket. In a forked process this lets go of its copy; the original goes on."""
        self._open = False
        self._sent.clear()
        self._socket.close()

    def version(self, api: Api[Any], highest: int | None = None) -> int:
        """The highest version of `api` that both sides know, `highest` at most."""
        ours = api.highest if highest is None else min(api.highest, highest)
        theirs = self._versions.get(api.key)
        if theirs is None or theirs[0] > ours or theirs[1] < api.lowest:
            has = "none" if theirs is None else f"{theirs[0]} to {theirs[1]}"
            expected = f"expected some of {api.lowest} to {ours}; Kafka 0.11 and later have them"
            what = f"{self._where}: the broker knows versions of {api.name}: {has}, {expected}"
            raise UnsupportedBroker(self.cluster, what)
        return min(ours, theirs[1])

    def request(self, api: Api[_Response], build: Build, deadline: Deadline) -> _Response:
        """Send one request and return its response. `build` is given the version and writes the request."""
        assert not self._sent, "another response is outstanding"
        self.send(api, build, deadline)
        found: _Response = self.receive(deadline)
        return found

    def send(
        self,
        api: Api[Any],
        build: Build,
        deadline: Deadline,
        *,
        highest: int | None = None,
        answer_bytes_max: int | None = None,
    ) -> int:
        """Send one request without waiting for its response. Returns the version that it has.

        `answer_bytes_max`: how long the response may be, if not what holds for `api`.
        """
        version = self.version(api, highest)
        self._send(api, version, build(version), deadline, answer_bytes_max)
        return version

    def receive(self, deadline: Deadline) -> Any:
        """Wait for the response to the oldest request that has none yet."""
        expected = self._sent[0]
        length = self.receive_into(self._scratch, deadline)
        limit = deadline.at_least(READ_S)
        # The view has to be gone before the buffer can grow again.
        with memoryview(self._scratch.data) as whole, whole[:length] as frame:
            try:
                return expected.api.decode(frame[BODY_BEGIN:], expected.version, limit)
            except Undecodable as error:
                raise self._nonsense(f"its answer to {expected.api.name} cannot be decoded ({error})") from None
            except OutOfTime:
                raise self._failed(f"its answer to {expected.api.name} was too long to be read in time") from None

    def receive_into(self, frame: Frame, deadline: Deadline) -> int:
        """Wait for the oldest outstanding response and leave it, undecoded, at the beginning of `frame.data`.

        No view of `frame.data` may be held meanwhile. Returns its length; from BODY_BEGIN on it is the response
        without the number. Raises AnswerTooLong for one that is longer than its request allows.
        """
        expected = self._sent[0]
        what = expected.api.name
        prefix = bytearray(_LENGTH_BYTES)
        with memoryview(prefix) as view:
            self._receive_exactly(view, what, deadline)
        length = int.from_bytes(prefix, "big", signed=True)
        if not self._versions and prefix[:2] in _TLS_RECORDS:
            self.close()
            raise AuthenticationError(self.cluster, f"{self._where}: {_SPEAKS_TLS}")
        if not BODY_BEGIN <= length <= expected.answer_bytes_max:
            described = describe_length(bytes(prefix), length, expected)
            if length < BODY_BEGIN or expected.api is not FETCH:
                raise self._nonsense(described)
            self._fill(frame, min(length, HEAD_BYTES), what, deadline)
            self._check_number(frame, expected)
            self.close()
            raise AnswerTooLong(self.cluster, f"{self._where}: {described}", min(length, HEAD_BYTES))
        self._fill(frame, length, what, deadline)
        self._check_number(frame, expected)
        self._sent.popleft()
        self._answered += 1
        return length

    def _check_number(self, frame: Frame, expected: Sent) -> None:
        number = int.from_bytes(frame.data[:BODY_BEGIN], "big", signed=True)
        if number != expected.number:
            raise self._nonsense(f"it answered {expected.api.name} number {expected.number} with number {number}")

    def _fill(self, frame: Frame, length: int, what: str, deadline: Deadline) -> None:
        """Receive `length` bytes. The buffer grows as they arrive."""
        received = 0
        while received < length:
            if received == len(frame.data):
                frame.data.extend(bytes(min(length, max(2 * received, _GROWTH_BYTES)) - received))
            end = min(length, len(frame.data))
            with memoryview(frame.data) as whole, whole[received:end] as view:
                self._receive_exactly(view, what, deadline)
            received = end

    def _negotiate(self, deadline: Deadline) -> tuple[Mapping[int, tuple[int, int]], Mapping[str, int]]:
        """Ask which requests the broker supports. If this version is unknown to it, it answers in version 0."""
        for version in (API_VERSIONS.highest, API_VERSIONS.lowest):
            self._send(API_VERSIONS, version, write_api_versions("evensplit", software_version(), version), deadline)
            response: ApiVersions = self.receive(deadline)
            if response.error_code != UNSUPPORTED_VERSION:
                break
        if code := response.error_code:
            what = f"{self._where}: the broker refused ApiVersions: {describe_code(code)}"
            raise BrokerError(self.cluster, what, code)
        return response.versions, response.features

    def _send(
        self, api: Api[Any], version: int, request: Request, deadline: Deadline, answer_bytes_max: int | None = None
    ) -> None:
        self._number = (self._number + 1) & 0x7FFFFFFF
        try:
            for piece in framed(api, version, self._number, self._client_id, request):
                self._send_all(piece, deadline)
        except TimeoutError:
            raise self._failed(f"{api.name} could not be sent in time") from None
        except OSError as error:
            raise self._broken(error, f"the connection broke while {api.name} was sent", api.name, deadline) from error
        except BaseException:
            self.close()
            raise
        bytes_max = api.answer_bytes_max if answer_bytes_max is None else answer_bytes_max
        self._sent.append(Sent(self._number, api, version, bytes_max))

    def _send_all(self, view: memoryview, deadline: Deadline) -> None:
        sent = 0
        while sent < len(view):
            try:
                sent += self._socket.send(view[sent:])
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(select.POLLOUT, deadline, deadline)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, deadline, deadline)

    def _receive_exactly(self, view: memoryview, what: str, deadline: Deadline) -> None:
        """Fill `view` from the socket, whatever the number of pieces that it comes in."""
        received = 0
        limit = deadline.at_least(READ_S)
        try:
            while received < len(view):
                try:
                    # Let go of at once: an error of TLS has a traceback that would keep it, and the buffer, as it is.
                    with view[received:] as rest:
                        size = self._socket.recv_into(rest)
                except (BlockingIOError, ssl.SSLWantReadError):
                    self._wait(select.POLLIN, deadline, limit)
                    continue
                except ssl.SSLWantWriteError:
                    self._wait(select.POLLOUT, deadline, limit)
                    continue
                if not size:
                    raise self._hung_up(f"it closed the connection instead of answering {what}", what, deadline)
                received += size
                self._heard = True
                # A response that trickles in byte by byte must not hold this up for ever.
                if received < len(view) and limit.passed:
                    raise TimeoutError
        except TimeoutError:
            raise self._failed(
                f"connected, but no complete answer to {what} in time, as from a broker that is stopped or overloaded"
            ) from None
        except OSError as error:
            raise self._broken(error, f"the connection broke before {what} was answered", what, deadline) from error
        except BaseException:
            self.close()
            raise

    def _wait(self, event: int, deadline: Deadline, limit: Deadline) -> None:
        """Wait until the socket can go on. Raises TimeoutError at the deadline, and at the limit even if it can."""
        self._poll.modify(self._socket, event)
        ready = self._poll.poll(min(deadline.remaining_s, POLL_MAX_S) * 1000)
        if limit.passed or (not ready and deadline.passed):
            raise TimeoutError

    def _broken(self, error: OSError, what: str, asked: str, deadline: Deadline) -> ClusterError:
        """Tell what an error of the socket means. The other side may have sent the reason before it closed."""
        if self._secured and not isinstance(error, ssl.SSLError):
            try:
                self._socket.recv(1)
            except OSError as said:
                error = said if isinstance(said, ssl.SSLError) else error
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            if self._heard:
                # Both sides were content with each other, so it is damage.
                return self._failed(f"TLS broke: {reason_of(error)}")
            self.close()
            return refused(self.cluster, self.address, error)
        return self._hung_up(f"{what}: {error.strerror or error}", asked, deadline)

    def _hung_up(self, what: str, asked: str, deadline: Deadline) -> ClusterError:
        """The other side closed the connection. A broker does that, without a word, to those who do not keep to its
        rules, so whether these are others is found out by a connection that keeps to them."""
        self.close()
        deadline = deadline.within(PROBE_S)
        if not self._heard and not self._secured and self._network.speaks_tls(self.address, deadline):
            return AuthenticationError(self.cluster, f"{self._where}: {_SPEAKS_TLS}")
        first = self._answered == self._greetings > 0
        if first and not self._logged_in and asked != SASL_HANDSHAKE.name and self._wants_sasl(deadline):
            return AuthenticationError(self.cluster, f"{self._where}: {_WANTS_SASL}")
        return self._failed(what)

    def _wants_sasl(self, deadline: Deadline) -> bool:
        try:
            other = Connection(self.cluster, self.address, self._settings, deadline, self._network)
        except ClusterError:
            return False
        try:
            code = other.request(SASL_HANDSHAKE, partial(write_sasl_handshake, ""), deadline).error_code
        except ClusterError:
            return False
        finally:
            other.close()
        return int(code) != ILLEGAL_SASL_STATE

    def _failed(self, what: str) -> ClusterUnreachable:
        self.close()
        return ClusterUnreachable(self.cluster, f"{self._where}: {what}")

    def _nonsense(self, what: str) -> ClusterError:
        """From a stranger it means that this is no broker; from a broker, that the connection is damaged."""
        stranger = not self._versions
        self.close()
        if stranger:
            expected = "expected a listener that speaks Kafka's protocol"
            return UnsupportedBroker(self.cluster, f"{self._where}: {what}; {expected}")
        return AnswerRefused(self.cluster, f"{self._where}: {what}; the connection was damaged on the way")
