//! The description of the API, OpenAPI 3.1. The schemas are those of the types that are served and taken; the
//! paths are those of the collections. `docs/openapi.json` is the same text: a test compares.

use axum::Json;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use super::bodies;
use super::collections::Collection;
use super::{problem, state, streams};
use crate::access;
use crate::nodes;
use crate::request;

/// The version of the API, not of masu.
pub(super) const VERSION: &str = "1.0.0";

#[derive(OpenApi)]
#[openapi(components(schemas(
    status::Status,
    status::Events,
    status::EventRecord,
    status::Job,
    status::Histograms,
    bodies::VolumeCreate,
    bodies::VolumeSet,
    bodies::SnapshotCreate,
    bodies::PoolCreate,
    bodies::PoolSet,
    bodies::GroupCreate,
    bodies::GroupSet,
    bodies::DriveCreate,
    bodies::HostCreate,
    bodies::HostSet,
    bodies::LunCreate,
    bodies::PolicyCreate,
    bodies::ImageCreate,
    bodies::JobCreate,
    request::Terms,
    request::Done,
    request::Declared,
    problem::Problem,
    state::Health,
    state::Version,
    status::Node,
    nodes::NodeDrain,
    streams::Counters,
    access::TokenCreate,
    access::ShownToken,
    access::CreatedToken,
)))]
struct Schemas;

pub(super) async fn serve() -> Json<Value> {
    Json(document())
}

