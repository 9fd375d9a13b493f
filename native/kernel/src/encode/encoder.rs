//! Rows in, record batches out.

use super::batch::{EncodedBatch, OpenBatch, Producer};
use super::buffers::Buffers;
use super::column::{Refused, Rows};
use super::compressor::{Compression, Compressor};
use super::fields::{Fields, Problem, Stop};
use super::partitions::of_key;
use super::record::Record;
use super::sizing::{updated_ratio, Bounds};
use std::ops::Range;

const CAPACITY_MIN: usize = 4 * 1024;
/// Codecs make little of it, so that a batch is never longer than a 32-bit length can say.
const RECORD_BYTES_MAX: usize = 1 << 30;
/// What Kafka takes a codec to achieve before it has seen any.
const FIRST_RATIO: f32 = 1.0;

/// How records are encoded.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The codec of all batches.
    pub compression: Compression,
    /// About how long a batch may become, as it is sent. A longer record has one of its own.
    pub batch_bytes_max: usize,
    /// How long a record may be, before it is compressed; and the records of a batch.
    pub record_bytes_max: usize,
    /// About how many bytes may wait in batches, open and closed.
    pub buffer_bytes_max: usize,
    /// Whether partitions are chosen as if there were no keys.
    pub ignore_keys: bool,
    /// Whether the batches belong to a transaction.
    pub transactional: bool,
    /// -1 for a producer that is not idempotent.
    pub producer_id: i64,
    /// -1 for a producer that is not idempotent.
    pub producer_epoch: i16,
}

/// What became of some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Every row before this one is in a batch.
    pub row_next: usize,
    /// Why that one cannot be. `None` at the end of the rows, or when the buffer is full.
    pub problem: Option<Problem>,
}

struct Topic {
    /// Where its partitions begin in the list of all.
    first: usize,
    partitions: u32,
    /// Where records without a key go.
    sticky: u32,
    /// How many batches that partition had closed when it became the one.
    seen: u64,
    ratio: f32,
    bounds: Bounds,
}

struct Partition {
    topic: usize,
    number: i32,
    sequence: i32,
    open: Option<OpenBatch>,
    /// How many batches were closed.
    closed: u64,
    /// How long the last one of these had become.
    capacity: usize,
}

/// Encodes rows as record batches, of which each partition has one open.
///
/// After an error of [`Encoder::append`] or [`Encoder::close_batches`] it cannot be used any more.
pub struct Encoder {
    bounds: Bounds,
    buffer_bytes_max: usize,
    ignore_keys: bool,
    producer: Producer,
    compressor: Compressor,
    topics: Vec<Topic>,
    partitions: Vec<Partition>,
    closed: Vec<EncodedBatch>,
    open_bytes: usize,
    closed_bytes: usize,
    buffers: Buffers,
}

/// The sequence number after `count` more records: after the largest one comes 0.
fn incremented(sequence: i32, count: i32) -> i32 {
    ((i64::from(sequence) + i64::from(count)) & i64::from(i32::MAX)) as i32
}

impl Encoder {
    /// An encoder that knows no topic.
    pub fn new(settings: Settings) -> Result<Self, Refused> {
        let bounds = [settings.batch_bytes_max, settings.record_bytes_max, settings.buffer_bytes_max];
        if bounds.contains(&0) || settings.record_bytes_max > RECORD_BYTES_MAX {
            return Err(Refused(format!(
                "bounds of {bounds:?} bytes for batches, records and the buffer; expected 1 or more, and for records \
                 {RECORD_BYTES_MAX} at most"
            )));
        }
        if settings.transactional && settings.producer_id < 0 {
            return Err(Refused("a transaction without a producer's id".to_owned()));
        }
        if (settings.producer_id < 0) != (settings.producer_epoch < 0) {
            return Err(Refused(format!(
                "producer id {} with epoch {}, expected both to be 0 or more, or both -1",
                settings.producer_id, settings.producer_epoch
            )));
        }
        Ok(Encoder {
            bounds: Bounds {
                batch_bytes_max: settings.batch_bytes_max.min(settings.record_bytes_max),
                uncompressed_bytes_max: settings.record_bytes_max,
                compressed: settings.compression.compresses(),
            },
            buffer_bytes_max: settings.buffer_bytes_max,
            ignore_keys: settings.ignore_keys,
            producer: Producer {
                id: settings.producer_id,
                epoch: settings.producer_epoch,
                transactional: settings.transactional,
            },
            compressor: Compressor::new(settings.compression),
            topics: Vec::new(),
            partitions: Vec::new(),
            closed: Vec::new(),
            open_bytes: 0,
            closed_bytes: 0,
            buffers: Buffers::new(settings.buffer_bytes_max / 2),
        })
    }

