//! A few bytes that decompress to very many: refused, and without the memory that they ask for.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::{append, Batch, Codec};
use evensplit_kernel::{ColumnBuilder, Kind, Limits};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Remembers the largest block that was ever asked for.
struct Watching;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

const BOUND: usize = 1 << 20;
const BOMB: usize = 24 << 20;

fn builder() -> ColumnBuilder {
    let limits = Limits { rows_max: 100, bytes_max: 1 << 20, uncompressed_bytes_max: BOUND };
    ColumnBuilder::new(common::SEVEN, limits)
}

/// The allocator watches the whole process, and the other test's own compressors need large blocks.
static ONE_BY_ONE: Mutex<()> = Mutex::new(());

#[test]
fn no_payload_makes_the_kernel_allocate_beyond_the_bound() {
    let _alone = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let bombs: Vec<(Codec, Vec<u8>)> =
        common::CODECS[1..].iter().map(|&codec| (codec, common::compress(codec, &vec![0; BOMB]))).collect();
    // Announced lengths without data.
    let lying_snappy = [&[0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0; 100]].concat();
    let lying_block = [&b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\x7f\xff\xff\xff"[..], &[0; 100]].concat();
    // A zstd frame header with a window of 2 GiB, and one with a content size of 2^62.
    let zstd_window = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    let zstd_content = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1_u64 << 62).to_le_bytes(), &[0x01, 0, 0]].concat();

    LARGEST.store(0, Ordering::Relaxed);
    for (codec, payload) in bombs {
        let batch = Batch::plain(5, codec, &[b"x"]).encode_with(&payload, 1);
        let error = append(&mut builder(), &batch, common::EVERYTHING).unwrap_err();
        assert_eq!((error.kind, error.offset), (Kind::TooLarge, 5), "{codec:?}: {error}");
    }
    for (codec, payload) in [
        (Codec::SnappyRaw, lying_snappy),
        (Codec::SnappyXerial, lying_block),
        (Codec::Zstd, zstd_window),
        (Codec::Zstd, zstd_content),
    ] {
        let batch = Batch::plain(5, codec, &[b"x"]).encode_with(&payload, 1);
        // Whatever the bound is: what is announced is not allocated.
        let limits = Limits { rows_max: 100, bytes_max: 1 << 20, uncompressed_bytes_max: usize::MAX };
        let mut builder = ColumnBuilder::new(common::SEVEN, limits);
        append(&mut builder, &batch, common::EVERYTHING).unwrap_err();
    }
    let announced = Batch::plain(5, Codec::None, &[b"x"]).encode_with(&[2, 0, 0], i32::MAX);
    append(&mut builder(), &announced, common::EVERYTHING).unwrap_err();
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest <= 3 * BOUND, "a block of {largest} bytes was asked for");
}

#[test]
fn exactly_the_bound_is_allowed_and_one_byte_more_is_not() {
    let _alone = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for codec in &common::CODECS[1..] {
        let fits = Batch::plain(0, *codec, &[&vec![b'x'; BOUND - 11][..]]);
        for (batch, allowed) in [(fits.clone(), true), (Batch::plain(0, *codec, &[&vec![b'x'; BOUND - 10][..]]), false)]
        {
            let length = batch.payload().len();
            assert_eq!(length <= BOUND, allowed, "the payload has {length} bytes");
            assert_eq!(append(&mut builder(), &batch.encode(), common::EVERYTHING).is_ok(), allowed, "{codec:?}");
        }
    }
}
