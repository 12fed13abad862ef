//! Plans against exact counts, and against every other way that would have been right.

use super::*;

const UNIT: u32 = 16;

fn geometry(width: u32, parities: u32) -> Geometry {
    Geometry::new(UNIT, width, parities).expect("valid")
}

/// A plan for whole units `units` of row 0 and its counts of reads and writes.
fn whole(geometry: &Geometry, units: std::ops::Range<u32>) -> (Way, usize, usize) {
    let span = |k| if units.contains(&k) { Span::new(0, UNIT) } else { Span::NONE };
    let written: Vec<_> = (0..geometry.data_units()).map(span).collect();
    let plan = Plan::new(geometry, 0, &written, 0).expect("nothing is missing");
    (plan.way, plan.reads().count(), plan.writes().count())
}

#[test]
fn a_small_write_takes_four_operations_in_raid_5_and_six_in_raid_6() {
    for width in 4..=WIDTH_MAX {
        assert_eq!(whole(&geometry(width, 1), 0..1), (Way::ReadModifyWrite, 2, 2), "width {width}");
    }
    for width in 6..=WIDTH_MAX {
        assert_eq!(whole(&geometry(width, 2), 0..1), (Way::ReadModifyWrite, 3, 3), "width {width}");
    }
    // With few data units the others are cheaper to read than the own and the parities.
    assert_eq!(whole(&geometry(3, 1), 0..1), (Way::Reconstruct, 1, 2));
    assert_eq!(whole(&geometry(4, 2), 0..1), (Way::Reconstruct, 1, 3));
    assert_eq!(whole(&geometry(5, 2), 0..1), (Way::Reconstruct, 2, 3));
}

#[test]
fn a_full_row_is_written_and_nothing_is_read() {
    for (parities, least) in [(1, 3), (2, 4)] {
        for width in least..=WIDTH_MAX {
            let geometry = geometry(width, parities);
            assert_eq!(whole(&geometry, 0..width - parities), (Way::FullRow, 0, width as usize));
        }
    }
}

#[test]
fn more_than_half_of_a_row_is_reconstructed() {
    for (parities, least) in [(1, 3), (2, 4)] {
        for width in least..=WIDTH_MAX {
            let geometry = geometry(width, parities);
            let n = geometry.data_units();
            for k in 1..n {
                let (way, reads, writes) = whole(&geometry, 0..k);
                let (modify, reconstruct) = (k + parities, n - k);
                let expected = if reconstruct < modify { Way::Reconstruct } else { Way::ReadModifyWrite };
                assert_eq!(
                    (way, reads as u32),
                    (expected, modify.min(reconstruct)),
                    "{k} of {n} + {parities}"
                );
                assert_eq!(writes as u32, k + parities);
                assert!(2 * k <= n || way == Way::Reconstruct);
            }
        }
    }
}

/// One case drawn at random: written ranges and missing drives.
fn draw(rng: &mut fastrand::Rng) -> (Geometry, u64, Vec<Span>, u32) {
    let parities = rng.u32(1..=2);
    let geometry = geometry(rng.u32(parities + 2..=9), parities);
    let mut written = vec![Span::NONE; geometry.data_units() as usize];
    let spans = [Span::new(0, UNIT), Span::new(0, 8), Span::new(8, 16), Span::new(4, 12)];
    for span in &mut written {
        if rng.bool() {
            *span = spans[rng.usize(..spans.len())];
        }
    }
    let unit = rng.usize(..written.len());
    if written[unit].is_empty() {
        written[unit] = spans[rng.usize(..spans.len())];
    }
    let missing = (0..rng.u32(0..=parities)).fold(0, |set, _| set | 1 << rng.u32(0..geometry.width()));
    (geometry, rng.u64(0..20), written, missing)
}

/// Whether every parity that is left can be computed from what is read and written: the definition, byte by
/// byte, of what a correct set of reads is. `reads[drive]` has a bit for each byte of the unit.
fn suffices(geometry: &Geometry, row: u64, written: &[Span], missing: u32, reads: &[u32]) -> bool {
    let bits = |span: Span| (span.from..span.to).fold(0u32, |set, byte| set | 1 << byte);
    let has = |drive: u32| missing & 1 << drive == 0;
    let (p, q) = (geometry.p_drive(row), geometry.q_drive(row));
    let left: Vec<_> = [Some(p), q].into_iter().flatten().filter(|d| has(*d)).collect();
    let hull = bits(written.iter().fold(Span::NONE, |hull, w| hull.hull(*w)));
    let data = |k: usize| geometry.drive_of(row, k as u32);
    (0..UNIT).filter(|byte| hull & 1 << byte != 0).all(|byte| {
        let bit = 1 << byte;
        let old = |drive: u32| reads[drive as usize] & bit != 0;
        let is_new = |k: usize| bits(written[k]) & bit != 0;
        let modify =
            || left.iter().all(|d| old(*d)) && (0..written.len()).all(|k| !is_new(k) || old(data(k)));
        let unknown = (0..written.len()).filter(|k| !is_new(*k) && !old(data(*k))).count();
        // With all data that are missing at this byte recovered, whether they are written or not.
        let recover = || {
            let lost = (0..written.len()).filter(|k| !old(data(*k))).count();
            lost <= left.iter().filter(|d| old(**d)).count()
        };
        left.is_empty() || modify() || unknown == 0 || recover()
    })
}

