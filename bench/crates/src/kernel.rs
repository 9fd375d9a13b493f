//! evensplit's kernel. It takes values out of record batches, whose checksums it checks: that is timed, too.

use crate::found::{Decoder, Fields, Found, Result, BATCH_ROWS};
use crate::orders::zigzag;
use evensplit_kernel::avro::{self, Skip, Step};
use evensplit_kernel::protobuf::{self, Kind, Label};
use evensplit_kernel::{
    Array, ColumnBuilder, Columns, DataType, Decoding, Field, Format, Framing, Limits, Memory, OnFault, Range,
    Selection,
};

const FRAME_RECORDS: usize = 500;
const LIMITS: Limits = Limits { rows_max: 2 * BATCH_ROWS, bytes_max: 1 << 26, uncompressed_bytes_max: 1 << 26 };
fn value_alone() -> Selection {
    Selection { value: true, ..Selection::default() }
}

pub fn json<'v>(values: &[Vec<u8>], fields: Fields) -> Decoder<'v> {
    typed(values, fields, Format::Json, Framing::None)
}

pub fn avro<'v>(values: &[Vec<u8>], fields: Fields) -> Result<Decoder<'v>> {
    let texts = || (0..3).map(|at| avro::Field::Column(at, Step::Bytes)).collect();
    let note = Step::Union([Step::Null, Step::Bytes].into());
    let skipped_note = Skip::Union([Skip::Fixed(0), Skip::Bytes].into());
    let steps = [
        (Step::Long(1), Skip::Long),
        (Step::Bytes, Skip::Bytes),
        (Step::Double, Skip::Fixed(8)),
        (Step::Bytes, Skip::Bytes),
        (note, skipped_note),
        (Step::Boolean, Skip::Fixed(1)),
        (Step::Int(1), Skip::Int),
        (Step::Record(texts()), Skip::Record(0)),
    ];
    let column = |(number, (step, skip)): (usize, (Step, Skip))| match column_of(number, fields) {
        Some(at) => avro::Field::Column(at, step),
        None => avro::Field::Skip(skip),
    };
    let record = Step::Record(steps.into_iter().enumerate().map(column).collect());
    let program = avro::Program::new(record, vec![vec![Skip::Bytes, Skip::Bytes, Skip::Bytes]], &data_type(fields))?;
    Ok(typed(values, fields, Format::Avro(program), Framing::Id))
}

pub fn protobuf<'v>(values: &[Vec<u8>], fields: Fields) -> Result<Decoder<'v>> {
    let text = || Kind::String { strict: true };
    let part = |at: usize| protobuf::Field::new(at as u32 + 1, Some(at), Label::Implicit, text(), None);
    let address = Kind::Message(protobuf::Message::new((0..3).map(part).collect()));
    let kinds = [Kind::Int64, text(), Kind::Double, text(), text(), Kind::Bool, Kind::Int32, address];
    let field = |(number, kind): (usize, Kind)| {
        let label = if matches!(number, 4 | 7) { Label::Optional } else { Label::Implicit };
        let at = column_of(number, fields)?;
        Some(protobuf::Field::new(number as u32 + 1, Some(at), label, kind, None))
    };
    let message = protobuf::Message::new(kinds.into_iter().enumerate().filter_map(field).collect());
    let program = protobuf::Program::new(message, &data_type(fields))?;
    Ok(typed(values, fields, Format::Protobuf(program), Framing::None))
}

/// What it costs to take the values out of record batches, and to copy them.
pub fn undecoded<'v>(values: &[Vec<u8>]) -> Decoder<'v> {
    let mut batches = Batches::new(values, ColumnBuilder::new(value_alone(), LIMITS));
    Decoder::new("(evensplit, not decoded)", "column of bytes", move || {
        let mut found = Found::default();
        batches.run(|columns| {
            found.rows += columns.rows;
            Ok(())
        })?;
        Ok(found)
    })
}

