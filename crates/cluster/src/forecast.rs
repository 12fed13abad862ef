//! What would happen if the owner failed now: one rule for commands, the API and standbys.

use crate::{Overview, TestRecord};

/// Who would take over, and how long that took the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Its name; it lives.
    pub owner: String,
    /// The other nodes that live, by name; none while nobody could take over.
    pub successors: Vec<String>,
    /// Other nodes that live and could not take over now, each with the reason.
    pub unready: Vec<(String, String)>,
    /// Why no other node could take over, though it may live.
    pub fault: Option<String>,
    /// The later of the last test and the last take-over.
    pub last: Option<TestRecord>,
}

impl Overview {
    /// None: nobody who lives owns the array.
    pub fn forecast(&self) -> Option<Forecast> {
        let (owner, _) = self.living_owner()?;
        let others = || self.nodes.iter().filter(|(name, _)| name != owner);
        let ready = others().filter(|(_, node)| self.fault.is_none() && node.trouble.is_none());
        let successors = ready.map(|(name, _)| name.clone()).collect();
        let unready = others().filter_map(|(name, node)| Some((name.clone(), node.trouble.clone()?)));
        let unready = unready.collect();
        let last = [&self.take_over, &self.test].into_iter().flatten().max_by_key(|last| last.at_ms);
        let (owner, fault) = (owner.to_owned(), self.fault.clone());
        Some(Forecast { owner, successors, unready, fault, last: last.cloned() })
    }
}

impl Forecast {
    /// As a sentence.
    pub fn text(&self) -> String {
        let owner = &self.owner;
        if let Some(fault) = &self.fault {
            return format!("if {owner} failed: no other node could take over: {fault}");
        }
        if self.successors.is_empty() {
            let unready: String = self.unready.iter().map(|(name, why)| format!("; {name}: {why}")).collect();
            return format!("if {owner} failed: no other node could take over{unready}");
        }
        let successors = self.successors.join(" or ");
        let unready = self.unready.iter().map(|(name, why)| format!(" ({name} could not: {why})"));
        let unready: String = unready.collect();
        let last = match &self.last {
            Some(last) => {
                let seconds = last.took_ms as f64 / 1000.0;
                format!("{seconds:.1} s at the last {}", if last.is_take_over { "take-over" } else { "test" })
            }
            None => "never tried: masu node test-failover".into(),
        };
        format!("if {owner} failed: {successors} would take over{unready}; {last}")
    }
}

#[cfg(test)]
mod tests {
    use crate::{NodeRecord, OwnerRecord};

    use std::time::Duration;

    use super::*;

    #[test]
    fn the_forecast_says_who_would_take_over_and_how_long_it_took_last() {
        let nodes = |names: &[&str]| {
            let node = |(lease, name): (u64, &&str)| {
                ((*name).to_owned(), NodeRecord { lease, ..NodeRecord::default() })
            };
            (1..).zip(names).map(node).collect::<Vec<_>>()
        };
        let owner = OwnerRecord { node: Some("n1".into()), lease: 1, epoch: 3, ..OwnerRecord::default() };
        let left = [1, 2, 3].map(|lease| (lease, Duration::from_secs(4))).into();
        let nodes_seen = nodes(&["n1", "n2", "n3"]);
        let mut seen = Overview { owner: Some(owner), nodes: nodes_seen, left, ..Overview::default() };
        let text = |seen: &Overview| seen.forecast().map(|forecast| forecast.text());
        let never = "if n1 failed: n2 or n3 would take over; never tried: masu node test-failover";
        assert_eq!(text(&seen).as_deref(), Some(never));
        let last = |took_ms, at_ms, is_take_over| {
            Some(TestRecord { from: "n2".into(), to: "n1".into(), took_ms, at_ms, is_take_over })
        };
        (seen.test, seen.take_over) = (last(4112, 1000, false), last(6490, 900, true));
        seen.nodes = nodes(&["n1", "n2"]);
        assert_eq!(text(&seen).as_deref(), Some("if n1 failed: n2 would take over; 4.1 s at the last test"));
        // Of one and the same fail-over, at the same millisecond.
        seen.take_over = last(6490, 1000, true);
        assert!(text(&seen).is_some_and(|text| text.ends_with("4.1 s at the last test")));
        seen.take_over = last(6490, 1001, true);
        assert!(
            text(&seen).is_some_and(|text| text.ends_with("would take over; 6.5 s at the last take-over"))
        );
        seen.nodes[1].1.trouble = Some("a full disk".into());
        let alone = "if n1 failed: no other node could take over; n2: a full disk";
        assert_eq!(text(&seen).as_deref(), Some(alone));
        seen.nodes.extend(nodes(&["", "", "n3"]).pop());
        let other =
            "if n1 failed: n3 would take over (n2 could not: a full disk); 6.5 s at the last take-over";
        assert_eq!(text(&seen).as_deref(), Some(other));
        seen.nodes = nodes(&["n1", "n2"]);
        seen.fault = Some("the state is damaged".into());
        let fault = "if n1 failed: no other node could take over: the state is damaged";
        assert_eq!(text(&seen).as_deref(), Some(fault));
        seen.fault = None;
        seen.nodes = nodes(&["n1"]);
        assert_eq!(text(&seen).as_deref(), Some("if n1 failed: no other node could take over"));
        seen.nodes.clear();
        assert!(text(&seen).is_some(), "its lease lives, though it is not listed");
        seen.left.clear();
        assert_eq!(text(&seen), None, "it has failed");
    }
}
