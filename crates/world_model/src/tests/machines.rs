//! Machines stand still, die, and lose their drives to others.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use world::{Buf, DriveError, DriveSpec, World};

use crate::{DiskSpec, Machine, Model};

const SECOND: Duration = Duration::from_secs(1);

fn d0() -> DriveSpec {
    DriveSpec::Modelled { name: "d0".into() }
}

fn model() -> Model {
    let model = Model::new(1);
    model.disk("d0", DiskSpec::new(1 << 20));
    model
}

/// Counts the seconds of a machine.
fn clock_of(machine: &Machine) -> Rc<Cell<u64>> {
    let (world, seconds) = (machine.world(), Rc::new(Cell::new(0)));
    let told = seconds.clone();
    machine.world().spawn(async move {
        loop {
            world.sleep(SECOND).await;
            told.set(told.get() + 1);
        }
    });
    seconds
}

/// Writes this byte to the first block, until the machine dies or is refused.
fn writes(machine: &Machine, byte: u8) -> Rc<Cell<Option<Result<(), bool>>>> {
    let (world, outcome) = (machine.world(), Rc::new(Cell::new(None)));
    let told = outcome.clone();
    machine.world().spawn(async move {
        let drive = world.open_drive(&d0()).await.expect("it is free");
        let mut buf = Buf::new(512);
        buf.fill(byte);
        let written = drive.write(0, buf.freeze()).await;
        told.set(Some(written.map_err(|error| matches!(error, DriveError::Gone { .. }))));
        // The drive stays open.
        std::future::pending().await
    });
    outcome
}

async fn opens(world: &World) -> Result<(), String> {
    world.open_drive(&d0()).await.map(drop).map_err(|error| error.cause)
}

#[test]
fn a_paused_machine_takes_no_step_and_goes_on_where_it_stood() {
    let model = &model();
    model.run(async |world| {
        let machines = [model.machine("a"), model.machine("b")];
        let clocks = machines.each_ref().map(clock_of);
        world.sleep(SECOND * 2 + SECOND / 2).await;
        machines[0].pause();
        world.sleep(SECOND * 10).await;
        assert_eq!(clocks.each_ref().map(|clock| clock.get()), [2, 12]);
        machines[0].resume();
        world.sleep(SECOND * 2).await;
        // The third second was over long ago.
        assert_eq!(clocks.each_ref().map(|clock| clock.get()), [4, 14]);
    });
}

#[test]
fn a_dead_machine_ends_with_all_that_it_runs_and_starts_nothing() {
    let model = &model();
    model.run(async |world| {
        let machine = model.machine("a");
        let clock = clock_of(&machine);
        world.sleep(SECOND * 2 + SECOND / 2).await;
        machine.kill();
        machine.dead().await;
        let late = clock_of(&machine);
        world.sleep(SECOND * 2).await;
        assert_eq!((clock.get(), late.get(), Rc::strong_count(&clock)), (2, 0, 1));
    });
}

#[test]
fn a_machine_dies_before_the_step_that_its_guard_forbids() {
    let model = &model();
    model.run(async |world| {
        let machine = model.machine("a");
        let (clock, now) = (clock_of(&machine), world.clone());
        machine.dies_unless(move || now.now().0 < 5_000_000_000);
        machine.pause();
        world.sleep(SECOND * 10).await;
        assert!(!machine.is_dead(), "it stands still");
        machine.resume();
        machine.dead().await;
        assert_eq!(clock.get(), 0);
    });
}

#[test]
fn a_drive_is_open_for_one_machine_until_that_closes_it_or_is_fenced() {
    let model = &model();
    model.run(async |_| {
        let [a, b] = ["a", "b"].map(|name| model.machine(name));
        let drive = a.world().open_drive(&d0()).await.expect("it is free");
        assert_eq!(opens(&b.world()).await, Err("a has it open".into()));
        assert_eq!(opens(&a.world()).await, Ok(()), "its own process opens it again");
        drop(drive);
        assert_eq!(opens(&b.world()).await, Ok(()), "it was closed");
        let held = a.world().open_drive(&d0()).await.expect("it is free");
        a.kill();
        drop(held);
        assert_eq!(opens(&b.world()).await, Err("a has it open".into()), "storage sees no death");
        assert_eq!(b.world().fence(&d0()).await, Ok(Some("a".into())));
        assert_eq!(b.world().fence(&d0()).await, Ok(None));
        assert_eq!(opens(&b.world()).await, Ok(()));
    });
}

/// It was submitted before the fence, and was slow on its way. Without the fence it lands.
#[test]
fn a_write_that_arrives_after_the_fence_changes_nothing() {
    for fences in [true, false] {
        let model = model();
        let disk = model.disks().get("d0").expect("made above");
        let model = &model;
        model.run(async |world| {
            let [a, b] = ["a", "b"].map(|name| model.machine(name));
            a.set_way_to_storage(SECOND * 8);
            let outcome = writes(&a, 7);
            world.sleep(SECOND).await;
            if fences {
                assert_eq!(b.world().fence(&d0()).await, Ok(Some("a".into())));
            }
            world.sleep(SECOND * 10).await;
            let expected = if fences { Err(true) } else { Ok(()) };
            assert_eq!((outcome.get(), disk.peek(0, 1)[0]), (Some(expected), if fences { 0 } else { 7 }));
        });
    }
}

#[test]
fn what_a_machine_had_submitted_when_it_died_is_carried_out() {
    let model = model();
    let disk = model.disks().get("d0").expect("made above");
    let model = &model;
    model.run(async |world| {
        let a = model.machine("a");
        a.set_way_to_storage(SECOND);
        let outcome = writes(&a, 7);
        world.sleep(SECOND / 2).await;
        a.kill();
        world.sleep(SECOND).await;
        assert_eq!((outcome.get(), disk.peek(0, 1)[0]), (None, 7));
    });
}

#[test]
fn a_thread_that_has_ended_takes_no_step_and_has_no_drive_open() {
    let model = &model();
    model.run(async |world| {
        let (machine, other) = (model.machine("a"), model.machine("b"));
        let (thread, steps) = (machine.thread(), Rc::new(Cell::new(0)));
        let (on, counted) = (thread.world(), steps.clone());
        thread.world().spawn(async move {
            let _drive = on.open_drive(&d0()).await.expect("it is free");
            loop {
                on.sleep(SECOND).await;
                counted.set(counted.get() + 1);
            }
        });
        let seconds = clock_of(&machine);
        world.sleep(SECOND * 2 + SECOND / 2).await;
        assert_eq!(opens(&other.world()).await.unwrap_err(), "a has it open");
        let late = thread.world();
        thread.end();
        opens(&other.world()).await.expect("nobody has it open");
        late.spawn(async { panic!("nothing begins on it any more") });
        world.sleep(SECOND * 2).await;
        assert_eq!((steps.get(), seconds.get()), (2, 4), "the rest of the process goes on");
    });
}
