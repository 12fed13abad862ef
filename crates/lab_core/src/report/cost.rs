//! What a finding costs, and the order that follows from it.
//!
//! The two measures are comparable: with a fixed number of I/Os in flight, Little's law makes a share of the
//! response time the same share of the throughput that there would be without the finding.

use serde::Serialize;

use super::Finding;

/// What is lost by a finding.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Share that is lost, from 0 to 100.
    percent: f64,
    of: CostOf,
    /// It is no more than this: the run bounds it and does not measure it.
    at_most: bool,
}

/// What the share is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum CostOf {
    /// Of the time that I/Os take.
    #[serde(rename = "response time")]
    ResponseTime,
    /// Of the throughput that there would be without the finding.
    #[serde(rename = "throughput")]
    Throughput,
}

impl Cost {
    /// A share from 0 to 1; `None` where there is none to tell: a number that is not finite.
    pub fn share(share: f64, of: CostOf) -> Option<Cost> {
        // In whole tenths: more digits than a finding deserves would only hide that costs are equal.
        let percent = (1000.0 * share.clamp(0.0, 1.0)).round() / 10.0;
        share.is_finite().then_some(Cost { percent, of, at_most: false })
    }

    /// An upper bound of it.
    #[must_use]
    pub fn at_most(self) -> Cost {
        Cost { at_most: true, ..self }
    }

    /// In percent.
    pub fn percent(self) -> f64 {
        self.percent
    }

    /// "12.5 % of throughput", "up to 40 % of response time".
    pub fn words(self) -> String {
        let of = match self.of {
            CostOf::ResponseTime => "response time",
            CostOf::Throughput => "throughput",
        };
        format!("{}{} % of {of}", if self.at_most { "up to " } else { "" }, self.percent)
    }
}

/// The costliest first. Findings of equal cost keep their order; those whose cost is not known come last.
pub fn order_by_cost(findings: &mut [Finding]) {
    let rank = |finding: &Finding| finding.cost.map_or(-1.0, Cost::percent);
    findings.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(resource: &str, cost: Option<Cost>) -> Finding {
        Finding {
            resource: resource.into(),
            evidence: String::new(),
            threshold: None,
            source: None,
            consequence: String::new(),
            r#try: None,
            cost,
        }
    }

    #[test]
    fn the_costliest_is_first_and_the_unknown_last_in_their_own_order() {
        let lost = |share| Cost::share(share, CostOf::Throughput);
        let mut all = [
            finding("unknown", None),
            finding("nothing", lost(0.0)),
            finding("half", Cost::share(0.5, CostOf::ResponseTime).map(Cost::at_most)),
            finding("other unknown", None),
            finding("half, too", lost(0.5)),
            finding("most", lost(0.9)),
        ];
        order_by_cost(&mut all);
        let order: Vec<&str> = all.iter().map(|finding| finding.resource.as_str()).collect();
        assert_eq!(order, ["most", "half", "half, too", "nothing", "unknown", "other unknown"]);
    }

    #[test]
    fn a_cost_is_a_share_in_words_with_its_unit() {
        let of = |share, of| Cost::share(share, of).map(Cost::words);
        assert_eq!(of(0.125, CostOf::Throughput).as_deref(), Some("12.5 % of throughput"));
        assert_eq!(of(-0.2, CostOf::Throughput).as_deref(), Some("0 % of throughput"));
        assert_eq!(of(1.7, CostOf::ResponseTime).as_deref(), Some("100 % of response time"));
        assert_eq!(of(f64::NAN, CostOf::Throughput), None);
        let bound = Cost::share(0.4, CostOf::Throughput).map(Cost::at_most).map(Cost::words);
        assert_eq!(bound.as_deref(), Some("up to 40 % of throughput"));
    }

    #[test]
    fn the_page_gets_it_as_the_data_contract_has_it() {
        let cost = Cost::share(0.4, CostOf::ResponseTime).map(Cost::at_most);
        let written = serde_json::to_value(finding("drives", cost)).expect("plain data");
        let expected = serde_json::json!({ "percent": 40.0, "of": "response time", "at_most": true });
        assert_eq!(written["cost"], expected);
        let unknown = serde_json::to_value(finding("drives", None)).expect("plain data");
        assert_eq!(unknown["cost"], serde_json::Value::Null);
    }
}
