//! In which order a queue is served, and how long the last one waits.

use super::*;

/// One read under way on cylinder 500, and behind it reads of these blocks: the order in which those are
/// served.
fn order(scheduling: Scheduling, blocks: &[u64]) -> Vec<u64> {
    let mut drive = model(plain().with_scheduling(scheduling));
    let mut requests = vec![request(500 * CYLINDER, Kind::Read, 500 * CYLINDER, 1)];
    requests.extend(blocks.iter().map(|block| request(*block, Kind::Read, *block, 1)));
    at_once(&mut drive, 0, &requests)[1..].iter().map(|done| done.token).collect()
}

const SPTF: Scheduling = Scheduling::Sptf { ageing_permille: 0 };

#[test]
fn requests_are_served_in_the_order_of_arrival_or_of_the_arms_way_or_of_the_least_time() {
    let at = |cylinder: u64, sector: u64| cylinder * CYLINDER + sector;
    let [low, near, high, above] = [at(100, 0), at(498, 0), at(900, 0), at(510, 0)];
    let blocks = [low, high, near, above];
    assert_eq!(order(Scheduling::Fcfs, &blocks), blocks);
    assert_eq!(order(Scheduling::Look, &blocks), [above, high, near, low], "upwards, then back");
    // Two tracks at the same distance: the one whose sector comes round first. The head leaves sector 0; the
    // seek takes 1.1 ms.
    let (soon, late, gone) = (at(510, 20), at(490, 60), at(510, 5));
    assert_eq!(order(SPTF, &[gone, late, soon]), [soon, late, gone]);
}

/// A closed loop of reads on one cylinder, with one read far from it that has come after the first of them:
/// when that is done.
fn wait_of_the_far_one(scheduling: Scheduling, give_up_ns: u64) -> Option<u64> {
    let mut drive = model(plain().with_scheduling(scheduling));
    let (far, near) = (1_000_000, |i: u64| request(i, Kind::Read, i * 7 % CYLINDER, 1));
    let mut done = Vec::new();
    for i in 0..8 {
        drive.submit(0, near(i), &mut done);
    }
    drive.submit(0, request(far, Kind::Read, 999 * CYLINDER, 1), &mut done);
    let (mut i, mut coming) = (8, std::collections::BTreeSet::new());
    loop {
        coming.extend(done.drain(..).map(|done: Completion| (done.at_ns, done.token)));
        let due_ns = drive.due_ns().filter(|due| coming.first().is_none_or(|next| *due <= next.0));
        match (due_ns, coming.first().copied()) {
            (Some(due_ns), _) => drive.wake(due_ns, &mut done),
            (None, Some((at_ns, token))) if token == far => return Some(at_ns),
            (None, Some((at_ns, _))) if at_ns > give_up_ns => return None,
            (None, Some(next)) => {
                coming.remove(&next);
                drive.submit(next.0, near(i), &mut done);
                i += 1;
            }
            (None, None) => panic!("a closed loop goes on"),
        }
    }
}

#[test]
fn ageing_bounds_the_longest_wait() {
    assert_eq!(wait_of_the_far_one(SPTF, 60_000_000_000), None, "without ageing it starves for a minute");
    // The worst positioning is a full seek and a turn: 19 ms. Its credit is that much after 19 ms · 1000 /
    // permille; those that came before it, and one under way, may still be served.
    for ageing_permille in [5, 10, 30, 100] {
        let waited_ns = wait_of_the_far_one(Scheduling::Sptf { ageing_permille }, 60_000_000_000).unwrap();
        let bound_ns = 19_000_000 * 1000 / u64::from(ageing_permille) + 9 * 19_000_000;
        assert!(waited_ns <= bound_ns, "{ageing_permille}: {waited_ns} ns of {bound_ns}");
    }
}

#[test]
fn a_drive_chooses_among_as_many_as_its_queue_holds() {
    let mut drive = model(HardDiskParameters { queue_depth: 2, ..plain().with_scheduling(Scheduling::Look) });
    // The arm's way would be 1, 2, 3, 4; the first is under way, and the drive sees 4 and 3, then 2.
    let reads = [1, 4, 3, 2].map(|cylinder| request(cylinder, Kind::Read, cylinder * CYLINDER, 1));
    let served: Vec<u64> = at_once(&mut drive, 0, &reads).iter().map(|done| done.token).collect();
    assert_eq!(served, [1, 3, 4, 2]);
}
