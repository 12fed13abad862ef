//! The kernels, recovery and the search for the wrong unit against another implementation and against each
//! other.

use rusty_erasure::raid::{pq_gen, xor_gen};

use crate::geometry::Role;
use crate::{Fit, TooFewUnits, Unit, fits, locate, mul_xor_into, p, pq, q, q_coefficient, recover, xor_into};

/// A row of random data with its parities.
struct Row {
    data: Vec<Vec<u8>>,
    p: Vec<u8>,
    q: Vec<u8>,
}

impl Row {
    fn new(rng: &mut fastrand::Rng, units: usize, len: usize) -> Row {
        let data: Vec<_> = (0..units).map(|_| noise(rng, len)).collect();
        let mut row = Row { data, p: noise(rng, len), q: noise(rng, len) };
        let sources: Vec<_> = row.data.iter().map(Vec::as_slice).collect();
        pq(&sources, &mut row.p, &mut row.q);
        row
    }

    fn sources(&self) -> Vec<&[u8]> {
        self.data.iter().map(Vec::as_slice).collect()
    }

    /// Unit `u`: data, then P, then Q.
    fn unit(&self, u: usize) -> &[u8] {
        match u.checked_sub(self.data.len()) {
            None => &self.data[u],
            Some(0) => &self.p,
            Some(_) => &self.q,
        }
    }

    fn unit_mut(&mut self, u: usize) -> &mut [u8] {
        match u.checked_sub(self.data.len()) {
            None => &mut self.data[u],
            Some(0) => &mut self.p,
            Some(_) => &mut self.q,
        }
    }
}

fn noise(rng: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
}

/// Random rows: 2 to 31 data units of 1 to 3000 bytes.
fn check(seed: u64, rounds: u32, test: impl Fn(&mut fastrand::Rng, Row)) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..rounds {
        let (units, len) = (rng.usize(2..=31), rng.usize(1..3000));
        let row = Row::new(&mut rng, units, len);
        test(&mut rng, row);
    }
}

#[test]
fn parities_are_those_of_another_implementation() {
    check(1, 200, |rng, row| {
        let sources = row.sources();
        let (mut other_p, mut other_q) = (row.p.clone(), row.q.clone());
        other_p.fill(0xee);
        pq_gen(&sources, &mut other_p, &mut other_q).expect("at least two units");
        assert_eq!((&row.p, &row.q), (&other_p, &other_q));
        xor_gen(&sources, &mut other_p).expect("at least two units");
        let (mut own_p, mut own_q) = (noise(rng, row.p.len()), noise(rng, row.p.len()));
        p(&sources, &mut own_p);
        q(&sources, &mut own_q);
        assert_eq!((&own_p, &own_q), (&other_p, &other_q));
    });
}

#[test]
fn known_parities() {
    // By hand: 1 + 2 + 80h = 83h; 1·1 + 2·2 + 4·80h = 5 + (80h·2 = 1Dh)·2 = 5 + 3Ah = 3Fh.
    let (mut own_p, mut own_q) = ([0], [0]);
    pq(&[&[0x01], &[0x02], &[0x80]], &mut own_p, &mut own_q);
    assert_eq!((own_p, own_q), ([0x83], [0x3f]));
}

#[test]
fn a_delta_updates_the_parities() {
    check(2, 200, |rng, mut row| {
        let k = rng.usize(..row.data.len());
        let delta = noise(rng, row.p.len());
        xor_into(&mut row.data[k], &delta);
        xor_into(&mut row.p, &delta);
        mul_xor_into(&mut row.q, &delta, q_coefficient(k));
        assert!(fits(&row.sources(), &row.p));
        assert_eq!(locate(&row.sources(), &row.p, &row.q), Fit::Whole);
    });
}

