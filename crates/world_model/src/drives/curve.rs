//! How long a seek takes, by its distance.

use super::parameters::Seek;

/// Distances below this have a time of their own: here the curve is bent most.
const EXACT: u32 = 1024;
/// Beyond, so many knots at most, with straight lines between: together 20 KiB, which stay in a core's first
/// cache.
const KNOTS_MAX: u32 = 4096;
const _: () = assert!(EXACT.is_power_of_two() && KNOTS_MAX.is_power_of_two());

/// Seek times of a drive, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekCurve {
    exact: Vec<u32>,
    /// The times of the distances `i << shift`.
    knots: Vec<u32>,
    shift: u32,
}

impl SeekCurve {
    /// The curve of a drive with so many cylinders. The parameters have been checked.
    pub fn new(seek: &Seek, cylinders: u32) -> SeekCurve {
        let shift = cylinders.div_ceil(KNOTS_MAX).next_power_of_two().trailing_zeros();
        let knots = (cylinders >> shift) + 2;
        let time = |distance: u32| match seek {
            Seek::Datasheet { single_ns, average_ns, full_ns } => {
                from_datasheet(distance, cylinders, [*single_ns, *average_ns, *full_ns])
            }
            Seek::Measured(points) => between(distance, points),
        };
        SeekCurve {
            exact: (0..EXACT).map(time).collect(),
            knots: (0..knots).map(|knot| time(knot << shift)).collect(),
            shift,
        }
    }

    /// The time of a seek over so many cylinders; 0 for none.
    pub fn ns(&self, distance: u32) -> u32 {
        if let Some(ns) = self.exact.get(distance as usize) {
            return *ns;
        }
        let knot = (distance >> self.shift) as usize;
        let (from, to) = (i64::from(self.knots[knot]), i64::from(self.knots[knot + 1]));
        let part = i64::from(distance & ((1 << self.shift) - 1));
        (from + (((to - from) * part) >> self.shift)) as u32
    }

    /// The average over all ordered pairs of cylinders.
    pub fn average_ns(&self, cylinders: u32) -> u64 {
        let n = u128::from(cylinders);
        let sum: u128 = (1..cylinders).map(|d| 2 * (n - u128::from(d)) * u128::from(self.ns(d))).sum();
        (sum / (n * n)) as u64
    }
}

/// `t(d) = a·√(d−1) + b·(d−1) + c`: the curve through the single-cylinder time whose average over all pairs
/// of cylinders and whose end are those of the data sheet (Lee and Katz, 1991). With s = d−1 and N cylinders,
/// `a·√s = (−10·min + 15·avg − 5·max)/3 · √(s/N)` and `b·s = (7·min − 15·avg + 8·max)/3 · s/N`.
fn from_datasheet(distance: u32, cylinders: u32, [single, average, full]: [u32; 3]) -> u32 {
    if distance == 0 {
        return 0;
    }
    let [single, average, full] = [single, average, full].map(i128::from);
    let (root_ns, line_ns) = (-10 * single + 15 * average - 5 * full, 7 * single - 15 * average + 8 * full);
    let share = (u64::from(distance - 1) << 40) / u64::from(cylinders);
    // The root of a fraction of 2^40 is a fraction of 2^20.
    let root = i128::from((share << 20).isqrt()) << 10;
    let ns = single + (((root_ns * root + line_ns * i128::from(share)) / 3) >> 40);
    ns.clamp(0, u32::MAX.into()) as u32
}

/// On the line between the two measured points around the distance; beyond the last one, the last one's time.
fn between(distance: u32, points: &[(u32, u32)]) -> u32 {
    if distance == 0 {
        return 0;
    }
    let after = points.partition_point(|point| point.0 < distance);
    let Some(&(to, to_ns)) = points.get(after) else {
        return points.last().map_or(0, |last| last.1);
    };
    let Some(&(from, from_ns)) = after.checked_sub(1).and_then(|before| points.get(before)) else {
        return to_ns;
    };
    let rise = (i64::from(to_ns) - i64::from(from_ns)) * i64::from(distance - from) / i64::from(to - from);
    (i64::from(from_ns) + rise) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Single, average and full seek in µs of the data sheets, reading and writing, with the cylinders of the
    /// drive.
    const SHEETS: [(&str, u32, [u32; 3]); 10] = [
        ("15K.5 read", 72_171, [200, 3500, 7400]),
        ("15K.5 write", 72_171, [400, 4000, 7900]),
        ("15K.6 read", 82_944, [200, 3400, 6600]),
        ("15K.6 write", 82_944, [440, 3900, 7100]),
        ("10K.4 read", 147_620, [300, 3800, 7810]),
        ("10K.4 write", 147_620, [560, 4400, 8180]),
        ("10K.1 read", 51_052, [200, 4000, 8100]),
        ("10K.1 write", 51_052, [600, 4400, 8600]),
        ("Constellation.2 read", 165_800, [230, 7500, 17_060]),
        ("Constellation.2 write", 165_800, [440, 8500, 18_080]),
    ];

    #[test]
    fn the_average_over_all_pairs_and_both_ends_are_those_of_the_data_sheets() {
        for (name, cylinders, sheet) in SHEETS {
            let [single_ns, average_ns, full_ns] = sheet.map(|us| us * 1000);
            let curve = SeekCurve::new(&Seek::Datasheet { single_ns, average_ns, full_ns }, cylinders);
            let off = |is: u64, should: u32| is.abs_diff(should.into()) * 1000 / u64::from(should);
            let (average, full) = (curve.average_ns(cylinders), curve.ns(cylinders - 1));
            assert!(off(average, average_ns) <= 2, "{name}: average {average} ns: more than 0.2 % off");
            assert!(off(full.into(), full_ns) <= 1, "{name}: full {full} ns: more than 0.1 % off");
            assert_eq!((curve.ns(0), curve.ns(1)), (0, single_ns), "{name}");
            let falls = (1..cylinders).find(|d| curve.ns(*d) < curve.ns(d - 1));
            assert_eq!(falls, None, "{name}: no longer seek is a shorter one's time");
        }
    }

    #[test]
    fn measured_times_are_kept_and_joined_by_lines() {
        let points = vec![(1, 800), (2, 1000), (100, 1980), (6000, 9000)];
        let curve = SeekCurve::new(&Seek::Measured(points.into()), 7000);
        assert_eq!([0, 1, 2, 51, 100].map(|d| curve.ns(d)), [0, 800, 1000, 1490, 1980]);
        assert_eq!([3050, 6000, 6999].map(|d| curve.ns(d)), [5490, 9000, 9000]);
    }
}
