//! Nodes that could not take over, and a registry that takes no values.

use super::*;

/// Before, a standby with a full data directory counted as ready, took over, and failed.
#[test]
fn an_array_goes_to_a_node_without_a_trouble_if_there_is_one() {
    for troubled in 0..3 {
        with_bed(&[0, 0, 0], async |bed| {
            bed.until_owned(|_| true).await;
            bed.sleep(1).await;
            let (owner, _) = bed.owner().expect("an owner");
            if troubled == owner {
                return;
            }
            let (name, ready) = (bed.nodes[troubled].name.as_str(), 3 - owner - troubled);
            let member = bed.nodes[troubled].member.borrow().clone();
            let client = Memory::new(&bed.world, &bed.store);
            let look = async || Overview::look_and_try(&client, &[]).await.expect("readable");
            member.set_trouble(Some("a full\ndisk".into()));
            bed.sleep(1).await;
            let forecast = look().await.forecast().expect("an owner");
            assert_eq!(forecast.successors, [bed.nodes[ready].name.clone()]);
            assert_eq!(forecast.unready, [(name.to_owned(), "a full\\ndisk".to_owned())], "in one line");
            let refused = look().await.movable(None, Some(name)).map_err(|error| error.to_string());
            assert_eq!(refused, Err(format!("node {name} could not take over: a full\\ndisk")));
            assert!(look().await.movable(None, None).is_ok());
            // The one with the trouble sees first that the array is free.
            bed.nodes[ready].link.delay.set(Duration::from_millis(50));
            bed.sleep(1).await;
            bed.nodes[owner].kill();
            assert!(bed.until_owned(|at| at != owner).await <= TAKE_OVER_MAX);
            assert_eq!(bed.owner().map(|(at, _)| at), Some(ready));
            // With nobody else it tries.
            bed.nodes[ready].kill();
            assert!(bed.until_owned(|at| at == troubled).await <= TAKE_OVER_MAX);
        });
    }
}

#[test]
fn a_trouble_that_is_over_is_taken_away_and_the_longest_one_can_be_read() {
    with_bed(&[0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        bed.sleep(1).await;
        let (owner, _) = bed.owner().expect("an owner");
        let client = Memory::new(&bed.world, &bed.store);
        let troubles = async || {
            let seen = Overview::look(&client, &[]).await.expect("readable");
            assert_eq!((seen.passed_over.len(), seen.nodes.len()), (0, 2));
            let lens = |(_, node): &(String, NodeRecord)| node.trouble.as_ref().map_or(0, String::len);
            seen.nodes.iter().map(lens).collect::<Vec<_>>()
        };
        // Also that of the owner.
        bed.nodes.iter().for_each(|node| node.member.borrow().set_trouble(Some("\u{1}ä".repeat(1000))));
        bed.sleep(1).await;
        assert!(troubles().await.iter().all(|len| (500..=512).contains(len)), "{:?}", troubles().await);
        // A record that is put again has it, too.
        bed.store.forget(NODES);
        bed.sleep(3).await;
        assert!(troubles().await.iter().all(|len| (500..=512).contains(len)), "{:?}", troubles().await);
        bed.nodes.iter().for_each(|node| node.member.borrow().set_trouble(None));
        bed.sleep(1).await;
        assert_eq!(troubles().await, [0, 0]);
        assert_eq!(bed.nodes[owner].member.borrow().state().fault, None);
    });
}

/// Before, a registry on a full file system was no trouble until a take-over failed.
#[test]
fn nobody_could_take_over_while_the_registry_takes_no_values() {
    with_bed(&[0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        bed.sleep(1).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let client = Memory::new(&bed.world, &bed.store);
        let look = async || Overview::look_and_try(&client, &[]).await.expect("readable");
        assert!(look().await.movable(None, None).is_ok());
        bed.store.set_full(true);
        let forecast = look().await.forecast().expect("an owner");
        assert_eq!(forecast.successors, [] as [&str; 0]);
        assert!(forecast.text().contains("the registry cannot be written: it is full; make room"));
        assert!(matches!(look().await.movable(None, None), Err(Immovable::Fault { .. })));
        // What it cannot tell others keeps no node from its work.
        bed.nodes.iter().for_each(|node| node.member.borrow().set_trouble(Some("a full disk".into())));
        assert_eq!(bed.looks(Duration::from_secs(20)).await.len(), 1, "one owner all the time");
        assert_eq!(bed.owner(), Some((owner, epoch)));
        assert_eq!(bed.nodes[owner].member.borrow().state().fault, None);
        bed.store.set_full(false);
        bed.sleep(1).await;
        assert_eq!(look().await.forecast().map(|forecast| forecast.unready.len()), Some(1));
    });
}

/// A drain was asked for before the owner's record said what it waits for: the array moved, and the next
/// owner waited for drives that a node which stands still holds.
#[test]
fn an_owner_that_waits_takes_a_request_to_move_away_also_one_that_was_put_before() {
    with_bed(&[0, 0], async |bed| {
        bed.until_owned(|_| true).await;
        bed.sleep(1).await;
        let (owner, epoch) = bed.owner().expect("an owner");
        let client = Memory::new(&bed.world, &bed.store);
        let member = bed.nodes[owner].member.borrow().clone();
        let asked = AskRecord { ask: Ask::Drain, epoch, to: None };
        let is_asked = async || client.get(&Key::new(ASK).expect("a key")).await.expect("read").is_some();
        // Both at one moment: nothing of it is in the registry yet.
        member.set_waits(Some("node n9 holds drives".into()));
        assert_eq!(Overview::ask(&client, &asked).await, Ok(Ok(())));
        bed.sleep(2).await;
        assert_eq!((member.state().asked, is_asked().await), (None, false));
        let seen = Overview::look(&client, &[]).await.expect("readable");
        let refused = seen.movable(None, None).expect_err("it waits").to_string();
        assert!(refused.contains("node n9 holds drives"), "{refused}");
        // It can be asked again, and then moves.
        member.set_waits(None);
        bed.sleep(1).await;
        assert_eq!(Overview::ask(&client, &asked).await, Ok(Ok(())));
        bed.sleep(1).await;
        assert_eq!((member.state().asked, is_asked().await), (Some(Ask::Drain), true));
        // What begins later does not call it back.
        member.set_waits(Some("node n9 holds drives".into()));
        bed.sleep(2).await;
        assert!(is_asked().await);
    });
}
