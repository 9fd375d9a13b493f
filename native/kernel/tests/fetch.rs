//! The Fetch envelope in every version that is understood.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use evensplit_kernel::{parse_fetch_response, FetchedPartition, FetchedResponse, Kind, VERSION_MAX, VERSION_MIN};
use proptest::collection::vec;
use proptest::prelude::*;

struct Encoder {
    out: Vec<u8>,
    version: i16,
    tags: Vec<Vec<u8>>,
}

impl Encoder {
    fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn count(&mut self, count: Option<usize>) {
        match (self.version >= 12, count) {
            (true, count) => self.uvarint(count.map_or(0, |count| count as u32 + 1)),
            (false, count) => self.out.extend(count.map_or(-1, |count| count as i32).to_be_bytes()),
        }
    }

    fn string(&mut self, text: &str) {
        match self.version >= 12 {
            true => self.uvarint(text.len() as u32 + 1),
            false => self.out.extend((text.len() as i16).to_be_bytes()),
        }
        self.out.extend(text.as_bytes());
    }

    fn tagged_fields(&mut self) {
        self.tagged_fields_with(None);
    }

    /// Tag 0 means something in a partition; unknown tags begin after it.
    fn tagged_fields_with(&mut self, first: Option<Vec<u8>>) {
        if self.version >= 12 {
            self.uvarint((self.tags.len() + usize::from(first.is_some())) as u32);
            let others = self.tags.clone().into_iter().enumerate().map(|(number, tag)| (1 + number as u32 * 300, tag));
            for (number, tag) in first.map(|tag| (0, tag)).into_iter().chain(others) {
                self.uvarint(number);
                self.uvarint(tag.len() as u32);
                self.out.extend(tag);
            }
        }
    }

    fn topic(&mut self, topic: &str) {
        match self.version >= 13 {
            true => self.out.extend(id_bytes(topic)),
            false => self.string(topic),
        }
    }

    fn response(&mut self, response: &FetchedResponse, records: &[Option<Vec<u8>>]) {
        self.tagged_fields();
        self.out.extend(response.throttle_ms.to_be_bytes());
        if self.version >= 7 {
            self.out.extend(response.error_code.to_be_bytes());
            self.out.extend(response.session_id.to_be_bytes());
        }
        self.count(Some(response.topics.len()));
        for (index, topic) in response.topics.iter().enumerate() {
            self.topic(topic);
            let of_topic = || response.partitions.iter().zip(records).filter(|(one, _)| one.topic == index);
            self.count(Some(of_topic().count()));
            of_topic().for_each(|(one, records)| self.partition(one, records.as_deref()));
            self.tagged_fields();
        }
        self.tagged_fields();
    }

    fn partition(&mut self, one: &FetchedPartition, records: Option<&[u8]>) {
        self.out.extend(one.partition.to_be_bytes());
        self.out.extend(one.error_code.to_be_bytes());
        self.out.extend(one.high_watermark.to_be_bytes());
        self.out.extend(one.last_stable_offset.to_be_bytes());
        if self.version >= 5 {
            self.out.extend(one.log_start_offset.to_be_bytes());
        }
        // A broker sends null if there are none.
        self.count((!one.aborted.is_empty()).then_some(one.aborted.len()));
        for (producer_id, first_offset) in &one.aborted {
            self.out.extend(producer_id.to_be_bytes());
            self.out.extend(first_offset.to_be_bytes());
            self.tagged_fields();
        }
        if self.version >= 11 {
            self.out.extend(one.preferred_read_replica.to_be_bytes());
        }
        self.count(records.map(<[u8]>::len));
        self.out.extend(records.unwrap_or_default());
        self.tagged_fields_with(one.diverging.map(|(epoch, end)| {
            let mut field = [&epoch.to_be_bytes()[..], &end.to_be_bytes()].concat();
            field.push(0);
            field
        }));
    }
}

