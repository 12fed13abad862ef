//! How volumes are cached, changed while hosts use them: partitions, policies, and what a host saves by its
//! mode page.

use block::Buf;

use super::caching::{cache, cached, check_content, cut_after, dirty, send, session, wce};
use super::rig::{Host, VOLUME_BYTES, model, start};
use crate::config::{CachePolicy, PartitionConfig};
use crate::status::{CachedStatus, PartitionStatus};
use crate::{Array, Config};

const FRAME_BYTES: u64 = crate::FRAME_BYTES;

/// The declaration of `caching`, with these partitions, and its volume in one of them.
fn declared(id: u8, partitions: &[(&str, u64)], volume_in: Option<&str>) -> Config {
    let mut config = cached(id, true);
    let partition = |(name, minimum_bytes): &(&str, u64)| PartitionConfig {
        name: (*name).to_owned(),
        minimum_bytes: *minimum_bytes,
    };
    config.cache.as_mut().expect("it is declared").partitions = partitions.iter().map(partition).collect();
    config.volumes[0].partition = volume_in.map(Into::into);
    config
}

async fn partition(array: &Array, name: &str) -> Option<PartitionStatus> {
    cache(array).await.partitions.into_iter().find(|p| p.name == name)
}

async fn volume(array: &Array) -> CachedStatus {
    cache(array).await.units.remove(0)
}

/// Applies, and compares what is said to be done.
async fn check_done(array: &mut Array, config: Config, expected: &[&str]) {
    let done = array.apply(config.clone()).await.expect("apply");
    assert_eq!(done, expected);
    assert_eq!(array.apply(config).await.expect("again"), Vec::<String>::new(), "once is enough");
}

#[test]
fn partitions_come_change_and_go_under_a_host() {
    let model = model(41, 4);
    model.run(async |world| {
        let mut array = start(&world);
        // Of 8 MiB a quarter is for read-ahead; the partitions claim all the rest.
        let (small, large) = (2 << 20, 4 << 20);
        let first = declared(41, &[("gold", large), ("silver", small)], Some("gold"));
        array.apply(first).await.expect("apply");
        let mut host = Host::log_in(&world, 41).await;
        host.fill().await;
        host.verify().await;
        let gold = partition(&array, "gold").await.expect("it is there");
        assert_eq!(u64::from(gold.frames.frames_min) * FRAME_BYTES, large);
        assert_eq!(gold.frames.frames, volume(&array).await.counts.frames.frames);
        assert!(gold.frames.frames > 0, "{gold:?}");
        assert_eq!((gold.traffic.write_bytes, gold.traffic.read_bytes), (VOLUME_BYTES, VOLUME_BYTES));

        let second = declared(41, &[("gold", small), ("silver", large)], Some("silver"));
        let lines = [
            "controller 0: cache partition gold: minimum 2097152 bytes",
            "controller 0: cache partition silver: minimum 4194304 bytes",
            "volume v: cache partition silver",
        ];
        check_done(&mut array, second, &lines).await;
        host.verify().await;
        let silver = partition(&array, "silver").await.expect("it is there");
        assert!(silver.frames.frames > 0 && silver.traffic.read_bytes == VOLUME_BYTES, "{silver:?}");

        let third = declared(41, &[("gold", small), ("bronze", 0)], Some("bronze"));
        let lines = [
            "controller 0: cache partition silver: removed",
            "controller 0: cache partition bronze: minimum 0 bytes",
            "volume v: cache partition bronze",
        ];
        check_done(&mut array, third, &lines).await;
        host.fill().await;
        let lines =
            ["controller 0: cache partition bronze: removed", "controller 0: cache partition gold: removed"];
        check_done(&mut array, declared(41, &[], None), &lines).await;
        assert_eq!(cache(&array).await.partitions.len(), 1);
        assert_eq!(volume(&array).await.partition, "default");
        host.verify().await;
        host.log_out().await;
        array.stop().await.expect("stop");
    });
}

