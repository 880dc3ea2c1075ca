//! The description of the HTTP port: `/openapi.json`, and a page that shows it without another host.

use std::{collections::BTreeMap, sync::OnceLock};

use accelerd_proto::methods::METHODS;
use axum::{
    extract::State,
    response::{Html, IntoResponse, Response},
};
use http::header;
use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use crate::{
    api::json_rpc::{LINES, descriptor},
    endpoints::{APIS, Endpoint},
    exchange::JSON,
    shared::Shared,
};

/// The page of the documentation.
const PAGE: &str = include_str!("docs.html");

/// The link to the console, in the page.
const CONSOLE: &str = " The <a href=\"console\">console</a> shows and calls this daemon.";

/// `GET /openapi.json`.
pub(crate) async fn openapi() -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    ([(header::CONTENT_TYPE, JSON)], TEXT.get_or_init(|| description().to_string()).as_str()).into_response()
}

/// `GET /docs`.
pub(crate) async fn docs(State(shared): State<Shared>) -> Html<String> {
    Html(if shared.settings.console { PAGE.to_owned() } else { PAGE.replace(CONSOLE, "") })
}

fn description() -> Value {
    let mut paths: BTreeMap<String, Value> = BTreeMap::new();
    for api in &APIS {
        for Endpoint { verb, path, summary, fields, .. } in api.endpoints {
            let mut operation = operation(api.name, summary, JSON);
            if !fields.is_empty() {
                operation["requestBody"] = body(&fields_schema(fields));
            }
            let verbs = paths.entry(path.replace("{*", "{")).or_insert_with(|| json!({}));
            verbs[verb.name()] = operation;
        }
    }
    let mut schemas = BTreeMap::new();
    for method in &METHODS {
        let found = descriptor(method);
        let input = found.input();
        let output = found.output();
        let content_type = if method.server_streaming { LINES } else { JSON };
        let mut operation = operation(method.service, method.name, content_type);
        operation["requestBody"] = body(&reference(input.full_name()));
        operation["responses"]["200"]["content"][content_type]["schema"] = reference(output.full_name());
        paths.insert(method.path.to_owned(), json!({ "post": operation }));
        add_message(&mut schemas, &input);
        add_message(&mut schemas, &output);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "accelerd", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    })
}

fn operation(tag: &str, summary: &str, content_type: &str) -> Value {
    let ok = json!({ "description": "The answer.", "content": { content_type: {} } });
    json!({ "tags": [tag], "summary": summary, "responses": { "200": ok } })
}

fn body(schema: &Value) -> Value {
    json!({ "required": true, "content": { JSON: { "schema": schema } } })
}

fn fields_schema(fields: &[(&str, &str)]) -> Value {
    let required: Vec<_> = fields.iter().filter_map(|(name, _)| name.strip_suffix('!')).collect();
    let properties = fields.iter().map(|(name, kind)| (name.trim_end_matches('!').to_owned(), kind_schema(kind)));
    let properties: Map<_, _> = properties.collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn kind_schema(kind: &str) -> Value {
    let text = json!({ "type": "string" });
    match kind {
        "texts" => json!({ "oneOf": [text, { "type": "array" }] }),
        "objects" => json!({ "type": "array", "items": { "type": "object" } }),
        "strings" => json!({ "type": "array", "items": text }),
        "documents" => {
            let object = json!({ "type": "object", "properties": { "text": text }, "required": ["text"] });
            json!({ "type": "array", "items": { "oneOf": [text, object] } })
        }
        "format" => json!({ "type": "string", "enum": ["float", "base64"] }),
        plain => json!({ "type": plain }),
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Adds the schema of a message and of all that it contains.
fn add_message(schemas: &mut BTreeMap<String, Value>, message: &MessageDescriptor) {
    if schemas.contains_key(message.full_name()) {
        return;
    }
    // Messages may contain themselves.
    schemas.insert(message.full_name().to_owned(), Value::Null);
    let schema = well_known(message.full_name()).unwrap_or_else(|| {
        let fields = message.fields().map(|field| (field.json_name().to_owned(), field_schema(schemas, &field)));
        let properties: Map<_, _> = fields.collect();
        json!({ "type": "object", "properties": properties })
    });
    schemas.insert(message.full_name().to_owned(), schema);
}

/// Messages that have a form of their own in JSON.
fn well_known(name: &str) -> Option<Value> {
    match name {
        "google.protobuf.Duration" => Some(json!({ "type": "string", "examples": ["1.5s"] })),
        "google.protobuf.Timestamp" => Some(json!({ "type": "string", "format": "date-time" })),
        _ => None,
    }
}

fn field_schema(schemas: &mut BTreeMap<String, Value>, field: &FieldDescriptor) -> Value {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { return json!({}) };
        let value = value_schema(schemas, &entry.map_entry_value_field().kind());
        return json!({ "type": "object", "additionalProperties": value });
    }
    let value = value_schema(schemas, &field.kind());
    if field.cardinality() == Cardinality::Repeated { json!({ "type": "array", "items": value }) } else { value }
}

fn value_schema(schemas: &mut BTreeMap<String, Value>, kind: &Kind) -> Value {
    match kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::String => json!({ "type": "string" }),
        Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        Kind::Float | Kind::Double => json!({ "type": ["number", "string"] }),
        Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Fixed32 | Kind::Sfixed32 => json!({ "type": "integer" }),
        Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => {
            json!({ "type": "string", "format": "int64" })
        }
        Kind::Enum(descriptor) => enum_schema(descriptor),
        Kind::Message(message) => {
            add_message(schemas, message);
            reference(message.full_name())
        }
    }
}

fn enum_schema(descriptor: &EnumDescriptor) -> Value {
    let names: Vec<_> = descriptor.values().map(|value| value.name().to_owned()).collect();
    json!({ "type": "string", "enum": names })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The references in a value.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_method_is_described_and_every_reference_exists() {
        let description = description();
        for method in METHODS {
            assert!(description["paths"][method.path]["post"].is_object(), "{}", method.path);
        }
        let mut found = vec![];
        references(&description, &mut found);
        assert!(found.len() > 100);
        for reference in found {
            let name = reference.rsplit('/').next().expect("a name");
            assert!(description["components"]["schemas"][name].is_object(), "{reference}");
        }
    }

    #[test]
    fn the_page_needs_no_other_host() {
        assert!(PAGE.contains("openapi.json"));
        assert!(PAGE.contains(CONSOLE));
        for absent in ["http://", "https://", "//cdn", "@import"] {
            assert!(!PAGE.contains(absent), "{absent}");
        }
    }
}
