//! Changes that a request asks for, made under the array's lock, and told as what somebody did.

use std::sync::Arc;

use array::Event;
use axum::http::{HeaderMap, header};
use config::Config;

use super::collections::{Collection, tag};
use super::problem::Problem;
use crate::perform::{PerformError, perform};
use crate::request::Change;
use crate::served::{Served, Who};

impl From<PerformError> for Problem {
    fn from(error: PerformError) -> Problem {
        match error {
            PerformError::Invalid(text) => Problem::invalid(text),
            PerformError::Refused(text) => Problem::conflict("refused", text),
        }
    }
}

/// Makes changes in order, after `check` has seen what is declared now. When one is refused, those before it
/// stay: the problem says so.
pub(crate) async fn make(
    served: &Arc<Served>,
    who: &Who,
    changes: impl FnOnce(&Config) -> Result<Vec<Change>, Problem>,
) -> Result<Vec<String>, Problem> {
    let mut array = served.array.hold(format!("a change by {}", who.name)).await;
    let changes = changes(array.config())?;
    let kinds: Vec<String> = changes.iter().map(|change| change.kind().to_string()).collect();
    array.is_for(format!("{} by {}", kinds.join(", "), who.name));
    if let Some(change) = changes.iter().find(|change| change.role() > who.role) {
        served.access.require(who, change.role(), &format!("the change {}", change.kind()))?;
    }
    let mut all = Vec::new();
    for change in &changes {
        match perform(&mut array, change, served.store.dir()).await {
            Ok(done) => {
                let news = done.iter().filter(|_| !change.is_a_question());
                news.for_each(|line| served.events.tell(Event::of_line(line).by(&who.name)));
                all.extend(done);
            }
            Err(error) => {
                let mut problem = Problem::from(error);
                if !change.is_a_question() {
                    let text = format!("a change was refused: {}", problem.detail);
                    served.events.tell(Event::info("array", text).by(&who.name));
                }
                if !all.is_empty() {
                    problem.detail += &format!(" (done before: {})", all.join("; "));
                }
                return Err(problem);
            }
        }
    }
    Ok(all)
}

/// The object is there, and is the one that the client knows, if it says which (`If-Match`).
pub(super) fn must_be(
    collection: Collection,
    config: &Config,
    name: &str,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let declared = collection.declared(config, name);
    let declared = declared.ok_or_else(|| Problem::not_found(collection.one(), name))?;
    let Some(wanted) = headers.get(header::IF_MATCH) else { return Ok(()) };
    let wanted = wanted.to_str().unwrap_or_default();
    let (now, mut wanted) = (tag(&declared), wanted.split(',').map(str::trim));
    match wanted.any(|tag| tag == "*" || tag == now) {
        true => Ok(()),
        false => {
            let detail = format!("{} {name:?} has changed: its tag is {now}", collection.one());
            let status = axum::http::StatusCode::PRECONDITION_FAILED;
            Err(Problem::new(status, "changed_meanwhile", detail))
        }
    }
}
