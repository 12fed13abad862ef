//! A pool whose journal is lost for good: it is served without the writes that only the journal had, when the
//! declaration names that journal, and not before.

use crate::Config;
use crate::config::{JournalId, Level};

use super::caching::{cached, fill_and_cut};
use super::rig::{Host, chunk, drive, group, model, start};
use block::{Buf, Device};
use raid::{Group, GroupSpec};
use world_model::Model;

const ID: u8 = 37;

/// The array without the drives of the lost journal: with another journal, or with none.
fn without(journal: bool, give_up: Option<JournalId>) -> Config {
    let mut config = cached(ID, false);
    config.groups.retain(|group| group.name == "g");
    config.drives = [0, 1, 4, 5].map(drive).to_vec();
    config.groups.push(group("k", Level::Raid1, 4..6));
    config.pools[0].journal = journal.then(|| "k".to_owned());
    config.pools[0].give_up_journal = give_up;
    config
}

fn refused(model: &Model, config: Config) -> String {
    model.run(async |world| start(&world).apply(config).await.expect_err("it is refused").to_string())
}

/// The journal that a refusal names.
fn named(refusal: &str) -> JournalId {
    let (_, rest) =
        refusal.split_once("give_up_journal = \"").unwrap_or_else(|| panic!("no advice: {refusal}"));
    JournalId(u128::from_str_radix(&rest[..32], 16).expect("digits").to_be_bytes())
}

#[test]
fn a_lost_journal_is_given_up_by_its_name_only() {
    for journal in [false, true] {
        let model = model(ID.into(), 6);
        fill_and_cut(&model, ID);
        let lost = named(&refused(&model, without(journal, None)));
        let other = JournalId([7; 16]);
        assert_eq!(named(&refused(&model, without(journal, Some(other)))), lost);
        // It is there: nothing of it is given up, and the next start has it all.
        let mut found = cached(ID, false);
        found.pools[0].give_up_journal = Some(lost);
        let refusal = refused(&model, found);
        assert!(refusal.contains("declare journal = \"j\""), "{refusal}");
        model.run(async |world| {
            let mut array = start(&world);
            array.apply(without(journal, Some(lost))).await.expect("served without it");
            let told = &array.status().await.expect("status")[0].events;
            assert!(told.iter().any(|event| event.text.contains("was given up")), "{told:?}");
            Host::log_in(&world, ID).await.fill().await;
            array.stop().await.expect("stop");
        });
        // The key stays in the file, and has no effect any more.
        model.run(async |world| {
            let mut array = start(&world);
            array.apply(without(journal, Some(lost))).await.expect("served");
            let told = &array.status().await.expect("status")[0].events;
            assert!(told.iter().all(|event| !event.text.contains("was given up")), "{told:?}");
            let mut host = Host::log_in(&world, ID).await;
            host.number = 1;
            host.verify().await;
        });
    }
}

#[test]
fn a_given_up_journal_that_comes_back_brings_nothing_old_back() {
    let model = model(ID.into(), 6);
    fill_and_cut(&model, ID);
    let lost = named(&refused(&model, without(false, None)));
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(without(false, Some(lost))).await.expect("served without it");
        let mut host = Host::log_in(&world, ID).await;
        host.number = 5;
        host.fill().await;
        array.stop().await.expect("stop");
    });
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(cached(ID, true)).await.expect("served with the group of the old one");
        let mut host = Host::log_in(&world, ID).await;
        host.number = 6;
        host.verify().await;
    });
}

/// What is found of the pool of a killed array.
fn findings(model: &Model, config: Config) -> Vec<String> {
    let examined = model.run(async |world| crate::check::check(world.clone(), &config, false, |_| {}).await);
    let damage = examined.findings.iter().filter(|finding| !finding.harmless);
    damage.map(ToString::to_string).collect()
}

/// A journal whose header was destroyed was clean, and the start refused the pool.
#[test]
fn an_examination_misses_the_journal_with_acknowledged_writes() {
    let model = model(ID.into(), 6);
    fill_and_cut(&model, ID);
    assert_eq!(findings(&model, cached(ID, true)), [""; 0], "it is there");
    let undeclared = findings(&model, cached(ID, false));
    assert!(undeclared.iter().any(|line| line.contains("no journal is declared")), "{undeclared:?}");
    model.run(async |world| {
        let mut drives = Vec::new();
        for i in 2..4 {
            drives.push(world.open_drive(&drive(i).spec).await.expect("open"));
        }
        let spec = GroupSpec::new("j", raid::Level::Raid1, raid::ArrayId([ID; 16]));
        let spec = GroupSpec { stripe_unit_bytes: 16 << 10, ..spec };
        let group = Group::open(world.clone(), spec, drives).await.expect("the group");
        group.write(0, &Buf::zeroed(64 << 10).freeze().into()).await.expect("written");
        group.close().await.expect("closed");
    });
    let destroyed = findings(&model, cached(ID, true));
    let told = |line: &String| line.contains("pool p: journal") && line.contains("group j has none");
    assert!(destroyed.iter().any(told), "{destroyed:?}");
}

/// Writes of hosts failed, and the status said nothing of the journal.
#[test]
fn a_journal_whose_drive_refuses_writes_is_told_and_a_stop_in_order_keeps_what_it_had() {
    let model = model(ID.into(), 4);
    let config = || {
        let mut config = cached(ID, true);
        config.groups.retain(|group| group.name == "g");
        config.groups.push(group("j", Level::Raid0, 2..3));
        config
    };
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(config()).await.expect("apply");
        let mut host = Host::log_in(&world, ID).await;
        host.fill().await;
        let journal = async |array: &crate::Array| {
            let cache = array.status().await.expect("status").remove(0).cache.expect("a cache");
            cache.journals.into_iter().next().expect("a journal")
        };
        assert_eq!(journal(&array).await.failure, None);
        model.disks().get("d2").expect("a disk").set_read_only(true);
        let mut cdb = [0; 16];
        (cdb[0], cdb[13]) = (0x8a, 128);
        assert_ne!(host.raw(cdb, chunk(0, 1), 0).await.0, 0, "the write fails");
        let told = journal(&array).await;
        assert_eq!((told.pool.as_str(), told.group.as_str()), ("p", "j"));
        assert!(told.failure.is_some_and(|cause| cause.contains("d2")));
        assert_eq!(
            told.failed_medium.as_deref(),
            Some("d2"),
            "it is told without looking for it in the sentence"
        );
        let _ = array.stop().await;
    });
    // What was acknowledged is in the pool.
    model.run(async |world| {
        model.disks().get("d2").expect("a disk").set_read_only(false);
        let mut array = start(&world);
        let mut without = config();
        without.pools[0].journal = None;
        array.apply(without).await.expect("served without it");
        let mut host = Host::log_in(&world, ID).await;
        host.number = 1;
        host.verify().await;
    });
}
