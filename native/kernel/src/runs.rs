//! Columns with one value for all rows of a record batch: written when the rows are handed out.

use crate::batch::TimestampType;
use crate::binary::Binary;
use crate::error::{Error, Result};
use crate::selection::Selection;
use std::sync::Arc;

/// A Kafka string has 16 bits for its length; a cluster's name needs no more.
const NAME_BYTES_MAX: usize = i16::MAX as usize;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Labels {
    cluster: Arc<str>,
    topic: Arc<str>,
    partition: i32,
}

impl Labels {
    /// The labels of rows. Names that are the same as in `last` are shared with it.
    pub(crate) fn new(last: Option<&Labels>, cluster: &str, topic: &str, partition: i32) -> Result<Self> {
        for (what, name) in [("cluster", cluster), ("topic", topic)] {
            if name.len() > NAME_BYTES_MAX {
                let length = name.len();
                return Err(Error::malformed(format!("a {what} name of {length} bytes, at most {NAME_BYTES_MAX} fit")));
            }
        }
        let shared = |name: &str, of: fn(&Labels) -> &Arc<str>| match last.map(of) {
            Some(known) if **known == *name => Arc::clone(known),
            _ => Arc::from(name),
        };
        Ok(Labels { cluster: shared(cluster, |l| &l.cluster), topic: shared(topic, |l| &l.topic), partition })
    }

    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    pub(crate) fn partition(&self) -> i32 {
        self.partition
    }

    /// The bytes that the string columns need for one row, their offsets included.
    pub(crate) fn row_bytes(&self, selection: Selection) -> usize {
        let topic = if selection.topic { 4 + self.topic.len() } else { 0 };
        let cluster = if selection.cluster { 4 + self.cluster.len() } else { 0 };
        topic + cluster
    }
}

struct Run {
    labels: Labels,
    timestamp_type: TimestampType,
    rows: usize,
}

#[derive(Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
}

/// A state of the runs, to roll back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    runs: usize,
    rows_of_last: usize,
}

/// The finished columns.
pub(crate) struct RunColumns {
    pub(crate) topic: Option<Binary>,
    pub(crate) cluster: Option<Binary>,
    pub(crate) partition: Option<Vec<i32>>,
    pub(crate) timestamp_type: Option<Vec<i32>>,
}

impl Runs {
    pub(crate) fn last(&self) -> Option<&Labels> {
        self.runs.last().map(|run| &run.labels)
    }

    pub(crate) fn push(&mut self, labels: &Labels, timestamp_type: TimestampType, rows: usize) {
        match self.runs.last_mut() {
            _ if rows == 0 => {}
            Some(last) if last.timestamp_type == timestamp_type && last.labels == *labels => last.rows += rows,
            _ => self.runs.push(Run { labels: labels.clone(), timestamp_type, rows }),
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { runs: self.runs.len(), rows_of_last: self.runs.last().map_or(0, |run| run.rows) }
    }

    pub(crate) fn roll_back(&mut self, mark: Mark) {
        self.runs.truncate(mark.runs);
        if let Some(last) = self.runs.last_mut() {
            last.rows = mark.rows_of_last;
        }
    }

    pub(crate) fn finish(&mut self, selection: Selection) -> RunColumns {
        let runs = std::mem::take(&mut self.runs);
        let rows = runs.iter().map(|run| run.rows).sum();
        RunColumns {
            topic: selection.topic.then(|| repeated(&runs, rows, |labels| &labels.topic)),
            cluster: selection.cluster.then(|| repeated(&runs, rows, |labels| &labels.cluster)),
            partition: selection.partition.then(|| numbers(&runs, rows, |run| run.labels.partition)),
            timestamp_type: selection.timestamp_type.then(|| numbers(&runs, rows, |run| run.timestamp_type as i32)),
        }
    }
}

fn numbers(runs: &[Run], rows: usize, number_of: fn(&Run) -> i32) -> Vec<i32> {
    let mut all = Vec::with_capacity(rows);
    for run in runs {
        all.resize(all.len() + run.rows, number_of(run));
    }
    all
}

fn repeated(runs: &[Run], rows: usize, text_of: fn(&Labels) -> &str) -> Binary {
    let mut data = Vec::with_capacity(runs.iter().map(|run| run.rows * text_of(&run.labels).len()).sum());
    let mut offsets = Vec::with_capacity(rows + 1);
    offsets.push(0);
    for run in runs {
        let text = text_of(&run.labels).as_bytes();
        let begin = data.len();
        // The builder's bound on all bytes keeps the end of every column within 32 bits.
        offsets.extend((1..=run.rows).map(|row| (begin + row * text.len()) as i32));
        let end = begin + run.rows * text.len();
        data.extend_from_slice(text);
        while data.len() < end {
            let copied = (data.len() - begin).min(end - data.len());
            data.extend_from_within(begin..begin + copied);
        }
    }
    Binary { validity: None, offsets, data, null_count: 0 }
}
