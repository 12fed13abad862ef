//! A registry that has lost or damaged a part of what nodes need.

use super::*;

#[test]
fn records_of_others_that_cannot_be_read_are_passed_over_and_said_once() {
    with_bed(&[0, 0], async |bed| {
        let keys = ["members/n8", "nodes/n9", "owner/array/ask"];
        for key in keys {
            overwrite(bed, key, b"\xff", None).await;
        }
        let state = |at: usize| bed.nodes[at].member.borrow().state();
        bed.sleep(10).await;
        let (owner, _) = bed.owner().expect("an owner");
        assert_eq!(state(owner).others.len(), 1, "the standby");
        let said = |at: usize| {
            let named = |key: &&str| state(at).passed_over.iter().filter(|text| text.contains(*key)).count();
            keys.iter().map(named).collect::<Vec<_>>()
        };
        assert_eq!((said(owner)[0], said(owner)[2], said(1 - owner)[1]), (1, 1, 1));
        assert_eq!((state(owner).fault, state(1 - owner).fault), (None, None));
        // A request that can be read is heeded again.
        let ask = AskRecord { ask: Ask::Drain, epoch: state(owner).epoch_seen, to: None };
        overwrite(bed, keys[2], &registry::record::encode(&ask), None).await;
        bed.sleep(1).await;
        assert_eq!(state(owner).asked, Some(Ask::Drain));
        bed.nodes[owner].kill();
        assert!(bed.until_owned(|node| node != owner).await <= TAKE_OVER_MAX);
    });
}

#[test]
fn an_owner_whose_node_cannot_be_read_lives_until_its_lease_ends() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(2).await;
        let (owner, _) = bed.owner().expect("an owner");
        let client = Memory::new(&bed.world, &bed.store);
        let entry =
            client.get(&Key::new(OWNER).expect("a key")).await.expect("it answers").expect("an owner");
        let lease = OwnerRecord::decode(OWNER, &entry.value).expect("an owner").lease;
        let key = format!("{NODES}{}", bed.nodes[owner].name);
        overwrite(bed, &key, b"\xff", Some(LeaseId(lease))).await;
        assert_eq!(bed.looks(Duration::from_secs(20)).await.len(), 1, "one owner all the time");
        let standing = bed.nodes[1 - owner].standing();
        assert!(matches!(standing, Standing::Standby(Waits::Owner { .. })), "{standing:?}");
        bed.nodes[owner].kill();
        assert!(bed.until_owned(|node| node != owner).await <= TAKE_OVER_MAX);
    });
}

/// Before, a node whose own record was gone trusted no look any more: a standby never took over, and an owner
/// never saw that another one had followed it.
#[test]
fn a_node_whose_record_is_lost_or_damaged_puts_it_again() {
    with_bed(&[0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        bed.sleep(1).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let key = |at: usize| format!("{NODES}{}", bed.nodes[at].name);
        let client = Memory::new(&bed.world, &bed.store);
        for (at, is_lost) in [(1 - owner, true), (1 - owner, false), (owner, false)] {
            match is_lost {
                true => bed.store.forget(&key(at)),
                false => bed.store.damage(&named(&key(at)), b"\xff"),
            }
            assert_eq!(bed.looks(Duration::from_secs(3)).await.len(), 1, "one owner all the time");
            let found = client.get(&named(&key(at))).await.expect("it answers").expect("a record");
            assert!(NodeRecord::decode(&key(at), &found.value).is_ok());
            assert_eq!(bed.nodes[at].member.borrow().state().fault, None);
        }
        assert_eq!(bed.owner(), Some((owner, epoch)));
    });
}

