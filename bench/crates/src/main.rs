//! Decoding alone: evensplit's kernel beside other crates, on the same bytes.
//!
//!     make bench-crates                                    100,000 records, 7 rounds
//!     make bench-crates ARGS=--quick                       20,000 records, 3 rounds
//!     make bench-crates ARGS="--out bench/results/crates.json"
//!     make bench-crates ARGS="--only json"                 decoders whose line has this text, to profile them

mod avro;
mod found;
mod json;
mod kernel;
mod orders;
mod protobuf;

use found::{Decoder, Fields, Result};
use orders::Values;
use serde::Serialize;
use std::time::Instant;

struct Options {
    records: usize,
    rounds: usize,
    out: Option<String>,
    only: Option<String>,
}

/// One decoder's times for a record, in nanoseconds.
#[derive(Serialize)]
struct Line {
    format: &'static str,
    fields: &'static str,
    decoder: &'static str,
    into: &'static str,
    bytes_per_record: f64,
    ns_per_record: f64,
    ns_least: f64,
    ns_most: f64,
    gb_per_second: f64,
}

impl Line {
    fn new(format: &'static str, fields: Fields, decoder: &Decoder<'_>) -> Self {
        let fields = if fields == Fields::All { "8" } else { "2 of 8" };
        let (decoder, into) = (decoder.name, decoder.into);
        Line {
            format,
            fields,
            decoder,
            into,
            bytes_per_record: 0.0,
            ns_per_record: 0.0,
            ns_least: 0.0,
            ns_most: 0.0,
            gb_per_second: 0.0,
        }
    }

    fn is_meant(&self, only: &str) -> bool {
        format!("{} {} {}", self.format, self.fields, self.decoder).to_lowercase().contains(&only.to_lowercase())
    }

    fn timed(mut self, mut ns: Vec<f64>, bytes_per_record: f64) -> Self {
        ns.sort_by(f64::total_cmp);
        self.bytes_per_record = bytes_per_record;
        (self.ns_least, self.ns_per_record, self.ns_most) = (ns[0], ns[ns.len() / 2], ns[ns.len() - 1]);
        self.gb_per_second = bytes_per_record / self.ns_per_record;
        self
    }

    fn print(&self) {
        let range = format!("[{:.0} to {:.0}]", self.ns_least, self.ns_most);
        println!(
            "{:<9} {:<7} {:<25} {:<23} {:>9.0} {:<14} {:>5.2}",
            self.format, self.fields, self.decoder, self.into, self.ns_per_record, range, self.gb_per_second
        );
    }
}

fn main() -> Result<()> {
    let options = options(std::env::args().skip(1))?;
    let values = Values::new(options.records)?;
    println!(
        "{:<9} {:<7} {:<25} {:<23} {:>9} {:<14} {:>5}",
        "format", "fields", "decoder", "into", "ns/record", "[least, most]", "GB/s"
    );
    let mut lines = Vec::new();
    for fields in [Fields::All, Fields::Two] {
        let mut of_format = |format, ours, theirs: Vec<Decoder<'_>>, of: &[Vec<u8>]| {
            let undecoded = (fields == Fields::All).then(|| kernel::undecoded(of));
            let decoders = [ours].into_iter().chain(theirs).chain(undecoded).collect();
            measured(format, fields, decoders, of, &options).map(|measured| lines.extend(measured))
        };
        let Values { json, avro, protobuf } = &values;
        of_format("JSON", kernel::json(json, fields), json::decoders(json, fields)?, json)?;
        of_format("Avro", kernel::avro(avro, fields)?, avro::decoders(avro, fields)?, avro)?;
        of_format("Protobuf", kernel::protobuf(protobuf, fields)?, protobuf::decoders(protobuf, fields)?, protobuf)?;
    }
    if let Some(path) = options.out {
        std::fs::write(path, serde_json::to_string_pretty(&lines)? + "\n")?;
    }
    Ok(())
}

/// Checks that the decoders find the same, and times them in turn.
fn measured(
    format: &'static str,
    fields: Fields,
    decoders: Vec<Decoder<'_>>,
    values: &[Vec<u8>],
    options: &Options,
) -> Result<Vec<Line>> {
    let lines = decoders.into_iter().map(|decoder| (Line::new(format, fields, &decoder), decoder));
    let only = options.only.as_deref().unwrap_or_default();
    let mut meant: Vec<_> = lines.filter(|(line, _)| line.is_meant(only)).map(|pair| (pair, Vec::new())).collect();
    let mut expected = None;
    for ((line, decoder), _) in &mut meant {
        let found = (decoder.run)()?;
        if found.rows != values.len() {
            return Err(format!("{} has {} rows of {}", line.decoder, found.rows, values.len()).into());
        }
        // What is not decoded has no sums.
        if found.amounts != 0.0 && *expected.get_or_insert_with(|| found.clone()) != found {
            return Err(format!("{format}: {} has {found:?}, expected {expected:?}", line.decoder).into());
        }
    }
    let count = meant.len();
    for round in 0..options.rounds {
        for turn in 0..count {
            let ((_, decoder), times) = &mut meant[(round + turn) % count];
            let began = Instant::now();
            std::hint::black_box((decoder.run)()?);
            times.push(began.elapsed().as_nanos() as f64 / values.len() as f64);
        }
    }
    let bytes = values.iter().map(Vec::len).sum::<usize>() as f64 / values.len() as f64;
    let lines: Vec<Line> = meant.into_iter().map(|((line, _), times)| line.timed(times, bytes)).collect();
    lines.iter().for_each(Line::print);
    Ok(lines)
}

fn options(mut given: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options { records: 100_000, rounds: 7, out: None, only: None };
    while let Some(word) = given.next() {
        let mut next = || given.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => (options.records, options.rounds) = (20_000, 3),
            "--rounds" => options.rounds = next()?.parse::<usize>()?.max(1),
            "--out" => options.out = Some(next()?),
            "--only" => options.only = Some(next()?),
            _ => {
                return Err(format!("{word} is unknown; there are --quick, --rounds N, --out PATH, --only TEXT").into())
            }
        }
    }
    Ok(options)
}
