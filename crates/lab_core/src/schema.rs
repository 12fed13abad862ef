//! The schema of `results.json`, checked in for others, and the check that what is written keeps to it.

use serde_json::Value;

/// JSON Schema of a record.
pub const RESULTS: &str = include_str!("../schema/results.json");

/// What of a record the schema does not allow; nothing when it keeps to it. Knows the words of JSON Schema
/// that [`RESULTS`] uses.
pub fn faults(record: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(RESULTS).expect("the schema is JSON");
    let mut out = Vec::new();
    check("results", &schema, record, &mut out);
    out
}

fn check(place: &str, schema: &Value, value: &Value, out: &mut Vec<String>) {
    let mut fault = |text: String| out.push(format!("{place}: {text}"));
    if schema.get("const").is_some_and(|wanted| wanted != value) {
        fault(format!("{value} instead of {}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        fault(format!("{value} is none of {}", schema["enum"]));
    }
    if !schema["type"].is_null() && !types(&schema["type"]).any(|name| is(name, value)) {
        fault(format!("{value} is not a valid {}", schema["type"]));
    }
    let least = schema["minimum"].as_f64().unwrap_or(f64::NEG_INFINITY);
    if value.as_f64().is_some_and(|number| number < least) {
        fault(format!("{value} is less than {least}"));
    }
    match value {
        Value::Array(list) => list.iter().enumerate().for_each(|(i, item)| {
            check(&format!("{place}[{i}]"), &schema["items"], item, out);
        }),
        Value::Object(map) => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            out.extend(
                required.filter(|key| !map.contains_key(*key)).map(|key| format!("{place}: no {key}")),
            );
            for (key, value) in map {
                let place = format!("{place}.{key}");
                match (&schema["properties"][key], &schema["additionalProperties"]) {
                    (Value::Null, Value::Bool(false)) => out.push(format!("{place}: not in the schema")),
                    (Value::Null, others) => check(&place, others, value, out),
                    (own, _) => check(&place, own, value, out),
                }
            }
        }
        _ => {}
    }
}

fn types(of: &Value) -> impl Iterator<Item = &str> {
    of.as_str().into_iter().chain(of.as_array().into_iter().flatten().filter_map(Value::as_str))
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_schema_does_not_allow_is_found() {
        let all = faults(&json!({ "schema": 2, "world": "moon", "seed": -1, "more": 1, "claims": [{}] }));
        let has = |text: &str| assert!(all.iter().any(|fault| fault.contains(text)), "{text}: {all:?}");
        for text in [
            "results.schema: 2",
            "\"moon\" is none of",
            "-1 is less",
            "results.more: not",
            "claims[0]: no verdict",
        ] {
            has(text);
        }
    }
}
