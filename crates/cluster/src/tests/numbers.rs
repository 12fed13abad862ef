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

/// Before, nodes that were started after etcd had lost its data got numbers in the order of their start:
/// portals changed their tags, and persistent reservations were those of other ports.
#[test]
fn a_node_that_begins_anew_keeps_its_number_where_the_registry_has_lost_all_of_it() {
    with_bed(&[], async |bed| {
        let client: Rc<dyn Registry> = Rc::new(Memory::new(&bed.world, &bed.store));
        let begin = async |name: &str, had: Option<u16>| {
            let about = NodeRecord::default();
            let member = Member::new(&bed.world, clock(&bed.world, 0), (name, about), 0, |_| {});
            had.into_iter().for_each(|number| member.had_number(number));
            let task = run(member.clone(), client.clone());
            bed.world.spawn(async move { drop(task.await) });
            bed.sleep(1).await;
            member.state().number
        };
        assert_eq!(begin("n2", Some(1)).await, Some(1));
        assert_eq!(begin("n3", None).await, Some(0), "one that had none takes the lowest");
        assert_eq!(begin("n1", Some(0)).await, Some(2), "its own is another node's by now");
        assert_eq!(begin("n4", Some(7)).await, Some(7));
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
        let get = async |name: &str| number_of(&client, name, None).await.expect("it answers");
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

fn number(node: &Process) -> Option<u16> {
    node.member.borrow().state().number
}

/// Who has which number, as the registry says it.
async fn given(bed: &Bed) -> Vec<(String, String)> {
    let client = Memory::new(&bed.world, &bed.store);
    let records = client.list(NUMBERS).await.expect("it answers");
    let read = |(key, entry): (Key, registry::Entry)| {
        let record = registry::record::decode::<NumberRecord>(key.as_str(), &entry.value).expect("readable");
        (key.as_str().to_owned(), record.node)
    };
    records.into_iter().map(read).collect()
}

/// Before, such a number was given to the next node that joined, and two nodes had the same target ports.
#[test]
fn a_node_that_is_up_puts_the_record_of_its_number_again_and_no_other_gets_that() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(3).await;
        let before = given(bed).await;
        assert_eq!(before.len(), 2);
        for node in &bed.nodes {
            let key = format!("{NUMBERS}{}", number(node).expect("it has joined"));
            for value in [None, Some(&b"\xff"[..]), Some(b"node = \"..\"\n")] {
                match value {
                    None => bed.store.forget(&key),
                    Some(value) => overwrite(bed, &key, value, None).await,
                }
                bed.sleep(3).await;
                assert_eq!(given(bed).await, before);
            }
        }
        // One joins before they look: their own records name the numbers.
        bed.store.forget(NUMBERS);
        let new = Process::new(bed, "n9", 0);
        new.start(&bed.world);
        bed.world.sleep(EVERY / 2).await;
        assert_eq!(number(&new), Some(2));
        bed.sleep(3).await;
        assert_eq!(given(bed).await.len(), 3);
        // A node that was down finds its number, too.
        new.kill();
        bed.store.forget(&format!("{NUMBERS}2"));
        let newer = Process::new(bed, "n8", 0);
        newer.start(&bed.world);
        bed.sleep(10).await;
        new.start(&bed.world);
        bed.sleep(3).await;
        assert_eq!((number(&new), number(&newer)), (Some(2), Some(3)));
    });
}

/// Before, nodes that ran took the numbers of each other, in the order in which they joined again.
#[test]
fn nodes_that_run_get_their_numbers_again_in_an_empty_registry() {
    with_bed(&[0, 0, 0, 0], async |bed| {
        bed.sleep(5).await;
        let before = given(bed).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        bed.nodes[owner].kill();
        bed.nodes.iter().for_each(|node| node.link.cut.set(true));
        bed.sleep(10).await;
        bed.store.forget("");
        let client: Rc<dyn Registry> = Rc::new(Memory::new(&bed.world, &bed.store));
        restore_state(client, &[(STATE, Some(b"text".to_vec()))], epoch).await.expect("restored");
        // In the other order than before.
        for node in bed.nodes.iter().rev() {
            node.link.cut.set(false);
            bed.sleep(2).await;
        }
        bed.until_owned(|_| true).await;
        let after: Vec<_> = before.into_iter().filter(|(_, node)| *node != bed.nodes[owner].name).collect();
        assert_eq!(given(bed).await, after);
        for node in bed.nodes.iter().filter(|node| node.is_up.get()) {
            assert!(
                after.contains(&(format!("{NUMBERS}{}", number(node).expect("a number")), node.name.clone()))
            );
        }
    });
}

/// Both records of a number were lost, and another node was faster.
#[test]
fn a_standby_whose_number_was_given_to_another_node_gets_a_new_one_and_an_owner_says_it() {
    with_bed(&[0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        bed.sleep(3).await;
        let (owner, _) = bed.owner().expect("an owner");
        let standby = &bed.nodes[1 - owner];
        let numbers = [owner, 1 - owner].map(|at| number(&bed.nodes[at]).expect("it has joined"));
        for number in numbers {
            overwrite(bed, &format!("{NUMBERS}{number}"), b"node = \"n9\"\n", None).await;
        }
        bed.sleep(3).await;
        assert_eq!(number(standby), Some(2));
        assert_eq!(number(&bed.nodes[owner]), Some(numbers[0]), "hosts have its target ports");
        let said = bed.nodes[owner].member.borrow().state().passed_over;
        let name = &bed.nodes[owner].name;
        let expected =
            format!("restart {name}: node n9 has its number, too, by the record numbers/{}", numbers[0]);
        assert_eq!(said, [expected]);
        let others = bed.nodes[owner].member.borrow().state().others;
        assert_eq!(others.iter().map(|other| other.number).collect::<Vec<_>>(), [2]);
    });
}
