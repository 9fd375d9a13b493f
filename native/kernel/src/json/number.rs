//! Numbers in JSON.

/// A number, taken apart.
#[derive(Clone, Copy)]
pub(crate) struct Number<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) negative: bool,
    /// Whether it has neither a point nor an exponent.
    pub(crate) integer: bool,
    /// The digits without the point, if `exact`.
    digits: u64,
    /// What they are to be multiplied by, as a power of ten.
    exponent: i32,
    /// Whether `digits` holds all of them.
    exact: bool,
}

/// The powers of ten that 64 bits of floating point hold exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Up to so many digits, whatever they are, fit into 64 bits.
const DIGITS_MAX: usize = 19;

/// Integers up to this are exact in 64 bits of floating point.
const EXACT_MAX: u64 = 1 << 53;

impl<'a> Number<'a> {
    /// The number that `bytes` begin with; `None` if they do not begin with one.
    #[inline(always)]
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let negative = bytes.first() == Some(&b'-');
        let begin = usize::from(negative);
        let mut at = begin;
        let mut digits = 0_u64;
        let take = |at: &mut usize, digits: &mut u64| {
            while let Some(digit @ b'0'..=b'9') = bytes.get(*at) {
                *digits = digits.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
                *at += 1;
            }
        };
        take(&mut at, &mut digits);
        let whole = at - begin;
        // No leading zeros.
        if whole == 0 || (whole > 1 && bytes.get(begin) == Some(&b'0')) {
            return None;
        }
        let mut number = Number { text: &[], negative, integer: true, digits, exponent: 0, exact: whole <= DIGITS_MAX };
        if let Some(b'.' | b'e' | b'E') = bytes.get(at) {
            number.integer = false;
            if bytes.get(at) == Some(&b'.') {
                at += 1;
                let point = at;
                take(&mut at, &mut number.digits);
                let fraction = at - point;
                if fraction == 0 {
                    return None;
                }
                number.exact = whole + fraction <= DIGITS_MAX;
                number.exponent = i32::try_from(fraction).map_or(i32::MIN, |fraction| -fraction);
            }
            if let Some(b'e' | b'E') = bytes.get(at) {
                at += 1;
                let minus = bytes.get(at) == Some(&b'-');
                at += usize::from(matches!(bytes.get(at), Some(b'-' | b'+')));
                let first = at;
                let mut exponent = 0_i32;
                while let Some(digit @ b'0'..=b'9') = bytes.get(at) {
                    exponent = exponent.saturating_mul(10).saturating_add(i32::from(digit - b'0'));
                    at += 1;
                }
                if at == first {
                    return None;
                }
                number.exponent = number.exponent.saturating_add(if minus { -exponent } else { exponent });
            }
        }
        number.text = bytes.get(..at)?;
        Some(number)
    }

    /// How many digits it has, one less if it begins with a zero.
    #[cold]
    pub(crate) fn digits(&self) -> usize {
        let digits = self.text.iter().filter(|byte| byte.is_ascii_digit());
        digits.clone().count() - usize::from(digits.clone().next() == Some(&b'0'))
    }

    /// Its value, if it is written as an integer and 64 bits can hold it.
    #[inline(always)]
    pub(crate) fn long(&self) -> Option<i64> {
        if !self.integer || !self.exact {
            return None;
        }
        match self.negative {
            false => i64::try_from(self.digits).ok(),
            true => 0_i64.checked_sub_unsigned(self.digits),
        }
    }

    /// The nearest number in 64 bits of floating point; infinite if it is too large.
    #[inline(always)]
    pub(crate) fn double(&self) -> f64 {
        if self.is_plain_zero() {
            return 0.0;
        }
        if self.exact && self.digits <= EXACT_MAX {
            let power = POWERS.get(self.exponent.unsigned_abs() as usize);
            if let Some(power) = power {
                // Both are exact, so there is one rounding (Clinger, 1990).
                let digits = self.digits as f64;
                let value = if self.exponent < 0 { digits / power } else { digits * power };
                return if self.negative { -value } else { value };
            }
        }
        self.parse().unwrap_or(f64::NAN)
    }

    /// The nearest number in 32 bits of floating point; infinite if it is too large.
    pub(crate) fn float(&self) -> f32 {
        if self.is_plain_zero() {
            return 0.0;
        }
        self.parse().unwrap_or(f32::NAN)
    }

    /// Whether it is 0 or -0: an integer has no negative zero.
    #[inline(always)]
    fn is_plain_zero(&self) -> bool {
        self.integer && self.digits == 0 && self.exact
    }

    fn parse<T: std::str::FromStr>(&self) -> Option<T> {
        std::str::from_utf8(self.text).ok()?.parse().ok()
    }
}
