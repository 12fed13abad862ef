//! Histories of an array of several nodes: they share the drives, agree by a registry, and one of them serves
//! a host over several paths, while nodes die, stand still, lose the registry, and their writes are late.
//!
//! In one history of two, which the seed says, other nodes run controllers for the owner ([`lending`]): two
//! to four with a pool each. What controllers say to each other crosses the modelled network. Such nodes die,
//! stand still, end in order, cannot reach the owner or only slowly, and pools move between the controllers
//! meanwhile, also because hosts ask for it.
//!
//! After each history, and in it for whatever is read: every sector holds what was acknowledged last. At no
//! instant do two nodes serve within their terms, or run the same controller. When nothing fails any more, a
//! node serves every LU. Other hosts count in one block by COMPARE AND WRITE: no count is lost, and none is
//! made twice. A LU is reserved (persistently, for the host whose data are compared): that host writes, and
//! another one is refused, whichever node serves.
//!
//! # What it leaves out
//!
//! Hosts that are led to the owner by a standby (one that runs no controllers does not listen here), the
//! state that follows the owner (every node has the same declaration), LUs with WCE = 1 (what a host has not
//! flushed is lost with the owner, and it does not learn that), changes of reservations, those that are in
//! memory alone, and the loss of power. Machines fail as a whole: that one thread of a process stands still
//! while another goes on is not simulated. The drives are those of several machines, with a fence: locks that
//! end with a process are not.

mod bed;
mod history;
pub(crate) mod lending;
mod life;
pub(crate) mod node;
mod shape;

use std::sync::{Mutex, PoisonError};

use crate::faults::Fault;
use crate::rounds::on_all_threads;
pub(crate) use history::Places;
use history::Story;
pub(crate) use shape::UNFENCED;

/// Tells so many histories, of the seeds from `seed` on, and what happened in them.
#[expect(clippy::disallowed_methods, reason = "only the duration, on which nothing depends")]
pub(crate) fn run(seed: u64, histories: u64, told: (Places, Fault), verbose: bool) {
    println!("{histories} histories of several nodes, seeds from {seed}");
    let begun = std::time::Instant::now();
    let all = Mutex::new(Story::default());
    on_all_threads(histories, |number| {
        if number < histories {
            let story = one(seed.wrapping_add(number), told, verbose);
            all.lock().unwrap_or_else(PoisonError::into_inner).add(story);
        }
        number < histories
    });
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{all}, {:.1} s", begun.elapsed().as_secs_f64());
}

fn one(seed: u64, told: (Places, Fault), verbose: bool) -> Story {
    match std::panic::catch_unwind(|| history::tell(seed, told, verbose)) {
        Ok(story) => story,
        Err(panic) => {
            let places = match told.0 {
                Places::Drawn => String::new(),
                places => format!(" --places {}", format!("{places:?}").to_lowercase()),
            };
            eprintln!("again with: target/checked/sim --cluster 1 --seed {seed}{places} --verbose");
            std::panic::resume_unwind(panic)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_tells_the_same_history() {
        let tell = |seed| history::tell(seed, (Places::One, Fault::None), false);
        assert_eq!(tell(1), tell(1));
        assert_ne!(tell(1).digest, tell(2).digest);
    }

    #[test]
    fn what_was_found_once_is_not_found_again() {
        // A node was killed while it stood still, began anew, and stood still again: it was never resumed.
        history::tell(3314, (Places::One, Fault::None), false);
        // A pool moved to a controller whose node was lost in the middle of it: nobody served it. Then
        // another move opened it at the owner, which fenced its own drives when it took the controller back.
        history::tell(111, (Places::Drawn, Fault::None), false);
        // A controller had begun at the owner, and had not opened its pools: the move of another pool had it
        // answer hosts.
        history::tell(1016, (Places::Several, Fault::None), false);
        // A drive held back the read of a copy. The host gave it up and had it done over another path, but
        // kept the session open for other commands: the old copy wrote in the end. It closes the session now.
        history::tell(400_022, (Places::Drawn, Fault::None), false);
        // The same with the session closed: a controller at another node heard of its end only when the copy
        // had ended that waited for a drive. And a zero in place of the copy.
        history::tell(502_212, (Places::Drawn, Fault::None), false);
        history::tell(510_396, (Places::Drawn, Fault::None), false);
        // A node ended while the owner had begun to bring its controllers back: the owner asked them, and
        // nobody answered any more, with the array locked. Then a command that waited for a move held the
        // drives of a controller that had stopped in order.
        history::tell(100_378, (Places::Drawn, Fault::None), false);
        // An owner handed over while a node claimed the drives of a controller: the owner ran it again, and
        // the node's fence hit it.
        history::tell(56, (Places::Drawn, Fault::None), false);
        // An owner had claimed what it began without, and another controller could not be asked: hosts heard
        // NOT READY until it was opened.
        history::tell(300_190, (Places::Several, Fault::SomeFences), false);
        // An owner that took controllers back fenced all of their drives again and again, while one could not
        // be fenced: a pool that was on its way had been opened at the owner since, and lost its drives.
        history::tell(300_344, (Places::Several, Fault::SomeFences), false);
    }

    /// The simulation must be able to fail: writes of an owner that is no longer one land on top of those of
    /// the next one.
    #[test]
    fn late_writes_are_found_where_nobody_is_fenced() {
        let found = |seed| {
            let told = std::panic::catch_unwind(|| history::tell(seed, (Places::One, Fault::NoFence), false));
            let text = told.err().and_then(|panic| panic.downcast::<String>().ok());
            text.is_some_and(|text| text.contains("may hold only"))
        };
        assert!((1..=20).any(found), "twenty histories without a fence looked well");
    }

    /// Who took drives over waited for all of them, without limit.
    #[test]
    fn groups_begin_without_a_drive_that_cannot_be_fenced() {
        let tell = |seed| history::tell(seed, (Places::Several, Fault::SomeFences), false).left_out;
        assert!([9, 12, 17].into_iter().map(tell).sum::<u64>() > 0, "no group did");
    }

    /// Who took the array over served nothing of it until all drives were fenced.
    #[test]
    fn an_owner_serves_what_needs_no_drive_that_cannot_be_fenced() {
        let tell = |seed| history::tell(seed, (Places::Several, Fault::SomeFences), false).withheld;
        assert!([3, 6, 11].into_iter().map(tell).sum::<u64>() > 0, "no group waited");
    }

    /// A node waited for the drives of controllers without limit, with the array locked and their hosts held.
    #[test]
    fn nodes_give_controllers_back_whose_drives_they_cannot_claim() {
        let tell = |seed| history::tell(seed, (Places::Several, Fault::HeldDrives), false).given_back;
        let given_back: u64 = (1..=8).map(tell).sum();
        assert!(given_back > 0, "no node did");
    }

    /// The same where nodes run controllers for the owner: nobody is fenced, the term is not compared, or
    /// what was on its way to a node that is gone arrives later.
    #[test]
    fn what_is_broken_of_controllers_at_other_nodes_is_found() {
        let other_data = "may hold only";
        let cases = [
            (Fault::NoLendingFence, other_data),
            (Fault::OldMessages, other_data),
            (Fault::NoTerm, "run controller"),
        ];
        for (fault, how) in cases {
            let found = |seed| {
                let told = std::panic::catch_unwind(|| history::tell(seed, (Places::Several, fault), false));
                let text = told.err().and_then(|panic| panic.downcast::<String>().ok());
                text.is_some_and(|text| text.contains(how))
            };
            assert!((1..=20).any(found), "twenty histories with {fault:?} looked well");
        }
    }
}
