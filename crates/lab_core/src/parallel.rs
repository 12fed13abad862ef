//! Independent pieces of work on several threads, in an order that does not depend on them.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use crate::interrupt::Stop;

thread_local! {
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread does a piece of such work: what it does then is a part of something larger, which
/// tells how far it is.
pub fn is_within() -> bool {
    WITHIN.get()
}

/// Threads that work may use: as many as this machine runs at once, or one within a piece of other work.
pub fn cores() -> usize {
    if is_within() { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) }
}

/// Does so many pieces of work on so many threads, each of which takes the next that nobody has. The thread
/// that waits hears what they say meanwhile.
///
/// Gives what was done with its number, in the order of these: when somebody asks to stop, nothing more is
/// begun. The first error is one of all.
pub fn run<T: Send, E: Send, M: Send>(
    (pieces, threads): (usize, usize),
    stop: &Stop,
    work: impl Fn(usize, &dyn Fn(M)) -> Result<T, E> + Sync,
    hear: impl FnMut(M),
) -> Result<Vec<(usize, T)>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let (sender, said) = channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, pieces.max(1)) {
            let (next, done, work, sender) = (&next, &done, &work, sender.clone());
            scope.spawn(move || {
                WITHIN.set(true);
                // Who would hear it waits for this thread.
                let say = |message| sender.send(message).unwrap_or(());
                while !stop.is_asked() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= pieces {
                        break;
                    }
                    let outcome = work(index, &say);
                    if outcome.is_err() {
                        stop.ask();
                    }
                    done.lock().expect("nothing panics with it").push((index, outcome));
                }
            });
        }
        drop(sender);
        said.iter().for_each(hear);
    });
    let mut done = done.into_inner().expect("nothing panics with it");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(index, outcome)| Ok((index, outcome?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_given_in_their_order_whoever_did_them() {
        for threads in [0, 1, 3, 50] {
            let mut heard = Vec::new();
            let work = |index: usize, say: &dyn Fn(usize)| {
                say(index);
                anyhow::Ok(index * index)
            };
            let done =
                run((20, threads), &Stop::default(), work, |index| heard.push(index)).expect("no errors");
            assert!(
                done.iter().map(|(index, _)| *index).eq(0..20)
                    && done.iter().all(|(i, square)| i * i == *square)
            );
            heard.sort_unstable();
            assert!(heard.into_iter().eq(0..20), "{threads} threads");
        }
    }

    #[test]
    fn a_piece_of_work_does_its_own_pieces_alone() {
        let inner = |_: usize, _: &dyn Fn(())| anyhow::Ok((cores(), is_within()));
        let done = run((3, 2), &Stop::default(), inner, |()| ()).expect("no errors");
        assert!(done.iter().all(|(_, within)| *within == (1, true)) && !is_within());
    }

    #[test]
    fn an_error_and_a_stop_begin_nothing_more() {
        let stop = Stop::default();
        let failing =
            |index: usize, _: &dyn Fn(())| if index == 3 { anyhow::bail!("the fourth") } else { Ok(index) };
        let error = run((1000, 1), &stop, failing, |()| ()).expect_err("the fourth fails");
        assert!(error.to_string() == "the fourth" && stop.is_asked());

        let stop = Stop::default();
        let stopping = |index: usize, _: &dyn Fn(())| {
            if index == 3 {
                stop.ask();
            }
            anyhow::Ok(())
        };
        let done = run((1000, 1), &stop, stopping, |()| ()).expect("no errors");
        assert_eq!(done.len(), 4, "what was under way is kept");
    }
}