    /// Another topic; its number. Rows without a key begin at partition `start`, modulo their number.
    ///
    /// `batch_bytes_max`: how long batches of several records may become, before and after they are compressed, where
    /// that is less than by the settings.
    pub fn add_topic(&mut self, partitions: u32, start: u32, batch_bytes_max: Option<usize>) -> Result<usize, Refused> {
        let Some(sticky) = start.checked_rem(partitions).filter(|_| i32::try_from(partitions).is_ok()) else {
            return Err(Refused(format!("a topic of {partitions} partitions, expected 1 to 2147483647")));
        };
        let (topic, first) = (self.topics.len(), self.partitions.len());
        let bounds = batch_bytes_max.map_or(self.bounds, |most| self.bounds.at_most(most));
        self.topics.push(Topic { first, partitions, sticky, seen: 0, ratio: FIRST_RATIO, bounds });
        self.partitions.extend((0..partitions).map(|number| Partition {
            topic,
            number: number as i32,
            sequence: 0,
            open: None,
            closed: 0,
            capacity: CAPACITY_MIN,
        }));
        Ok(topic)
    }

    /// Sets the sequence number of the partition's next record.
    pub fn set_sequence(&mut self, topic: usize, partition: i32, sequence: i32) -> Result<(), Refused> {
        let of_topic = self.topics.get(topic).and_then(|found| {
            let number = u32::try_from(partition).ok().filter(|number| *number < found.partitions)?;
            self.partitions.get_mut(found.first + number as usize)
        });
        let Some(found) = of_topic else {
            return Err(Refused(format!("topic {topic} does not exist, or does not have partition {partition}")));
        };
        if sequence < 0 {
            return Err(Refused(format!("the sequence number is {sequence}, expected 0 or more")));
        }
        found.sequence = sequence;
        Ok(())
    }

    /// (topic, partition, sequence number of the next record to be closed), where that is not 0.
    pub fn next_sequences(&self) -> Vec<(usize, i32, i32)> {
        let moved = self.partitions.iter().filter(|partition| partition.sequence != 0);
        moved.map(|partition| (partition.topic, partition.number, partition.sequence)).collect()
    }

    /// The bytes of open batches, and of closed ones that were not taken.
    pub fn buffered_bytes(&self) -> usize {
        self.open_bytes.saturating_add(self.closed_bytes)
    }

    /// The memory that it holds for batches, which is a few times `buffer_bytes_max` at most.
    pub fn held_bytes(&self) -> usize {
        let open = self.partitions.iter().filter_map(|partition| partition.open.as_ref().map(OpenBatch::capacity));
        let closed = self.closed.iter().map(|batch| batch.data.capacity());
        open.chain(closed).sum::<usize>().saturating_add(self.buffers.spare_bytes())
    }

    /// The closed batches in the order in which they were closed, each once.
    pub fn ready(&mut self) -> Vec<EncodedBatch> {
        self.closed_bytes = 0;
        std::mem::take(&mut self.closed)
    }

    /// Closes every open batch.
    pub fn close_batches(&mut self) -> Result<(), Refused> {
        (0..self.partitions.len()).try_for_each(|partition| self.close(partition))
    }

    /// Encodes rows, up to a problem or until the buffer is full. `topic`: of all rows, if there is no such column.
    pub fn append(
        &mut self,
        rows: Range<usize>,
        columns: &Rows<'_>,
        topic: usize,
        now_ms: i64,
    ) -> Result<Encoded, Refused> {
        if rows.start > rows.end {
            return Err(Refused(format!("rows {} to {}, expected begin <= end", rows.start, rows.end)));
        }
        if columns.topics.is_none() && topic >= self.topics.len() {
            return Err(Refused(format!("topic {topic}, but there are {} topics", self.topics.len())));
        }
        let fields = Fields::of(columns, rows.end)?;
        for row in rows.clone() {
            if self.buffered_bytes() >= self.buffer_bytes_max {
                self.close_largest()?;
                if self.buffered_bytes() >= self.buffer_bytes_max {
                    return Ok(Encoded { row_next: row, problem: None });
                }
            }
            match self.append_row(&fields, row, topic, now_ms) {
                Ok(()) => {}
                Err(Stop::Problem(problem)) => return Ok(Encoded { row_next: row, problem: Some(problem) }),
                Err(Stop::Refused(refused)) => return Err(refused),
            }
        }
        Ok(Encoded { row_next: rows.end, problem: None })
    }