/// The whole description.
pub(super) fn document() -> Value {
    let schemas = serde_json::to_value(Schemas::openapi()).unwrap_or_default();
    let mut paths = Map::new();
    whole(&mut paths);
    Collection::ALL.into_iter().for_each(|collection| of_collection(&mut paths, collection));
    moves(&mut paths);
    tokens(&mut paths);
    paths.iter_mut().for_each(|(path, methods)| say_roles(path, methods));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "masu",
            "version": VERSION,
            "description": "The administration of a storage array. docs/api.md has authentication, errors and examples.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        // Who owns the array's own socket needs no token; everybody else does.
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas["components"]["schemas"],
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn json_of(description: &str, schema: &Value) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn problem(description: &str) -> Value {
    let schema = schema("Problem");
    json!({ "description": description, "content": { "application/problem+json": { "schema": schema } } })
}

/// An operation: its identifier, what it does, the answers beside those of all.
fn operation(id: &str, summary: &str, answers: &[(&str, Value)]) -> Value {
    let mut responses = Map::new();
    let all = [
        ("400", "The request makes no sense"),
        ("401", "The token is missing, wrong or expired"),
        ("403", "The role of the token does not suffice"),
        ("429", "Too many requests, or too many wrong tokens: Retry-After says when to try again"),
        ("503", "The array does not answer now, or another node owns it"),
    ];
    all.into_iter().for_each(|(code, text)| _ = responses.insert(code.into(), problem(text)));
    answers.iter().for_each(|(code, answer)| _ = responses.insert((*code).into(), answer.clone()));
    json!({ "operationId": id, "summary": summary, "responses": responses })
}

fn with_body(mut operation: Value, schema: &Value) -> Value {
    operation["requestBody"] =
        json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    let answers = [
        ("409", "The state of the array forbids it"),
        ("413", "The body is too large"),
        ("415", "The body is not application/json"),
        ("422", "The body can be read, and cannot be done"),
    ];
    for (code, text) in answers {
        operation["responses"][code] = problem(text);
    }
    operation
}

fn with_parameters(mut operation: Value, parameters: &[Value]) -> Value {
    operation["parameters"] = parameters.into();
    operation
}

fn number(name: &str, description: &str, minimum: u64, maximum: u64) -> Value {
    let schema = json!({ "type": "integer", "minimum": minimum, "maximum": maximum });
    json!({ "name": name, "in": "query", "description": description, "schema": schema })
}

fn text(name: &str, place: &str, description: &str) -> Value {
    json!({
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": { "type": "string", "minLength": u8::from(place == "path") },
    })
}

const NUMBER_MAX: u64 = 1 << 53;

/// What is asked of the array as a whole.
fn whole(paths: &mut Map<String, Value>) {
    let read = |id: &str, summary: &str, name: &str| json!({ "get": operation(id, summary, &[("200", json_of(summary, &schema(name)))]) });
    paths.insert("/healthz".into(), read("healthz", "Whether the process lives", "Health"));
    paths.insert("/readyz".into(), read("readyz", "Whether all controllers answer", "Health"));
    paths.insert("/version".into(), read("version", "Which version runs", "Version"));
    paths.insert("/v1/status".into(), read("status", "How the array stands", "Status"));
    let summary = "Latency histograms of LUs, hosts, and layers below";
    paths.insert("/v1/latencies".into(), read("latencies", summary, "Histograms"));
    paths.insert("/v1/config".into(), read("config", "What is declared; secrets are in it", "Declared"));
    let object = json!({ "type": "object" });
    let answer = json_of("This description", &object);
    let described = operation("openapi", "This description", &[("200", answer)]);
    paths.insert("/openapi.json".into(), json!({ "get": described }));
    let metrics =
        json!({ "description": "Metrics", "content": { "text/plain": { "schema": { "type": "string" } } } });
    let metrics = operation("metrics", "Metrics for Prometheus", &[("200", metrics)]);
    paths.insert("/metrics".into(), json!({ "get": metrics }));
    let change = json!({
        "type": "object",
        "required": ["change"],
        "properties": { "change": { "type": "string" } },
    });
    let done = ("200", json_of("What was done", &schema("Done")));
    let post = with_body(operation("change", "A change, as commands send it", &[done]), &change);
    paths.insert("/v1/change".into(), json!({ "post": post }));
    events(paths);
    let luns = with_body(
        operation(
            "createLun",
            "A host is to see a volume, a snapshot or an image",
            &[
                ("201", made("It sees it")),
                ("404", problem("No such host")),
                ("412", problem("The host has changed: If-Match")),
            ],
        ),
        &schema("LunCreate"),
    );
    let luns = with_parameters(luns, &[text("name", "path", "The host"), key(), if_match()]);
    paths.insert("/v1/hosts/{name}/luns".into(), json!({ "post": luns }));
    let unmap = operation(
        "deleteLun",
        "A host sees a volume no longer",
        &[
            ("204", json!({ "description": "It does not see it" })),
            ("404", problem("No such host, or it does not see it")),
            ("409", problem("The state of the array forbids it")),
            ("412", problem("The host has changed: If-Match")),
            ("422", problem("The declaration would be wrong")),
        ],
    );
    let names = [text("name", "path", "The host"), text("volume", "path", "What it sees"), if_match()];
    paths
        .insert("/v1/hosts/{name}/luns/{volume}".into(), json!({ "delete": with_parameters(unmap, &names) }));
}

/// Adds to each operation the role that it needs; what anybody may ask needs none, and is never refused.
fn say_roles(path: &str, methods: &mut Value) {
    for (method, operation) in methods.as_object_mut().into_iter().flatten() {
        if access::PUBLIC.contains(&path) {
            operation["security"] = json!([]);
            for code in ["401", "403", "429"] {
                operation["responses"].as_object_mut().and_then(|all| all.remove(code));
            }
            continue;
        }
        let method = method.to_uppercase();
        // The name of a method that is none is refused by the test of roles.
        let role = method.parse().map(|method| access::of_path(&method, path).name());
        operation["x-role"] = role.unwrap_or("none").into();
    }
}

/// What is asked of nodes.
fn moves(paths: &mut Map<String, Value>) {
    let answers = [
        ("202", json_of("The owner is asked: another node answers soon", &schema("Done"))),
        ("404", problem("No such node")),
    ];
    let drain = operation("drainNode", "The array moves from its owner to another node", &answers);
    let name = text("name", "path", "The owner; `this` is the node that answers");
    let drain = with_parameters(with_body(drain, &schema("NodeDrain")), &[name]);
    paths.insert("/v1/nodes/{name}/drain".into(), json!({ "post": drain }));
}

/// Who may ask.
fn tokens(paths: &mut Map<String, Value>) {
    let page = json!({
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": { "type": "array", "items": schema("ShownToken") },
            "next": { "type": ["string", "null"], "description": "What to give as `after`; none on the last page" },
        },
    });
    let list = operation("listTokens", "The tokens, by name", &[("200", json_of("A page", &page))]);
    let limit = number("limit", "So many at most; 100 when not given", 1, 1000);
    let after = text("after", "query", "Only those whose names come after this one");
    let made = ("201", json_of("It is there; nobody learns it again", &schema("CreatedToken")));
    let create = with_body(operation("createToken", "A new token", &[made]), &schema("TokenCreate"));
    let list = with_parameters(list, &[limit, after]);
    paths.insert("/v1/tokens".into(), json!({ "get": list, "post": create }));
    let name = || [text("name", "path", "Its name")];
    let unknown = ("404", problem("No such token"));
    let shown = ("200", json_of("The token, without what proves it", &schema("ShownToken")));
    let show = with_parameters(operation("showToken", "A token", &[shown, unknown.clone()]), &name());
    let gone = ("204", json!({ "description": "It is refused from now on" }));
    let delete = with_parameters(operation("deleteToken", "A token is deleted", &[gone, unknown]), &name());
    paths.insert("/v1/tokens/{name}".into(), json!({ "get": show, "delete": delete }));
}