fn typed<'v>(values: &[Vec<u8>], fields: Fields, format: Format, framing: Framing) -> Decoder<'v> {
    let decoding = Decoding { format: Some(format), framing, data_type: data_type(fields) };
    let builder = ColumnBuilder::new(value_alone(), LIMITS).with_decoding(None, Some(&decoding), OnFault::Fail);
    let mut batches = Batches::new(values, builder);
    Decoder::new("evensplit", "Arrow columns", move || {
        let mut found = Found::default();
        batches.run(|columns| add(&mut found, columns, fields))?;
        Ok(found)
    })
}

fn column_of(number: usize, fields: Fields) -> Option<usize> {
    match fields {
        Fields::All => Some(number),
        Fields::Two => [0, 2].iter().position(|one| *one == number),
    }
}

fn data_type(fields: Fields) -> DataType {
    let of = |name: &str, data_type| Field { name: name.to_owned(), data_type };
    let texts = ["street", "city", "zip"].map(|name| of(name, DataType::String));
    let all = [
        of("id", DataType::Long),
        of("customer", DataType::String),
        of("amount", DataType::Double),
        of("currency", DataType::String),
        of("note", DataType::String),
        of("paid", DataType::Boolean),
        of("items", DataType::Int),
        of("address", DataType::Struct(texts.into())),
    ];
    let chosen = all.into_iter().enumerate().filter(|(number, _)| column_of(*number, fields).is_some());
    DataType::Struct(chosen.map(|(_, field)| field).collect())
}

fn add(found: &mut Found, columns: Columns, fields: Fields) -> Result<()> {
    let values = columns.typed_value.and_then(|typed| typed.values).ok_or("there are no values")?;
    let column = |number| column_of(number, fields).and_then(|at| values.children.get(at));
    let data = |number| column(number).and_then(|array: &Array| array.buffers.get(1)).and_then(Option::as_ref);
    let (Some(Memory::Longs(ids)), Some(Memory::Doubles(amounts))) = (data(0), data(2)) else {
        return Err("there are no ids or amounts".into());
    };
    found.add_columns(ids, amounts, column(4).map_or(0, |notes| notes.null_count));
    Ok(())
}

/// A partition of a topic.
struct Batches {
    frames: Vec<Vec<u8>>,
    builder: ColumnBuilder,
}

impl Batches {
    fn new(values: &[Vec<u8>], builder: ColumnBuilder) -> Self {
        Batches { frames: values.chunks(FRAME_RECORDS).map(frame).collect(), builder }
    }

    fn run(&mut self, mut take: impl FnMut(Columns) -> Result<()>) -> Result<()> {
        for frame in &self.frames {
            let done = self.builder.append(frame, "", "orders", 0, Range { start: 0, end: i64::MAX }, &[])?;
            if done.stopped {
                return Err("a batch was not decoded to its end".into());
            }
            if self.builder.rows() >= BATCH_ROWS {
                take(self.builder.finish())?;
            }
        }
        take(self.builder.finish())
    }
}

/// A record batch without compression.
fn frame(values: &[Vec<u8>]) -> Vec<u8> {
    let mut records = Vec::new();
    for (delta, value) in values.iter().enumerate() {
        let mut record = vec![0, 0];
        zigzag(&mut record, delta as i64);
        zigzag(&mut record, -1);
        zigzag(&mut record, value.len() as i64);
        record.extend(value);
        record.push(0);
        zigzag(&mut records, record.len() as i64);
        records.extend(record);
    }
    let count = values.len() as i32;
    let mut checked = Vec::new();
    checked.extend(0_i16.to_be_bytes());
    checked.extend((count - 1).to_be_bytes());
    checked.extend([0; 16]);
    checked.extend([0xFF; 14]);
    checked.extend(count.to_be_bytes());
    checked.extend(records);
    let mut out = 0_i64.to_be_bytes().to_vec();
    out.extend((9 + checked.len() as i32).to_be_bytes());
    out.extend(0_i32.to_be_bytes());
    out.push(2);
    out.extend(crc32c::crc32c(&checked).to_be_bytes());
    out.extend(checked);
    out
}
