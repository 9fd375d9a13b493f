"""Spark's own Kafka connector: four jars from Maven Central, with their checksums."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from evensplit.errors import LocalKafkaError
from evensplit.testing.process.jars import fetch_jars

SPARK = "4.2.0"
"""The version of Spark that the jars belong to."""

NAME = f"spark-sql-kafka-{SPARK}"


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar, as Maven knows it, and its SHA-256."""

    organisation: str
    module: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its file name."""
        return f"{self.module}-{self.version}.jar"


# Release 4.2.0 of the last one is not in every repository; nothing that it adds since 4.0.0 is used without tokens.
JARS = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.1",
        "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.12.1",
        "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
)


AVRO = Jar(
    "org.apache.spark",
    "spark-avro_2.13",
    "4.0.0",
    "083fb13d7a1091025b135eff216e2009b42c9724bb8bc597d2f28b1207ef4709",
)
"""The newest that can be had; it works with Spark 4.2 and 4.3."""


def ivy_file(jars: tuple[Jar, ...] = JARS) -> str:
    """These jars without their dependencies: Spark has the rest."""
    lines = [
        f'    <dependency org="{jar.organisation}" name="{jar.module}" rev="{jar.version}" transitive="false" '
        'conf="default->master"/>'
        for jar in jars
    ]
    return "\n".join(
        [
            '<ivy-module version="2.0">',
            '  <info organisation="evensplit" module="spark-kafka"/>',
            '  <configurations><conf name="default"/></configurations>',
            "  <dependencies>",
            *lines,
            "  </dependencies>",
            "</ivy-module>\n",
        ]
    )


def connector_jars() -> list[Path]:
    """The four jars in the user's cache, downloaded if needed.

    Raises `LocalKafkaError` if they cannot be downloaded, or the checksum of one is not the one here.
    """
    libs = fetch_jars(NAME, ivy_file(), {jar.file for jar in JARS})
    check(libs)
    return [libs / jar.file for jar in JARS]


def avro_jar() -> Path:
    """The jar that gives Spark `from_avro`, in the user's cache, downloaded if needed. Raises as `connector_jars`."""
    libs = fetch_jars(f"spark-avro-{AVRO.version}", ivy_file((AVRO,)), {AVRO.file})
    check(libs, (AVRO,))
    return libs / AVRO.file


def check(libs: Path, jars: tuple[Jar, ...] = JARS) -> None:
    """Raises `LocalKafkaError` for each jar in `libs` with another checksum."""
    found = {jar: hashlib.sha256((libs / jar.file).read_bytes()).hexdigest() for jar in jars}
    wrong = [
        f"{libs / jar.file} has the SHA-256 {digest}, expected {jar.sha256}"
        for jar, digest in found.items()
        if digest != jar.sha256
    ]
    if wrong:
        raise LocalKafkaError("; ".join(wrong) + f". Remove {libs} and run this again; if it stays so, do not use them")