/// Events, and what comes as a stream.
fn events(paths: &mut Map<String, Value>) {
    let list = operation(
        "listEvents",
        "Kept events, the oldest first",
        &[("200", json_of("Events", &schema("Events")))],
    );
    let list = with_parameters(
        list,
        &[
            number("after", "Only those with a higher number", 0, NUMBER_MAX),
            number("since_ms", "Only those since then, in milliseconds since 1970", 0, NUMBER_MAX),
            number("last", "Only the last ones", 0, NUMBER_MAX),
            number("limit", "So many at most", 0, NUMBER_MAX),
            number("wait_ms", "Wait so long for one, at most 25,000", 0, NUMBER_MAX),
        ],
    );
    paths.insert("/v1/events".into(), json!({ "get": list }));
    let show = operation(
        "showEvent",
        "An event",
        &[
            ("200", json_of("The event", &schema("EventRecord"))),
            ("404", problem("No such event, or it is kept no longer")),
        ],
    );
    let show = with_parameters(show, &[text("name", "path", "The number of the event")]);
    paths.insert("/v1/events/{name}".into(), json!({ "get": show }));
    let seconds = || number("seconds", "The stream ends after so many", 0, 3600);
    let after = number("after", "Only those with a higher number", 0, NUMBER_MAX);
    let streams = [
        ("/v1/events/stream", "streamEvents", "Events as they happen: server-sent events", "EventRecord"),
        (
            "/v1/counters/stream",
            "streamCounters",
            "Counters of LUs, every second: server-sent events",
            "Counters",
        ),
    ];
    for (path, id, summary, of) in streams {
        let answer = json!({
            "description": format!("A stream; the data of each of its events is a {of}"),
            "content": { "text/event-stream": { "schema": { "type": "string" } } },
        });
        let stream = operation(id, summary, &[("200", answer)]);
        let parameters = if id == "streamEvents" { vec![seconds(), after.clone()] } else { vec![seconds()] };
        paths.insert(path.into(), json!({ "get": with_parameters(stream, &parameters) }));
    }
}

fn key() -> Value {
    let description = "A request that is sent again with its key is answered as the first time";
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "description": description,
        "schema": { "type": "string", "pattern": "^[A-Za-z0-9._-]{8,128}$" },
    })
}

