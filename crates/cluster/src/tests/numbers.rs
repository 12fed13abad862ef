//! The numbers of nodes.

use super::*;
use crate::{portal_group, portal_of};

#[test]
fn each_node_has_a_number_of_its_own_which_it_keeps_when_it_is_removed_and_comes_back() {
    with_bed(&[0, 0, 0, 0], async |bed| {
        bed.sleep(10).await;
        let number = |at: usize| bed.nodes[at].member.borrow().state().number.expect("it has joined");
        let before: Vec<u16> = (0..4).map(number).collect();
        let mut sorted = before.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3], "all joined at once");
        let (owner, _) = bed.owner().expect("an owner");
        let others = || bed.nodes[owner].member.borrow().state().others;
        let mut seen: Vec<(u16, bool)> = others().iter().map(|other| (other.number, other.is_up)).collect();
        seen.sort_unstable();
        let of_others = (0..4).filter(|at| *at != owner).map(|at| (before[at], true));
        let mut expected: Vec<_> = of_others.collect();
        expected.sort_unstable();
        assert_eq!(seen, expected);
        // Killed, and removed when its lease has ended.
        let gone = (owner + 1) % 4;
        bed.nodes[gone].kill();
        bed.sleep(10).await;
        let is_up =
            |number: u16| others().iter().find(|other| other.number == number).map(|other| other.is_up);
        assert_eq!(is_up(before[gone]), Some(false));
        let client = Memory::new(&bed.world, &bed.store);
        let key = Key::new(&format!("{MEMBERS}{}", bed.nodes[gone].name)).expect("a key");
        let version = client.get(&key).await.expect("it answers").expect("a member").version;
        client.compare_and_delete(&key, version).await.expect("removed");
        bed.sleep(5).await;
        assert_eq!(is_up(before[gone]), None);
        bed.nodes[gone].start(&bed.world);
        bed.sleep(5).await;
        assert_eq!((number(gone), is_up(before[gone])), (before[gone], Some(true)));
    });
}

#[test]
fn nodes_that_start_at_the_same_moment_have_all_joined_before_their_next_interval() {
    with_bed(&[0; 12], async |bed| {
        bed.world.sleep(EVERY / 2).await;
        let client = Memory::new(&bed.world, &bed.store);
        assert_eq!(client.list(MEMBERS).await.expect("it answers").len(), 12);
        let fault = |node: &Rc<Process>| node.member.borrow().state().fault;
        assert_eq!(bed.nodes.iter().find_map(fault), None);
    });
}

#[test]
fn when_all_numbers_are_given_that_of_a_removed_node_is_given_again_and_never_that_of_another() {
    with_bed(&[], async |bed| {
        let client = Memory::new(&bed.world, &bed.store);
        for number in 0..NUMBERS_MAX {
            let record = match number {
                7 => b"\xff".to_vec(),
                _ => registry::record::encode(&NumberRecord { node: format!("m{number}") }),
            };
            overwrite(bed, &format!("{NUMBERS}{number}"), &record, None).await;
            if number != 700 {
                overwrite(bed, &format!("{MEMBERS}m{number}"), b"", None).await;
            }
        }
        let get = async |name: &str| number_of(&client, name).await.expect("it answers");
        assert_eq!(get("m12").await, Some(12));
        assert_eq!(get("new").await, Some(700));
        assert_eq!(get("new").await, Some(700), "it is its own now");
        overwrite(bed, &format!("{MEMBERS}new"), b"", None).await;
        assert_eq!(get("newer").await, None);
        assert_eq!(portal_group(NUMBERS_MAX - 1, 63), 65_472);
        let all = [(0, 0), (0, 63), (1, 0), (700, 5), (NUMBERS_MAX - 1, 63)];
        assert_eq!(all.map(|(number, index)| portal_of(portal_group(number, index))), all.map(Some));
        assert_eq!(portal_of(0), None);
    });
}
