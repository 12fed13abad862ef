//! Demands: the utilisation of a resource over the throughput, as a line (the utilisation law, U = X·D).
//!
//! Where a cache is shared, each server's part of it falls as 1/n, and so what an I/O costs behind it is `a +
//! b/n`. That is the only other form: a demand that follows neither is rejected, because nobody knows where
//! it goes.

/// Of resources that work less than this, the noise is more than the demand.
const UTILISATION_NOISE: f64 = 0.02;
/// Root mean square of the relative distance that a line may have: twice what window means of a short run
/// scatter by.
const OFF_MAX: f64 = 0.06;
/// A constant that is this near is taken as it is.
const OFF_CONSTANT: f64 = 0.01;
/// The second parameter has to pay: with that of noise alone, it takes away a fifth of the distance in the
/// mean.
const OFF_GAIN: f64 = 0.6;
/// Points that a line with two parameters needs, so that two are left to contradict it.
const POINTS_SHARE: usize = 4;
/// Points in front that may be left out: those where the servers' files fit the cache.
const LEFT_OUT_MAX: usize = 3;
/// Points that a line needs.
const POINTS_LEAST: usize = 3;

/// One number of servers: its demand, and how busy the resource was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) servers: u32,
    pub(super) utilisation: f64,
    /// Utilisation over throughput.
    pub(super) demand_s: f64,
}

/// What an I/O costs with n servers: `each_s + share_s / n`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) each_s: f64,
    pub(super) share_s: f64,
}

impl Line {
    pub(super) fn at(&self, servers: u32) -> f64 {
        (self.each_s + self.share_s / f64::from(servers)).max(0.0)
    }

    /// Of something that many times as fast.
    pub(super) fn faster(self, times: f64) -> Line {
        Line { each_s: self.each_s / times, share_s: self.share_s / times }
    }
}

/// How a demand depends on the number of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Not at all.
    Constant,
    /// With the share of the cache that each has.
    Share,
}

/// A form that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) form: Form,
    /// The first number of servers that it holds for.
    pub(super) from: u32,
    /// Root mean square of the relative distance.
    pub(super) off: f64,
}

/// The simplest form that the points agree with; or how far off the best is.
pub(super) fn choose(seen: &[Seen]) -> Result<Chosen, f64> {
    let mut least_off = f64::INFINITY;
    for left_out in 0..=LEFT_OUT_MAX {
        let Some(points) = seen.get(left_out..).filter(|points| points.len() >= POINTS_LEAST) else {
            break;
        };
        let from = points[0].servers;
        let constant = off(points, &fit(points, Form::Constant));
        let share = match points.len() >= POINTS_SHARE {
            true => off(points, &fit(points, Form::Share)),
            false => f64::INFINITY,
        };
        let pays = share <= OFF_MAX && share < OFF_GAIN * constant;
        if constant > OFF_CONSTANT && pays {
            return Ok(Chosen { form: Form::Share, from, off: share });
        }
        if constant <= OFF_MAX {
            return Ok(Chosen { form: Form::Constant, from, off: constant });
        }
        least_off = least_off.min(constant).min(share);
    }
    Err(least_off)
}

/// The least squares of the relative distances; busier points count more.
pub(super) fn fit(seen: &[Seen], form: Form) -> Line {
    let (mut w, mut wx, mut wxx, mut wy, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for point in seen {
        let (x, y, weight) = (1.0 / f64::from(point.servers), point.demand_s, weight(point));
        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight * y;
        wxy += weight * x * y;
    }
    let determinant = w * wxx - wx * wx;
    if form == Form::Constant || determinant <= f64::EPSILON * w * wxx {
        return Line { each_s: if w > 0.0 { wy / w } else { 0.0 }, share_s: 0.0 };
    }
    let share_s = (w * wxy - wx * wy) / determinant;
    Line { each_s: (wy - share_s * wx) / w, share_s }
}

fn weight(point: &Seen) -> f64 {
    let sure = point.utilisation / (point.utilisation + UTILISATION_NOISE);
    if point.demand_s > 0.0 { (sure / point.demand_s).powi(2) } else { 0.0 }
}

fn off(seen: &[Seen], line: &Line) -> f64 {
    let square = |point: &Seen| weight(point) * (line.at(point.servers) - point.demand_s).powi(2);
    (seen.iter().map(square).sum::<f64>() / seen.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(demand_s: impl Fn(f64) -> f64) -> Vec<Seen> {
        let at = |servers: u32| Seen { servers, utilisation: 0.5, demand_s: demand_s(f64::from(servers)) };
        (1..=6).map(at).collect()
    }

    #[test]
    fn a_constant_is_a_constant_and_a_share_a_share() {
        let constant = choose(&seen(|n| 0.001 * (1.0 + 0.01 * (n * 7.0).sin()))).expect("a line");
        assert_eq!((constant.form, constant.from), (Form::Constant, 1));
        let points = seen(|n| 0.004 - 0.003 / n);
        assert_eq!(choose(&points).expect("a line").form, Form::Share);
        let line = fit(&points, Form::Share);
        assert!((line.each_s - 0.004).abs() < 1e-9 && (line.share_s + 0.003).abs() < 1e-9, "{line:?}");
    }

    #[test]
    fn points_that_fit_the_cache_are_left_out() {
        let chosen = choose(&seen(|n| if n < 2.0 { 0.0001 } else { 0.004 - 0.005 / n })).expect("a line");
        assert_eq!((chosen.form, chosen.from), (Form::Share, 2));
    }

    #[test]
    fn what_is_no_line_is_rejected() {
        assert!(choose(&seen(|n| 0.001 * n * n)).expect_err("no line") > OFF_MAX);
        assert!(choose(&seen(|n| 0.001 + 0.001 * (n * 2.0).sin().abs())).is_err());
    }
}