fn if_match() -> Value {
    let description = "Only if the object still has this ETag";
    json!({
        "name": "If-Match",
        "in": "header",
        "description": description,
        "schema": { "type": "string", "pattern": "^(\\*|\"[0-9a-f]+\")$" },
    })
}

/// The answer to a POST.
fn made(description: &str) -> Value {
    let mut answer = json_of(description, &schema("Done"));
    answer["headers"] =
        json!({ "Location": { "description": "The object", "schema": { "type": "string" } } });
    answer
}

/// The paths of a collection.
fn of_collection(paths: &mut Map<String, Value>, collection: Collection) {
    let (name, one) = (collection.name(), collection.one());
    let object = {
        let (first, rest) = one.split_at(1);
        format!("{}{rest}", first.to_uppercase())
    };
    // Snapshots are volumes that name what they were made of.
    let shown = schema(if object == "Snapshot" { "Volume" } else { &object });
    let page = json!({
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": { "type": "array", "items": shown },
            "next": { "type": ["string", "null"], "description": "What to give as `after`; none on the last page" },
        },
    });
    let list = operation(
        &format!("list{object}"),
        &format!("The {name}, by name"),
        &[("200", json_of("A page", &page))],
    );
    let limit = number("limit", "So many at most; 100 when not given", 1, 1000);
    let after = text("after", "query", "Only those whose names come after this one");
    let mut all = json!({ "get": with_parameters(list, &[limit, after]) });
    if let Some(body) = create_body(collection) {
        let (code, text) = match collection {
            Collection::Jobs => ("202", "It has begun: Location has the job while it runs"),
            _ => ("201", "It is there"),
        };
        let summary = format!("A new {one}");
        let mut answer = made(text);
        answer["links"] = links(collection, &object);
        let create = operation(&format!("create{object}"), &summary, &[(code, answer)]);
        let mut create = with_body(create, &schema(body));
        create["requestBody"]["content"]["application/json"]["example"] = example(collection);
        all["post"] = with_parameters(create, &[key()]);
    }
    paths.insert(format!("/v1/{name}"), all);
    let path_name = match collection {
        Collection::Jobs => text("name", "path", "KIND:OBJECT, as in scrub:g0"),
        _ => text("name", "path", "Its name"),
    };
    let unknown = ("404", problem(&format!("No such {one}, or it cannot be opened")));
    let changed = ("412", problem("It has changed: If-Match"));
    let mut shows = json_of(&format!("The {one}"), &shown);
    shows["headers"] =
        json!({ "ETag": { "description": "Of what is declared of it", "schema": { "type": "string" } } });
    let ok = ("200", shows);
    let show = operation(&format!("show{object}"), &format!("A {one}"), &[ok.clone(), unknown.clone()]);
    let mut of_one = json!({ "get": with_parameters(show, std::slice::from_ref(&path_name)) });
    if let Some(body) = set_body(collection) {
        let summary = format!("What is given of a {one} changes");
        let set = operation(&format!("set{object}"), &summary, &[ok, unknown.clone(), changed.clone()]);
        of_one["patch"] = with_parameters(with_body(set, &schema(body)), &[path_name.clone(), if_match()]);
    }
    if deletes(collection) {
        let gone = ("204", json!({ "description": "It was deleted" }));
        let conflict = ("409", problem("Something uses it"));
        let wrong = ("422", problem("The declaration would be wrong"));
        let answers = [gone, unknown, changed, conflict, wrong];
        let delete = operation(&format!("delete{object}"), &format!("A {one} goes"), &answers);
        of_one["delete"] = with_parameters(delete, &[path_name, if_match()]);
    }
    paths.insert(format!("/v1/{name}/{{name}}"), of_one);
}

/// Where a new object is found.
fn links(collection: Collection, object: &str) -> Value {
    let mut links = Map::new();
    if collection != Collection::Jobs {
        let set = set_body(collection).map(|_| "set");
        let verbs = [Some("show"), set, deletes(collection).then_some("delete")];
        for verb in verbs.into_iter().flatten() {
            let name = json!({ "name": "$request.body#/name" });
            links
                .insert(verb.into(), json!({ "operationId": format!("{verb}{object}"), "parameters": name }));
        }
    }
    links.into()
}

