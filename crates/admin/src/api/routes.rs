//! The paths of the API.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::HeaderMap;
use axum::routing::{MethodRouter, delete, get, patch, post};
use axum::{Extension, Router};
use serde::de::DeserializeOwned;

use super::bodies::{
    Create, DriveCreate, GroupCreate, GroupSet, HostCreate, HostSet, ImageCreate, JobCreate, LunCreate,
    PolicyCreate, PoolCreate, PoolSet, Set, SnapshotCreate, VolumeCreate, VolumeSet,
};
use super::collections::Collection;
use super::extract::{Body, Names, Params};
use super::page::PageParams;
use super::resources::{self, Asker};
use super::{openapi, state, streams, whole};
use crate::access;
use crate::nodes;
use crate::request::Terms;
use crate::served::{Served, Who};

/// The largest body: no object comes near it, and those with an idempotency key are remembered.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The same of a change, which may be a declaration: one with a hundred thousand volumes has about half of
/// it.
const CHANGE_BYTES_MAX: usize = 16 << 20;

type Paths = Router<Arc<Served>>;
type Methods = MethodRouter<Arc<Served>>;

/// All paths.
pub(crate) fn routes() -> Paths {
    let mut paths = Router::new()
        .route("/v1/status", get(whole::status))
        .route("/v1/change", post(whole::change).layer(DefaultBodyLimit::max(CHANGE_BYTES_MAX)))
        .route("/v1/latencies", get(whole::latencies))
        .route("/v1/config", get(whole::config))
        .route("/v1/events", get(whole::events))
        .route("/v1/events/stream", get(streams::events))
        .route("/v1/events/{name}", get(whole::event))
        .route("/v1/counters/stream", get(streams::counters))
        .route("/v1/hosts/{name}/luns", post(map))
        .route("/v1/hosts/{name}/luns/{volume}", delete(unmap))
        .route("/v1/nodes/{name}/drain", post(nodes::drain))
        .route("/v1/tokens", get(access::list).post(access::create))
        .route("/v1/tokens/{name}", get(access::show).delete(access::delete))
        .route("/metrics", get(whole::metrics))
        .route("/healthz", get(state::healthz))
        .route("/readyz", get(state::readyz))
        .route("/version", get(state::version))
        .route("/openapi.json", get(openapi::serve));
    for collection in Collection::ALL {
        let path = format!("/v1/{}", collection.name());
        paths = paths.route(&path, of_all(collection));
        paths = paths.route(&format!("{path}/{{name}}"), of_one(collection));
    }
    let paths = paths.fallback(state::unknown_path).method_not_allowed_fallback(state::unknown_method);
    paths.layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

/// The methods of a collection.
fn of_all(collection: Collection) -> Methods {
    let list = get(move |State(served): State<Arc<Served>>, Params(asked): Params<PageParams>| {
        resources::list(collection, served, asked)
    });
    match collection {
        Collection::Volumes => list.merge(create::<VolumeCreate>(collection)),
        Collection::Snapshots => list.merge(create::<SnapshotCreate>(collection)),
        Collection::Pools => list.merge(create::<PoolCreate>(collection)),
        Collection::Groups => list.merge(create::<GroupCreate>(collection)),
        Collection::Drives => list.merge(create::<DriveCreate>(collection)),
        Collection::Hosts => list.merge(create::<HostCreate>(collection)),
        Collection::Policies => list.merge(create::<PolicyCreate>(collection)),
        Collection::Images => list.merge(create::<ImageCreate>(collection)),
        Collection::Jobs => list.merge(post(begin)),
        Collection::Nodes => list,
    }
}

/// The methods of an object.
fn of_one(collection: Collection) -> Methods {
    let show = get(move |State(served): State<Arc<Served>>, Names(name): Names<String>| async move {
        resources::show(collection, served, &name).await
    });
    let delete = delete(
        move |State(served): State<Arc<Served>>,
              Extension(who): Extension<Who>,
              headers: HeaderMap,
              Names(name): Names<String>| {
            resources::delete(collection, served, Asker { who, headers }, name)
        },
    );
    match collection {
        Collection::Volumes => show.merge(set::<VolumeSet>(collection)).merge(delete),
        Collection::Hosts => show.merge(set::<HostSet>(collection)).merge(delete),
        Collection::Policies => show.merge(set::<Terms>(collection)).merge(delete),
        Collection::Pools => show.merge(patch(set_pool)).merge(delete),
        Collection::Groups => show.merge(set::<GroupSet>(collection)).merge(delete),
        Collection::Snapshots | Collection::Drives | Collection::Images => show.merge(delete),
        Collection::Jobs | Collection::Nodes => show,
    }
}

fn create<T: Create + DeserializeOwned + Send + 'static>(collection: Collection) -> Methods {
    post(
        move |State(served): State<Arc<Served>>,
              Extension(who): Extension<Who>,
              headers: HeaderMap,
              Body(body, bytes): Body<T>| {
            resources::create(collection, served, Asker { who, headers }, (body, bytes))
        },
    )
}

fn set<T: Set + DeserializeOwned + Send + 'static>(collection: Collection) -> Methods {
    patch(
        move |State(served): State<Arc<Served>>,
              Extension(who): Extension<Who>,
              headers: HeaderMap,
              Names(name): Names<String>,
              Body(body, _): Body<T>| async move {
            let asker = Asker { who, headers };
            resources::set(collection, served, asker, (&name, body)).await
        },
    )
}

type Answered = Result<axum::response::Response, super::problem::Problem>;

async fn set_pool(
    State(served): State<Arc<Served>>,
    Extension(who): Extension<Who>,
    headers: HeaderMap,
    Names(name): Names<String>,
    Body(body, _): Body<PoolSet>,
) -> Answered {
    let body = body.with_thresholds_of(served.array.known().config.pool(&name));
    let asker = Asker { who, headers };
    resources::set(Collection::Pools, served, asker, (&name, body)).await
}

async fn begin(
    State(served): State<Arc<Served>>,
    Extension(who): Extension<Who>,
    headers: HeaderMap,
    Body(body, bytes): Body<JobCreate>,
) -> Answered {
    resources::begin(served, Asker { who, headers }, (body, bytes)).await
}

async fn map(
    State(served): State<Arc<Served>>,
    Extension(who): Extension<Who>,
    headers: HeaderMap,
    Names(host): Names<String>,
    Body(body, bytes): Body<LunCreate>,
) -> Answered {
    resources::map(served, Asker { who, headers }, &host, (body, bytes)).await
}

async fn unmap(
    State(served): State<Arc<Served>>,
    Extension(who): Extension<Who>,
    headers: HeaderMap,
    Names(names): Names<(String, String)>,
) -> Answered {
    resources::unmap(served, Asker { who, headers }, names).await
}
