"""Errors of Kafka clusters: away, refusing, too old, or not who they should be."""

from __future__ import annotations

from collections.abc import Sequence

from evensplit.errors.base import EvenSplitError


class ClusterError(EvenSplitError):
    """A cluster did not do what it was asked."""

    id = "ES-200"
    cause = (
        "For longer than `unreachableTimeout`, a cluster was away, or some of its partitions could not be read (no "
        "leader, access withdrawn, brokers that disagree). Or the bootstrap servers lead to another Kafka cluster "
        "than the one that the checkpoint's positions belong to. Or two cluster names lead to the same Kafka cluster."
    )
    cure = (
        "Bring the cluster or the leaders back, grant Describe and Read on the topic, raise `unreachableTimeout`, or "
        "correct `kafka.bootstrap.servers`. If it really is another cluster, give it another name in `clusters` or "
        "`metadata`. Name each cluster once. Where brokers disagree, the message says what each of them has: find the "
        "one that lags."
    )
    cluster: str
    """Its name in the options or the metadata."""

    detail: str
    """What happened, where and what to do, in one sentence or several."""

    def __init__(self, cluster: str, detail: str) -> None:
        self.cluster = cluster
        self.detail = detail
        super().__init__(cluster, detail)

    def __str__(self) -> str:
        return f"cluster {self.cluster!r}: {self.detail}"


class ClusterUnreachable(ClusterError):
    """No broker of the cluster answered within the deadline."""

    id = "ES-201"
    cause = (
        "No broker of a cluster answered in time: a wrong address, a firewall, brokers that are down, or an advertised "
        "address that the driver or an executor cannot reach. Or records seem to be gone, and not every broker could "
        "be asked about them. Or every broker answers with older metadata than was seen before."
    )
    cure = (
        "Make every broker's advertised address reachable from the driver and all executors. The message has each "
        "address that was tried, and how it failed. If the cluster's metadata was restored from a backup, restart the "
        "query."
    )


class BrokerError(ClusterError):
    """A broker answered with a Kafka error code."""

    id = "ES-202"
    cause = "A broker answered with one of Kafka's error codes. Most often, a permission is missing."
    cure = (
        "Grant Describe and Read on the topic for `…_AUTHORIZATION_FAILED`, and Read on the group for `commitGroup`. "
        "For other codes, see the message: it has the code's name and the request."
    )
    code: int
    """Kafka's number for the error."""

    def __init__(self, cluster: str, detail: str, code: int) -> None:
        super().__init__(cluster, detail)
        self.code = code
        self.args = (cluster, detail, code)


class CommitRefused(BrokerError):
    """The group coordinator refused some offsets of a commit, and committed all others."""

    id = "ES-203"
    cause = (
        "The group coordinator committed some offsets of a consumer group and refused others. The query goes on: it "
        "logs this, and commits again with the next batch."
    )
    cure = "Grant Read on the topics that the message names, or see whether they were deleted."
    refused: tuple[tuple[str, int], ...]
    """Topic and partition of each refused offset."""

    def __init__(self, cluster: str, detail: str, code: int, refused: Sequence[tuple[str, int]]) -> None:
        super().__init__(cluster, detail, code)
        self.refused = tuple(refused)
        self.args = (cluster, detail, code, self.refused)


class UnsupportedBroker(ClusterError):
    """The broker supports no version of a request that this package can use, or it is not a Kafka broker."""

    id = "ES-204"
    cause = "The address belongs to something other than a Kafka broker, or to a broker older than Kafka 2.1."
    cure = "Correct host and port, or upgrade the brokers. The message says what answered."


class AuthenticationError(ClusterError):
    """Client and broker could not authenticate each other with TLS or SASL. The request is not sent again.

    The message contains no secret.
    """

    id = "ES-205"
    cause = (
        "A login was refused; a certificate is untrusted, expired or for another host; a key file cannot be read; "
        "`${env:…}` or `${file:…}` names something that does not exist here; or only one side speaks TLS."
    )
    cure = "Correct the setting that the message names. [Security](../howto/security.md) has all of them."


class AnswerRefused(ClusterUnreachable):
    """A broker sent something that cannot be the response to the request, or that is longer than allowed."""

    id = "ES-206"
    cause = (
        "A broker's response is longer than such a response can be, or its lengths and counts do not fit the bytes "
        "received. The connection was closed, nothing of the response was used, and the request was repeated until "
        "its deadline."
    )
    cure = (
        "Check what listens at the address in the message, and what lies between it and this machine. If a response "
        "to Fetch is too long, raise `maxBatchBytes`."
    )