/// Before, such a value counted as another node's: the standby never took over, also when it was started
/// again.
#[test]
fn a_node_whose_record_was_overwritten_with_what_no_node_puts_puts_it_again_bound_to_its_lease() {
    with_bed(&[0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        bed.sleep(1).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let (standby, client) = (1 - owner, Memory::new(&bed.world, &bed.store));
        let key = |at: usize| format!("{NODES}{}", bed.nodes[at].name);
        let is_listed = async |at: usize| {
            let found = client.get(&named(&key(at))).await.expect("it answers");
            found.is_some_and(|found| NodeRecord::decode(&key(at), &found.value).is_ok())
        };
        for at in [standby, owner] {
            overwrite(bed, &key(at), b"garbage", None).await;
            assert_eq!(bed.looks(Duration::from_secs(3)).await.len(), 1, "one owner all the time");
            assert!(is_listed(at).await);
            assert_eq!(bed.nodes[at].member.borrow().state().fault, None);
        }
        assert_eq!(bed.owner(), Some((owner, epoch)));
        // Also one that starts.
        bed.nodes[standby].kill();
        overwrite(bed, &key(standby), b"garbage", None).await;
        bed.nodes[standby].start(&bed.world);
        bed.sleep(1).await;
        assert!(is_listed(standby).await);
        // It takes over, and the record of the node that died ends with its lease.
        overwrite(bed, &key(standby), b"garbage", None).await;
        bed.nodes[owner].kill();
        assert!(bed.until_owned(|node| node == standby).await <= TAKE_OVER_MAX);
        assert!(!is_listed(owner).await);
        // A value that a node can have put is that of another process of its name.
        let twin = NodeRecord { lease: 4711, ..NodeRecord::default() };
        overwrite(bed, &key(owner), &twin.encode(), None).await;
        bed.nodes[owner].start(&bed.world);
        bed.sleep(3).await;
        let fault = bed.nodes[owner].member.borrow().state().fault.unwrap_or_default();
        assert!(fault.contains("another node is called"), "{fault}");
        let found = client.get(&named(&key(owner))).await.expect("it answers").expect("there");
        assert_eq!(found.value, twin.encode());
    });
}

/// Before, the portals of such a node were missing until it was started again.
#[test]
fn a_node_whose_membership_is_lost_or_damaged_puts_it_again() {
    with_bed(&[0, 0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        bed.sleep(1).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let client = Memory::new(&bed.world, &bed.store);
        let member = async |key: &Key| client.get(key).await.expect("it answers").map(|entry| entry.value);
        for at in 0..3 {
            let key = named(&format!("{MEMBERS}{}", bed.nodes[at].name));
            let before = member(&key).await.expect("a member");
            let harms: [&dyn Fn(); 2] =
                [&|| bed.store.forget(key.as_str()), &|| bed.store.damage(&key, b"\xff")];
            for harm in harms {
                harm();
                bed.sleep(3).await;
                assert_eq!(member(&key).await.as_ref(), Some(&before), "{key}");
            }
            for value in [&b"garbage"[..], b"portals = [\"192.0.2.1:3260\"]\nnumber = 7\n"] {
                overwrite(bed, key.as_str(), value, None).await;
                bed.sleep(3).await;
                assert_eq!(member(&key).await.as_ref(), Some(&before), "{key}");
            }
        }
        bed.sleep(3).await;
        let state = bed.nodes[owner].member.borrow().state();
        assert_eq!((state.others.len(), bed.owner()), (2, Some((owner, epoch))));
        // That of a node that is down stays away.
        let down = (owner + 1) % 3;
        bed.nodes[down].kill();
        bed.sleep(10).await;
        let key = named(&format!("{MEMBERS}{}", bed.nodes[down].name));
        bed.store.forget(key.as_str());
        bed.sleep(5).await;
        assert_eq!(member(&key).await, None);
    });
}

/// Before, an owner whose node was not listed was dead for the others: one of them took over from an owner
/// that lived, and for commands and the status there was none.
#[test]
fn an_owner_whose_node_record_is_gone_lives_as_long_as_its_lease() {
    with_bed(&[0, 0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        bed.sleep(1).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let name = bed.nodes[owner].name.as_str();
        let client = Memory::new(&bed.world, &bed.store);
        let look = async || Overview::look(&client, &[]).await.expect("readable");
        // It cannot put its record again meanwhile, for less than its term.
        bed.nodes[owner].link.cut.set(true);
        bed.store.forget(&format!("{NODES}{name}"));
        bed.sleep(2).await;
        for standby in bed.nodes.iter().filter(|node| node.name != name) {
            let waits = Waits::Owner { node: name.to_owned(), epoch };
            assert_eq!(standby.standing(), Standing::Standby(waits));
            let state = standby.member.borrow().state();
            assert!(state.owner.is_some(), "it leads hosts where the owner was");
        }
        let seen = look().await;
        assert_eq!((seen.living_owner(), seen.nodes.len()), (Some((name, epoch)), 2));
        assert_eq!(seen.movable(Some(name), None), Ok((name.to_owned(), epoch)));
        bed.nodes[owner].link.cut.set(false);
        assert_eq!(bed.looks(Duration::from_secs(3)).await.len(), 1, "one owner all the time");
        assert_eq!((bed.owner(), look().await.nodes.len()), (Some((owner, epoch)), 3));
        // When it has died, its lease ends, and one of the others follows.
        bed.store.forget(&format!("{NODES}{name}"));
        bed.nodes[owner].kill();
        let gap = bed.until_owned(|node| node != owner).await;
        assert!(gap > Duration::from_secs(4) && gap <= TAKE_OVER_MAX, "{gap:?}");
    });
}