/// Recovers units `missing` of `row`; those in `unasked` are only unknown.
fn recovered(row: &Row, missing: &[usize], unasked: &[usize]) -> Result<Vec<Vec<u8>>, TooFewUnits> {
    let n = row.data.len();
    let mut buffers = vec![vec![0xa5; row.p.len()]; missing.len()];
    let mut out = buffers.iter_mut();
    let mut units: Vec<_> = (0..n + 2)
        .map(|u| match () {
            () if unasked.contains(&u) => Unit::Unknown,
            () if missing.contains(&u) => Unit::Wanted(out.next().expect("one each")),
            () => Unit::Known(row.unit(u)),
        })
        .collect();
    let mut q = units.pop().expect("Q");
    let mut p = units.pop().expect("P");
    recover(&mut units, &mut p, &mut q)?;
    drop((units, p, q));
    Ok(buffers)
}

#[test]
fn any_one_or_two_missing_units_are_recovered() {
    for n in 2..=30 {
        let row = Row::new(&mut fastrand::Rng::with_seed(n as u64), n, 300);
        for x in 0..n + 2 {
            assert_eq!(recovered(&row, &[x], &[]), Ok(vec![row.unit(x).to_vec()]), "{x} of {n}");
            for y in x + 1..n + 2 {
                let both = vec![row.unit(x).to_vec(), row.unit(y).to_vec()];
                assert_eq!(recovered(&row, &[x, y], &[]), Ok(both), "{x} and {y} of {n}");
                assert_eq!(
                    recovered(&row, &[x], &[y]),
                    Ok(vec![row.unit(x).to_vec()]),
                    "{x} without {y} of {n}"
                );
            }
        }
    }
    check(3, 200, |rng, row| {
        let units = row.data.len() + 2;
        let x = rng.usize(..units);
        let y = (x + rng.usize(1..units)) % units;
        let (x, y) = (x.min(y), x.max(y));
        assert_eq!(recovered(&row, &[x, y], &[]), Ok(vec![row.unit(x).to_vec(), row.unit(y).to_vec()]));
    });
}

#[test]
fn three_missing_units_are_refused() {
    let row = Row::new(&mut fastrand::Rng::with_seed(4), 4, 64);
    for missing in [[0, 1, 2], [0, 3, 4], [1, 2, 5], [0, 4, 5]] {
        assert_eq!(recovered(&row, &missing, &[]), Err(TooFewUnits), "{missing:?}");
    }
    assert_eq!(recovered(&row, &[], &[0, 1, 2]), Ok(vec![]), "nobody asks");
    assert_eq!(recovered(&row, &[0], &[1, 5]), Err(TooFewUnits), "RAID 5 with two missing");
}

#[test]
fn the_one_wrong_unit_is_found() {
    check(5, 400, |rng, mut row| {
        let n = row.data.len();
        let wrong = rng.usize(..n + 2);
        let len = row.p.len();
        let from = rng.usize(..len);
        let to = rng.usize(from + 1..=len);
        row.unit_mut(wrong)[from..to].iter_mut().for_each(|byte| *byte ^= rng.u8(1..));
        let role = match wrong.checked_sub(n) {
            None => Role::Data(wrong as u32),
            Some(0) => Role::P,
            Some(_) => Role::Q,
        };
        assert_eq!(locate(&row.sources(), &row.p, &row.q), Fit::Wrong(role));
        assert_eq!(fits(&row.sources(), &row.p), role == Role::Q);
    });
}

#[test]
fn two_wrong_units_are_not_taken_for_one() {
    let mut rng = fastrand::Rng::with_seed(6);
    for _ in 0..300 {
        let n = rng.usize(2..=10);
        let mut row = Row::new(&mut rng, n, 512);
        let x = rng.usize(..n + 2);
        let y = (x + rng.usize(1..n + 2)) % (n + 2);
        for wrong in [x, y] {
            row.unit_mut(wrong).iter_mut().for_each(|byte| *byte ^= rng.u8(1..));
        }
        // 512 bytes would have to agree on one unit by chance.
        assert_eq!(locate(&row.sources(), &row.p, &row.q), Fit::Several, "{x} and {y} of {n}");
    }
}
