//! Orders like those of `bench/peer/data.py`, the same in every run, in JSON, Avro and Protobuf.

use prost::Message;
use serde::Serialize;

const CITIES: [&str; 8] = ["Amsterdam", "Bogota", "Dublin", "Lagos", "Madrid", "Osaka", "Quito", "Vienna"];
const STREETS: [&str; 6] = ["Königstraße", "Rue Église", "Calle Peñón", "Main Street", "Plaça Reial", "Øster Allé"];
const CURRENCIES: [&str; 3] = ["EUR", "USD", "GBP"];

/// What Confluent's serializers put before a value: a zero byte, and the id of its schema.
pub const FRAME: [u8; 5] = [0, 0, 0, 0, SCHEMA_ID as u8];
pub const SCHEMA_ID: u32 = 7;

#[derive(Clone, PartialEq, Message, Serialize)]
pub struct Order {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub customer: String,
    #[prost(double, tag = "3")]
    pub amount: f64,
    #[prost(string, tag = "4")]
    pub currency: String,
    #[prost(string, optional, tag = "5")]
    pub note: Option<String>,
    #[prost(bool, tag = "6")]
    pub paid: bool,
    #[prost(int32, tag = "7")]
    pub items: i32,
    #[prost(message, optional, tag = "8")]
    pub address: Option<Address>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub struct Address {
    #[prost(string, tag = "1")]
    pub street: String,
    #[prost(string, tag = "2")]
    pub city: String,
    #[prost(string, tag = "3")]
    pub zip: String,
}

/// The same orders in each format, a value for each.
pub struct Values {
    pub json: Vec<Vec<u8>>,
    /// Each begins with FRAME.
    pub avro: Vec<Vec<u8>>,
    pub protobuf: Vec<Vec<u8>>,
}

impl Values {
    pub fn new(count: usize) -> Result<Self, serde_json::Error> {
        let mut random = Random(7);
        let orders: Vec<Order> = (0..count).map(|number| random.order(number)).collect();
        Ok(Values {
            json: orders.iter().map(serde_json::to_vec).collect::<Result<_, _>>()?,
            avro: orders.iter().map(in_avro).collect(),
            protobuf: orders.iter().map(Message::encode_to_vec).collect(),
        })
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % bound
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.below(texts.len() as u64) as usize]
    }

    fn order(&mut self, number: usize) -> Order {
        let note =
            (!number.is_multiple_of(3)).then(|| format!("für {}, {:06x}", self.one_of(&CITIES), self.below(1 << 24)));
        Order {
            id: 4_000_000_000 + number as i64,
            customer: format!("user-{:05}", self.below(50_000)),
            amount: (1 + self.below(99_999)) as f64 / 100.0,
            currency: self.one_of(&CURRENCIES).to_owned(),
            note,
            paid: self.below(10) < 8,
            items: 1 + self.below(29) as i32,
            address: Some(Address {
                street: format!("{} {}", self.one_of(&STREETS), self.below(200)),
                city: self.one_of(&CITIES).to_owned(),
                zip: format!("{:05}", self.below(100_000)),
            }),
        }
    }
}

fn in_avro(order: &Order) -> Vec<u8> {
    let mut out = FRAME.to_vec();
    zigzag(&mut out, order.id);
    text(&mut out, &order.customer);
    out.extend(order.amount.to_le_bytes());
    text(&mut out, &order.currency);
    zigzag(&mut out, i64::from(order.note.is_some()));
    if let Some(note) = &order.note {
        text(&mut out, note);
    }
    out.push(u8::from(order.paid));
    zigzag(&mut out, i64::from(order.items));
    for part in order.address.iter().flat_map(|address| [&address.street, &address.city, &address.zip]) {
        text(&mut out, part);
    }
    out
}

fn text(out: &mut Vec<u8>, text: &str) {
    zigzag(out, text.len() as i64);
    out.extend(text.as_bytes());
}

/// A number as Avro and Kafka write it.
pub fn zigzag(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
