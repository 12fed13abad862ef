//! The nodes of an array of several, as the daemon knows them: what would happen in a failure, and moves.

use array::{Event, Severity};
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Deserialize;
use status::{Failover, Node, Status, Trouble};
use std::sync::Arc;
use utoipa::ToSchema;

use crate::api::extract::{Body, Names};
use crate::api::problem::Problem;
use crate::request::Done;
use crate::served::{Served, Who};
use crate::trouble::trouble;

/// The node that answers, in paths.
const THIS: &str = "this";

type Forecast = Box<dyn Fn() -> Option<Failover> + Send + Sync>;
type List = Box<dyn Fn() -> Vec<Node> + Send + Sync>;
type Drain = Arc<dyn Fn(Option<&str>, Option<&str>) -> Result<(), DrainError> + Send + Sync>;

/// What the owner knows and asks of the array's nodes.
pub struct Nodes {
    list: List,
    failover: Forecast,
    drain: Drain,
}

/// Why the array is not moved; each with what to say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrainError {
    /// There is no node of the name from which it is to move.
    #[error("{0}")]
    Unknown(String),
    /// It cannot move to the named node, whatever its state.
    #[error("{0}")]
    Target(String),
    /// The nodes are not in a state for it.
    #[error("{0}")]
    Refused(String),
    /// The registry does not answer.
    #[error("{0}")]
    Unavailable(String),
}

impl From<DrainError> for Problem {
    fn from(error: DrainError) -> Problem {
        let text = error.to_string();
        match error {
            DrainError::Unknown(_) => Problem::new(StatusCode::NOT_FOUND, "not_found", text),
            DrainError::Target(_) => Problem::invalid(text).of_field("to"),
            DrainError::Refused(_) => Problem::conflict("refused", text),
            DrainError::Unavailable(_) => Problem::unavailable(text),
        }
    }
}

impl Nodes {
    /// `list` has all nodes as they were at the last look. `failover` says what would happen if this node
    /// failed now; none while that is not known yet. `drain` asks for a move from the node (none: this one)
    /// to another one (none: any); it may wait for the registry.
    pub fn new(
        list: impl Fn() -> Vec<Node> + Send + Sync + 'static,
        failover: impl Fn() -> Option<Failover> + Send + Sync + 'static,
        drain: impl Fn(Option<&str>, Option<&str>) -> Result<(), DrainError> + Send + Sync + 'static,
    ) -> Nodes {
        Nodes { list: Box::new(list), failover: Box::new(failover), drain: Arc::new(drain) }
    }

    pub(crate) fn failover(&self) -> Option<Failover> {
        (self.failover)()
    }
}

/// The node of a name, or the one that answers.
pub(crate) fn named<'a>(nodes: &'a [Node], name: &str) -> Option<&'a Node> {
    nodes.iter().find(|node| node.name == name || (name == THIS && node.is_this))
}

/// The nodes of an array whose owner answers: this one alone, unless it is one of several.
pub(crate) fn of_owner(nodes: Option<&Nodes>, status: &Status) -> Vec<Node> {
    let mut all = nodes.map_or_else(Vec::new, |nodes| (nodes.list)());
    if all.is_empty() {
        all.push(Node {
            name: THIS.into(),
            role: "owner".into(),
            is_this: true,
            portals: status.ports.iter().map(|port| port.listen.to_string()).collect(),
            version: Some(status.version.clone()),
            ..Node::default()
        });
    }
    for node in all.iter_mut().filter(|node| node.is_this) {
        (node.controllers, node.uptime_s) = (Some(status.controllers), Some(status.uptime_s));
    }
    all
}

/// What nodes say is wrong with them.
pub(crate) fn trouble_of_nodes(nodes: &[Node]) -> impl Iterator<Item = Trouble> {
    nodes.iter().filter_map(|node| {
        let (object, why) = (format!("node {}", node.name), node.trouble.as_ref()?);
        let text = match node.role.as_str() {
            "owner" => why.clone(),
            _ => format!("could not take over: {why}"),
        };
        let to_do = format!("repair that at node {}: it is tried again by itself", node.name);
        Some(trouble(Severity::Warning, object, "node", text, to_do))
    })
}

/// Nodes that the declaration names and that have never joined: the owner runs their controllers. They may
/// join later, so that this is no error.
pub(crate) fn trouble_of_assigned<'a>(
    controller_nodes: &'a [String],
    nodes: &'a [Node],
) -> impl Iterator<Item = Trouble> + 'a {
    let is_known = |name: &str| nodes.iter().any(|node| node.name == name);
    let unknown = controller_nodes.iter().enumerate().filter(move |(at, name)| {
        // Each once.
        !name.is_empty() && !is_known(name) && !controller_nodes[..*at].contains(name)
    });
    // One process alone follows no assignment.
    unknown.filter(|_| nodes.iter().any(|node| node.name != THIS)).map(|(_, name)| {
        let all = controller_nodes.iter().enumerate().filter(|(_, of)| *of == name);
        let all: Vec<String> = all.map(|(index, _)| index.to_string()).collect();
        let (word, run) = if all.len() == 1 { ("controller", "runs") } else { ("controllers", "run") };
        let text = format!(
            "controller_nodes assigns {word} {} to it, and no node of this name has joined: {word} {} {run} at the \
             owner",
            all.join(", "),
            all.join(", ")
        );
        let to_do = format!("start it (masu serve --node {name}), or correct controller_nodes: masu node list has the names");
        trouble(Severity::Warning, format!("node {name}"), "node_unknown", text, to_do)
    })
}

