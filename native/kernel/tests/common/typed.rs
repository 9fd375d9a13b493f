//! The rows in columns of any type, read as Arrow reads them.

use evensplit_kernel::{Array, DataType, Memory};

/// Row number `row` as text; `~` is null.
pub fn cell(array: &Array, of: &DataType, row: usize) -> String {
    assert!(row < array.rows);
    if !is_valid(array, row) {
        return "~".to_owned();
    }
    let number = |at: usize| match array.buffers[at].as_ref().unwrap() {
        Memory::Bytes(all) => (all[row] as i8).to_string(),
        Memory::Shorts(all) => all[row].to_string(),
        Memory::Ints(all) => all[row].to_string(),
        Memory::Longs(all) => all[row].to_string(),
        Memory::Floats(all) => format!("{:?}", all[row]),
        Memory::Doubles(all) => format!("{:?}", all[row]),
        Memory::Decimals(all) => all[row].to_string(),
    };
    match of {
        DataType::Boolean => bit(array.buffers[1].as_ref().unwrap(), row).to_string(),
        DataType::String | DataType::Binary => {
            let Some(Memory::Bytes(data)) = &array.buffers[2] else { panic!("no data") };
            format!("{:?}", String::from_utf8_lossy(&data[span(array, row)]))
        }
        DataType::Struct(fields) => {
            let cells = fields.iter().zip(&array.children).map(|(field, child)| cell(child, &field.data_type, row));
            format!("({})", cells.collect::<Vec<_>>().join(" "))
        }
        DataType::Array(element) => {
            let cells = span(array, row).map(|item| cell(&array.children[0], element, item));
            format!("[{}]", cells.collect::<Vec<_>>().join(" "))
        }
        DataType::Map(key, value) => {
            let (keys, values) = (&array.children[0].children[0], &array.children[0].children[1]);
            let cells =
                span(array, row).map(|item| format!("{}: {}", cell(keys, key, item), cell(values, value, item)));
            format!("{{{}}}", cells.collect::<Vec<_>>().join(" "))
        }
        _ => number(1),
    }
}

/// That every buffer and every column inside fits to the number of rows.
pub fn check(array: &Array, of: &DataType) {
    let rows = array.rows;
    let bits = array.buffers[0].as_ref();
    assert_eq!(bits.is_some(), array.null_count > 0);
    assert_eq!((0..rows).filter(|row| !is_valid(array, *row)).count(), array.null_count);
    if let Some(Memory::Bytes(bits)) = bits {
        assert_eq!(bits.len(), rows.div_ceil(8));
    }
    let items = || {
        let Some(Memory::Ints(offsets)) = &array.buffers[1] else { panic!("no offsets") };
        assert_eq!(offsets.len(), rows + 1);
        assert_eq!(offsets[0], 0);
        assert!(offsets.windows(2).all(|pair| pair[0] <= pair[1]));
        offsets[rows] as usize
    };
    match of {
        DataType::Struct(fields) => {
            assert_eq!(fields.len(), array.children.len());
            for (field, child) in fields.iter().zip(&array.children) {
                assert_eq!(child.rows, rows);
                check(child, &field.data_type);
            }
        }
        DataType::Array(element) => {
            assert_eq!(array.children[0].rows, items());
            check(&array.children[0], element);
        }
        DataType::Map(key, value) => {
            let entries = &array.children[0];
            assert_eq!(entries.rows, items());
            for (child, of) in entries.children.iter().zip([key, value]) {
                assert_eq!(child.rows, entries.rows);
                check(child, of);
            }
        }
        DataType::String | DataType::Binary => {
            let Some(Memory::Bytes(data)) = &array.buffers[2] else { panic!("no data") };
            assert_eq!(data.len(), items());
        }
        DataType::Boolean => {
            let Some(Memory::Bytes(bits)) = &array.buffers[1] else { panic!("no bits") };
            assert_eq!(bits.len(), rows.div_ceil(8));
        }
        _ => {}
    }
}

fn is_valid(array: &Array, row: usize) -> bool {
    array.buffers[0].as_ref().is_none_or(|bits| bit(bits, row))
}

fn bit(bits: &Memory, row: usize) -> bool {
    let Memory::Bytes(bits) = bits else { panic!("no bits") };
    bits[row / 8] >> (row % 8) & 1 == 1
}

fn span(array: &Array, row: usize) -> std::ops::Range<usize> {
    let Some(Memory::Ints(offsets)) = &array.buffers[1] else { panic!("no offsets") };
    offsets[row] as usize..offsets[row + 1] as usize
}