/// A body that works on an array with the volume `v1`, the group `g1` and files for drives.
fn example(collection: Collection) -> Value {
    match collection {
        Collection::Volumes => json!({ "name": "v1", "size_bytes": 1_073_741_824 }),
        Collection::Snapshots => json!({ "name": "v1-monday", "volume": "v1" }),
        Collection::Pools => json!({ "name": "p1", "groups": ["g1"] }),
        Collection::Groups => {
            let drives = ["a.img", "b.img"];
            json!({ "name": "g1", "level": "raid1", "drives": drives, "drive_bytes": 268_435_456 })
        }
        Collection::Drives => json!({ "name": "s0", "path": "s0.img", "drive_bytes": 268_435_456 }),
        Collection::Hosts => json!({ "name": "kvm1", "initiator": "iqn.2004-10.com.example:kvm1" }),
        Collection::Policies => json!({ "name": "gold", "terms": { "minimum_iops": 100, "weight": 200 } }),
        Collection::Images => json!({ "name": "i1", "file": "disk.vhdx" }),
        Collection::Jobs => json!({ "kind": "scrub", "object": "g1" }),
        Collection::Nodes => Value::Null,
    }
}

fn create_body(collection: Collection) -> Option<&'static str> {
    match collection {
        Collection::Volumes => Some("VolumeCreate"),
        Collection::Snapshots => Some("SnapshotCreate"),
        Collection::Pools => Some("PoolCreate"),
        Collection::Groups => Some("GroupCreate"),
        Collection::Drives => Some("DriveCreate"),
        Collection::Hosts => Some("HostCreate"),
        Collection::Policies => Some("PolicyCreate"),
        Collection::Images => Some("ImageCreate"),
        Collection::Jobs => Some("JobCreate"),
        Collection::Nodes => None,
    }
}

fn set_body(collection: Collection) -> Option<&'static str> {
    match collection {
        Collection::Volumes => Some("VolumeSet"),
        Collection::Pools => Some("PoolSet"),
        Collection::Groups => Some("GroupSet"),
        Collection::Hosts => Some("HostSet"),
        Collection::Policies => Some("Terms"),
        _ => None,
    }
}

fn deletes(collection: Collection) -> bool {
    !matches!(collection, Collection::Jobs | Collection::Nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `MASU_WRITE=1 cargo test -p admin openapi` writes the file anew.
    #[test]
    fn the_description_is_the_one_that_is_checked_in() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let now = serde_json::to_string_pretty(&document()).expect("it is JSON") + "\n";
        if std::env::var_os("MASU_WRITE").is_some() {
            std::fs::write(path, &now).expect("it is written");
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == now, "docs/openapi.json is another one: MASU_WRITE=1 cargo test -p admin openapi");
    }

    #[test]
    fn every_operation_says_its_role_or_is_public() {
        let document = document();
        let paths = document["paths"].as_object().expect("paths");
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().expect("methods") {
                let role = operation["x-role"].as_str();
                let is_public = operation["security"] == json!([]);
                assert_eq!(is_public, access::PUBLIC.contains(&path.as_str()), "{method} {path}");
                let known = |name| access::Role::ALL.iter().any(|role| role.name() == name);
                assert!(is_public || role.is_some_and(known), "{method} {path}: {role:?}");
                assert!(role != Some("viewer") || method == "get", "{method} {path}: a viewer only reads");
            }
        }
        assert_eq!(paths["/v1/config"]["get"]["x-role"], "admin");
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let document = document();
        let text = document.to_string();
        let names = text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next());
        let names: std::collections::BTreeSet<&str> = names.collect();
        assert!(names.len() > 30, "{names:?}");
        for name in names {
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
