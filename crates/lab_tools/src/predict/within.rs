//! Within the measured range: with a number of servers that was run, the row is what was measured. Between
//! two numbers that were run, the model gives the shape, and what it is off at both gives the height.

use super::{Basis, Sample};

/// Hits that differ by more change what an I/O costs.
const HITS_CHANGE: f64 = 0.05;

/// A number of servers, as the measured ones surround it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) iops: f64,
    pub(super) basis: Basis,
    /// Why it lies outside of both neighbours, where it does.
    pub(super) why_outside: Option<String>,
}

/// What was run, and what the model says of the same numbers.
pub(super) struct Within<'a> {
    measured: &'a [Sample],
    /// Of the model, in the same order.
    modelled: Vec<f64>,
}

impl<'a> Within<'a> {
    /// States of a ramp, and the I/Os per second that the model gives for each.
    pub(super) fn new(measured: &'a [Sample], modelled: Vec<f64>) -> Within<'a> {
        Within { measured, modelled }
    }

    /// The basis of a row.
    pub(super) fn basis(&self, servers: u32) -> Basis {
        let numbers = || self.measured.iter().map(|state| state.servers);
        if numbers().any(|n| n == servers) {
            return Basis::Measured;
        }
        match (numbers().filter(|n| *n < servers).max(), numbers().filter(|n| *n > servers).min()) {
            (Some(low), Some(high)) => Basis::Between { low, high },
            _ => Basis::Beyond,
        }
    }

    /// The row of so many servers, of which the model gives this; `shares` are how many groups have how many
    /// of how many servers.
    pub(super) fn row(&self, servers: u32, model: f64, shares: impl Fn(u32) -> Vec<(u32, u32)>) -> Row {
        let basis = self.basis(servers);
        let anchor = |n: u32| {
            let at = self.measured.iter().position(|state| state.servers == n);
            at.map_or((model, model), |at| (self.measured[at].iops, self.modelled[at]))
        };
        match basis {
            Basis::Beyond => Row { iops: model, basis, why_outside: None },
            Basis::Measured => Row { iops: anchor(servers).0, basis, why_outside: None },
            Basis::Between { low, high } => {
                let (below, above) = (anchor(low), anchor(high));
                let part = f64::from(servers - low) / f64::from(high - low);
                let off = |(measured, model): (f64, f64)| (measured / model).ln();
                let iops = model * ((1.0 - part) * off(below) + part * off(above)).exp();
                let [least, most] = sorted(below.0, above.0);
                if (least..=most).contains(&iops) {
                    return Row { iops, basis, why_outside: None };
                }
                let Some(why) = self.why_outside(servers, (low, high), &shares) else {
                    return Row { iops: iops.clamp(least, most), basis, why_outside: None };
                };
                // What all get together may fall and rise again; what each gets does not.
                let each = |iops: f64, n: u32| iops * f64::from(servers) / f64::from(n);
                let [least, most] = sorted(each(below.0, low), each(above.0, high));
                Row { iops: iops.clamp(least, most), basis, why_outside: Some(why) }
            }
        }
    }

    /// What changes between two numbers of servers, so that all together may get less or more than with
    /// either.
    fn why_outside(
        &self,
        servers: u32,
        (low, high): (u32, u32),
        shares: impl Fn(u32) -> Vec<(u32, u32)>,
    ) -> Option<String> {
        let now = kind(&shares(servers));
        if [low, high].iter().any(|n| kind(&shares(*n)) != now) {
            return Some(format!("the groups are shared in another way than with {low} or {high}"));
        }
        let hits =
            |n: u32| self.measured.iter().find(|state| state.servers == n).map_or(0.0, |s| s.hit_share);
        let (below, above) = (hits(low), hits(high));
        ((below - above).abs() > HITS_CHANGE).then(|| {
            format!(
                "the cache had {:.0} % of the reads with {low} and {:.0} % with {high}: an I/O costs the \
                 drives more, and each server gets less",
                100.0 * below,
                100.0 * above
            )
        })
    }
}

fn sorted(a: f64, b: f64) -> [f64; 2] {
    [a.min(b), a.max(b)]
}

/// How full the fullest groups are, and whether all are alike: where both stay, more servers only add load.
fn kind(shares: &[(u32, u32)]) -> (Option<u32>, bool) {
    (shares.first().map(|(_, each)| *each), shares.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(measured: &[(u32, f64)]) -> Vec<Sample> {
        let sample = |(servers, iops): &(u32, f64)| Sample {
            servers: *servers,
            repeat: 0,
            iops: *iops,
            utilisation: vec![],
            groups: vec![],
            pending: 0.0,
            hit_share: 0.0,
            share_of: *servers,
        };
        measured.iter().map(sample).collect()
    }

    #[test]
    fn a_row_between_two_that_were_run_lies_between_them_or_says_why() {
        let states = states(&[(2, 2000.0), (4, 2600.0)]);
        let within = Within::new(&states, vec![2100.0, 2500.0]);
        let alike = |_: u32| vec![(1, 1)];
        let row = |servers, model| within.row(servers, model, alike);
        assert_eq!(row(2, 2100.0), Row { iops: 2000.0, basis: Basis::Measured, why_outside: None });
        let three = row(3, 2300.0);
        assert_eq!(three.basis, Basis::Between { low: 2, high: 4 });
        // The model is 5 % above at 2 and 4 % below at 4: nearly right in the middle.
        assert!((three.iops / (2300.0 * (2000.0 / 2100.0 * 2600.0 / 2500.0_f64).sqrt()) - 1.0).abs() < 1e-9);
        assert_eq!(row(3, 11313.0).iops, 2600.0);
        assert_eq!(row(5, 2700.0), Row { iops: 2700.0, basis: Basis::Beyond, why_outside: None });
        let uneven = within.row(3, 1500.0, |n| if n == 3 { vec![(1, 2), (1, 1)] } else { vec![(2, 1)] });
        assert!(uneven.iops < 2000.0 && uneven.why_outside.is_some(), "{uneven:?}");
    }
}
