//! What a host may do changes while it is logged in; and what a host does to what it sees reaches nobody who
//! does not see it.

use crate::config::Level;
use block::Pieces;
use iscsi::initiator::{Done, Options, Session};
use iscsi::pdu::{function, outcome};
use iscsi::target::Secret;
use world::World;

use super::rig::{TARGET, declaration, group, model, portal, start};
use crate::config::{ChapConfig, Config, HostConfig, LUN_MAX, VolumeConfig};
use crate::{Array, Lun};

const ID: u8 = 7;

pub(super) fn initiator(name: &str) -> String {
    format!("iqn.2026-11.test:{name}")
}

/// Volumes `own`, `other` and `both`; hosts `a` and `b` see their own as LUN 0 and the third as LUN 1.
pub(super) fn two_hosts() -> Config {
    let mut config = declaration(ID, 2, vec![group("g", Level::Raid1, 0..2)]);
    let like = config.volumes.remove(0);
    let volume = |name: &str| VolumeConfig { name: name.into(), len_bytes: 1 << 20, ..like.clone() };
    config.volumes = ["own", "other", "both"].map(volume).into();
    let host = |name: &str, own: &str| {
        let luns = [(0, own.to_owned()), (1, "both".to_owned())].into();
        HostConfig::new(name.into(), initiator(name), luns)
    };
    config.hosts = vec![host("a", "own"), host("b", "other")];
    config
}

pub(super) async fn log_in(world: &World, name: &str, secret: Option<&str>) -> Option<Session> {
    let chap = secret.map(|secret| Secret { name: name.into(), secret: secret.into() });
    let options = Options { chap, ..Options::new(portal(ID), &initiator(name), TARGET, 1) };
    Session::login(world, &options).await.ok()
}

async fn command(session: &Session, lun: u16, cdb: &[u8], max: u32) -> Done {
    let mut whole = [0; 16];
    whole[..cdb.len()].copy_from_slice(cdb);
    session.command(Lun(lun), whole, Pieces::new(), max).await.expect("the session lives")
}

/// TEST UNIT READY: GOOD, or sense key, code and qualifier.
pub(super) async fn ready(session: &Session, lun: u16) -> Option<(u8, u8, u8)> {
    let done = command(session, lun, &[0], 0).await;
    if done.is_good() { None } else { done.sense_codes() }
}

/// Takes the unit attention of a new nexus on LUNs 0 and 1.
pub(super) async fn settled(world: &World, name: &str, secret: Option<&str>) -> Session {
    let session = log_in(world, name, secret).await.expect("a login");
    for lun in [0, 1] {
        assert_eq!(ready(&session, lun).await, Some((6, 0x29, 0)));
        assert_eq!(ready(&session, lun).await, None);
    }
    session
}

fn secret(text: &str) -> Option<ChapConfig> {
    Some(ChapConfig { name: "a".into(), secret: text.into() })
}

/// Applies a change of host `a` while both are logged in: whether the session of `a` lives on. That of `b`
/// always does.
async fn lives_on(
    world: &World,
    array: &mut Array,
    proof: Option<&str>,
    edit: impl FnOnce(&mut Config),
) -> bool {
    let (a, b) = (settled(world, "a", proof).await, settled(world, "b", None).await);
    let mut next = array.config().clone();
    edit(&mut next);
    array.apply(next).await.expect("it is applied");
    world.sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(b.error(), None, "another host's session");
    assert_eq!(ready(&b, 1).await, None);
    let lives = a.error().is_none();
    for session in [a, b] {
        let _ = session.logout().await;
    }
    lives
}

#[test]
fn sessions_that_have_no_rights_any_more_end_at_once() {
    model(ID.into(), 2).run(async |world| {
        let mut array = start(&world);
        array.apply(two_hosts()).await.expect("apply");
        let (old, new) = ("the first secret", "the second secret");
        // A secret where there was none, another one, one for the array, none again.
        let set = |chap: Option<ChapConfig>| move |c: &mut Config| c.hosts[0].chap = chap;
        assert!(lives_on(&world, &mut array, None, |_| {}).await, "nothing has changed");
        assert!(!lives_on(&world, &mut array, None, set(secret(old))).await);
        assert!(log_in(&world, "a", None).await.is_none(), "it needs the secret now");
        assert!(!lives_on(&world, &mut array, Some(old), set(secret(new))).await);
        assert!(log_in(&world, "a", Some(old)).await.is_none(), "the old secret holds no more");
        let mutual = Some(ChapConfig { name: "array".into(), secret: "what the array proves".into() });
        assert!(!lives_on(&world, &mut array, Some(new), |c| c.hosts[0].mutual_chap = mutual).await);
        let open = |c: &mut Config| (c.hosts[0].chap, c.hosts[0].mutual_chap) = (None, None);
        assert!(!lives_on(&world, &mut array, Some(new), open).await);
        // Another volume for it, another host: it stays.
        let map = |c: &mut Config| drop(c.hosts[0].luns.insert(2, "both".into()));
        assert!(lives_on(&world, &mut array, None, map).await);
        // Another initiator, and the initiator is another host's.
        assert!(!lives_on(&world, &mut array, None, |c| c.hosts[0].initiator = initiator("c")).await);
        assert!(log_in(&world, "a", None).await.is_none(), "nobody knows it any more");
        let back = |c: &mut Config| c.hosts[0].initiator = initiator("a");
        let mut next = array.config().clone();
        back(&mut next);
        array.apply(next).await.expect("apply");
        let renamed = |c: &mut Config| c.hosts[0].name = "z".into();
        assert!(!lives_on(&world, &mut array, None, renamed).await);
        assert!(!lives_on(&world, &mut array, None, |c| drop(c.hosts.remove(0))).await);
        array.stop().await.expect("stop");
    });
}

