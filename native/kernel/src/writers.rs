//! How keys or values are decoded, by the schemas that they were written by.

use crate::fault::Decoded;
use crate::format::Format;
use crate::framing::{Framed, Writer};
use std::collections::HashMap;

/// What becomes of all that one schema has written.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// It is decoded.
    In(Format),
    /// It cannot be decoded, for this reason: a clause.
    Refused(String),
}

/// So many schemas are known at a time. A topic can name any number of them, and only few will exist.
const KNOWN_MAX: usize = 10_000;

/// The schemas of the writers that are known, by cluster: ids of several registries have nothing to do with each other.
#[derive(Default)]
pub(crate) struct Writers {
    clusters: Vec<Box<str>>,
    /// The number of the cluster that is read.
    cluster: usize,
    numbers: HashMap<(usize, Writer), usize>,
    known: Vec<Written>,
    /// The frame that came last, and its number in `known`; empty: none did.
    head: Vec<u8>,
    number: usize,
}

impl Writers {
    /// Notes that what comes next is from this cluster.
    #[inline]
    pub(crate) fn select(&mut self, cluster: &str) {
        if self.clusters.get(self.cluster).is_some_and(|selected| **selected == *cluster) {
            return;
        }
        self.head.clear();
        self.cluster = self.clusters.iter().position(|known| **known == *cluster).unwrap_or_else(|| {
            self.clusters.push(cluster.into());
            self.clusters.len() - 1
        });
    }

    /// Notes what becomes of all that `writer` has written in the cluster that is selected.
    pub(crate) fn add(&mut self, writer: Writer, written: Written) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
            self.numbers.clear();
            self.head.clear();
        }
        self.numbers.insert((self.cluster, writer), self.known.len());
        self.known.push(written);
    }

    /// What becomes of a value with this frame; `None` if its schema is not known.
    #[inline]
    pub(crate) fn find(&mut self, framed: &Framed<'_>) -> Decoded<Option<&Written>> {
        if self.head != framed.head {
            let Some(&number) = self.numbers.get(&(self.cluster, framed.writer()?)) else { return Ok(None) };
            self.head.clear();
            self.head.extend_from_slice(framed.head);
            self.number = number;
        }
        Ok(self.known.get(self.number))
    }
}