/// A topic's id as bytes, from its text.
fn id_bytes(text: &str) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let values = text.chars().map(|letter| LETTERS.find(letter).unwrap() as u128);
    // Of the last letter's six bits four are padding.
    let (bits, _) = values.fold((0_u128, 22), |(bits, left), value| match left {
        1 => (bits << 2 | value >> 4, 0),
        _ => (bits << 6 | value, left - 1),
    });
    bits.to_be_bytes().to_vec()
}

type Records = Vec<Option<Vec<u8>>>;

fn response(version: i16) -> impl Strategy<Value = (FetchedResponse, Records)> {
    let one = (any::<[i32; 2]>(), any::<i16>(), any::<[i64; 3]>(), vec(any::<(i64, i64)>(), 0..3));
    let one = (one, proptest::option::of((0..i32::MAX, any::<i64>())));
    let partition = (one, proptest::option::of(vec(any::<u8>(), 0..300)));
    // Of the last letter of an id only two bits count.
    let name = if version >= 13 { "[A-Za-z0-9_-]{21}[AQgw]" } else { "[a-z.é]{1,200}" };
    let topic = (name, vec(partition, 0..4));
    (any::<(i32, i16, i32)>(), vec(topic, 0..4)).prop_map(move |((throttle_ms, error_code, session_id), topics)| {
        let (error_code, session_id) = if version >= 7 { (error_code, session_id) } else { (0, 0) };
        let mut response =
            FetchedResponse { throttle_ms, error_code, session_id, topics: Vec::new(), partitions: Vec::new() };
        let mut all_records = Vec::new();
        for (name, partitions) in topics {
            for (((numbers, error_code, [high, stable, start], aborted), diverging), records) in partitions {
                let [partition, replica] = numbers;
                response.partitions.push(FetchedPartition {
                    topic: response.topics.len(),
                    partition,
                    error_code,
                    high_watermark: high,
                    last_stable_offset: stable,
                    log_start_offset: if version >= 5 { start } else { -1 },
                    aborted,
                    preferred_read_replica: if version >= 11 { replica } else { -1 },
                    diverging: diverging.filter(|_| version >= 12),
                    records: 0..0,
                });
                all_records.push(records);
            }
            response.topics.push(name);
        }
        (response, all_records)
    })
}

fn versioned() -> impl Strategy<Value = (i16, (FetchedResponse, Records), Vec<Vec<u8>>)> {
    let tags = vec(vec(any::<u8>(), 0..200), 0..3);
    (VERSION_MIN..=VERSION_MAX)
        .prop_flat_map(response_of)
        .prop_flat_map(move |(version, of)| (Just(version), Just(of), tags.clone()))
}

fn response_of(version: i16) -> impl Strategy<Value = (i16, (FetchedResponse, Records))> {
    (Just(version), response(version))
}

fn encode(version: i16, response: &FetchedResponse, records: &Records, tags: Vec<Vec<u8>>) -> Vec<u8> {
    let mut encoder = Encoder { out: Vec::new(), version, tags };
    encoder.response(response, records);
    encoder.out
}

