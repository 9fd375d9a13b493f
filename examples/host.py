"""A host of the enumerator, without Spark: readers are processes that fail on their own, and clusters come and go.

    python examples/host.py

Readers are killed at random moments and started again; a second cluster is found; the host dies and goes on from its
checkpoint; a reader leaves, and returns. In the end each record is in the sink once. The sink is a database, and says
also who may write what: a reader adds records and how far it is in one transaction, as long as the split is its own.
So what it has written is safe, and it is what it reports when it registers again. Sink and readers are in
_host_parts.py, and the rules that all this follows in docs/howto/host.md.
"""

from __future__ import annotations

import json
import random
import time
from collections import deque
from multiprocessing.connection import wait

from kafka import KafkaConsumer, TopicPartition

import evensplit.enumerator as en
from _host_parts import RECORDS, TOPIC, Progress, Reader, Sink, show, surroundings

READERS = 3


class Host:
    """Tells the enumerator what happens, and carries out what it orders. Begins at the checkpoint in the sink."""

    def __init__(self, sink: Sink, servers: dict[str, str], progress: Progress) -> None:
        self.sink, self.servers, self.progress = sink, servers, progress
        kept = sink.kept()
        self.state = en.decode(json.loads(kept)) if kept else en.EnumeratorState()
        self.consumers = {name: KafkaConsumer(bootstrap_servers=one) for name, one in servers.items()}
        self.readers: dict[int, Reader] = {}
        self.tell(en.SettingsChanged(), en.ParallelismChanged(READERS))
        for number in range(READERS):
            self.start(number)

    def tell(self, *events: en.Event) -> None:
        """Tell the enumerator, and do what it orders. The answers to that are told after the other events."""
        waiting = deque(events)
        while waiting:
            step = en.step(self.state, waiting.popleft())
            self.state = step.state
            for effect in step.effects:
                waiting.extend(self.carry_out(effect))

    def carry_out(self, effect: en.Effect) -> list[en.Event]:
        """Do what the enumerator orders. Returns the answers."""
        match effect:
            case en.ListPartitions(cluster):
                numbers = sorted(self.consumers[cluster].partitions_for_topic(TOPIC))
                return [en.PartitionsListed(cluster, tuple(en.ListedPartition(TOPIC, one) for one in numbers))]
            case en.ResolveStart(cluster, splits):
                found = self.consumers[cluster].beginning_offsets([TopicPartition(*split[1:]) for split in splits])
                return [en.OffsetsResolved({en.SplitId(cluster, *one): offset for one, offset in found.items()})]
            case en.Revoke(split):
                self.sink.revoke(split)
            case en.Assign(split, reader, position, previous, generation):
                self.sink.assign(split, reader, self.readers[reader].epoch, generation, position)
                if previous not in (None, reader):
                    self.progress(f"{split} moves from reader {previous} to {reader}, at offset {position:,}")
            case _:
                raise RuntimeError(f"nothing is lost, refused or removed here: {effect}")
        return []

    def list_clusters(self, *names: str) -> None:
        listed = tuple(en.ListedCluster(name, (self.servers[name],)) for name in names)
        self.tell(en.TimePassed(time.time_ns() // 1_000_000), en.ClustersListed(listed))

    def checkpoint(self) -> None:
        """Tell how far readers have written, which is safe, and keep the state."""
        owners = {key: split.owner for key, split in self.state.splits.items()}
        safe = {key: end for key, (reader, end) in self.sink.written().items() if owners.get(key) == reader}
        self.tell(en.BatchPlanned(safe))
        self.sink.keep(json.dumps(en.encode(self.state)))

    def start(self, number: int) -> None:
        """Start a reader, for the first time or again."""
        self.readers[number] = Reader(number, self.sink, self.servers)

    def hear(self) -> None:
        """See which readers have started, and start those again that have ended."""
        said = wait([reader.pipe for reader in self.readers.values()], 0.05)
        for number, reader in [one for one in self.readers.items() if one[1].pipe in said]:
            if reader.lives():
                self.tell(en.ReaderRegistered(number, reader.epoch, *self.sink.had(number)))
            else:
                self.tell(en.ReaderLost(number, reader.epoch))
                self.start(number)

    def run(self, until: int, kills: int = 1) -> None:
        """Go on until so many records are written and every reader takes part. One is killed, at a random moment."""
        while self.sink.count() < until or len(self.state.participants) < len(self.readers):
            self.hear()
            self.checkpoint()
            if kills and random.random() < 0.1:
                kills, victim = kills - 1, random.choice(list(self.readers))
                self.progress(f"reader {victim} is killed")
                self.readers[victim].process.kill()

    def stop(self, *numbers: int) -> None:
        for number in numbers or list(self.readers):
            self.readers.pop(number).end()


def main() -> None:
    with surroundings(__doc__) as (sink, servers, progress):
        host = Host(sink, servers, progress)
        host.list_clusters("east")
        host.run(until=1_000)
        progress("a second cluster is found")
        host.list_clusters("east", "west")
        host.run(until=3_000)
        host.stop()
        host = Host(sink, servers, progress)
        progress(f"the host died with its readers, and goes on from revision {host.state.revision} of its state")
        host.list_clusters("east", "west")
        host.run(until=5_000)
        progress("reader 2 leaves")
        host.stop(2)
        host.checkpoint()
        host.tell(en.ReaderRemoved(2))
        host.run(until=7_000)
        progress("reader 2 returns")
        before = host.state
        host.start(2)
        host.run(until=2 * RECORDS)
        host.stop()
        progress(f"owners are {en.evenness(before, host.state)[0].statement()}")
        show(sink, host.state)


if __name__ == "__main__":
    main()
