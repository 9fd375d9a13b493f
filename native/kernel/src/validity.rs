//! An Arrow validity bitmap, which is only made once there is a null.

/// Which rows of a column are null. Bit `row` (least significant first) is 0 for a null.
#[derive(Default)]
pub(crate) struct Validity {
    bits: Vec<u8>,
    nulls: usize,
}

impl Validity {
    /// `row` is the number of rows so far.
    #[inline]
    pub(crate) fn push_valid(&mut self, row: usize) {
        if self.nulls > 0 {
            self.push_bit(row, 1);
        }
    }

    /// `row` is the number of rows so far.
    #[inline]
    pub(crate) fn push_null(&mut self, row: usize) {
        if self.nulls == 0 {
            self.bits.clear();
            self.bits.resize(row.div_ceil(8), 0xff);
            self.clear_from(row);
        }
        self.nulls += 1;
        self.push_bit(row, 0);
    }

    #[inline]
    fn push_bit(&mut self, row: usize, bit: u8) {
        match self.bits.last_mut() {
            Some(last) if row % 8 != 0 => *last |= bit << (row % 8),
            _ => self.bits.push(bit),
        }
    }

    fn clear_from(&mut self, row: usize) {
        if let (Some(last), 1..) = (self.bits.last_mut(), row % 8) {
            *last &= (1_u8 << (row % 8)) - 1;
        }
    }

    /// Removes every row from `rows` on; there are `count` so far.
    pub(crate) fn truncate(&mut self, rows: usize, count: usize) {
        if self.nulls == 0 || rows >= count {
            return;
        }
        self.nulls -= (rows..count).filter(|&row| !self.is_valid(row)).count();
        self.bits.truncate(if self.nulls == 0 { 0 } else { rows.div_ceil(8) });
        self.clear_from(rows);
    }

    /// Whether `row`, one of those so far, is no null.
    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.nulls == 0 || self.bits.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
    }

    pub(crate) fn finish(&mut self) -> (Option<Vec<u8>>, usize) {
        let taken = std::mem::take(self);
        ((taken.nulls > 0).then_some(taken.bits), taken.nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(rows: &[bool]) -> Option<Vec<u8>> {
        rows.contains(&false).then(|| {
            rows.chunks(8)
                .map(|byte| byte.iter().enumerate().map(|(bit, &valid)| u8::from(valid) << bit).sum())
                .collect()
        })
    }

    proptest! {
        #[test]
        fn is_the_packed_rows_whatever_was_rolled_back(
            kept in proptest::collection::vec(any::<bool>(), 0..40),
            dropped in proptest::collection::vec(any::<bool>(), 0..40),
            added in proptest::collection::vec(any::<bool>(), 0..40),
        ) {
            let mut validity = Validity::default();
            let mut rows = 0;
            let push = |validity: &mut Validity, valid: bool, rows: &mut usize| {
                if valid { validity.push_valid(*rows) } else { validity.push_null(*rows) }
                *rows += 1;
            };
            kept.iter().for_each(|&valid| push(&mut validity, valid, &mut rows));
            dropped.iter().for_each(|&valid| push(&mut validity, valid, &mut rows));
            validity.truncate(kept.len(), rows);
            rows = kept.len();
            added.iter().for_each(|&valid| push(&mut validity, valid, &mut rows));
            let expected: Vec<bool> = kept.into_iter().chain(added).collect();
            prop_assert_eq!(validity.finish(), (packed(&expected), expected.iter().filter(|v| !**v).count()));
        }
    }
}
