"""What Spark's own Kafka source can be told about triggers and about its consumers, checked as there.

The limits of a batch hold in streams; in a batch query they mean nothing, as with Spark's own source. How long a task
waits has its meaning here. What is about consumers and groups that this source does not have is understood, checked and
named in the log as ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

from evensplit.spark.options.values import INT_MAX, LONG_MAX, RawOptions

MAX, MIN, DELAY = "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"
TRIGGER_OPTIONS = (MAX, MIN, DELAY)

POLL_TIMEOUT = "kafkaConsumer.pollTimeoutMs"
RETRIES, RETRY_INTERVAL, GROUP_PREFIX = "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix"
CONSUMER_OPTIONS = (POLL_TIMEOUT, RETRIES, RETRY_INTERVAL, GROUP_PREFIX)

TRIGGER_DELAY_MS_DEFAULT = 15 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Triggers:
    """How much a batch of a stream has.

    `offsets_max`, `offsets_min`: about how many offsets at most and at least; None: no limit. `delay_ms`: after so long
    a batch has fewer. `given`: the options that say so; `ignored`: those that change nothing, beside the others.
    """

    offsets_max: int | None
    offsets_min: int | None
    delay_ms: int
    given: tuple[str, ...]
    ignored: tuple[str, ...]


def parse_triggers(given: RawOptions) -> Triggers:
    """The limits of a batch."""
    most, least = given.count(MAX, 1, LONG_MAX), given.count(MIN, 0, LONG_MAX)
    delay_ms = given.duration_ms(DELAY, TRIGGER_DELAY_MS_DEFAULT, zero="no delay", spark=True)
    if most is not None and least is not None and least > most:
        given.problems.append(
            f"{MIN} is {least}, which is higher than the {MAX} ({most}); expected {MIN} of at most {most}, or a higher "
            f"{MAX}"
        )
    ignored = (DELAY,) if DELAY in given and MIN not in given else ()
    return Triggers(most, least or None, delay_ms, tuple(given.among(TRIGGER_OPTIONS)), ignored)


def parse_poll_timeout_ms(given: RawOptions) -> int | None:
    """How long a task waits for the next records of a partition; None: not said."""
    timeout_ms = given.count(POLL_TIMEOUT, 1, LONG_MAX)
    # Longer than any socket can wait, and than anybody would.
    return None if timeout_ms is None else min(timeout_ms, INT_MAX)


def parse_without_meaning(given: RawOptions) -> tuple[str, ...]:
    """Those given that mean nothing here, once their values are found to be what Spark takes."""
    given.count(RETRIES, 0, INT_MAX)
    given.count(RETRY_INTERVAL, 0, LONG_MAX)
    return tuple(given.among((RETRIES, RETRY_INTERVAL, GROUP_PREFIX)))