/// A record that is bound to no lease any more (put by hand, or by a restored registry) makes no owner live.
#[test]
fn an_owner_whose_lease_has_ended_is_dead_though_its_node_is_listed() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(2).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let key = format!("{NODES}{}", bed.nodes[owner].name);
        let client = Memory::new(&bed.world, &bed.store);
        let found = client.get(&named(&key)).await.expect("it answers").expect("listed");
        bed.nodes[owner].kill();
        overwrite(bed, &key, &found.value, None).await;
        assert!(bed.until_owned(|node| node != owner).await <= TAKE_OVER_MAX);
        let seen = Overview::look(&client, &[]).await.expect("readable");
        assert_eq!(seen.living_owner(), Some((&*bed.nodes[1 - owner].name, epoch + 1)));
        assert_eq!(seen.nodes.len(), 1);
    });
}

#[test]
fn an_owner_whose_record_was_replaced_by_one_that_it_cannot_read_stops_and_nobody_takes_over() {
    with_bed(&[0, 0], async |bed| {
        bed.sleep(2).await;
        let (owner, _) = bed.owner().expect("an owner");
        overwrite(bed, OWNER, b"epoch = \"of a newer version\"", None).await;
        bed.sleep(1).await;
        assert_eq!(bed.nodes[owner].standing(), Standing::Lost(Lost::Replaced { by: None }));
        assert_eq!(bed.looks(Duration::from_secs(20)).await, []);
    });
}

/// The owner keeps a text, as the array does when it serves.
async fn keeps(bed: &Bed, text: &[u8]) -> (Rc<dyn Registry>, Kept, usize, u64) {
    bed.until_owned(|_| true).await;
    let (owner, epoch) = bed.owner().expect("an owner");
    let client: Rc<dyn Registry> = Rc::new(Memory::new(&bed.world, &bed.store));
    let (mut kept, _) = Kept::claim(client.clone(), STATE, epoch).await.expect("claimed");
    kept.replace(text).await.expect("kept");
    (client, kept, owner, epoch)
}

fn named(key: &str) -> Key {
    Key::new(key).expect("a key")
}

