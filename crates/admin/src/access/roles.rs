//! Roles, and which of them a request needs: the path says it, of a change its kind.

use axum::http::Method;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::request::Change;

/// What a token may do. Each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads everything but secrets.
    Viewer,
    /// Changes storage: drives, groups, pools, volumes, snapshots, images, caches, policies, jobs.
    Operator,
    /// Decides who sees what: hosts and their mappings, secrets, declarations, tokens.
    Admin,
}

impl Role {
    /// All of them, from the least.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

/// Paths that only an admin may read: secrets are in them.
const SECRET: [&str; 2] = ["/v1/config", "/v1/tokens"];
/// Paths below which only an admin may change something.
const MAPPING: &str = "/v1/hosts";

/// The role that a request needs, by the path as the routes have it.
pub(crate) fn of_path(method: &Method, path: &str) -> Role {
    let is_below =
        |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match *method {
        _ if SECRET.iter().any(|root| is_below(root)) => Role::Admin,
        Method::GET | Method::HEAD => Role::Viewer,
        _ if is_below(MAPPING) => Role::Admin,
        _ => Role::Operator,
    }
}

impl Change {
    /// What it is called, as requests have it.
    pub(crate) fn kind(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value["change"].as_str().unwrap_or_default().to_owned()
    }

    /// The role that it needs.
    pub(crate) fn role(&self) -> Role {
        match self {
            Change::DryRun { of } => of.role(),
            // A declaration may say anything, mappings and secrets included.
            Change::ConfigImport { .. }
            | Change::HostSet { .. }
            | Change::HostDelete { .. }
            | Change::Map { .. }
            | Change::Unmap { .. } => Role::Admin,
            Change::PoolCreate { .. }
            | Change::PoolThreshold { .. }
            | Change::PoolAddGroup { .. }
            | Change::PoolRemoveGroup { .. }
            | Change::PoolRebalance { .. }
            | Change::PoolMove { .. }
            | Change::PoolPlacement { .. }
            | Change::PoolDelete { .. }
            | Change::PoolExport { .. }
            | Change::PoolImport { .. }
            | Change::GroupCreate { .. }
            | Change::GroupDelete { .. }
            | Change::GroupForegroundShare { .. }
            | Change::GroupClass { .. }
            | Change::GroupScrub { .. }
            | Change::GroupWork { .. }
            | Change::DriveReplace { .. }
            | Change::SpareAdd { .. }
            | Change::SpareRemove { .. }
            | Change::DriveForget { .. }
            | Change::VolumeCreate { .. }
            | Change::VolumeGrow { .. }
            | Change::VolumeSet { .. }
            | Change::VolumeDelete { .. }
            | Change::VolumeReclaim { .. }
            | Change::ImageAdd { .. }
            | Change::ImageRemove { .. }
            | Change::SnapshotCreate { .. }
            | Change::SnapshotDelete { .. }
            | Change::CachePartitionSet { .. }
            | Change::CachePartitionRemove { .. }
            | Change::PolicyCreate { .. }
            | Change::PolicySet { .. }
            | Change::PolicyAttach { .. }
            | Change::PolicyDetach { .. }
            | Change::PolicyDelete { .. } => Role::Operator,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_need_the_role_that_docs_api_md_says() {
        let (get, post) = (Method::GET, Method::POST);
        let all = [
            (&get, "/v1/volumes", Role::Viewer),
            (&get, "/v1/hosts/{name}", Role::Viewer),
            (&get, "/v1/config", Role::Admin),
            (&get, "/v1/configuration", Role::Viewer),
            (&get, "/v1/tokens/{name}", Role::Admin),
            (&post, "/v1/tokens", Role::Admin),
            (&post, "/v1/change", Role::Operator),
            (&post, "/v1/volumes", Role::Operator),
            (&Method::DELETE, "/v1/volumes/{name}", Role::Operator),
            (&Method::DELETE, "/v1/groups/{name}", Role::Operator),
            (&Method::DELETE, "/v1/pools/{name}", Role::Operator),
            (&Method::PATCH, "/v1/hosts/{name}", Role::Admin),
            (&Method::DELETE, "/v1/hosts/{name}/luns/{volume}", Role::Admin),
        ];
        for (method, path, role) in all {
            assert_eq!(of_path(method, path), role, "{method} {path}");
        }
    }

    #[test]
    fn a_dry_run_needs_what_the_change_needs() {
        let unmap = Change::Unmap { host: "h".into(), volume: "v".into() };
        assert_eq!(Change::DryRun { of: Box::new(unmap) }.role(), Role::Admin);
        let delete = Change::VolumeDelete { name: "v".into() };
        assert_eq!(Change::DryRun { of: Box::new(delete) }.role(), Role::Operator);
        assert!(Role::ALL.is_sorted());
        assert_eq!(Change::VolumeDelete { name: "v".into() }.kind(), "volume_delete");
    }
}
