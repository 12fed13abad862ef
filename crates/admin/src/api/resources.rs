//! One handler for each verb, over all collections.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::bodies::{Create, JobCreate, JobKind, LunCreate, Set};
use super::collections::{Collection, tag};
use super::idempotency::Answer;
use super::page::{PageParams, page};
use super::problem::Problem;
use super::work::{make, must_be};
use crate::nodes;
use crate::request::{Change, Done};
use crate::served::{Served, Who, current};

pub(super) async fn list(
    collection: Collection,
    served: Arc<Served>,
    asked: PageParams,
) -> Result<Response, Problem> {
    let status = current(&served).await?;
    Ok(Json(page(collection.objects(&status), &asked)?).into_response())
}

pub(super) async fn show(
    collection: Collection,
    served: Arc<Served>,
    name: &str,
) -> Result<Response, Problem> {
    let status = current(&served).await?;
    let node = (collection == Collection::Nodes).then(|| nodes::named(&status.nodes, name)).flatten();
    let name = node.map_or(name, |node| &node.name);
    let found = collection.objects(&status).into_iter().find(|(of, _)| of == name);
    let Some((_, object)) = found else {
        let missing = status.missing.iter().find(|m| m.kind == collection.one() && m.name == name);
        return Err(match missing {
            Some(missing) => {
                let detail = format!("{} {name:?} cannot be opened: {}", missing.kind, missing.cause);
                Problem::new(StatusCode::NOT_FOUND, "missing", detail)
            }
            None => Problem::not_found(collection.one(), name),
        });
    };
    let declared = collection.declared(&served.array.known().config, name);
    let mut response = Json(object).into_response();
    if let Some(value) = declared.and_then(|text| HeaderValue::from_str(&tag(&text)).ok()) {
        response.headers_mut().insert(header::ETAG, value);
    }
    Ok(response)
}

/// Who asks, and with which headers.
pub(super) struct Asker {
    pub(super) who: Who,
    pub(super) headers: HeaderMap,
}

pub(super) async fn create<T: Create>(
    collection: Collection,
    served: Arc<Served>,
    asker: Asker,
    (body, bytes): (T, Bytes),
) -> Result<Response, Problem> {
    let path = format!("/v1/{}", collection.name());
    let (name, change) = body.into_change();
    let location = format!("{path}/{}", escaped(&name));
    let answer = once(&served, &asker, (&path, bytes), async {
        let done = make(&served, &asker.who, |config| {
            if collection.is_taken(config, &name) {
                let detail = format!("{} {name:?} is there already", collection.one());
                return Err(Problem::conflict("name_taken", detail).of_field("name"));
            }
            refers(config, &change)?;
            Ok(vec![change])
        });
        answer(StatusCode::CREATED, location, done.await?)
    });
    answer.await.map(respond)
}

pub(super) async fn set<T: Set>(
    collection: Collection,
    served: Arc<Served>,
    asker: Asker,
    (name, body): (&str, T),
) -> Result<Response, Problem> {
    make(&served, &asker.who, |config| {
        must_be(collection, config, name, &asker.headers)?;
        let changes = body.into_changes(name);
        if changes.is_empty() {
            return Err(Problem::invalid("nothing is to be changed: give at least one field"));
        }
        changes.iter().try_for_each(|change| refers(config, change))?;
        Ok(changes)
    })
    .await?;
    show(collection, served, name).await
}

