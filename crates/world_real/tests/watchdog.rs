//! A dead part is a dead process: each test starts this program again as a child whose part dies.

#![expect(clippy::disallowed_methods, reason = "the children stand still in the system's time")]

use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

use world_real::{Options, WatchdogLimits, Watched, abort_on_panic, start, start_watchdog};

const CHILD: &str = "MASU_TEST_CHILD";

/// Runs one of the children below to its end.
fn run_child(name: &str) -> Output {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program);
    child.args(["--exact", name, "--ignored", "--nocapture"]).env(CHILD, "1").output().expect("it runs")
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn log(text: &str) {
    eprintln!("LOG {text}");
}

/// What ended it, and what it said.
fn ended_by(output: &Output) -> (Option<i32>, String) {
    use std::os::unix::process::ExitStatusExt;
    (output.status.signal(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn limits() -> WatchdogLimits {
    let ms = Duration::from_millis;
    WatchdogLimits { interval: ms(20), slow: ms(400), dead: ms(1000) }
}

#[inline(never)]
fn stands_still_here() {
    sleep(Duration::from_secs(60));
    // Not the end of the function: an optimised one would leave its place on the stack to the sleep.
    std::hint::black_box(());
}

fn tell(watched: Watched) {
    match watched {
        Watched::Looked => {}
        Watched::Dead { thread, stacks, .. } => eprintln!("DEAD {thread}\n{stacks}"),
        other => eprintln!("{other:?}"),
    }
}

#[test]
#[ignore = "a child of the test below"]
fn child_whose_world_stands_still() {
    if !is_child() {
        return;
    }
    start_watchdog(limits(), tell).expect("a watchdog");
    let sound = start("sound", Options::default(), async |world| world.sleep(Duration::from_secs(60)).await);
    let hung = start("hung", Options::default(), async |world| {
        world.sleep(Duration::from_millis(50)).await;
        stands_still_here();
    });
    let _ = (sound.expect("a thread").join(), hung.expect("a thread").join());
}

#[test]
fn a_loop_that_stands_still_is_told_and_then_ends_the_process_with_all_stacks() {
    let (signal, said) = ended_by(&run_child("child_whose_world_stands_still"));
    assert_eq!(signal, Some(6), "SIGABRT; it said: {said}");
    assert!(said.contains("Slow { thread: \"hung\""), "{said}");
    assert!(!said.contains("Slow { thread: \"sound\""), "a loop that sleeps is not silent: {said}");
    assert!(said.contains("DEAD hung") && said.contains("stands_still_here"), "{said}");
    // Every thread is there with its name.
    ["\"sound\"", "\"hung\"", "\"watchdog\""].iter().for_each(|name| assert!(said.contains(name), "{said}"));
}

#[test]
#[ignore = "a child of the test below"]
fn child_whose_world_comes_back() {
    if !is_child() {
        return;
    }
    start_watchdog(WatchdogLimits { dead: Duration::from_secs(60), ..limits() }, tell).expect("a watchdog");
    let slow = start("slow", Options::default(), async |world| {
        world.sleep(Duration::from_millis(50)).await;
        sleep(Duration::from_millis(900));
        world.sleep(Duration::from_millis(200)).await;
    });
    slow.expect("a thread").join().expect("it ends").expect("it ran");
}

#[test]
fn a_loop_that_turns_again_is_told() {
    let (signal, said) = ended_by(&run_child("child_whose_world_comes_back"));
    assert_eq!(signal, None, "{said}");
    let slow = said.find("Slow { thread: \"slow\"").expect("it was silent");
    let again = said.find("Again { thread: \"slow\"").expect("it turned again");
    assert!(slow < again, "{said}");
}

#[inline(never)]
fn panics_here() {
    panic!("a defect");
}

#[test]
#[ignore = "a child of the test below"]
fn child_with_a_panic() {
    if !is_child() {
        return;
    }
    abort_on_panic(log);
    let dead = start("controller-7", Options::default(), async |world| {
        world.spawn(async { panics_here() });
        world.sleep(Duration::from_secs(60)).await;
    });
    let _ = dead.expect("a thread").join();
}

#[test]
fn a_panic_in_a_task_ends_the_process_with_its_backtrace_in_the_log() {
    let (signal, said) = ended_by(&run_child("child_with_a_panic"));
    assert_eq!(signal, Some(6), "SIGABRT; it said: {said}");
    assert!(said.contains("LOG thread \"controller-7\"") && said.contains("a defect"), "{said}");
    assert!(said.contains("panics_here"), "the backtrace: {said}");
}
