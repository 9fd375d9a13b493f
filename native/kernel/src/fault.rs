//! A value that cannot be decoded.

use crate::error::Error;

/// Why a value cannot be decoded: a clause that says where, what was expected, and what was found.
///
/// Such values may be common, so this is one pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault(Box<Text>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Text {
    /// The names of the fields that it is in, the innermost one first.
    fields: Vec<String>,
    detail: String,
}

/// The result of everything that decodes values.
pub(crate) type Decoded<T> = Result<T, Fault>;

impl From<Error> for Fault {
    #[cold]
    fn from(error: Error) -> Self {
        Fault::new(error.detail)
    }
}

/// How many bytes of lists and texts one row may still have.
///
/// A few bytes of a value can stand for many bytes of columns: `{}` for a struct of a hundred fields.
pub(crate) struct Budget {
    left: usize,
    whole: usize,
    exceeded: bool,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Budget { left: bytes_max, whole: bytes_max, exceeded: false }
    }

    /// How much was taken.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.whole - self.left
    }

    /// Whether more was to be taken than there was.
    pub(crate) fn exceeded(&self) -> bool {
        self.exceeded
    }

    #[cold]
    fn exceed(&mut self) -> Fault {
        self.exceeded = true;
        Fault::new(format!("its columns need more than {} bytes", self.whole))
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, bytes: usize) -> Decoded<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.exceed()),
        }
    }
}

impl Fault {
    #[cold]
    pub(crate) fn new(detail: impl Into<String>) -> Self {
        Fault(Box::new(Text { fields: Vec::new(), detail: detail.into() }))
    }

    /// Notes that it is in this field.
    #[cold]
    pub(crate) fn within(mut self, field: &str) -> Self {
        self.0.fields.push(field.to_owned());
        self
    }

    /// The clause.
    pub(crate) fn text(&self) -> String {
        let detail = &self.0.detail;
        if self.0.fields.is_empty() {
            return detail.clone();
        }
        let path: Vec<&str> = self.0.fields.iter().rev().map(String::as_str).collect();
        format!("{}: {detail}", path.join("."))
    }
}
