//! Cuts in each configuration: nothing that was acknowledged as durable is lost; and losses are found where
//! flushes are left out.

use super::bed::{Bed, Format};
use super::configuration::Configuration;
use super::cuts::{Cut, run, speed};
use super::file_system::Barriers;
use super::losses::Losses;

const DRIVE: &str = "cheetah-15k5";

fn bed(configuration: Configuration, format: Format) -> Bed {
    Bed::make(configuration, format, DRIVE, 1).expect("a bed")
}

/// Cuts of host and array together, of the host, of the array; half of each on every format.
fn losses(configuration: Configuration, [both, host, array]: [u64; 3]) -> [Losses; 3] {
    let mut all = [Losses::default(); 3];
    for (seed, format) in (100..).step_by(10_000).zip(Format::ALL) {
        let bed = bed(configuration, format);
        let kinds = [(Cut::Both, both), (Cut::Host, host), (Cut::Array, array)];
        for (losses, (cut, count)) in all.iter_mut().zip(kinds) {
            losses.add(run(&bed, cut, Barriers::On, (count / 2, seed)).expect("everything starts again"));
        }
    }
    all
}

fn check(counts: [u64; 3]) {
    for configuration in Configuration::ALL {
        let all = losses(configuration, counts);
        println!("{}: {all:?}", configuration.name());
        for losses in all {
            assert!(losses.at_stake > losses.cuts, "{losses:?}");
            assert_eq!((losses.durable, losses.wrong), (0, 0), "{}: {losses:?}", configuration.name());
        }
    }
}

#[test]
fn what_was_acknowledged_as_durable_survives_every_cut() {
    check([8, 4, 4]);
}

#[test]
#[ignore = "minutes: make soak runs it"]
fn what_was_acknowledged_as_durable_survives_a_thousand_cuts() {
    check([150, 50, 50]);
}

/// The check is one that can fail: without flushes a volatile cache loses what was said to be durable.
#[test]
fn without_flushes_a_volatile_cache_loses_what_was_said_to_be_durable() {
    let volatile = Configuration { os_cache: true, journal: false };
    let losses = run(&bed(volatile, Format::Vhdx), Cut::Both, Barriers::Off, (6, 1)).expect("it runs");
    assert!(losses.durable > 0, "{losses:?}");
}

#[test]
fn a_disk_without_a_volatile_cache_keeps_what_it_acknowledged() {
    for journal in [true, false] {
        let losses = losses(Configuration { os_cache: false, journal }, [4, 2, 2]);
        assert!(losses.iter().all(|losses| losses.written == 0), "{losses:?}");
    }
    let volatile = losses(Configuration { os_cache: true, journal: false }, [4, 2, 2]);
    assert!(volatile[0].written > 0, "{volatile:?}");
    // The array kept its power, and with it what it had acknowledged.
    assert_eq!(volatile[1].written, 0, "{volatile:?}");
}

#[test]
fn a_host_that_does_not_heed_the_reset_of_a_volatile_cache_loses_what_it_called_durable() {
    let lost = |configuration| {
        let losses = run(&bed(configuration, Format::Vhdx), Cut::ArrayUnheeded, Barriers::On, (4, 7));
        losses.expect("it runs").durable
    };
    assert!(lost(Configuration { os_cache: true, journal: false }) > 0);
    assert_eq!(lost(Configuration { os_cache: false, journal: true }), 0);
}

#[test]
fn the_same_seed_has_the_same_speed() {
    let bed = bed(Configuration { os_cache: false, journal: true }, Format::Vhd);
    let first = speed(&bed, 5, 1).expect("it runs");
    assert_eq!(first, speed(&bed, 5, 1).expect("it runs"));
    assert!(first.0 > 0.1 && first.1 > 1.0, "{first:?}");
}
