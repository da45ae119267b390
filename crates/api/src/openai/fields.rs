//! A JSON object taken apart field by field, so that what is left over can be refused by name.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::problem::Problem;

pub struct Fields {
    /// Where the object lies in the request: empty, or `messages[0].` with the stop.
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    pub fn of(path: impl Into<String>, value: Value) -> Result<Self, Problem> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self { path, map }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                let param = path.trim_end_matches('.').to_owned();
                Err(Problem::bad_request("invalid_type", param, "expected a JSON object"))
            }
        }
    }

    /// The field's full name, as an error names it.
    pub fn name(&self, field: &str) -> String {
        format!("{}{field}", self.path)
    }

    /// As in OpenAI's API, `null` is the same as absent.
    pub fn take(&mut self, field: &str) -> Option<Value> {
        self.map.remove(field).filter(|value| !value.is_null())
    }

    pub fn optional<T: DeserializeOwned>(&mut self, field: &str, expected: &str) -> Result<Option<T>, Problem> {
        let Some(value) = self.take(field) else { return Ok(None) };
        match serde_json::from_value(value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => {
                let name = self.name(field);
                let message = format!("`{name}` must be {expected}");
                Err(Problem::bad_request("invalid_type", name, message))
            }
        }
    }

    pub fn required<T: DeserializeOwned>(&mut self, field: &str, expected: &str) -> Result<T, Problem> {
        match self.optional(field, expected)? {
            Some(value) => Ok(value),
            None => {
                let name = self.name(field);
                let message = format!("`{name}` is missing; it must be {expected}");
                Err(Problem::bad_request("missing_required_parameter", name, message))
            }
        }
    }

    /// A field of which only this value asks for nothing that is not done anyway.
    pub fn only(&mut self, field: &str, accepted: &[Value], why: &str) -> Result<(), Problem> {
        match self.take(field) {
            None => Ok(()),
            Some(value) if accepted.contains(&value) => Ok(()),
            Some(_) => Err(Problem::unsupported(self.name(field), why)),
        }
    }

    /// A field that says nothing about the answer: who asks, say.
    pub fn irrelevant(&mut self, field: &str) {
        self.map.remove(field);
    }

    /// Refuses whatever was not taken.
    pub fn finish(self) -> Result<(), Problem> {
        match self.map.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((field, _)) => {
                let field: String = field.chars().filter(|c| !c.is_control()).take(64).collect();
                Err(Problem::unsupported(format!("{}{field}", self.path), "this server does not know it"))
            }
        }
    }
}
