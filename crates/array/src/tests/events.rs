//! What hosts and strangers do at a port is told: logins, their ends, refusals; and who is refused again and
//! again is in the status.

use std::time::Duration;

use iscsi::initiator::{Options, discover};
use iscsi::target::Secret;
use world::World;

use super::hosts::{initiator, log_in, two_hosts};
use super::rig::{TARGET, model, portal};
use crate::config::ChapConfig;
use crate::{Array, ControllerHandle, Event, EventReceiver, Severity, event_channel, run_controller};

const ID: u8 = 7;
const SECRET: &str = "the secret of a";

/// An array with one controller that tells its events.
fn start(world: &World) -> (Array, EventReceiver) {
    let (sender, receiver) = event_channel();
    let (handle, mailbox) = ControllerHandle::new(0);
    world.spawn(run_controller(world.clone(), 0, mailbox.telling(sender), vec![handle.clone()]));
    (Array::new(vec![handle], TARGET), receiver)
}

/// What was told since this was asked last.
async fn told(world: &World, receiver: &EventReceiver) -> Vec<(Severity, String)> {
    world.sleep(Duration::from_millis(500)).await;
    let line = |e: Event| (e.severity, e.to_string());
    std::iter::from_fn(|| receiver.try_next()).map(line).collect()
}

/// Discovery in the name of a host, with or without its secret.
async fn discovery(world: &World, name: &str, secret: Option<&str>) -> bool {
    let chap = secret.map(|secret| Secret { name: name.into(), secret: secret.into() });
    let options = Options { target: None, chap, ..Options::new(portal(ID), &initiator(name), TARGET, 9) };
    discover(world, &options).await.is_ok_and(|found| found.len() == 1)
}

/// An array whose host `a` has a secret; that of `b` has none.
async fn with_a_secret(world: &World) -> (Array, EventReceiver) {
    let (mut array, receiver) = start(world);
    let mut config = two_hosts();
    config.hosts[0].chap = Some(ChapConfig { name: "a".into(), secret: SECRET.into() });
    array.apply(config).await.expect("apply");
    told(world, &receiver).await;
    (array, receiver)
}

#[test]
fn discovery_needs_the_secret_where_the_array_says_so_and_a_refusal_is_told() {
    model(ID.into(), 2).run(async |world| {
        let (mut array, receiver) = with_a_secret(&world).await;
        assert!(discovery(&world, "a", None).await, "unless the array says so, it needs none");
        assert_eq!(told(&world, &receiver).await, [], "discovery that succeeds is no news");
        let mut config = array.config().clone();
        config.discovery_chap = true;
        array.apply(config).await.expect("apply");
        let refused = |host: &str, why: &str| {
            let text = format!("{host}: discovery from 127.0.0.1 at 127.0.0.1:3267 was refused: {why}");
            vec![(Severity::Warning, text)]
        };
        assert!(!discovery(&world, "a", None).await);
        let none = "no authentication method in common";
        assert_eq!(told(&world, &receiver).await, refused("host a", none));
        assert!(!discovery(&world, "a", Some("another secret")).await);
        let wrong = "authentication failed: wrong CHAP name or response";
        assert_eq!(told(&world, &receiver).await, refused("host a", wrong));
        assert!(!discovery(&world, "x", None).await);
        let unknown = format!("initiator {}", initiator("x"));
        assert_eq!(told(&world, &receiver).await, refused(&unknown, "no host has this initiator name"));
        assert!(discovery(&world, "a", Some(SECRET)).await);
        assert!(discovery(&world, "b", None).await, "a host without a secret has nothing to prove");
        assert_eq!(told(&world, &receiver).await, []);
        array.stop().await.expect("stop");
    });
}

#[test]
fn logins_and_refusals_are_told_and_who_is_refused_repeatedly_is_in_the_status() {
    model(ID.into(), 2).run(async |world| {
        let (array, receiver) = with_a_secret(&world).await;
        let session = log_in(&world, "a", Some(SECRET)).await.expect("a login");
        let (name, at) = (initiator("a"), "127.0.0.1 at 127.0.0.1:3267");
        let text = format!("host a: {name} at 127.0.0.1 logged in at 127.0.0.1:3267");
        assert_eq!(told(&world, &receiver).await, [(Severity::Info, text)]);
        session.logout().await.expect("a logout");
        let text =
            format!("host a: the session of {name} at 127.0.0.1 with 127.0.0.1:3267 ended: logged out");
        assert_eq!(told(&world, &receiver).await, [(Severity::Info, text)]);
        for tries in 0..4 {
            let status = array.status().await.expect("status").remove(0);
            let repeated: Vec<_> =
                status.refused.iter().map(|r| (r.object.as_str(), r.is_host, r.logins)).collect();
            let unknown = format!("initiator {}", initiator("x"));
            let both = [("host a", true, 3), (unknown.as_str(), false, 3)];
            assert_eq!(repeated, if tries < 3 { &both[..0] } else { &both[..] });
            // Authentication failure, and not allowed.
            let answers: Vec<_> = status.refused.iter().map(|r| r.login_status).collect();
            assert_eq!(answers, [Some(0x0201), Some(0x0202)][..repeated.len()]);
            assert!(log_in(&world, "a", Some("another secret")).await.is_none());
            assert!(log_in(&world, "x", None).await.is_none());
        }
        let events = told(&world, &receiver).await;
        // Each of the kinds once: what comes again within seconds is counted.
        let wrong = format!(
            "host a: a login from {at} was refused: authentication failed: wrong CHAP name or response"
        );
        let unknown = format!(
            "initiator {}: a login from {at} was refused: no host has this initiator name",
            initiator("x")
        );
        assert_eq!(events, [(Severity::Warning, wrong), (Severity::Warning, unknown)]);
        world.sleep(Duration::from_secs(15 * 60)).await;
        assert_eq!(array.status().await.expect("status").remove(0).refused, []);
        array.stop().await.expect("stop");
    });
}

#[test]
fn a_host_that_comes_and_goes_all_the_time_is_told_a_few_times() {
    model(ID.into(), 2).run(async |world| {
        let (array, receiver) = with_a_secret(&world).await;
        for _ in 0..1000 {
            let session = log_in(&world, "b", None).await.expect("a login");
            session.logout().await.expect("a logout");
            world.sleep(Duration::from_millis(60)).await;
        }
        let events = told(&world, &receiver).await;
        assert!((2..=8).contains(&events.len()), "{events:#?}");
        assert!(events.iter().any(|(_, text)| text.contains("more times")), "{events:#?}");
        array.stop().await.expect("stop");
    });
}