#[test]
fn plans_suffice_and_write_what_is_asked() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut ways = [0; 5];
    for _ in 0..20_000 {
        let (geometry, row, written, missing) = draw(&mut rng);
        let plan = Plan::new(&geometry, row, &written, missing).expect("not too many are missing");
        ways[plan.way as usize] += 1;
        let mut reads = vec![0u32; geometry.width() as usize];
        for (drive, span) in plan.reads() {
            assert_eq!(missing & 1 << drive, 0, "a missing drive is read");
            assert!(plan.hull.covers(span));
            reads[drive as usize] = (span.from..span.to).fold(0, |set, byte| set | 1 << byte);
        }
        assert!(
            suffices(&geometry, row, &written, missing, &reads),
            "{written:?} missing {missing:b}: {plan:?}"
        );
        for drive in 0..geometry.width() {
            let wanted = match geometry.role_of(row, drive) {
                _ if missing & 1 << drive != 0 => Span::NONE,
                Role::Data(k) => written[k as usize],
                Role::P | Role::Q => plan.hull,
            };
            assert_eq!(plan.write(drive), wanted);
        }
    }
    assert!(ways.iter().all(|count| *count > 20), "a way was never taken: {ways:?}");
}

#[test]
fn no_smaller_set_of_reads_would_do() {
    // Every set of drives, read over the whole hull. All written ranges are the same, since a plan does not
    // read some bytes for one way and others for another. No data unit is missing: then the table asks for
    // one certain way.
    let mut rng = fastrand::Rng::with_seed(2);
    let mut compared = 0;
    for _ in 0..2_000 {
        let (geometry, row, written, missing) = draw(&mut rng);
        let lost = |k: u32| missing & 1 << geometry.drive_of(row, k) != 0;
        let alike = written
            .iter()
            .filter(|w| !w.is_empty())
            .all(|w| *w == written.iter().fold(Span::NONE, |h, w| h.hull(*w)));
        if !alike || (0..geometry.data_units()).any(lost) {
            continue;
        }
        compared += 1;
        let plan = Plan::new(&geometry, row, &written, missing).expect("not too many are missing");
        let count = plan.reads().count() as u32;
        let hull = (plan.hull.from..plan.hull.to).fold(0, |set, byte| set | 1 << byte);
        for set in (0u32..1 << geometry.width()).filter(|s| s & missing == 0 && s.count_ones() < count) {
            let reads: Vec<_> =
                (0..geometry.width()).map(|d| if set & 1 << d != 0 { hull } else { 0 }).collect();
            let enough = suffices(&geometry, row, &written, missing, &reads);
            assert!(!enough, "drives {set:b} suffice for {written:?} missing {missing:b}: {plan:?}");
        }
    }
    assert!(compared > 100);
}

#[test]
fn missing_drives_change_the_way() {
    let geometry = geometry(6, 2);
    let way = |written: &[(usize, Span)], missing: &[u32]| {
        let mut spans = [Span::NONE; 4];
        written.iter().for_each(|(k, span)| spans[*k] = *span);
        let missing = missing.iter().fold(0, |set, drive| set | 1 << drive);
        Plan::new(&geometry, 0, &spans, missing)
            .map(|plan| (plan.way, plan.reads().count(), plan.writes().count()))
    };
    let data = |k| geometry.drive_of(0, k);
    let (p, q) = (geometry.p_drive(0), geometry.q_drive(0).expect("RAID 6"));
    let (all, half) = (Span::new(0, UNIT), Span::new(0, 8));
    assert_eq!(way(&[(0, all)], &[p]), Some((Way::ReadModifyWrite, 2, 2)), "a missing parity is not written");
    assert_eq!(way(&[(0, all)], &[p, q]), Some((Way::NoParity, 0, 1)));
    assert_eq!(way(&[(0, all), (1, all), (2, all)], &[data(3)]), Some((Way::ReadModifyWrite, 5, 5)));
    assert_eq!(way(&[(0, all)], &[data(0)]), Some((Way::Reconstruct, 3, 2)), "only parity is written");
    assert_eq!(way(&[(0, half), (1, all)], &[data(0)]), Some((Way::Recover, 4, 3)));
    assert_eq!(way(&[(0, half), (1, all)], &[data(0), p]), Some((Way::Recover, 4, 2)));
    assert_eq!(way(&[(0, all)], &[data(0), data(1)]), Some((Way::Recover, 4, 2)));
    assert_eq!(way(&[(0, all), (1, all), (2, all), (3, all)], &[data(0), q]), Some((Way::FullRow, 0, 4)));
    assert_eq!(way(&[(0, all)], &[0, 1, 2]), None, "too many");
}
