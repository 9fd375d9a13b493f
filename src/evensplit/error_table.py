"""What each error means: why it is raised and what to do about it, for the reference and whoever looks an id up.

The ids are those of the classes (`errors.EvenSplitError.id`), and stay with them. A message says more than this: which
cluster, topic, partition, file or option it is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """One error. `name`: its class, in evensplit.errors. `cause`, `cure`: Markdown, whole sentences."""

    id: str
    name: str
    cause: str
    cure: str


MEANINGS: tuple[Meaning, ...] = (
    Meaning(
        "ES-001",
        "EvenSplitError",
        "The root of all errors here. It is not raised itself.",
        "Catch it to catch all of them.",
    ),
    Meaning(
        "ES-100",
        "UserError",
        "The root of what comes from something that was written: options, metadata, cases. It is not raised itself.",
        "Trying again unchanged fails again; change what the message names.",
    ),
    Meaning(
        "ES-101",
        "OptionError",
        "One or more options are missing, unknown, contradictory or not of their form. `load()` finds what the options "
        "alone decide, the start of the query what depends on stream or batch and on the clusters.",
        "The message numbers all problems, each with what was expected and found. Correct all of them; "
        "`evensplit explain NAME` tells the form of one option, and [the list](options.md) has all of them.",
    ),
    Meaning(
        "ES-102",
        "AssignmentInputError",
        "`evensplit.assign` was given splits, readers, eligibility, weights or previous owners that make no sense, "
        "such as no reader, a reader twice, or a weight below 1.",
        "The message names each offender, with what was expected. A split that nobody may read is no error: it is in "
        "`unassigned`.",
    ),
    Meaning(
        "ES-103",
        "CaseError",
        "The file of `evensplit assign` cannot be read: it is no JSON, or something in it has another form.",
        "The message names the case and the field, with what was expected. `evensplit assign --help` shows the form.",
    ),
    Meaning(
        "ES-104",
        "MetadataError",
        "The metadata file or service gives no usable answer: it is not there, says no to the token, takes longer than "
        "`metadataTimeout`, or what it answers cannot be understood. A running query goes on with the last good "
        "answer until `metadataFailureThreshold` answers in a row have failed; at the start, one is enough.",
        "The message names the place, for files with the line. Correct the document, or see that the service answers.",
    ),
    Meaning(
        "ES-105",
        "SubscriptionError",
        "A new query asks for a topic or partition that the cluster does not have, or that the login may not describe, "
        "or for an offset that its log does not have.",
        "Correct the name or the offset, create the topic, or grant Describe on it. To take topics that come later, "
        "use `subscribePattern`; to begin where a log begins now, `failOnDataLoss=false`.",
    ),
    Meaning(
        "ES-106",
        "PortError",
        "The dashboard cannot be served at that host and port: something else listens there, the port is not allowed, "
        "or the host is none of this machine's. `register` makes a warning of it, and the query runs without.",
        "Choose another port, or 0 for one that is free; end what listens there.",
    ),
    Meaning(
        "ES-107",
        "MetadataRefused",
        "The metadata file or service names a thing of the machine that the query runs on: `${env:…}`, `${file:…}`, "
        "the path of a store, a keytab or a token, or the machine's own credentials; or it would have it ask a token "
        "endpoint of its choice, or send a login of the options in another way. Whoever writes metadata chooses the "
        "brokers too, so a host of theirs would get secrets. It is handled as ES-104 is: a running query goes on with "
        "the last good answer until `metadataFailureThreshold` answers in a row have failed.",
        "If whoever writes the metadata may have it, add what the message names to `metadata.allow`, such as "
        "`env:KAFKA_PASSWORD, /etc/kafka/secrets`; else find out who wrote it there. What the options themselves say "
        "is never refused. See [Secrets in metadata](../howto/metadata.md#secrets-in-metadata).",
    ),
    Meaning(
        "ES-200",
        "ClusterError",
        "A cluster was away, or some of its partitions gave nothing although it answered (no leader, access "
        "withdrawn, brokers that disagree), for longer than `unreachableTimeout`; or the bootstrap servers lead to "
        "another Kafka cluster than the one that the positions in the checkpoint are of, or two names to the same one. "
        "Errors with other ids below are kinds of it.",
        "Bring the cluster or the leaders back, grant Describe and Read on the topic, raise `unreachableTimeout`, or "
        "correct `kafka.bootstrap.servers`. For a cluster that is really another one, give it another id in "
        "`clusters` or `metadata`; name one cluster once. Where brokers disagree about a topic or its leaders, the "
        "message says what they say: see which of them lags behind.",
    ),
    Meaning(
        "ES-201",
        "ClusterUnreachable",
        "No broker of a cluster answered in time: a wrong address, a firewall, brokers that are down, or an advertised "
        "address that cannot be reached from the driver or an executor. Or records seem to be gone, or were read from "
        "brokers before Kafka 3.1, and not every broker could be asked about them; or all that brokers say is older "
        "than what was known before.",
        "The message has each address that was tried and what came of it. Every broker's advertised address has to be "
        "reachable from the driver and from all executors. If the metadata of the cluster was restored from a backup, "
        "start the query again.",
    ),
    Meaning(
        "ES-202",
        "BrokerError",
        "A broker answered with one of Kafka's error codes; most often a right is missing.",
        "The message has the code's name and what was asked. For `…_AUTHORIZATION_FAILED`, grant Describe and Read on "
        "the topic, and Read on the group for `commitGroup`.",
    ),
    Meaning(
        "ES-203",
        "CommitRefused",
        "A broker took some positions of a commit to a consumer group and refused others. A query does not fail by it: "
        "it is logged, and tried again with the next batch.",
        "The message names the partitions and the code; mostly it is a right on a topic, or a topic that is gone.",
    ),
    Meaning(
        "ES-204",
        "UnsupportedBroker",
        "What answers is no Kafka broker, or one that is older than 2.1.",
        "Check host and port: the message says what answered. Upgrade the brokers if they are too old.",
    ),
    Meaning(
        "ES-205",
        "AuthenticationError",
        "A login was refused, a certificate is not trusted, expired or for another host, a file of keys cannot be "
        "read, `${env:…}` or `${file:…}` stands for nothing here, or one side speaks TLS and the other does not.",
        "The message says which of these it is. [Security](../howto/security.md) has the settings.",
    ),
    Meaning(
        "ES-206",
        "AnswerRefused",
        "A broker sent something that cannot be the answer to what it was asked: it claims more bytes than such an "
        "answer has, or its lengths and counts do not fit the bytes that came. The connection was closed, nothing of "
        "the answer was used, and the request is sent again until its time is over.",
        "The message says which request and which bytes. See what listens at that address, and what is between it and "
        "this machine. An answer to Fetch that is too long has a record batch beyond `maxBatchBytes`.",
    ),
    Meaning(
        "ES-301",
        "CorruptRecordsError",
        "A record batch fails its checksum, or cannot be decoded. None of its rows was delivered; but of a long batch "
        "(more than 8 MiB) whose checksum is right, parts before the record that cannot be decoded may have been.",
        "Look at the partition at the offset in the message with Kafka's own `kafka-dump-log`. If the log is damaged, "
        "restore it from a replica, or start a new query behind that offset.",
    ),
    Meaning(
        "ES-302",
        "BatchTooLarge",
        "A record batch is longer than `maxBatchBytes`, as it is kept or once it is decompressed.",
        "Raise `maxBatchBytes` to what the message says; a task then needs memory for about three times that.",
    ),
    Meaning(
        "ES-303",
        "OldMessageFormat",
        "Records were written before Kafka 0.11, in message format v0 or v1.",
        "Copy the topic to a new one with a producer of today, or start behind those records.",
    ),
    Meaning(
        "ES-304",
        "DataLossError",
        "Records that were to be read are gone: cut off by retention, replaced after an unclean leader election, or "
        "gone with a topic that was deleted or created anew.",
        "If that is as it should be, start once more with `failOnDataLoss=false`: what is missing is then counted and "
        "reported, and so is what went after it was handed out, perhaps unread. If not, give the topic a longer "
        "retention, or the query more room to catch up; against unclean elections, set "
        "`unclean.leader.election.enable=false` for the topic.",
    ),
    Meaning(
        "ES-305",
        "TimestampOutOfRange",
        "A record's timestamp does not fit into Spark's timestamps, which count microseconds in 64 bits. Kafka's count "
        "milliseconds, and brokers take any number: a producer has most likely written nanoseconds.",
        "Correct the producer. To read what is there, set `onTimestampOverflow=null`: such a timestamp is then null. "
        "Or leave `timestamp` out of `columns`: it is not looked at then.",
    ),
    Meaning(
        "ES-400",
        "CheckpointError",
        "A checkpoint, or the offset that Spark hands over from it, cannot be used: a file is missing, belongs to "
        "another query, or asks for what cannot be planned. Errors with other ids below are kinds of it.",
        "The message names the file. Look whether the path is the query's checkpointLocation, and is complete.",
    ),
    Meaning(
        "ES-401",
        "CheckpointCorrupt",
        "An offset of this source is damaged: it is cut off, was edited, or is not what its format asks for. "
        "What is no JSON any more, or nested without end, PySpark reads first, and gives `JSONDecodeError` or "
        "`RecursionError` without an id.",
        "Restore the file from a copy of the checkpoint; `evensplit inspect CHECKPOINT` names it, or notes that it is "
        "not complete. Nothing of the damaged one was used.",
    ),
    Meaning(
        "ES-402",
        "CheckpointVersionUnknown",
        "The checkpoint was written by a newer version of this package.",
        "Upgrade evensplit in the environment of the driver and of the executors.",
    ),
    Meaning(
        "ES-403",
        "CheckpointForeign",
        "The checkpoint belongs to another source, or to Spark's own Kafka source in a case that is not taken over.",
        "From Spark's own Kafka source: `evensplit migrate`, see [Migration](../migration.md). Otherwise give the "
        "query a checkpointLocation of its own.",
    ),
    Meaning(
        "ES-501",
        "TransitionError",
        "The enumerator was told something that cannot be in its state: a fault of this package, not of yours. Its "
        "state stays as it was.",
        "Please report it, with the message: it has the event, the state, and the events before. Started again, the "
        "query goes on from its checkpoint.",
    ),
    Meaning(
        "ES-601",
        "LocalKafkaError",
        "The broker for tests did not start or stop: no Java, jars that cannot be fetched, a wrong setting, a "
        "directory that another one runs on or that cannot be written to, a broker that died.",
        "The message ends with what the broker logged last, or says what is missing and how to get it.",
    ),
    Meaning(
        "ES-602",
        "SimulationFailed",
        "`evensplit simulate` found a run that breaks a law: a fault of this package.",
        "Please report it with the seed in the message, which shows it again.",
    ),
)
