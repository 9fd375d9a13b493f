//! What texts stand for, as Spark reads them: decimals, dates, times, base64; numbers as Java writes them; what is no UTF-8.

pub(crate) mod base64;
pub(crate) mod calendar;
pub(crate) mod decimal;
pub(crate) mod double;
pub(crate) mod time;
pub(crate) mod utf_8;

/// Whether a number is negative, and what follows its sign, if it has one.
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

/// The digits that a text begins with, and what follows them.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at(count)
}
