//! What texts stand for, as Spark reads them: decimals, dates, times, base64; and numbers as Java writes them.

pub(crate) mod base64;
pub(crate) mod calendar;
pub(crate) mod decimal;
pub(crate) mod double;
pub(crate) mod time;
