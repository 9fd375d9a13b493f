//! The memory that batches are written into, beyond what they need.

/// How many buffers of batches that were compressed are kept for the next ones.
const SPARES_MAX: usize = 4;

/// Memory that is there before it is needed: that with which open batches began, and that which waits for the next.
///
/// All of it together is bounded. Where there is no more, a batch begins without any, and has twice what it needs at
/// most.
pub(super) struct Buffers {
    spares: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

impl Buffers {
    pub(super) fn new(bytes_max: usize) -> Self {
        Buffers { spares: Vec::new(), bytes: 0, bytes_max }
    }

    /// Empty memory for a batch that may become `wanted` bytes long.
    pub(super) fn take(&mut self, wanted: usize) -> Vec<u8> {
        if let Some(at) = self.spares.iter().rposition(|spare| spare.capacity() / 2 <= wanted) {
            return self.spares.swap_remove(at);
        }
        if self.bytes.saturating_add(wanted) > self.bytes_max {
            return Vec::new();
        }
        self.bytes += wanted;
        Vec::with_capacity(wanted)
    }

    /// A batch is closed that began with `begun` bytes. `left`: memory that it needs no more.
    pub(super) fn give_back(&mut self, begun: usize, left: Option<Vec<u8>>) {
        self.bytes = self.bytes.saturating_sub(begun);
        let Some(mut spare) = left else { return };
        let bytes = self.bytes.saturating_add(spare.capacity());
        if self.spares.len() < SPARES_MAX && bytes <= self.bytes_max {
            self.bytes = bytes;
            spare.clear();
            self.spares.push(spare);
        }
    }

    /// What waits for the next batches.
    pub(super) fn spare_bytes(&self) -> usize {
        self.spares.iter().map(Vec::capacity).sum()
    }
}