/// `POST /v1/nodes/{name}/drain`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeDrain {
    /// The standby that is to take over; without it, the first that does. If it does not within 2 s, any
    /// other may.
    #[serde(default)]
    to: Option<String>,
}

pub(crate) async fn drain(
    State(served): State<Arc<Served>>,
    Extension(who): Extension<Who>,
    Names(name): Names<String>,
    Body(NodeDrain { to }, _): Body<NodeDrain>,
) -> Result<(StatusCode, Json<Done>), Problem> {
    let Some(nodes) = &served.nodes else {
        return Err(match name == THIS {
            true => Problem::conflict("refused", "the array has one node: masu serve --registry adds others"),
            false => Problem::not_found("node", &name),
        });
    };
    let (ask, asked) = (nodes.drain.clone(), to.clone());
    let from = (name != THIS).then_some(name);
    let done = tokio::task::spawn_blocking(move || ask(from.as_deref(), asked.as_deref())).await;
    done.map_err(|error| Problem::internal(error.to_string()))??;
    let text = format!("asked to hand over to {}", to.as_deref().unwrap_or("any other node"));
    served.events.tell(Event::info("array", text.clone()).by(&who.name));
    Ok((StatusCode::ACCEPTED, Json(Done { done: vec![text] })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_that_answers_says_more_of_itself() {
        let status = Status { version: "1".into(), controllers: 2, uptime_s: 7, ..Status::default() };
        let alone = of_owner(None, &status);
        let this = named(&alone, "this").expect("itself");
        assert_eq!((alone.len(), &*this.role, this.controllers), (1, "owner", Some(2)));
        let node = |name: &str, is_this| Node { name: name.into(), is_this, ..Node::default() };
        let list = move || vec![node("n1", false), node("n2", true)];
        let several = of_owner(Some(&Nodes::new(list, || None, |_, _| Ok(()))), &status);
        assert_eq!(several.iter().map(|n| n.uptime_s).collect::<Vec<_>>(), [None, Some(7)]);
        let name = |asked| named(&several, asked).map(|node| node.name.as_str());
        assert_eq!([name("this"), name("n1"), name("n3")], [Some("n2"), Some("n1"), None]);
    }

    #[test]
    fn a_node_that_could_not_take_over_is_a_trouble() {
        let node = |name: &str, role: &str, trouble: Option<&str>| Node {
            name: name.into(),
            role: role.into(),
            trouble: trouble.map(Into::into),
            ..Node::default()
        };
        let nodes = [
            node("n1", "owner", None),
            node("n2", "standby", Some("a full disk")),
            node("n3", "standby", None),
        ];
        let all: Vec<Trouble> = trouble_of_nodes(&nodes).collect();
        assert_eq!(all.len(), 1);
        assert_eq!((&*all[0].object, &*all[0].text), ("node n2", "could not take over: a full disk"));
        assert!(all[0].to_do.contains("at node n2"), "{}", all[0].to_do);
    }

    #[test]
    fn a_node_that_is_declared_and_has_never_joined_is_a_trouble() {
        let node = |name: &str| Node { name: name.into(), ..Node::default() };
        let of = |declared: &[&str], nodes: &[&str]| {
            let declared: Vec<String> = declared.iter().map(|name| (*name).into()).collect();
            let nodes: Vec<Node> = nodes.iter().map(|name| node(name)).collect();
            trouble_of_assigned(&declared, &nodes).map(|t| (t.object, t.text)).collect::<Vec<_>>()
        };
        assert_eq!(of(&["n1", "", "n2"], &["n1", "n2"]), []);
        assert_eq!(of(&["n1", "n2"], &[THIS]), [], "one process");
        let told = of(&["n1", "n9", "n9", "n8"], &["n1", "n2"]);
        assert_eq!(told.iter().map(|(object, _)| &**object).collect::<Vec<_>>(), ["node n9", "node n8"]);
        assert!(told[0].1.contains("controllers 1, 2 run at the owner"), "{}", told[0].1);
        assert!(told[1].1.contains("controller 3 runs at the owner"), "{}", told[1].1);
    }

    #[test]
    fn a_refused_move_is_told_as_similar_refusals_are() {
        let text = || "why".to_owned();
        let rows = [
            (DrainError::Unknown(text()), 404, "not_found", None),
            (DrainError::Target(text()), 422, "invalid", Some("to")),
            (DrainError::Refused(text()), 409, "refused", None),
            (DrainError::Unavailable(text()), 503, "unavailable", None),
        ];
        for (error, status, code, field) in rows {
            let problem = Problem::from(error);
            assert_eq!((problem.status, &*problem.code, problem.field.as_deref()), (status, code, field));
            assert_eq!(problem.detail, "why");
        }
    }
}
