//! Floating point as Java writes it.

use std::fmt::Write;

/// Writes `value` as `Double.toString` does from JDK 19 on: the fewest digits that are the number again.
pub(crate) fn write(value: f64, out: &mut String) {
    if value.is_nan() {
        out.push_str("NaN");
        return;
    }
    if value.is_infinite() {
        out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
        return;
    }
    if value.is_sign_negative() {
        out.push('-');
    }
    let magnitude = value.abs();
    if magnitude == 0.0 {
        out.push_str("0.0");
    } else if magnitude == f64::from_bits(1) {
        // At least two digits, of which these are the nearer ones.
        out.push_str("4.9E-324");
    } else if (1e-3..1e7).contains(&magnitude) {
        let before = out.len();
        // Writing to a string cannot fail.
        let _ = write!(out, "{magnitude}");
        if !out.get(before..).is_some_and(|written| written.contains('.')) {
            out.push_str(".0");
        }
    } else {
        let scientific = format!("{magnitude:E}");
        let (digits, exponent) = scientific.split_once('E').unwrap_or((&scientific, "0"));
        out.push_str(digits);
        if !digits.contains('.') {
            out.push_str(".0");
        }
        out.push('E');
        out.push_str(exponent);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn as_java_does() {
        for (value, expected) in [
            (1.0, "1.0"),
            (1000.0, "1000.0"),
            (0.1, "0.1"),
            (1e7, "1.0E7"),
            (9_999_999.5, "9999999.5"),
            (1e-6, "1.0E-6"),
            (0.001, "0.001"),
            (-0.0, "-0.0"),
            (1.000_000_000_000_000_1e23, "1.0000000000000001E23"),
            (5e-324, "4.9E-324"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157E308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            let mut written = String::new();
            super::write(value, &mut written);
            assert_eq!(written, expected);
        }
    }
}
