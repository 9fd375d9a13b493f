"""The code of a job that brings a broker of its own."""

from __future__ import annotations

from evensplit.cli.init.job import KAFKA, Job

LOCAL_IMPORTS = (
    "import json",
    "from collections.abc import Iterator",
    "from contextlib import contextmanager",
)
"""What it needs of the standard library, beside `pathlib`."""


def local_functions(job: Job) -> list[str]:
    """The functions, none for a job that does not bring a broker."""
    if not job.local:
        return []
    topics = 'SOURCE["subscribe"].split(",")'
    wanted = f'[*{topics}, SINK["topic"]]' if job.sink == KAFKA else topics
    if job.sample:
        value, encoded = job.sample, "json.dumps(value).encode()"
    else:
        value, encoded = 'f"text {number}"', "value.encode()"
    return [
        _BROKER.replace("WANTED", wanted),
        _SEND.replace("TOPICS", topics).replace("ENCODED", encoded).replace("VALUE", value),
    ]


_BROKER = '''@contextmanager
def local_broker() -> Iterator[str]:
    """A broker to try things on: its address. It keeps its data in the directory `broker`.

    To read your own brokers, put "kafka.bootstrap.servers" into SOURCE, and remove this.
    """
    print("Starting a broker. The first time this takes a minute.")
    with LocalKafka(directory=HERE / "broker") as kafka:
        for topic in WANTED:
            try:
                kafka.create_topic(topic, partitions=4)
            except BrokerError as error:
                if error.code != 36:  # it is there already
                    raise
        send(kafka.bootstrap_servers)
        yield kafka.bootstrap_servers
'''

_SEND = '''def send(servers: str) -> None:
    """Send ten records to each topic that is read."""
    producer = KafkaProducer(bootstrap_servers=servers)
    for number in range(10):
        value = VALUE
        for topic in TOPICS:
            producer.send(topic, ENCODED, key=str(number).encode())
    producer.close()
'''