pub(super) async fn delete(
    collection: Collection,
    served: Arc<Served>,
    asker: Asker,
    name: String,
) -> Result<Response, Problem> {
    make(&served, &asker.who, |config| {
        must_be(collection, config, &name, &asker.headers)?;
        Ok(vec![match collection {
            Collection::Volumes => Change::VolumeDelete { name },
            Collection::Snapshots => Change::SnapshotDelete { name },
            Collection::Drives => Change::DriveForget { name },
            Collection::Hosts => Change::HostDelete { name },
            Collection::Policies => Change::PolicyDelete { name },
            Collection::Images => Change::ImageRemove { name },
            Collection::Pools => Change::PoolDelete { name },
            Collection::Groups => Change::GroupDelete { name },
            Collection::Jobs | Collection::Nodes => {
                return Err(Problem::internal("this collection deletes nothing"));
            }
        }])
    })
    .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Work begins: its job tells how far it is.
pub(super) async fn begin(
    served: Arc<Served>,
    asker: Asker,
    (body, bytes): (JobCreate, Bytes),
) -> Result<Response, Problem> {
    let location = format!("/v1/jobs/{}", escaped(&format!("{}:{}", body.kind.name(), body.object)));
    let answer = once(&served, &asker, ("/v1/jobs", bytes), async {
        let of = match body.kind {
            JobKind::Scrub => Collection::Groups,
            JobKind::Reclaim => Collection::Volumes,
            JobKind::Rebalance => Collection::Pools,
        };
        let done = make(&served, &asker.who, |config| {
            if of.declared(config, &body.object).is_none() {
                let detail = format!("unknown {} {:?}", of.one(), body.object);
                return Err(Problem::invalid(detail).of_field("object"));
            }
            Ok(vec![body.into_change()])
        });
        answer(StatusCode::ACCEPTED, location, done.await?)
    });
    answer.await.map(respond)
}

/// A host is to see a volume.
pub(super) async fn map(
    served: Arc<Served>,
    asker: Asker,
    host: &str,
    (body, bytes): (LunCreate, Bytes),
) -> Result<Response, Problem> {
    let path = format!("/v1/hosts/{}/luns", escaped(host));
    let location = format!("{path}/{}", escaped(&body.volume));
    let answer = once(&served, &asker, (&path, bytes), async {
        let done = make(&served, &asker.who, |config| {
            must_be(Collection::Hosts, config, host, &asker.headers)?;
            if !Collection::Volumes.is_taken(config, &body.volume) {
                let detail = format!("unknown volume or image {:?}", body.volume);
                return Err(Problem::invalid(detail).of_field("volume"));
            }
            Ok(vec![body.into_change(host)])
        });
        answer(StatusCode::CREATED, location, done.await?)
    });
    answer.await.map(respond)
}

/// A host sees a volume no longer.
pub(super) async fn unmap(
    served: Arc<Served>,
    asker: Asker,
    (host, volume): (String, String),
) -> Result<Response, Problem> {
    make(&served, &asker.who, |config| {
        must_be(Collection::Hosts, config, &host, &asker.headers)?;
        let of = config.hosts.iter().find(|h| h.name == host);
        if !of.is_some_and(|h| h.luns.values().any(|seen| *seen == volume)) {
            return Err(Problem::not_found("LUN of the host with volume", &volume));
        }
        Ok(vec![Change::Unmap { host, volume }])
    })
    .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What a change refers to must be there: it is a field of the body that is wrong.
fn refers(config: &config::Config, change: &Change) -> Result<(), Problem> {
    let unknown = |kind: &str, name: &str, field: &str| {
        Err(Problem::invalid(format!("unknown {kind} {name:?}")).of_field(field))
    };
    match change {
        Change::VolumeCreate { pool: Some(pool), .. } if config.pool(pool).is_none() => {
            unknown("pool", pool, "pool")
        }
        Change::SnapshotCreate { volume, .. } if config.volume(volume).is_none() => {
            unknown("volume", volume, "volume")
        }
        Change::PolicyAttach { name, .. } if !config.policies.iter().any(|p| p.name == *name) => {
            unknown("policy", name, "policy")
        }
        Change::PoolCreate { groups, .. } => {
            match groups.iter().find(|name| !config.groups.iter().any(|g| g.name == **name)) {
                Some(group) => unknown("group", group, "groups"),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Does what a POST asks for; once for each idempotency key.
async fn once(
    served: &Arc<Served>,
    asker: &Asker,
    (path, bytes): (&str, Bytes),
    work: impl Future<Output = Result<Answer, Problem>>,
) -> Result<Answer, Problem> {
    let Some(key) = asker.headers.get("idempotency-key") else { return work.await };
    let Ok(key) = key.to_str() else {
        return Err(Problem::bad_request("idempotency_key", "Idempotency-Key must be ASCII"));
    };
    let request =
        Bytes::from([asker.who.name.as_bytes(), b"\0", path.as_bytes(), b"\0", &bytes[..]].concat());
    // Held over the work: a second request with the same key waits for the first.
    let mut keys = served.keys.lock().await;
    if let Some(answer) = keys.find(key, &request, Instant::now())? {
        return Ok(answer);
    }
    let answer = work.await?;
    keys.keep(key, request, Instant::now(), answer.clone());
    Ok(answer)
}

fn answer(status: StatusCode, location: String, done: Vec<String>) -> Result<Answer, Problem> {
    let body = serde_json::to_vec(&Done { done }).map_err(|e| Problem::internal(e.to_string()))?;
    Ok(Answer { status, location, body: body.into() })
}

fn respond(answer: Answer) -> Response {
    let mut response = (answer.status, answer.body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(location) = HeaderValue::from_str(&answer.location) {
        headers.insert(header::LOCATION, location);
    }
    response
}

/// A name as a part of a path.
pub(crate) fn escaped(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:".contains(&b);
    name.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert_eq!(escaped("a/b ?é"), "a%2Fb%20%3F%C3%A9");
    }
}
