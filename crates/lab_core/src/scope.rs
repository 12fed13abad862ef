//! What a run can show at all: who claimed what is judged, which figures were published, what was a model,
//! and what no run of the kind can say.

use serde::{Deserialize, Serialize};

/// As `results.json` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// Who claimed it; none: nothing is published.
    pub source: Option<Source>,
    /// The figures of the publication.
    pub published_figures: Vec<PublishedFigure>,
    /// What was a model.
    pub modelled: Vec<String>,
    /// What was not.
    pub real: Vec<String>,
    /// By how much it was scaled; none: at the published size.
    pub scale: Option<String>,
    /// What no run of this kind can say.
    pub cannot_say: Vec<String>,
}

/// A publication, `[source]` of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// "White paper".
    pub kind: String,
    /// As it is stated: "2010", "about 2005".
    pub year: Option<String>,
    /// None: not known.
    pub author: Option<String>,
    /// None: not known.
    pub title: Option<String>,
    /// What was tried there.
    pub about: Option<String>,
}

/// A figure of a publication, `[[published_figure]]` of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// As it is published: "7-6".
    pub number: String,
    /// What it shows.
    pub title: String,
    /// The figure of the report that answers it.
    pub figure: Option<String>,
    /// Why none does.
    pub omitted: Option<String>,
}

impl PublishedFigure {
    /// What is wrong with one of a list.
    pub fn fault(all: &[PublishedFigure]) -> Option<String> {
        all.iter().enumerate().find_map(|(place, one)| {
            let words = match (&one.figure, &one.omitted) {
                (Some(_), Some(_)) => "has both figure and omitted",
                (None, None) => "must have figure, or omitted with the reason",
                _ if all[..place].iter().any(|other| other.number == one.number) => "stands here twice",
                _ => return None,
            };
            Some(format!("published figure {:?} {words}", one.number))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_figure_is_answered_or_omitted_once() {
        let of = |number: &str, figure: Option<&str>, omitted: Option<&str>| PublishedFigure {
            number: number.into(),
            title: "t".into(),
            figure: figure.map(str::to_owned),
            omitted: omitted.map(str::to_owned),
        };
        for (all, expected) in [
            (vec![of("1", Some("a"), None), of("2", None, Some("why"))], None),
            (
                vec![of("1", None, None)],
                Some("published figure \"1\" must have figure, or omitted with the reason"),
            ),
            (
                vec![of("1", Some("a"), Some("why"))],
                Some("published figure \"1\" has both figure and omitted"),
            ),
            (
                vec![of("1", Some("a"), None), of("1", Some("b"), None)],
                Some("published figure \"1\" stands here twice"),
            ),
        ] {
            assert_eq!(PublishedFigure::fault(&all).as_deref(), expected);
        }
    }
}
