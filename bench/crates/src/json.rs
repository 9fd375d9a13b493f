//! Crates that read JSON.

use crate::found::{Decoder, Fields, Found, Result, BATCH_ROWS};
use arrow_json::ReaderBuilder;
use arrow_schema::{DataType, Field, Schema};
use jiter::{JsonValue, JsonValueScratch, PartialMode};
use serde::Deserialize;
use std::sync::Arc;

const STRUCT: &str = "struct, texts borrowed";

/// What a struct of serde has of a record.
trait Record {
    fn add(&self, found: &mut Found);
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "all is decoded, and little is read")]
struct Order<'a> {
    id: i64,
    customer: &'a str,
    amount: f64,
    currency: &'a str,
    note: Option<&'a str>,
    paid: bool,
    items: i32,
    #[serde(borrow)]
    address: Address<'a>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "all is decoded, and nothing is read")]
struct Address<'a> {
    street: &'a str,
    city: &'a str,
    zip: &'a str,
}

#[derive(Deserialize)]
struct Two {
    id: i64,
    amount: f64,
}

impl Record for Order<'_> {
    fn add(&self, found: &mut Found) {
        found.add(self.id, self.amount, self.note.is_none());
    }
}

impl Record for Two {
    fn add(&self, found: &mut Found) {
        found.add(self.id, self.amount, false);
    }
}

pub fn decoders(values: &[Vec<u8>], fields: Fields) -> Result<Vec<Decoder<'_>>> {
    let arrow = with_arrow(values.concat(), fields)?;
    Ok(match fields {
        Fields::All => vec![arrow, with_sonic::<Order>(values), with_simd(values, fields), with_jiter(values)],
        // Jiter has no projection.
        Fields::Two => vec![arrow, with_sonic::<Two>(values), with_simd(values, fields)],
    })
}

/// Reads all values as one text, which is how it is fastest.
fn with_arrow<'v>(text: Vec<u8>, fields: Fields) -> Result<Decoder<'v>> {
    let mut decoder = ReaderBuilder::new(Arc::new(schema(fields))).with_batch_size(BATCH_ROWS).build_decoder()?;
    Ok(Decoder::new("arrow-json", "Arrow columns", move || {
        let (mut found, mut at) = (Found::default(), 0);
        while at < text.len() {
            at += decoder.decode(&text[at..])?;
            if let Some(batch) = decoder.flush()? {
                found.add_batch(&batch)?;
            }
        }
        Ok(found)
    }))
}

fn schema(fields: Fields) -> Schema {
    let of = |name: &str, data_type| Field::new(name, data_type, true);
    let (id, amount) = (of("id", DataType::Int64), of("amount", DataType::Float64));
    let address = ["street", "city", "zip"].map(|name| of(name, DataType::Utf8));
    Schema::new(match fields {
        Fields::Two => vec![id, amount],
        Fields::All => vec![
            id,
            of("customer", DataType::Utf8),
            amount,
            of("currency", DataType::Utf8),
            of("note", DataType::Utf8),
            of("paid", DataType::Boolean),
            of("items", DataType::Int32),
            of("address", DataType::Struct(address.into_iter().collect())),
        ],
    })
}

fn with_sonic<'v, R: Record + Deserialize<'v>>(values: &'v [Vec<u8>]) -> Decoder<'v> {
    Decoder::of_each("sonic-rs", STRUCT, values, |value, found| {
        sonic_rs::from_slice::<R>(value)?.add(found);
        Ok(())
    })
}

/// It writes into what it reads, so a copy is part of it.
fn with_simd(values: &[Vec<u8>], fields: Fields) -> Decoder<'_> {
    let (mut copy, mut buffers) = (Vec::new(), simd_json::Buffers::default());
    Decoder::of_each("simd-json", STRUCT, values, move |value, found| {
        copy.clear();
        copy.extend_from_slice(value);
        match fields {
            Fields::All => simd_json::serde::from_slice_with_buffers::<Order>(&mut copy, &mut buffers)?.add(found),
            Fields::Two => simd_json::serde::from_slice_with_buffers::<Two>(&mut copy, &mut buffers)?.add(found),
        }
        Ok(())
    })
}

fn with_jiter(values: &[Vec<u8>]) -> Decoder<'_> {
    let mut scratch = JsonValueScratch::new();
    Decoder::of_each("jiter", "tree of values", values, move |value, found| {
        let JsonValue::Object(order) = scratch.parse(value, false, PartialMode::Off)? else {
            return Err("it is no object".into());
        };
        let (mut id, mut amount, mut is_null) = (0, 0.0, false);
        for (name, value) in order.iter() {
            match (name.as_ref(), value) {
                ("id", JsonValue::Int(value)) => id = *value,
                ("amount", JsonValue::Float(value)) => amount = *value,
                ("amount", JsonValue::Int(value)) => amount = *value as f64,
                ("note", value) => is_null = *value == JsonValue::Null,
                _ => {}
            }
        }
        found.add(id, amount, is_null);
        Ok(())
    })
}
