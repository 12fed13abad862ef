//! The loop: timers, wakes, the end of a world.

#![expect(clippy::disallowed_methods, reason = "the test is a second thread, with the system's clock")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use world::{Buf, DriveSpec, yield_now};
use world_real::{Options, RunError, run, start};

#[test]
fn timers_fire_in_order_and_on_time() {
    run(Options::default(), |world| async move {
        let order = Rc::new(RefCell::new(Vec::new()));
        let begin = world.now();
        for (number, ms) in [(3, 30), (1, 10), (2, 10), (0, 0)] {
            let (at, order, clock) = (begin + Duration::from_millis(ms), order.clone(), world.clone());
            world.spawn(async move {
                clock.sleep_until(at).await;
                order.borrow_mut().push((number, clock.now().since(at)));
            });
        }
        world.sleep(Duration::from_millis(50)).await;
        let fired = order.borrow();
        assert_eq!(fired.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        // The kernel's timers are exact to some 100 us; what is late here is late by the scheduler of a busy
        // machine.
        let latest = fired.iter().map(|(_, late)| *late).max();
        println!("latest timer: {latest:?}");
        assert!(latest < Some(Duration::from_millis(500)));
    })
    .expect("runs");
}

#[test]
fn timers_are_within_a_millisecond() {
    let mut late: Vec<Duration> = run(Options::default(), |world| async move {
        let mut late = Vec::new();
        for _ in 0..50 {
            let at = world.now() + Duration::from_millis(2);
            world.sleep_until(at).await;
            late.push(world.now().since(at));
        }
        late
    })
    .expect("runs");
    late.sort();
    println!("timers are late by {:?} in the median, {:?} at most", late[25], late[49]);
    // The best quarter: on a machine whose CPUs are all busy, the rest measures the system's scheduler.
    assert!(late[12] < Duration::from_millis(1), "late by {:?}", late[12]);
}

/// A value that another thread puts in.
#[derive(Default)]
struct Post(Mutex<(Option<u32>, Option<Waker>)>);

#[test]
fn a_wake_from_another_thread_ends_the_sleep() {
    let post = Arc::new(Post::default());
    let (sent, stop) = (post.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let sender = thread::spawn(move || {
        let mut number = 0;
        while !stopped.load(Ordering::Relaxed) {
            let mut inner = sent.0.lock().expect("no panic under the lock");
            if inner.0.is_none() {
                inner.0 = Some(number);
                number += 1;
            }
            if let Some(waker) = inner.1.take() {
                drop(inner);
                waker.wake();
            }
        }
    });
    let world = start("receiver", Options::default(), move |_| async move {
        for expected in 0..20_000 {
            let got = poll_fn(|cx| {
                let mut inner = post.0.lock().expect("no panic under the lock");
                match inner.0.take() {
                    Some(number) => Poll::Ready(number),
                    None => {
                        inner.1 = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            })
            .await;
            assert_eq!(got, expected);
        }
    });
    world.expect("starts").join().expect("no panic").expect("runs");
    stop.store(true, Ordering::Relaxed);
    sender.join().expect("no panic");
}

#[test]
fn a_busy_task_does_not_starve_the_timers() {
    run(Options::default(), |world| async move {
        world.spawn(async {
            loop {
                yield_now().await;
            }
        });
        let begin = Instant::now();
        world.sleep(Duration::from_millis(5)).await;
        assert!(begin.elapsed() < Duration::from_secs(20));
    })
    .expect("runs");
}

/// Tasks of hosts that take long at each poll: 512 of them are no measure of a turn.
#[test]
fn slow_polls_do_not_keep_timers_waiting() {
    run(Options::default(), |world| async move {
        let polls = Rc::new(Cell::new(0));
        for _ in 0..20 {
            let polls = polls.clone();
            world.spawn(async move {
                loop {
                    polls.set(polls.get() + 1);
                    thread::sleep(Duration::from_millis(2));
                    yield_now().await;
                }
            });
        }
        yield_now().await;
        let before = polls.get();
        world.sleep(Duration::from_millis(1)).await;
        let between = polls.get() - before;
        assert!(between < 100, "{between} polls of 2 ms, of which the first one took as long as the timer");
    })
    .expect("runs");
}

#[test]
fn a_world_ends_with_its_root_and_drops_what_is_left() {
    let alive = Rc::new(());
    let held = alive.clone();
    let output = run(Options::default(), |world| async move {
        let listener = world.listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
        let waiting = world.clone();
        world.spawn(async move {
            let _held = held;
            let _accept = listener.accept().await;
            waiting.sleep(Duration::from_secs(1000)).await;
        });
        yield_now().await;
        7
    });
    assert_eq!(output, Ok(7));
    assert_eq!(Rc::strong_count(&alive), 1, "the task was dropped");
    // The thread is free for another world.
    assert_eq!(run(Options::default(), |_| async { 8 }), Ok(8));
}

#[test]
fn one_thread_has_one_world() {
    let inner = run(Options::default(), |_| async { run(Options::default(), |_| async {}) });
    assert_eq!(inner, Ok(Err(RunError::Nested)));
    assert!(matches!(
        run(Options { cpu: Some(100_000), ..Options::default() }, |_| async {}),
        Err(RunError::Pin { .. })
    ));
}

#[test]
fn a_panic_in_a_task_takes_its_world_down_and_no_other() {
    let joined = start("panics", Options::default(), |world| async move {
        let drive = world
            .open_drive(&DriveSpec::Memory { name: "m".into(), len_bytes: 1 << 20 })
            .await
            .expect("opens");
        world.spawn(async { panic!("a bug in a task") });
        let _ = drive.read(0, Buf::new(512)).await;
        world.sleep(Duration::from_secs(10)).await;
    });
    assert!(joined.expect("starts").join().is_err());
}

/// Time that this thread has spent on a CPU.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn an_idle_world_sleeps() {
    let spent = run(Options::default(), |world| async move {
        let begin = cpu_time();
        for _ in 0..60 {
            world.sleep(Duration::from_millis(5)).await;
        }
        cpu_time() - begin
    })
    .expect("runs");
    println!("300 ms with 60 timers took {spent:?} of CPU time");
    assert!(spent < Duration::from_millis(60), "{spent:?}");
}
