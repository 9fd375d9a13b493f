//! Columns as Arrow lays them out, made by hand.

use super::{varint, Header};
use evensplit_kernel::encode::Column;

/// A row before it is a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Option<Vec<Header>>,
    pub timestamp: Option<i64>,
    pub partition: Option<i32>,
    pub topic: Option<i32>,
}

/// An array that owns its buffers.
#[derive(Default)]
pub struct Owned {
    rows: usize,
    offset: usize,
    wide: bool,
    pub buffers: Vec<Option<Vec<u8>>>,
    pub children: Vec<Owned>,
}

impl Owned {
    pub fn column(&self) -> Column<'_> {
        Column {
            rows: self.rows,
            offset: self.offset,
            wide: self.wide,
            buffers: self.buffers.iter().map(Option::as_deref).collect(),
            children: self.children.iter().map(Owned::column).collect(),
        }
    }

    /// Without the first `rows`, which stay in the buffers.
    pub fn cut(mut self, rows: usize) -> Self {
        self.rows -= rows;
        self.offset += rows;
        self
    }
}

fn bits(valid: impl Iterator<Item = bool>) -> Option<Vec<u8>> {
    let valid: Vec<bool> = valid.collect();
    let byte = |bits: &[bool]| bits.iter().enumerate().map(|(bit, valid)| u8::from(*valid) << bit).sum();
    valid.contains(&false).then(|| valid.chunks(8).map(byte).collect())
}

fn offsets(lengths: impl Iterator<Item = usize>, wide: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut end = 0;
    for length in std::iter::once(0).chain(lengths) {
        end += length;
        match wide {
            true => out.extend((end as i64).to_le_bytes()),
            false => out.extend((end as i32).to_le_bytes()),
        }
    }
    out
}

pub fn binary(cells: &[Option<Vec<u8>>], wide: bool) -> Owned {
    let lengths = cells.iter().map(|cell| cell.as_ref().map_or(0, Vec::len));
    let data = cells.iter().flatten().flatten().copied().collect();
    let buffers = vec![bits(cells.iter().map(Option::is_some)), Some(offsets(lengths, wide)), Some(data)];
    Owned { rows: cells.len(), wide, buffers, ..Owned::default() }
}

pub fn numbers<const N: usize>(cells: &[Option<[u8; N]>]) -> Owned {
    let data = cells.iter().flat_map(|cell| cell.unwrap_or([0xaa; N])).collect();
    Owned { rows: cells.len(), buffers: vec![bits(cells.iter().map(Option::is_some)), Some(data)], ..Owned::default() }
}

pub fn headers(cells: &[Option<Vec<Header>>], wide: bool) -> Owned {
    let all: Vec<&Header> = cells.iter().flatten().flatten().collect();
    let keys: Vec<_> = all.iter().map(|(key, _)| Some(key.clone())).collect();
    let values: Vec<_> = all.iter().map(|(_, value)| value.clone()).collect();
    let items = Owned {
        rows: all.len(),
        buffers: vec![None],
        children: vec![binary(&keys, false), binary(&values, wide)],
        ..Owned::default()
    };
    let lengths = cells.iter().map(|cell| cell.as_ref().map_or(0, Vec::len));
    let buffers = vec![bits(cells.iter().map(Option::is_some)), Some(offsets(lengths, wide))];
    Owned { rows: cells.len(), wide, buffers, children: vec![items], ..Owned::default() }
}

/// The columns of rows; each may begin with rows that are cut away.
pub struct Table {
    pub key: Owned,
    pub value: Owned,
    pub headers: Owned,
    pub timestamps: Owned,
    pub partitions: Owned,
    pub topics: Owned,
}

impl Table {
    pub fn of(rows: &[Given], cut: usize, wide: bool) -> Self {
        let cells = |of: fn(&Given) -> &Option<Vec<u8>>| rows.iter().map(|row| of(row).clone()).collect::<Vec<_>>();
        let ints = |of: fn(&Given) -> Option<i32>| {
            numbers(&rows.iter().map(|row| of(row).map(i32::to_le_bytes)).collect::<Vec<_>>())
        };
        let longs: Vec<_> = rows.iter().map(|row| row.timestamp.map(i64::to_le_bytes)).collect();
        Table {
            key: binary(&cells(|row| &row.key), wide).cut(cut),
            value: binary(&cells(|row| &row.value), !wide).cut(cut),
            headers: headers(&rows.iter().map(|row| row.headers.clone()).collect::<Vec<_>>(), wide).cut(cut),
            timestamps: numbers(&longs).cut(cut),
            partitions: ints(|row| row.partition).cut(cut),
            topics: ints(|row| row.topic).cut(cut),
        }
    }

    pub fn rows(&self) -> evensplit_kernel::encode::Rows<'_> {
        evensplit_kernel::encode::Rows {
            key: Some(self.key.column()),
            value: Some(self.value.column()),
            headers: Some(self.headers.column()),
            timestamps: Some(self.timestamps.column()),
            partitions: Some(self.partitions.column()),
            topics: Some(self.topics.column()),
        }
    }
}

/// How many bytes a record has, as its place in the batch makes it.
pub fn record_bytes(row: &Given, offset_delta: i64, timestamp_delta: i64) -> usize {
    let mut body = vec![0];
    varint(&mut body, timestamp_delta);
    varint(&mut body, offset_delta);
    for cell in [&row.key, &row.value] {
        varint(&mut body, cell.as_ref().map_or(-1, |bytes| bytes.len() as i64));
        body.extend(cell.iter().flatten());
    }
    let headers = row.headers.as_deref().unwrap_or_default();
    varint(&mut body, headers.len() as i64);
    for (key, value) in headers {
        for cell in [Some(key), value.as_ref()] {
            varint(&mut body, cell.map_or(-1, |bytes| bytes.len() as i64));
            body.extend(cell.into_iter().flatten());
        }
    }
    let mut length = Vec::new();
    varint(&mut length, body.len() as i64);
    length.len() + body.len()
}
