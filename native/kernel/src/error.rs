use std::fmt;

/// The kind of an error, for a caller that decides by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A record batch does not have the checksum that it carries.
    Crc,
    /// A structure ends before its own lengths say so.
    Truncated,
    /// Bytes that do not follow the format.
    Malformed,
    /// A compressed payload that cannot be decompressed, or a codec that is unknown.
    Codec,
    /// More bytes than a bound allows.
    TooLarge,
    /// A record batch of another format than v2.
    UnsupportedMagic,
    /// A timestamp that microseconds in 64 bits cannot hold.
    Timestamp,
    /// A key or a value that cannot be decoded.
    Undecodable,
    /// A condition that cannot be evaluated on a record.
    Condition,
}

impl Kind {
    /// The name under which a caller in another language sees it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Crc => "crc",
            Kind::Truncated => "truncated",
            Kind::Malformed => "malformed",
            Kind::Codec => "codec",
            Kind::TooLarge => "too_large",
            Kind::UnsupportedMagic => "unsupported_magic",
            Kind::Timestamp => "timestamp",
            Kind::Undecodable => "undecodable",
            Kind::Condition => "condition",
        }
    }
}

/// Input that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of the error.
    pub kind: Kind,
    /// The base offset of the record batch in question, or -1 if not known; with [`Kind::Timestamp`],
    /// [`Kind::Undecodable`] and [`Kind::Condition`] the offset of the record.
    pub offset: i64,
    /// A clause that says what was expected and what was found.
    pub detail: String,
}

/// The result of everything that reads input.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    #[cold]
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Error { kind, offset: -1, detail: detail.into() }
    }

    #[cold]
    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Error::new(Kind::Malformed, detail)
    }

    #[cold]
    pub(crate) fn truncated(what: &str, needed: usize, left: usize) -> Self {
        Error::new(Kind::Truncated, format!("{what} needs {needed} bytes, {left} are left"))
    }

    /// Adds the record batch or record where it happened, unless it has one already.
    #[cold]
    pub(crate) fn at(mut self, offset: i64) -> Self {
        if self.offset < 0 {
            self.offset = offset;
        }
        self
    }

    /// Puts the place where it happened before the detail.
    #[cold]
    pub(crate) fn within(mut self, place: fmt::Arguments<'_>) -> Self {
        self.detail = format!("{place}: {}", self.detail);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}: {}", self.kind.name(), self.offset, self.detail)
    }
}

impl std::error::Error for Error {}
