//! The water-filling table: RD, OLTP and DM on arrays of all its capacities, with requests of one unit and of
//! many.

use super::*;
use crate::expected;

fn check(units_per_s: u64, bytes: u64, outstanding: u32, places: u64) {
    let policy =
        |minimum_iops, maximum_iops, weight| Policy { minimum_iops, maximum_iops, weight, ..Policy::none() };
    let loads = [policy(250, None, 100), policy(250, None, 200), policy(0, Some(1000), 300)]
        .map(|policy| Load { bytes, outstanding, ..Load::of(policy) });
    let settings = Settings { depth_max: 16, ..Settings::default() };
    let mut array = Array::with(settings, units_per_s * UNIT, places, 1, &loads);
    array.run(125 * SECOND_NS);
    let wanted = expected(units_per_s, &array.claims());
    let got = [0, 1, 2].map(|i| array.rate(i, 5 * SECOND_NS, 125 * SECOND_NS));
    println!("C = {units_per_s}, {bytes} bytes, q = {outstanding}: {got:?}, {:?} are expected", wanted.rates);
    for (i, (got, wanted)) in got.iter().zip(&wanted.rates).enumerate() {
        // Within 2 %; where nothing is expected, within 2 % of all.
        let wanted_min = (*wanted).max(if *wanted == 0 { units_per_s / 50 } else { 0 });
        match wanted {
            0 => assert!(*got <= wanted_min, "C = {units_per_s}: client {i} gets {got}"),
            _ => check_near(&format!("C = {units_per_s}, client {i}"), *got, *wanted, 20),
        }
    }
}

#[test]
fn rates_are_those_of_the_table() {
    for units_per_s in [500, 600, 875, 1200, 1500, 2000, 3000] {
        check(units_per_s, 4096, 32, 1);
        check(units_per_s, 64 << 10, 32, 4);
    }
}