#[test]
fn without_the_state_of_the_last_owner_nobody_takes_over_until_it_is_put_back() {
    let gone = |bed: &Bed| bed.store.forget("state/");
    let damaged = |bed: &Bed| bed.store.damage(&named("state/array"), b"");
    let torn = |bed: &Bed| bed.store.damage(&named("state/array/1/00"), b"x");
    let of_another = |bed: &Bed| bed.store.damage(&named("state/array/1/00"), b"of another array");
    let no_owner = |bed: &Bed| bed.store.forget("owner/array");
    type Harm<'a> = &'a dyn Fn(&Bed);
    let harms: [(Harm<'_>, &str); 5] = [
        (&gone, "has had an owner, and has no state"),
        (&damaged, "damaged value of state/array"),
        (&torn, "1 bytes instead of 16"),
        (&of_another, "another array"),
        (&no_owner, "older than the array"),
    ];
    for (harm, said) in harms {
        with_bed(&[0, 0], async |bed| {
            let (client, _, owner, epoch) = keeps(bed, b"of this one's 16").await;
            bed.sleep(1).await;
            bed.nodes[owner].kill();
            harm(bed);
            // Also one that has never seen the array.
            let new = Process::new(bed, "n9", 0);
            new.start(&bed.world);
            assert_eq!(bed.looks(Duration::from_secs(20)).await, [], "{said}");
            assert_eq!(new.owns(), None, "{said}");
            let Standing::Standby(waits) = bed.nodes[1 - owner].standing() else { panic!("{said}") };
            assert!(waits.text().contains(said), "{}", waits.text());
            assert_eq!(bed.nodes[1 - owner].member.borrow().state().fault, None);
            new.kill();
            let text = Some(b"put back".to_vec());
            let restored = restore_state(client.clone(), &[(STATE, text.clone())], epoch + 7).await;
            assert_eq!(restored, Ok(epoch + 7));
            assert!(bed.until_owned(|node| node != owner).await < Duration::from_secs(2), "{said}");
            let (next, now) = bed.owner().expect("an owner");
            assert_eq!((next, now), (1 - owner, epoch + 8));
            assert_eq!(Kept::claim(client.clone(), STATE, now).await.expect("claimed").1, text);
            let refused = restore_state(client, &[(STATE, text)], 0).await;
            assert!(matches!(refused, Err(RaiseError::Owned { .. })), "{refused:?}");
        });
    }
}

#[test]
fn an_owner_puts_a_damaged_state_again_and_an_older_owner_does_not() {
    with_bed(&[0, 0], async |bed| {
        let text = b"the state".repeat(10_000);
        let (client, mut kept, owner, epoch) = keeps(bed, &text).await;
        let head = named("state/array");
        assert_eq!(kept.mend().await, Ok(None));
        let damage = |part: &str| bed.store.damage(&named(part), b"x");
        let harms: [(&str, &dyn Fn()); 4] = [
            ("damaged value of state/array in", &|| damage("state/array")),
            ("bytes instead of 90000", &|| damage("state/array/0/00")),
            ("it was deleted", &|| bed.store.forget("state/array")),
            ("state/array/", &|| {
                ["state/array/0/", "state/array/1/"].iter().for_each(|p| bed.store.forget(p))
            }),
        ];
        for (said, harm) in harms {
            harm();
            let cause = kept.mend().await.expect("mended").unwrap_or_default();
            // Whichever slot is in force.
            assert!(cause.contains(said) || said.contains("instead") && cause.is_empty(), "{cause}");
            assert_eq!(kept.mend().await, Ok(None));
            assert_eq!(crate::kept_text(&*client, STATE).await, Ok(Some(text.clone())));
        }
        kept.replace(b"the next").await.expect("kept");
        // Another owner has followed, and its head is damaged now.
        let next = OwnerRecord { epoch: epoch + 1, ..OwnerRecord::default() };
        bed.nodes[owner].kill();
        bed.nodes[1 - owner].kill();
        overwrite(bed, OWNER, &next.encode(), None).await;
        bed.store.damage(&head, b"");
        assert_eq!(kept.mend().await, Err(KeptError::Stale { own: epoch, found: epoch + 1 }));
        assert!(crate::kept_text(&*client, STATE).await.is_err());
    });
}

#[test]
fn an_owner_whose_record_is_damaged_where_it_is_puts_it_again_and_goes_on() {
    with_bed(&[0, 0], async |bed| {
        let (client, _, owner, epoch) = keeps(bed, b"text").await;
        for value in [&b""[..], b"\xff"] {
            bed.store.damage(&named(OWNER), value);
            bed.sleep(2).await;
            assert_eq!(bed.owner(), Some((owner, epoch)));
            let seen = Overview::look(&*client, &[STATE]).await.expect("readable");
            assert_eq!(seen.living_owner(), Some((&*bed.nodes[owner].name, epoch)));
            assert_eq!(seen.fault, None);
        }
        let state = bed.nodes[owner].member.borrow().state();
        assert_eq!((state.mended, state.fault), (2, None));
        assert_eq!(bed.looks(Duration::from_secs(20)).await.len(), 1, "one owner all the time");
        bed.nodes[owner].kill();
        assert!(bed.until_owned(|node| node != owner).await <= TAKE_OVER_MAX);
    });
}

#[test]
fn an_array_whose_state_is_damaged_is_not_moved() {
    with_bed(&[0, 0], async |bed| {
        let (client, _, owner, _) = keeps(bed, b"text").await;
        bed.sleep(1).await;
        let look = async || Overview::look(&*client, &[STATE]).await.expect("readable");
        assert!(look().await.movable(None, None).is_ok());
        bed.store.damage(&named("state/array"), b"");
        let refused = look().await.movable(None, None).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|text| text.contains("damaged value of state/array")
            && text.contains(&format!("take over from {}", bed.nodes[owner].name))));
    });
}
