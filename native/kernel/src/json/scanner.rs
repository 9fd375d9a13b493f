//! Finds the tokens of a JSON text. What is refused is what Jackson refuses, as Spark sets it up.

use crate::fault::{Decoded, Fault};
use crate::json::number::Number;
use crate::json::strings;

/// How deep arrays and objects may be nested.
const NESTED_MAX: usize = 1000;

/// The most digits of a number; a zero that it begins with does not count.
const DIGITS_MAX: usize = 1000;

/// The longest name, in UTF-16 code units.
const NAME_UNITS_MAX: usize = 50_000;

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The inside of a string, checked.
#[derive(Clone, Copy)]
pub(crate) struct RawString<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether there is an escape in it. All of them are right.
    pub(crate) escaped: bool,
}

/// Is told what is in an array or object, in its order.
pub(crate) trait Sink {
    /// A bracket, a comma or a colon.
    fn mark(&mut self, mark: u8);
    /// A name or a string.
    fn string(&mut self, raw: RawString<'_>);
    /// Another value: its text, and the number that it is, if it is a finite one.
    fn scalar(&mut self, text: &[u8], number: Option<Number<'_>>);
}

/// Takes no notice.
struct Nowhere;

impl Sink for Nowhere {
    #[inline(always)]
    fn mark(&mut self, _: u8) {}
    #[inline(always)]
    fn string(&mut self, _: RawString<'_>) {}
    #[inline(always)]
    fn scalar(&mut self, _: &[u8], _: Option<Number<'_>>) {}
}

/// A place in a text. Nesting is a stack of what has to be closed, which is used again.
pub(crate) struct Scanner<'a, 's> {
    bytes: &'a [u8],
    at: usize,
    open: &'s mut Vec<u8>,
}

/// So many bytes are looked at together.
const BLOCK: usize = 16;

/// How many plain characters a block begins with: none is the quote, a backslash or a control character.
#[inline(always)]
fn plain(block: &[u8; BLOCK], quote: u8) -> usize {
    let both = u128::from_le_bytes(*block);
    let (first, second) = (ends(both as u64, quote), ends((both >> 64) as u64, quote));
    // Without a branch, which could not be foreseen.
    let (marks, before) = if first != 0 { (first, 0) } else { (second, 8) };
    before + (marks.trailing_zeros() / 8) as usize
}

/// The high bit of each byte that is no plain character; the lowest one that is set is right.
#[inline(always)]
fn ends(word: u64, quote: u8) -> u64 {
    let zero = |bytes: u64| bytes.wrapping_sub(LOW) & !bytes;
    let quotes = zero(word ^ LOW.wrapping_mul(u64::from(quote)));
    let escapes = zero(word ^ LOW.wrapping_mul(u64::from(b'\\')));
    let controls = word.wrapping_sub(LOW.wrapping_mul(0x20)) & !word;
    (quotes | escapes | controls) & HIGH
}

impl<'a, 's> Scanner<'a, 's> {
    pub(crate) fn new(bytes: &'a [u8], open: &'s mut Vec<u8>) -> Self {
        Scanner { bytes, at: 0, open }
    }

    /// How many bytes are before the place.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The bytes from `begin` to the place.
    pub(crate) fn since(&self, begin: usize) -> &'a [u8] {
        self.bytes.get(begin..self.at).unwrap_or_default()
    }

    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next character that is no white space; it is not passed over.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other,
            }
        }
    }

    #[cold]
    pub(crate) fn expected(&self, what: &str) -> Fault {
        let rest = self.rest();
        let found = match rest {
            [] => "the end".to_owned(),
            _ => format!("{:?}", String::from_utf8_lossy(rest.get(..20.min(rest.len())).unwrap_or_default())),
        };
        Fault::new(format!("byte {}: expected {what}, found {found}", self.at))
    }

    /// The bytes from the place on.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline(always)]
    pub(crate) fn skip_bytes(&mut self, count: usize) {
        self.at += count;
    }

