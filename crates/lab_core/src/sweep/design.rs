//! The points of a sweep: which values each has.

use super::sobol::coordinate;
use crate::scenario::frame::Frame;
use crate::scenario::range::Choice;

/// Why a point is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Design {
    /// As the scenario has it.
    Scenario,
    /// One of a sequence over the values that the published text leaves open.
    Together,
    /// One of a sequence over all values, those that the published text contradicts included.
    Beyond,
    /// One input alone, from the start of the list.
    Alone(usize),
}

impl Design {
    /// As files have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Design::Scenario => "scenario",
            Design::Together => "together",
            Design::Beyond => "beyond",
            Design::Alone(_) => "alone",
        }
    }
}

/// A point: a value of each range.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) design: Design,
    pub(super) values: Vec<Choice>,
}

/// Of so many points of a sequence, at most this many are tried: a scenario refuses combinations of values
/// that make no sense.
const TRIED_TIMES: u32 = 4;

/// The points, and why those were left out that the scenario refuses: of a sequence the next is taken then.
pub(super) fn points(
    frame: &Frame,
    count: u32,
    refusal: impl Fn(&Point) -> Option<String>,
) -> (Vec<Point>, Vec<String>) {
    let own: Vec<Choice> = frame.ranges.iter().map(|range| range.own.clone()).collect();
    let mut refused = Vec::new();
    let mut accepted = |point: &Point| match refusal(point) {
        None => true,
        Some(why) => {
            refused.push(why);
            false
        }
    };
    let mut all = vec![Point { design: Design::Scenario, values: own.clone() }];
    let of_sequence = |index: u32, is_open: bool| Point {
        design: if is_open { Design::Together } else { Design::Beyond },
        values: (0..)
            .zip(&frame.ranges)
            .map(|(d, range)| range.at(centred(d, index, count), is_open))
            .collect(),
    };
    all.extend(
        (0..TRIED_TIMES * count).map(|i| of_sequence(i, true)).filter(&mut accepted).take(count as usize),
    );
    if frame.ranges.iter().any(|range| range.is_contradicted()) {
        let half = count.div_ceil(2);
        let rest = (count..count + TRIED_TIMES * half).map(|i| of_sequence(i, false));
        all.extend(rest.filter(&mut accepted).take(half as usize));
    }
    let alone = frame.ranges.iter().enumerate().flat_map(|(place, range)| {
        let own = &own;
        range.alone().into_iter().map(move |choice| {
            let mut values = own.clone();
            values[place] = choice;
            Point { design: Design::Alone(place), values }
        })
    });
    all.extend(alone.filter(&mut accepted));
    (all, refused)
}

/// In the middle of its part, so that no point lies at all lower ends.
fn centred(dimension: usize, index: u32, count: u32) -> f64 {
    let parts = f64::from(count.max(index + 1).next_power_of_two());
    coordinate(dimension, index) + 0.5 / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "[a]\nx = 4\ny = 0.5\nz = \"k\"\n\
        [[range]]\ninput = \"a.x\"\nlow = 1\nhigh = 8\nwhy = \"w\"\n\
        [[range]]\ninput = \"a.y\"\nlow = 0.0\nhigh = 1.0\nwhy = \"w\"\nagainst = \"a half\"\n\
        [[range]]\ninput = \"a.z\"\nvalues = [\"k\", \"l\"]\nwhy = \"w\"\n";

    fn of(design: fn(Design) -> bool, all: &[Point]) -> Vec<Vec<&str>> {
        let those = all.iter().filter(|point| design(point.design));
        those.map(|point| point.values.iter().map(|v| v.shown.as_str()).collect()).collect()
    }

    #[test]
    fn points_fill_the_open_values_then_all_and_each_input_alone() {
        let frame = Frame::read(SCENARIO, "x.toml").expect("a scenario");
        let (all, refused) = points(&frame, 8, |_| None);
        assert_eq!((all.len(), refused.len()), (1 + 8 + 4 + 2 + 2 + 1, 0));
        let together = of(|d| d == Design::Together, &all);
        let mut x: Vec<&str> = together.iter().map(|values| values[0]).collect();
        x.sort_unstable();
        assert_eq!(x, ["1", "2", "3", "4", "5", "6", "7", "8"], "each once");
        assert!(together.iter().all(|values| values[1] == "0.5"), "what is contradicted stays: {together:?}");
        assert!(of(|d| d == Design::Beyond, &all).iter().all(|values| values[1] != "0.5"));
        let alone = of(|d| matches!(d, Design::Alone(_)), &all);
        assert_eq!(
            alone,
            [["1", "0.5", "k"], ["8", "0.5", "k"], ["4", "0", "k"], ["4", "1", "k"], ["4", "0.5", "l"]]
        );
    }

    #[test]
    fn a_point_that_the_scenario_refuses_is_replaced_by_the_next_of_the_sequence() {
        let frame = Frame::read(SCENARIO, "x.toml").expect("a scenario");
        let odd = |point: &Point| (point.values[0].at % 2.0 == 1.0).then(|| "odd".to_owned());
        let (all, refused) = points(&frame, 8, odd);
        assert_eq!(of(|d| d == Design::Together, &all).len(), 8);
        assert!(refused.len() > 4, "{refused:?}");
        // One that refuses all is not tried for ever.
        let (all, refused) = points(&frame, 8, |_| Some("never".into()));
        assert_eq!((all.len(), refused.len()), (1, 32 + 16 + 5));
    }
}
