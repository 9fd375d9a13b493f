//! Values that are no strings, as text: without blanks, and with the escapes that Jackson writes.

use crate::json::number::Number;
use crate::json::scanner::{RawString, Sink};
use crate::json::strings;
use crate::text::double;

/// Writes arrays and objects down again.
pub(crate) struct Rewriter<'d> {
    out: &'d mut String,
}

impl<'d> Rewriter<'d> {
    pub(crate) fn new(out: &'d mut String) -> Self {
        out.clear();
        Rewriter { out }
    }

    fn number(&mut self, text: &[u8], number: Number<'_>) {
        if !number.integer {
            let value = number.double();
            self.not_quite_finite(value);
        } else if text == b"-0" {
            self.out.push('0');
        } else {
            self.out.push_str(&String::from_utf8_lossy(text));
        }
    }

    /// What is infinite or no number stands in quotes.
    fn not_quite_finite(&mut self, value: f64) {
        let quote = if value.is_finite() { "" } else { "\"" };
        self.out.push_str(quote);
        double::write(value, self.out);
        self.out.push_str(quote);
    }
}

impl Sink for Rewriter<'_> {
    fn mark(&mut self, mark: u8) {
        self.out.push(char::from(mark));
    }

    fn string(&mut self, raw: RawString<'_>) {
        self.out.push('"');
        strings::write_escaped(raw, self.out);
        self.out.push('"');
    }

    fn scalar(&mut self, text: &[u8], number: Option<Number<'_>>) {
        match (number, super::decode::not_finite(text)) {
            (Some(number), _) => self.number(text, number),
            (None, Some(value)) => self.not_quite_finite(value),
            (None, None) => self.out.push_str(&String::from_utf8_lossy(text)),
        }
    }
}
