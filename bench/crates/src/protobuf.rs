//! Crates that read Protobuf.

use crate::found::{Decoder, Fields, Result};
use crate::orders::Order;
use prost::Message;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, OneofDescriptorProto,
};
use prost_reflect::{DescriptorPool, DynamicMessage};

#[derive(Clone, PartialEq, Message)]
struct Two {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(double, tag = "3")]
    amount: f64,
}

pub fn decoders(values: &[Vec<u8>], fields: Fields) -> Result<Vec<Decoder<'_>>> {
    Ok(vec![with_prost(values, fields), with_reflection(values, fields)?])
}

fn with_prost(values: &[Vec<u8>], fields: Fields) -> Decoder<'_> {
    Decoder::of_each("prost", "struct", values, move |value, found| {
        match fields {
            Fields::All => {
                let order = Order::decode(value)?;
                found.add(order.id, order.amount, order.note.is_none());
            }
            Fields::Two => {
                let two = Two::decode(value)?;
                found.add(two.id, two.amount, false);
            }
        }
        Ok(())
    })
}

/// It keeps fields that it does not know, so the projection is none.
fn with_reflection(values: &[Vec<u8>], fields: Fields) -> Result<Decoder<'_>> {
    let pool = DescriptorPool::from_file_descriptor_set(FileDescriptorSet { file: vec![file(fields)] })?;
    let order = pool.get_message_by_name("Order").ok_or("there is no message")?;
    let field = |name: &str| order.get_field_by_name(name);
    let (id, amount, note) = (field("id").ok_or("no id")?, field("amount").ok_or("no amount")?, field("note"));
    Ok(Decoder::of_each("prost-reflect", "tree of values", values, move |value, found| {
        let message = DynamicMessage::decode(order.clone(), value)?;
        let (Some(id), Some(amount)) = (message.get_field(&id).as_i64(), message.get_field(&amount).as_f64()) else {
            return Err("there is no id or amount".into());
        };
        found.add(id, amount, note.as_ref().is_some_and(|note| !message.has_field(note)));
        Ok(())
    }))
}

fn file(fields: Fields) -> FileDescriptorProto {
    let field = |(number, (name, kind)): (usize, &(&str, Type))| FieldDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(number as i32 + 1),
        label: Some(Label::Optional as i32),
        r#type: Some(*kind as i32),
        type_name: (*kind == Type::Message).then(|| ".Address".to_owned()),
        proto3_optional: (*name == "note").then_some(true),
        oneof_index: (*name == "note").then_some(0),
        ..Default::default()
    };
    let order = [
        ("id", Type::Int64),
        ("customer", Type::String),
        ("amount", Type::Double),
        ("currency", Type::String),
        ("note", Type::String),
        ("paid", Type::Bool),
        ("items", Type::Int32),
        ("address", Type::Message),
    ];
    let address = ["street", "city", "zip"].map(|name| (name, Type::String));
    let wanted = |number: usize| fields == Fields::All || matches!(number, 0 | 2);
    let oneof = OneofDescriptorProto { name: Some("_note".to_owned()), ..Default::default() };
    let messages = [
        DescriptorProto {
            name: Some("Order".to_owned()),
            field: order.iter().enumerate().filter(|(number, _)| wanted(*number)).map(field).collect(),
            oneof_decl: if fields == Fields::All { vec![oneof] } else { Vec::new() },
            ..Default::default()
        },
        DescriptorProto {
            name: Some("Address".to_owned()),
            field: address.iter().enumerate().map(field).collect(),
            ..Default::default()
        },
    ];
    FileDescriptorProto {
        name: Some("orders.proto".to_owned()),
        syntax: Some("proto3".to_owned()),
        message_type: messages.into(),
        ..Default::default()
    }
}