    /// Passes over the colon after a name.
    #[inline(always)]
    pub(crate) fn colon(&mut self) -> Decoded<()> {
        match self.next() {
            Some(b':') => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.expected("':'")),
        }
    }

    /// A string whose quote is next: a double one or, as Spark allows it, a single one.
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Decoded<RawString<'a>> {
        let Some(quote @ (b'"' | b'\'')) = self.peek() else { return Err(self.expected("a string")) };
        self.at += 1;
        let begin = self.at;
        let mut escaped = false;
        loop {
            while let Some(block) = self.rest().first_chunk::<BLOCK>() {
                let count = plain(block, quote);
                self.at += count;
                if count < BLOCK {
                    break;
                }
            }
            match self.peek() {
                Some(byte) if byte == quote => {
                    let bytes = self.since(begin);
                    self.at += 1;
                    return Ok(RawString { bytes, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(0x20..) => self.at += 1,
                Some(_) => return Err(self.expected("no control character in a string")),
                None => return Err(Fault::new(format!("byte {}: a string has no end", begin - 1))),
            }
        }
    }

    /// The name of a field, which has to be next.
    #[inline(always)]
    pub(crate) fn name(&mut self) -> Decoded<RawString<'a>> {
        let begin = self.at;
        let raw = match self.peek() {
            Some(b'"' | b'\'') => self.string()?,
            _ => return Err(self.expected("the name of a field")),
        };
        if raw.bytes.len() > NAME_UNITS_MAX && strings::units(raw) > NAME_UNITS_MAX {
            return Err(Fault::new(format!("byte {begin}: expected a name of at most {NAME_UNITS_MAX} characters")));
        }
        Ok(raw)
    }

    /// A string whose double quote is next, in which control characters may stand.
    pub(crate) fn string_with_controls(&mut self) -> Decoded<RawString<'a>> {
        let begin = self.at;
        let mut escaped = false;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                None => return Err(Fault::new(format!("byte {begin}: a string has no end"))),
                Some(b'"') => {
                    let bytes = self.since(begin + 1);
                    self.at += 1;
                    return Ok(RawString { bytes, escaped });
                }
                Some(_) => self.at += 1,
            }
        }
    }

    /// Passes over an escape.
    #[cold]
    fn escape(&mut self) -> Decoded<()> {
        let rest = self.rest();
        let length = match rest {
            [_, b'"' | b'\'' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [_, b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => 6,
            _ => return Err(self.expected("an escape of JSON")),
        };
        self.at += length;
        Ok(())
    }

    /// Passes over a word, which has been recognised by its first letter.
    #[inline]
    pub(crate) fn word(&mut self, word: &str) -> Decoded<()> {
        let rest = self.rest();
        let after = rest.get(word.len()).copied().unwrap_or(b' ');
        if !rest.starts_with(word.as_bytes()) || after.is_ascii_alphanumeric() || matches!(after, b'_' | b'$' | 0x80..)
        {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// A number, whose sign or first digit is next. `NaN` and infinities are `None`: their text is `since` it began.
    #[inline(always)]
    pub(crate) fn number(&mut self) -> Decoded<Option<Number<'a>>> {
        let rest = self.rest();
        match Number::read(rest) {
            Some(number) if number.text.len() > DIGITS_MAX && number.digits() > DIGITS_MAX => {
                Err(self.expected(&format!("a number of at most {DIGITS_MAX} digits")))
            }
            Some(number) => {
                self.at += number.text.len();
                Ok(Some(number))
            }
            None => self.not_a_number(rest),
        }
    }

    #[cold]
    fn not_a_number(&mut self, rest: &[u8]) -> Decoded<Option<Number<'a>>> {
        for word in ["NaN", "Infinity", "-Infinity", "+Infinity", "-INF", "+INF"] {
            if rest.starts_with(word.as_bytes()) {
                self.word(word)?;
                return Ok(None);
            }
        }
        Err(self.expected("a value"))
    }

    /// Passes over a value, and checks it.
    #[inline]
    pub(crate) fn skip_value(&mut self) -> Decoded<()> {
        match self.next() {
            Some(b'"' | b'\'') => self.string().map(|_| ()),
            Some(b'{' | b'[') => self.nested(&mut Nowhere),
            _ => self.scalar().map(|_| ()),
        }
    }

    /// Passes over a value that is no string, array or object. Returns the number that it is, if it is one.
    #[inline(always)]
    pub(crate) fn scalar(&mut self) -> Decoded<Option<Number<'a>>> {
        match self.peek() {
            Some(b't') => self.word("true")?,
            Some(b'f') => self.word("false")?,
            Some(b'n') => self.word("null")?,
            _ => return self.number(),
        }
        Ok(None)
    }

    /// Notes that an array or object begins; `closing` is what ends it.
    #[inline]
    pub(crate) fn enter(&mut self, closing: u8) -> Decoded<()> {
        if self.open.len() >= NESTED_MAX {
            return Err(Fault::new(format!("byte {}: more than {NESTED_MAX} arrays and objects are nested", self.at)));
        }
        self.open.push(closing);
        self.at += 1;
        Ok(())
    }

    /// Whether what ended was the last in an array or object that `closing` ends; passes over the comma after it.
    #[inline(always)]
    pub(crate) fn is_last(&mut self, closing: u8) -> Decoded<bool> {
        match self.next() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(byte) if byte == closing => Ok(true),
            _ => Err(self.expected(if closing == b'}' { "',' or '}'" } else { "',' or ']'" })),
        }
    }

    /// Passes over the end of an array or object.
    #[inline]
    pub(crate) fn leave(&mut self) {
        self.open.pop();
        self.at += 1;
    }

    /// Passes over an array or object, checks it, and tells `sink` what is in it.
    pub(crate) fn nested(&mut self, sink: &mut impl Sink) -> Decoded<()> {
        let outside = self.open.len();
        sink.mark(self.peek().unwrap_or_default());
        self.enter(self.closing())?;
        // Whether it may end before there is a value.
        let mut may_end = true;
        loop {
            let closing = self.open.last().copied().unwrap_or_default();
            if may_end && self.next() == Some(closing) {
                sink.mark(closing);
                self.leave();
            } else {
                if closing == b'}' {
                    self.next();
                    sink.string(self.name()?);
                    self.colon()?;
                    sink.mark(b':');
                }
                match self.next() {
                    Some(opening @ (b'{' | b'[')) => {
                        sink.mark(opening);
                        self.enter(self.closing())?;
                        may_end = true;
                        continue;
                    }
                    Some(b'"' | b'\'') => sink.string(self.string()?),
                    _ => {
                        let begin = self.at;
                        let number = self.scalar()?;
                        sink.scalar(self.since(begin), number);
                    }
                }
            }
            may_end = false;
            // After a value: the ends of all that it is the last of, then a comma.
            loop {
                if self.open.len() == outside {
                    return Ok(());
                }
                let closing = self.open.last().copied().unwrap_or_default();
                if !self.is_last(closing)? {
                    sink.mark(b',');
                    break;
                }
                sink.mark(closing);
                self.leave();
            }
        }
    }

    fn closing(&self) -> u8 {
        if self.peek() == Some(b'{') {
            b'}'
        } else {
            b']'
        }
    }
}
