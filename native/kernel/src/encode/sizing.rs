//! When a record batch is full, as Kafka's `MemoryRecordsBuilder` and `CompressionRatioEstimator` find it.

use crate::batch::HEADER_BYTES;

/// How fast the estimated ratio falls when a batch compresses better.
const IMPROVING_STEP: f32 = 0.005;
/// How fast it rises at least when one compresses worse.
const DETERIORATING_STEP: f32 = 0.05;
/// The estimated ratio is taken to be this much worse.
const ESTIMATION_FACTOR: f32 = 1.05;

/// How long record batches may become.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// By the estimate of what is sent.
    pub(super) batch_bytes_max: usize,
    /// Before they are compressed. So no batch is longer, whatever the estimate was.
    pub(super) uncompressed_bytes_max: usize,
    pub(super) compressed: bool,
}

impl Bounds {
    /// These, and `bytes`.
    pub(super) fn at_most(self, bytes: usize) -> Self {
        Bounds {
            batch_bytes_max: self.batch_bytes_max.min(bytes),
            uncompressed_bytes_max: self.uncompressed_bytes_max.min(bytes),
            ..self
        }
    }

    /// Whether a batch that holds `raw_bytes` of records has room for `more`.
    #[inline(always)]
    pub(super) fn has_room(&self, raw_bytes: usize, ratio: f32, more: usize) -> bool {
        let written = if self.compressed { estimated(raw_bytes, ratio) } else { raw_bytes };
        let (written, raw) = (HEADER_BYTES + written, HEADER_BYTES + raw_bytes);
        self.batch_bytes_max >= written + more && self.uncompressed_bytes_max >= raw + more
    }
}

/// What records are expected to be compressed to.
#[inline(always)]
fn estimated(raw_bytes: usize, ratio: f32) -> usize {
    (raw_bytes as f32 * ratio * ESTIMATION_FACTOR) as usize
}

/// The estimated ratio after a batch had `observed`.
pub(super) fn updated_ratio(estimated: f32, observed: f32) -> f32 {
    if observed > estimated {
        observed.max(estimated + DETERIORATING_STEP)
    } else {
        observed.max(estimated - IMPROVING_STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in Kafka's `CompressionRatioEstimatorTest`.
    #[test]
    fn the_ratio_falls_slowly_and_rises_fast() {
        let near = |found: f32, expected: f32| assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        near(updated_ratio(0.8, 0.84), 0.85);
        near(updated_ratio(0.6, 0.7), 0.7);
        near(updated_ratio(0.6, 0.4), 0.595);
        near(updated_ratio(0.004, 0.001), 0.001);
        near(updated_ratio(0.5, 0.5), 0.5);
    }

    #[test]
    fn a_batch_is_full_at_its_bound() {
        let plain = Bounds { batch_bytes_max: 1000, uncompressed_bytes_max: 5000, compressed: false };
        assert!(plain.has_room(800, 0.1, 139));
        assert!(!plain.has_room(800, 0.1, 140));
        let compressed = Bounds { compressed: true, ..plain };
        assert!(
            compressed.has_room(1010, 0.5, 409),
            "61 + 1010 * 0.5 * 1.05 + 409 is 1000.25, of which Java cuts 0.25"
        );
        assert!(!compressed.has_room(1010, 0.5, 410));
        assert!(!compressed.has_room(4800, 0.1, 140), "5001 bytes before compression");
    }
}
