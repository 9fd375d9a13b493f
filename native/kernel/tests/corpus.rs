//! Record batches that a real broker has stored: what another client reads of them, and an error where they are damaged.
//!
//! `python -m tests.support.corpus` has recorded them, and says what is in the files.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use common::damage::{aborted, apply, check, damage};
use common::{rows, strategy, Row, CLUSTER, EVERYTHING, LIMITS, PARTITION, TOPIC};
use evensplit_kernel::{Aborted, ColumnBuilder, Kind, Limits, Range, Result, Selection};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::path::Path;
use std::sync::LazyLock;

struct Case {
    name: String,
    bytes: Vec<u8>,
    aborted: Vec<Aborted>,
    /// Whether it is read under `read_committed`, and the row.
    rows: Vec<(bool, Row)>,
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    (text != "-").then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn row(fields: &[&str]) -> Row {
    let header = |text: &str| {
        let (key, value) = text.split_once('=').unwrap();
        (String::from_utf8(unhex(key).unwrap()).unwrap(), unhex(value))
    };
    let cell = |text: &str| Some(unhex(text.trim_matches(['[', ']'])));
    Row {
        offset: Some(fields[0].parse().unwrap()),
        timestamp: Some(Some(fields[1].parse::<i64>().unwrap() * 1000)),
        timestamp_type: Some(fields[2].parse().unwrap()),
        key: cell(fields[3]),
        value: cell(fields[4]),
        headers: Some((fields[5] != "-").then(|| fields[5].split(',').map(header).collect())),
        topic: Some(TOPIC.to_owned()),
        partition: Some(PARTITION),
        cluster: Some(CLUSTER.to_owned()),
    }
}

static CORPUS: LazyLock<Vec<Case>> = LazyLock::new(recorded);

fn recorded() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut names: Vec<String> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".bin").map(str::to_owned))
        .collect();
    names.sort();
    let case = |name: String| {
        let mut case = Case {
            bytes: std::fs::read(directory.join(format!("{name}.bin"))).unwrap(),
            name,
            aborted: Vec::new(),
            rows: Vec::new(),
        };
        for line in std::fs::read_to_string(directory.join(format!("{}.rows", case.name))).unwrap().lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            match fields[0] {
                "aborted" => case.aborted.push((fields[1].parse().unwrap(), fields[2].parse().unwrap())),
                isolation => case.rows.push((isolation == "c", row(&fields[1..]))),
            }
        }
        case
    };
    names.into_iter().map(case).collect()
}

fn decode(bytes: &[u8], aborted: &[Aborted], range: Range) -> Result<Vec<Row>> {
    let mut builder = ColumnBuilder::new(Selection::ALL, LIMITS);
    builder.append(bytes, CLUSTER, TOPIC, PARTITION, range, aborted)?;
    Ok(rows(&builder.finish()))
}

#[test]
fn every_field_is_what_another_client_reads() {
    assert_eq!(CORPUS.len(), 12);
    for case in CORPUS.iter() {
        let all: Vec<Row> = case.rows.iter().map(|(_, row)| row.clone()).collect();
        assert_eq!(decode(&case.bytes, &[], EVERYTHING).unwrap(), all, "{}", case.name);
        let committed: Vec<Row> = case.rows.iter().filter(|(kept, _)| *kept).map(|(_, row)| row.clone()).collect();
        assert_eq!(decode(&case.bytes, &case.aborted, EVERYTHING).unwrap(), committed, "{}", case.name);
        assert_eq!(committed.len() < all.len(), case.name == "transactions");
    }
}

#[test]
fn every_range() {
    for case in CORPUS.iter() {
        for start in 0..14 {
            for end in start..14 {
                let within = |&&(kept, ref row): &&(bool, Row)| kept && (start..end).contains(&row.offset.unwrap());
                let expected: Vec<Row> = case.rows.iter().filter(within).map(|(_, row)| row.clone()).collect();
                assert_eq!(
                    decode(&case.bytes, &case.aborted, Range { start, end }).unwrap(),
                    expected,
                    "{}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn a_byte_that_is_not_what_it_was() {
    for case in CORPUS.iter() {
        let nameless =
            |rows: Vec<Row>| -> Vec<Row> { rows.into_iter().map(|row| Row { offset: None, ..row }).collect() };
        let whole = nameless(case.rows.iter().map(|(_, row)| row.clone()).collect());
        for at in 0..case.bytes.len() {
            for mask in [0x01, 0x80] {
                let mut bytes = case.bytes.clone();
                bytes[at] ^= mask;
                match decode(&bytes, &[], EVERYTHING) {
                    // No checksum covers a batch's first offset, nor its length; nothing else can pass for right.
                    Ok(found) => assert!(nameless(found).iter().all(|row| whole.contains(row)), "{} {at}", case.name),
                    Err(error) => {
                        let known = [Kind::Crc, Kind::Malformed, Kind::UnsupportedMagic];
                        assert!(known.contains(&error.kind), "{} {at}: {error}", case.name);
                    }
                }
            }
        }
        for length in 0..case.bytes.len() {
            let found = decode(&case.bytes[..length], &[], EVERYTHING).unwrap();
            assert!(case.rows.iter().map(|(_, row)| row).take(found.len()).eq(&found), "{} {length}", case.name);
        }
    }
}

#[test]
fn a_bound_below_what_they_decompress_to() {
    for case in CORPUS.iter() {
        let compressed = case.bytes[22] & 0b111 != 0;
        let limits = Limits { uncompressed_bytes_max: 100, ..LIMITS };
        let mut builder = ColumnBuilder::new(Selection::ALL, limits);
        let result = builder.append(&case.bytes, CLUSTER, TOPIC, PARTITION, EVERYTHING, &case.aborted);
        assert_eq!(result.is_err_and(|error| error.kind == Kind::TooLarge), compressed, "{}", case.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn damage_under_a_right_checksum(
        which in any::<Index>(),
        damages in vec(damage(), 1..4),
        selection in strategy::selection(),
        aborted in aborted(),
        listed in any::<bool>(),
    ) {
        let case = &CORPUS[which.index(CORPUS.len())];
        let mut bytes = case.bytes.clone();
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        common::fix_crc(&mut bytes);
        check(&bytes, selection, if listed { &case.aborted } else { &aborted })?;
    }
}
