//! Names as they came before, so that most need only be compared.

/// So many names of one object are known, and no longer ones.
const NAMES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 64;

/// A name that came, and the field that it is.
struct Known {
    /// The name in its quotes, and a colon.
    text: Box<[u8]>,
    /// Its first bytes, and which of them count.
    head: u128,
    mask: u128,
    field: Option<usize>,
}

/// The names of one struct's objects, in the order in which they came first.
///
/// Objects that one producer writes have their names in one order. Whatever the order, the field is the right one.
#[derive(Default)]
pub(crate) struct Names {
    known: Vec<Known>,
}

const HEAD: usize = size_of::<u128>();

impl Names {
    /// How long the text is that `bytes` begin with if it is name number `expected`, and which field that is.
    #[inline(always)]
    pub(crate) fn expect(&self, bytes: &[u8], expected: usize) -> Option<(usize, Option<usize>)> {
        let known = self.known.get(expected)?;
        let length = known.text.len();
        let found = match bytes.first_chunk::<HEAD>() {
            Some(head) => {
                u128::from_le_bytes(*head) & known.mask == known.head
                    && (length <= HEAD || bytes.get(HEAD..length) == known.text.get(HEAD..))
            }
            None => bytes.starts_with(&known.text),
        };
        found.then_some((length, known.field))
    }

    /// Notes which field a name is that came with `text`: its quotes and colon. Returns which name to expect after it.
    #[inline(never)]
    pub(crate) fn note(&mut self, text: &[u8], field: Option<usize>) -> usize {
        if let Some(at) = self.known.iter().position(|known| *known.text == *text) {
            return at + 1;
        }
        if self.known.len() < NAMES_MAX && text.len() <= NAME_BYTES_MAX {
            let mut head = [0; HEAD];
            head.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
            let unused = 8 * HEAD.saturating_sub(text.len()) as u32;
            let mask = u128::MAX.checked_shr(unused).unwrap_or_default();
            self.known.push(Known { text: text.into(), head: u128::from_le_bytes(head), mask, field });
        }
        self.known.len()
    }
}
