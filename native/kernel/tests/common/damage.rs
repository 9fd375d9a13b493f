//! Bytes damaged in every way, and what holds whatever they are.

use super::{append, rows as rows_of, Batch, Codec, CLUSTER, EVERYTHING, PARTITION, TOPIC};
use evensplit_kernel::{Aborted, ColumnBuilder, Limits, Selection};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
pub enum Damage {
    Flip(Index, u8),
    Set(Index, u8),
    Long(Index, i32),
    Remove(Index, usize),
    Insert(Index, Vec<u8>),
    Cut(Index),
}

pub fn damage() -> impl Strategy<Value = Damage> {
    let extreme = prop_oneof![Just(i32::MAX), Just(i32::MIN), Just(-1), Just(0), -200..200_i32, any::<i32>()];
    prop_oneof![
        (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, 1 << bit)),
        (any::<Index>(), prop_oneof![Just(0xff_u8), Just(0x80), Just(0x7f), any::<u8>()])
            .prop_map(|(at, byte)| Damage::Set(at, byte)),
        (any::<Index>(), extreme).prop_map(|(at, value)| Damage::Long(at, value)),
        (any::<Index>(), 1..20_usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        (any::<Index>(), vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        any::<Index>().prop_map(Damage::Cut),
    ]
}

pub fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match damage {
        Damage::Flip(at, mask) => bytes[at.index(length)] ^= mask,
        Damage::Set(at, byte) => bytes[at.index(length)] = *byte,
        Damage::Long(at, value) => {
            let at = at.index(length);
            for (to, from) in bytes[at..].iter_mut().zip(value.to_be_bytes()) {
                *to = from;
            }
        }
        Damage::Remove(at, count) => {
            let at = at.index(length);
            bytes.drain(at..length.min(at + count));
        }
        Damage::Insert(at, added) => {
            let at = at.index(length);
            bytes.splice(at..at, added.iter().copied());
        }
        Damage::Cut(at) => bytes.truncate(at.index(length)),
    }
}

/// Appends `bytes` to a builder that has rows already, and checks what holds whatever they are.
pub fn check(bytes: &[u8], selection: Selection, aborted: &[Aborted]) -> Result<(), TestCaseError> {
    let limits = Limits { rows_max: 50, bytes_max: 4000, uncompressed_bytes_max: 1 << 18 };
    let mut builder = ColumnBuilder::new(selection, limits);
    let before = Batch::plain(0, Codec::None, &[b"one", b"two"]).encode();
    append(&mut builder, &before, EVERYTHING).unwrap();
    let kept = rows_of(&{
        let mut same = ColumnBuilder::new(selection, limits);
        append(&mut same, &before, EVERYTHING).unwrap();
        same.finish()
    });
    let bytes_before = builder.bytes();
    let result = builder.append(bytes, CLUSTER, TOPIC, PARTITION, EVERYTHING, aborted);
    let held = builder.bytes();
    let rows = rows_of(&builder.finish());
    match result {
        Ok(done) => {
            prop_assert!(done.position <= bytes.len());
            prop_assert_eq!(rows.len(), kept.len() + done.rows);
            prop_assert!(held <= 4 * limits.bytes_max);
            prop_assert!(done.aborted.iter().all(|one| aborted.contains(one)));
        }
        Err(error) => {
            prop_assert!(!error.detail.is_empty());
            prop_assert_eq!(held, bytes_before);
            prop_assert_eq!(rows, kept);
        }
    }
    Ok(())
}

/// Transactions of the producers that `strategy::log` has, and of others.
pub fn aborted() -> impl Strategy<Value = Vec<Aborted>> {
    prop_oneof![Just(Vec::new()), vec((-2..5_i64, prop_oneof![-5..400_i64, any::<i64>()]), 0..8)]
}