#[test]
fn a_lun_that_is_taken_away_is_gone_and_the_host_is_told() {
    model(ID.into(), 2).run(async |world| {
        let mut array = start(&world);
        array.apply(two_hosts()).await.expect("apply");
        let (a, b) = (settled(&world, "a", None).await, settled(&world, "b", None).await);
        let mut next = array.config().clone();
        next.hosts[0].luns.remove(&1);
        array.apply(next).await.expect("apply");
        assert_eq!(ready(&a, 0).await, Some((6, 0x3f, 0x0e)), "REPORTED LUNS DATA HAS CHANGED");
        assert_eq!(ready(&a, 1).await, Some((5, 0x25, 0)));
        assert_eq!((ready(&b, 0).await, ready(&b, 1).await), (None, None));
        array.stop().await.expect("stop");
    });
}

#[test]
fn resets_reach_what_the_asking_host_sees_and_end_no_other_session() {
    model(ID.into(), 2).run(async |world| {
        let mut array = start(&world);
        array.apply(two_hosts()).await.expect("apply");
        let b = settled(&world, "b", None).await;
        for (reset, lun, told) in [
            (function::LUN_RESET, 0, None),
            (function::LUN_RESET, 1, Some((6, 0x29, 3))),
            (function::TARGET_WARM_RESET, 0, Some((6, 0x29, 0))),
            (function::TARGET_COLD_RESET, 0, Some((6, 0x29, 0))),
        ] {
            let a = log_in(&world, "a", None).await.expect("a login");
            assert_eq!(a.task_function(reset, Lun(lun)).await, Ok(outcome::COMPLETE));
            world.sleep(std::time::Duration::from_secs(1)).await;
            assert_eq!(a.error().is_some(), reset == function::TARGET_COLD_RESET, "its own session");
            // The LU that both see was reset; what `b` alone sees was not.
            assert_eq!(b.error(), None);
            assert_eq!((ready(&b, 0).await, ready(&b, 1).await), (None, told));
            let _ = a.logout().await;
        }
        array.stop().await.expect("stop");
    });
}

#[test]
fn luns_are_addressed_up_to_16383() {
    model(ID.into(), 2).run(async |world| {
        let mut array = start(&world);
        let mut config = two_hosts();
        let luns = [0, 255, 256, 300, LUN_MAX];
        config.hosts[0].luns = luns.map(|lun| (lun, "own".to_owned())).into();
        array.apply(config.clone()).await.expect("apply");
        let a = log_in(&world, "a", None).await.expect("a login");
        let done = command(&a, 0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256).await;
        let reported = done.data_in.joined().to_vec();
        assert_eq!(reported[..8], [0, 0, 0, 40, 0, 0, 0, 0]);
        let fields: Vec<[u8; 2]> = reported[8..].chunks(8).map(|lun| [lun[0], lun[1]]).collect();
        // Peripheral device addressing below 256, flat space addressing above (SAM-5 4.7.7).
        assert_eq!(fields, [[0, 0], [0, 255], [0x41, 0], [0x41, 0x2c], [0x7f, 0xff]]);
        for lun in luns {
            assert_eq!(ready(&a, lun).await, Some((6, 0x29, 0)), "LUN {lun}");
            assert_eq!(ready(&a, lun).await, None, "LUN {lun}");
        }
        assert_eq!(ready(&a, 257).await, Some((5, 0x25, 0)));
        config.hosts[0].luns.insert(LUN_MAX + 1, "own".into());
        let refused = array.apply(config).await.expect_err("there is no such LUN").to_string();
        assert!(refused.contains("16384"), "{refused}");
        array.stop().await.expect("stop");
    });
}