#[test]
fn what_a_journal_gives_back_is_in_the_partition_of_its_volume() {
    let model = model(42, 4);
    let config = || declared(42, &[("gold", 1 << 20)], Some("gold"));
    cut_after(&model, async |world| {
        let mut array = start(&world);
        array.apply(config()).await.expect("apply");
        let mut host = Host::log_in(&world, 42).await;
        host.fill().await;
        host.fill().await;
        assert!(dirty(&volume(&array).await.counts) > 0, "a cut with nothing dirty proves nothing");
    });
    cut_after(&model, async |world| {
        let mut array = start(&world);
        array.apply(config()).await.expect("apply");
        let gold = partition(&array, "gold").await.expect("it is there");
        assert_eq!(gold.frames.frames, volume(&array).await.counts.frames.frames);
        assert!(gold.frames.dirty > 0, "{gold:?}");
    });
    check_content(&model, 42, config(), 2);
}

#[test]
fn a_declaration_that_gives_away_more_than_there_is_changes_nothing() {
    let model = model(43, 4);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(declared(43, &[("gold", 6 << 20)], Some("gold"))).await.expect("all of it");
        for (partitions, volume_in, why) in [
            (&[("gold", 6 << 20), ("silver", 4096)][..], None, "partition \"silver\": with it the minimums"),
            (&[("gold", 0), ("gold", 0)], None, "partition \"gold\": declared twice"),
            (&[("default", 0)], None, "partition \"default\": is what volumes are in"),
            (&[], Some("gold"), "volume \"v\": no cache partition \"gold\" is declared"),
        ] {
            let refused = array.apply(declared(43, partitions, volume_in)).await.expect_err("it is refused");
            assert!(refused.to_string().starts_with(why), "{refused}");
        }
        let gold = partition(&array, "gold").await.expect("it is there");
        assert_eq!(u64::from(gold.frames.frames_min) * FRAME_BYTES, 6 << 20);
        assert_eq!(volume(&array).await.partition, "gold");
        array.stop().await.expect("stop");
    });
}

#[test]
fn a_policy_that_changes_is_said_and_shown() {
    let model = model(44, 4);
    model.run(async |world| {
        let mut array = start(&world);
        let config = |policy| {
            let mut config = declared(44, &[], None);
            config.volumes[0].cache = policy;
            config
        };
        array.apply(config(CachePolicy::WriteBack)).await.expect("apply");
        for (policy, line) in [
            (CachePolicy::WriteThrough, "volume v: cache write-through"),
            (CachePolicy::Off, "volume v: cache off"),
            (CachePolicy::WriteBack, "volume v: cache write-back"),
        ] {
            check_done(&mut array, config(policy), &[line]).await;
            assert_eq!(volume(&array).await.policy, policy);
        }
        array.stop().await.expect("stop");
    });
}

#[test]
fn what_a_host_saves_by_the_caching_mode_page_survives_a_power_cut() {
    let model = model(45, 4);
    cut_after(&model, async |world| {
        let mut array = start(&world);
        array.apply(cached(45, false)).await.expect("apply");
        let session = session(&world, 45).await;
        assert!(wce(&session, 0x08).await);
        // MODE SELECT with SP = 1.
        let mut list = Buf::zeroed(24);
        (list[4], list[5]) = (0x08, 0x12);
        send(&session, 0, &[0x15, 0x11, 0, 0, 24, 0], list.freeze().into(), 0).await;
    });
    cut_after(&model, async |world| {
        let mut array = start(&world);
        array.apply(cached(45, false)).await.expect("apply");
        let session = session(&world, 45).await;
        assert_eq!((wce(&session, 0x08).await, wce(&session, 0x88).await), (false, true));
        let mut host = Host::log_in(&world, 45).await;
        host.fill().await;
    });
    check_content(&model, 45, cached(45, false), 1);
}
