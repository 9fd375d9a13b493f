//! Crates that read Avro.

use crate::found::{Decoder, Fields, Found, Result, BATCH_ROWS};
use crate::orders::{FRAME, SCHEMA_ID};
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::Schema;
use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};

const ALL: &str = r#"{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "customer", "type": "string"}, {"name": "amount", "type": "double"},
    {"name": "currency", "type": "string"}, {"name": "note", "type": ["null", "string"]},
    {"name": "paid", "type": "boolean"}, {"name": "items", "type": "int"},
    {"name": "address", "type": {"type": "record", "name": "Address", "fields": [
        {"name": "street", "type": "string"}, {"name": "city", "type": "string"}, {"name": "zip", "type": "string"}]}}]}"#;
const TWO: &str = r#"{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "amount", "type": "double"}]}"#;

pub fn decoders(values: &[Vec<u8>], fields: Fields) -> Result<Vec<Decoder<'_>>> {
    Ok(vec![with_arrow(values.concat(), fields)?, with_apache(values, fields)?])
}

/// Reads all values, with their frames, as one run of bytes, which is how it is fastest.
fn with_arrow<'v>(bytes: Vec<u8>, fields: Fields) -> Result<Decoder<'v>> {
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    store.set(Fingerprint::Id(SCHEMA_ID), AvroSchema::new(ALL.to_owned()))?;
    let reader = AvroSchema::new(if fields == Fields::All { ALL } else { TWO }.to_owned());
    let builder = ReaderBuilder::new().with_batch_size(BATCH_ROWS).with_reader_schema(reader);
    let builder = builder.with_writer_schema_store(store).with_active_fingerprint(Fingerprint::Id(SCHEMA_ID));
    let mut decoder = builder.build_decoder()?;
    Ok(Decoder::new("arrow-avro", "Arrow columns", move || {
        let (mut found, mut at) = (Found::default(), 0);
        while at < bytes.len() {
            at += decoder.decode(&bytes[at..])?;
            if let Some(batch) = decoder.flush()? {
                found.add_batch(&batch)?;
            }
        }
        Ok(found)
    }))
}

fn with_apache(values: &[Vec<u8>], fields: Fields) -> Result<Decoder<'_>> {
    // They live as long as the process.
    let writer: &'static Schema = Box::leak(Box::new(Schema::parse_str(ALL)?));
    let wanted: &'static Schema = Box::leak(Box::new(Schema::parse_str(TWO)?));
    let reader_schema = (fields == Fields::Two).then_some(wanted);
    let reader = GenericDatumReader::builder(writer).maybe_reader_schema(reader_schema).build()?;
    Ok(Decoder::of_each("apache-avro", "tree of values", values, move |value, found| {
        let Value::Record(order) = reader.read_value(&mut &value[FRAME.len()..])? else {
            return Err("it is no record".into());
        };
        let (mut id, mut amount, mut is_null) = (0, 0.0, false);
        for (name, value) in &order {
            match (name.as_str(), value) {
                ("id", Value::Long(value)) => id = *value,
                ("amount", Value::Double(value)) => amount = *value,
                ("note", Value::Union(branch, _)) => is_null = *branch == 0,
                _ => {}
            }
        }
        found.add(id, amount, is_null);
        Ok(())
    }))
}