    /// Closes the largest batches until at most half of the buffer is open, so that a full one always has some to take.
    fn close_largest(&mut self) -> Result<(), Refused> {
        let bytes = |(at, partition): (usize, &Partition)| partition.open.as_ref().map(|open| (open.bytes(), at));
        let mut open: Vec<(usize, usize)> = self.partitions.iter().enumerate().filter_map(bytes).collect();
        open.sort_unstable_by_key(|(bytes, at)| (std::cmp::Reverse(*bytes), *at));
        for (_, at) in open {
            if self.open_bytes <= self.buffer_bytes_max / 2 {
                break;
            }
            self.close(at)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn append_row(&mut self, fields: &Fields<'_>, row: usize, topic: usize, now_ms: i64) -> Result<(), Stop> {
        let Some(topic) = fields.topic(row, topic, self.topics.len())? else { return Ok(()) };
        let record = fields.record(row)?;
        match record.batch_bytes_max() {
            bytes if bytes > self.bounds.uncompressed_bytes_max => return Err(Problem::TooLarge(bytes).into()),
            _ => {}
        }
        let timestamp = fields.timestamp(row, now_ms)?;
        let at = self.partition_of(fields, row, topic, &record, timestamp)?;
        let Some(partition) = self.partitions.get_mut(at) else { return Err(Problem::Topic(topic as i32).into()) };
        let open = match &mut partition.open {
            Some(open) => open,
            closed => {
                let Some(topic) = self.topics.get(topic) else { return Err(Problem::Topic(topic as i32).into()) };
                self.open_bytes += crate::batch::HEADER_BYTES;
                let buffer = self.buffers.take(partition.capacity);
                closed.insert(OpenBatch::new(buffer, timestamp, topic.ratio, topic.bounds))
            }
        };
        let before = open.bytes();
        open.append(&record, timestamp, fields.headers.as_ref())?;
        self.open_bytes += open.bytes().saturating_sub(before);
        Ok(())
    }

    /// Where in the list of all partitions the row goes; that one has room for it.
    #[inline(always)]
    fn partition_of(
        &mut self,
        fields: &Fields<'_>,
        row: usize,
        topic: usize,
        record: &Record<'_>,
        timestamp: i64,
    ) -> Result<usize, Stop> {
        let Some(found) = self.topics.get(topic) else { return Err(Problem::Topic(topic as i32).into()) };
        let (first, count, sticky, seen) = (found.first, found.partitions, found.sticky, found.seen);
        let number = match (fields.partition(row, count)?, record.key) {
            (Some(number), _) => number,
            (None, Some(key)) if !self.ignore_keys => of_key(key, count),
            (None, _) => {
                self.make_room(first + sticky as usize, record, timestamp)?;
                if self.closed_by(first + sticky as usize) == seen {
                    return Ok(first + sticky as usize);
                }
                // That partition had its batch; it is the next one's turn.
                let next = if sticky + 1 < count { sticky + 1 } else { 0 };
                let at = first + next as usize;
                self.make_room(at, record, timestamp)?;
                let seen = self.closed_by(at);
                if let Some(found) = self.topics.get_mut(topic) {
                    (found.sticky, found.seen) = (next, seen);
                }
                return Ok(at);
            }
        };
        self.make_room(first + number as usize, record, timestamp)?;
        Ok(first + number as usize)
    }

    #[inline(always)]
    fn closed_by(&self, at: usize) -> u64 {
        self.partitions.get(at).map_or(0, |partition| partition.closed)
    }

    /// Closes the open batch of a partition if it has no room for the record.
    #[inline(always)]
    fn make_room(&mut self, at: usize, record: &Record<'_>, timestamp: i64) -> Result<(), Refused> {
        match self.partitions.get(at).and_then(|partition| partition.open.as_ref()) {
            Some(open) if !open.has_room(record, timestamp) => self.close(at),
            _ => Ok(()),
        }
    }

    fn close(&mut self, at: usize) -> Result<(), Refused> {
        let Some(partition) = self.partitions.get_mut(at) else { return Ok(()) };
        let Some(open) = partition.open.take() else { return Ok(()) };
        self.open_bytes = self.open_bytes.saturating_sub(open.bytes());
        partition.capacity = open.bytes().max(CAPACITY_MIN);
        let base_sequence = if self.producer.id < 0 { -1 } else { partition.sequence };
        let closed = open.close(&mut self.compressor, self.producer, base_sequence)?;
        if self.producer.id >= 0 {
            partition.sequence = incremented(partition.sequence, closed.records);
        }
        partition.closed += 1;
        if let Some(topic) = self.topics.get_mut(partition.topic) {
            topic.ratio = updated_ratio(topic.ratio, closed.ratio);
        }
        self.buffers.give_back(closed.begun, closed.left);
        self.closed_bytes += closed.data.len();
        self.closed.push(EncodedBatch {
            topic: partition.topic,
            partition: partition.number,
            base_sequence,
            records: closed.records,
            data: closed.data,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::incremented;

    /// As in Kafka's `DefaultRecordBatchTest.testIncrementSequence`.
    #[test]
    fn after_the_largest_sequence_number_comes_0() {
        assert_eq!(incremented(5, 5), 10);
        assert_eq!(incremented(i32::MAX, 1), 0);
        assert_eq!(incremented(i32::MAX - 5, 10), 4);
    }
}