proptest! {
    #[test]
    fn everything_is_found_where_it_is((version, (expected, records), tags) in versioned()) {
        let bytes = encode(version, &expected, &records, tags);
        let mut found = parse_fetch_response(&bytes, version).unwrap();
        for (partition, records) in found.partitions.iter_mut().zip(&records) {
            prop_assert_eq!(&bytes[partition.records.clone()], records.as_deref().unwrap_or_default());
            partition.records = 0..0;
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn every_cut_and_every_surplus_is_an_error(
        (version, (expected, records), tags) in versioned(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode(version, &expected, &records, tags);
        prop_assert!(parse_fetch_response(&bytes[..cut.index(bytes.len())], version).is_err());
        bytes.push(0);
        prop_assert_eq!(parse_fetch_response(&bytes, version).unwrap_err().kind, Kind::Malformed);
    }

    #[test]
    fn a_wrong_byte_gives_an_error_or_records_within_the_frame(
        (version, (expected, records), tags) in versioned(),
        (at, byte) in (any::<prop::sample::Index>(), any::<u8>()),
    ) {
        let mut bytes = encode(version, &expected, &records, tags);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(found) = parse_fetch_response(&bytes, version) {
            prop_assert!(found.partitions.iter().all(|one| bytes.get(one.records.clone()).is_some()));
        }
    }
}

#[test]
fn an_announced_million_of_partitions_is_refused_before_it_is_looked_for() {
    let mut bytes = vec![0; 10];
    bytes.extend(1_i32.to_be_bytes());
    bytes.extend([0, 1, b't']);
    bytes.extend(1_000_000_i32.to_be_bytes());
    let error = parse_fetch_response(&bytes, 11).unwrap_err();
    assert_eq!(error.kind, Kind::Truncated);
    assert!(error.detail.starts_with("topic \"t\": the number of partitions is 1000000"), "{error}");
}

#[test]
fn other_versions_are_refused() {
    for version in [-1, 3, 14] {
        let error = parse_fetch_response(&[0; 20], version).unwrap_err();
        assert_eq!(error.detail, format!("Fetch version {version} is not understood, expected 4 to 13"));
    }
}

/// A response of version 13 with one partition, whose tagged fields are `tagged`.
fn with_tagged_fields(tagged: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 11];
    bytes.push(2);
    bytes.extend([0xfb; 16]);
    bytes.push(2);
    bytes.extend([0; 4 + 2 + 3 * 8]);
    bytes.push(0);
    bytes.extend((-1_i32).to_be_bytes());
    bytes.push(1);
    bytes.extend(tagged);
    bytes.extend([0, 0]);
    bytes
}

fn diverging(tagged: &[u8]) -> Result<Option<(i32, i64)>, (Kind, String)> {
    match parse_fetch_response(&with_tagged_fields(tagged), 13) {
        Ok(found) => {
            assert_eq!(found.topics, ["-_v7-_v7-_v7-_v7-_v7-w"]);
            Ok(found.partitions[0].diverging)
        }
        Err(error) => Err((error.kind, error.detail)),
    }
}

#[test]
fn a_diverging_epoch_is_read_and_what_follows_it_skipped() {
    let seven = [&7_i32.to_be_bytes()[..], &40_i64.to_be_bytes()].concat();
    let none = [0xff; 12];
    assert_eq!(diverging(&[0]), Ok(None));
    assert_eq!(diverging(&[&[1, 0, 13][..], &seven, &[0]].concat()), Ok(Some((7, 40))));
    // Other fields before it, after it and within it.
    assert_eq!(diverging(&[&[3, 0, 13][..], &seven, &[0, 1, 2, 9, 9, 5, 0]].concat()), Ok(Some((7, 40))));
    assert_eq!(diverging(&[&[1, 0, 17][..], &seven, &[1, 0, 2, 9, 9]].concat()), Ok(Some((7, 40))));
    assert_eq!(diverging(&[&[1, 0, 13][..], &none, &[0]].concat()), Ok(None));
    assert_eq!(diverging(&[1, 1, 3, 9, 9, 9]), Ok(None));
}

#[test]
fn a_diverging_epoch_that_does_not_fit_is_an_error() {
    let seven = [&7_i32.to_be_bytes()[..], &40_i64.to_be_bytes()].concat();
    for (length, kind, said) in [
        (0, Kind::Truncated, "partition 0: a diverging epoch"),
        (3, Kind::Truncated, "partition 0: a diverging epoch"),
        (11, Kind::Truncated, "partition 0: the end offset of a diverging epoch"),
        (12, Kind::Truncated, "partition 0: the number of tagged fields"),
        (14, Kind::Malformed, "partition 0: a diverging epoch is complete and 1 bytes are left of it"),
    ] {
        let mut field = seven.clone();
        field.resize(length, 0);
        let (found, detail) = diverging(&[&[1, 0, length as u8][..], &field].concat()).unwrap_err();
        assert_eq!(found, kind, "{length}: {detail}");
        assert!(detail.contains(said), "{length}: {detail}");
    }
}
