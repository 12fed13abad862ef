//! In steady state no operation allocates: counted, not believed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use world::{Batch, Buf, Data, Drive, DriveSpec, RbdImage, Stream, StreamOptions, World};
use world_real::{Options, run};

/// The system's allocator, counting per thread: other tests run at the same time.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came; counting touches a thread-local integer only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, len) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `step` until it is warm, and then counts the allocations of `rounds` more.
async fn allocations(warm_up: usize, rounds: usize, mut step: impl AsyncFnMut()) -> u64 {
    for _ in 0..warm_up {
        step().await;
    }
    let before = ALLOCATIONS.get();
    for _ in 0..rounds {
        step().await;
    }
    ALLOCATIONS.get() - before
}

async fn write_and_read(drive: &Drive) {
    let mut buf = Buf::new(4096);
    buf.fill(3);
    assert_eq!(drive.write(8192, buf.freeze()).await, Ok(()));
    // Two reads at once.
    let (one, other) = (drive.read(8192, Buf::new(4096)), drive.read(0, Buf::new(4096)));
    let (one, other) = (one.await, other.await);
    assert!(one.result.is_ok() && other.result.is_ok() && one.buf[0] == 3);
}

#[test]
fn the_counter_counts() {
    let found =
        run(Options::default(), |_| allocations(1, 10, async || drop(std::hint::black_box(vec![0u8; 100]))));
    assert_eq!(found, Ok(10));
}

#[test]
fn drive_operations_do_not_allocate() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("drive");
    let specs = [
        DriveSpec::Memory { name: "m".into(), len_bytes: 64 << 20 },
        DriveSpec::File { path, create_len_bytes: Some(16 << 20) },
    ];
    run(Options::default(), |world| async move {
        for spec in specs {
            let drive = match world.open_drive(&spec).await {
                Ok(drive) => drive,
                Err(e) => {
                    println!("skipped: {e}");
                    continue;
                }
            };
            // The drive's deadlines begin with its first operation; the first turn of their timer makes the
            // timer's place, once.
            write_and_read(&drive).await;
            world.sleep(Duration::from_millis(300)).await;
            assert_eq!(
                allocations(100, 1000, async || write_and_read(&drive).await).await,
                0,
                "{}",
                drive.info().name
            );
        }
    })
    .expect("runs");
}

/// librbd allocates for itself; the controller's thread does not. Skipped without a cluster (`make ceph`).
#[test]
fn operations_on_an_rbd_image_do_not_allocate() {
    let Some(conf) = std::env::var_os("MASU_CEPH_CONF").map(PathBuf::from) else {
        println!("skipped: MASU_CEPH_CONF names no Ceph cluster; run make ceph");
        return;
    };
    let name = format!("vms/allocations-{}", std::process::id());
    let made = Command::new("rbd").arg("-c").arg(&conf).args(["create", "--size", "64M", &name]).status();
    assert!(made.is_ok_and(|status| status.success()), "rbd create {name}");
    let image = RbdImage { conf: Some(conf), ..RbdImage::named(&name).expect("a name") };
    run(Options::default(), |world| async move {
        let drive = world.open_drive(&DriveSpec::Rbd(image)).await.expect("opens");
        write_and_read(&drive).await;
        world.sleep(Duration::from_millis(300)).await;
        let step = async || {
            write_and_read(&drive).await;
            assert_eq!(drive.flush().await, Ok(()));
            assert_eq!(drive.zero(65536, 4096).await, Ok(()));
        };
        assert_eq!(allocations(100, 500, step).await, 0);
    })
    .expect("runs");
}

/// Sends one message of a header and a payload, and receives all of it at the other end.
async fn exchange(near: &Stream, far: &Stream, kept: &mut Option<(Batch, Buf)>, payload: &Data) {
    let (mut batch, mut buf) = kept.take().expect("given back by the round before");
    for _ in 0..8 {
        batch.push_head(&[5; 48]);
        batch.push_data(payload.clone());
    }
    let mut left = batch.len();
    let sending = near.send(batch);
    while left > 0 {
        let got = far.recv(buf, 0).await;
        left -= got.result.expect("receives");
        buf = got.buf;
    }
    *kept = Some((sending.await.batch, buf));
}

async fn connect(world: &World) -> (Stream, Stream) {
    let listener = world.listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
    let accept = listener.accept();
    let near = world.connect(listener.local(), StreamOptions::default()).await.expect("connects");
    (near, accept.await.expect("accepts"))
}

#[test]
fn socket_exchanges_do_not_allocate() {
    run(Options::default(), |world| async move {
        let (near, far) = connect(&world).await;
        let payload = Data::copy_of(&[9; 4096]);
        let mut kept = Some((Batch::default(), Buf::new(64 << 10)));
        let found = allocations(100, 1000, async || exchange(&near, &far, &mut kept, &payload).await).await;
        assert_eq!(found, 0);
    })
    .expect("runs");
}

#[test]
fn timers_and_wakes_do_not_allocate() {
    run(Options::default(), |world| async move {
        let step = async || {
            let _abandoned = world.sleep(std::time::Duration::from_secs(1));
            world.sleep(std::time::Duration::from_micros(10)).await;
            world::yield_now().await;
        };
        // Warm: past the first sweep of abandoned timers.
        assert_eq!(allocations(3000, 500, step).await, 0);
    })
    .expect("runs");
}
