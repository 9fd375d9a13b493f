//! Which records belong to aborted transactions (KIP-98).
//!
//! A Fetch response lists the aborted transactions that its records can belong to: all that end at or after the
//! requested offset and begin before the end of the records. So a transaction that began before the records is listed,
//! and one whose marker is not among them stays open to their end. Nothing has to be remembered from one response to
//! the next.

use std::cmp::Reverse;
use std::collections::HashMap;

/// An aborted transaction: the producer's id, and the offset of its first record in the partition.
pub type Aborted = (i64, i64);

/// The aborted transactions at a place among the record batches.
pub(crate) struct Transactions {
    /// Those that have not begun yet, the next one at the end.
    ahead: Vec<Aborted>,
    /// Those that have begun: producer -> first offset.
    open: HashMap<i64, i64>,
}

impl Transactions {
    pub(crate) fn new(aborted: &[Aborted]) -> Self {
        let mut ahead = aborted.to_vec();
        ahead.sort_unstable_by_key(|&(producer_id, first_offset)| Reverse((first_offset, producer_id)));
        Transactions { ahead, open: HashMap::new() }
    }

    /// Whether all have ended.
    #[inline]
    pub(crate) fn over(&self) -> bool {
        self.ahead.is_empty() && self.open.is_empty()
    }

    /// Moves on to a record batch whose last offset is this.
    pub(crate) fn reach(&mut self, last_offset: i64) {
        while let Some(&(producer_id, first_offset)) = self.ahead.last() {
            if first_offset > last_offset {
                break;
            }
            self.open.insert(producer_id, first_offset);
            self.ahead.pop();
        }
    }

    /// Whether a producer is in an aborted transaction.
    pub(crate) fn has(&self, producer_id: i64) -> bool {
        self.open.contains_key(&producer_id)
    }

    /// Ends the producer's transaction.
    pub(crate) fn end(&mut self, producer_id: i64) {
        self.open.remove(&producer_id);
    }

    /// Those that have not ended, in the order of their first offsets.
    pub(crate) fn rest(self) -> Vec<Aborted> {
        let mut rest = self.ahead;
        rest.extend(self.open);
        rest.sort_unstable_by_key(|&(producer_id, first_offset)| (first_offset, producer_id));
        rest
    }
}
