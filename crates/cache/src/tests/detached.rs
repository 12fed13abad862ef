//! Units that are detached while others are destaged.

use std::rc::Rc;
use std::time::Duration;

use block::{BackingStore, BlockError, Device, Geometry, Pieces};
use world_model::{DiskSpec, Model};

use super::{OnDrive, small, spec};
use crate::{Cache, Unit, WritePolicy};

/// A store that is open as long as somebody holds it.
#[derive(Clone)]
struct Held {
    store: OnDrive,
    _open: Rc<()>,
}

impl Device for Held {
    fn geometry(&self) -> Geometry {
        self.store.geometry()
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.store.read(at, len, out).await
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.store.write(at, data).await
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.store.zero(at, len).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.store.flush().await
    }
}

impl BackingStore for Held {
    fn takes_in_place(&self, at: u64, len: u64) -> bool {
        self.store.takes_in_place(at, len)
    }

    fn row_bytes(&self) -> u64 {
        self.store.row_bytes()
    }

    fn row_drives(&self) -> u32 {
        self.store.row_drives()
    }
}

/// A pool did not move to another controller as long as other pools of its controller were destaged: the
/// sweep over all of them kept its volumes open, and its hosts waited for five seconds in vain.
#[test]
fn a_unit_that_is_detached_is_let_go_though_others_have_much_to_destage() {
    let latency = Duration::from_millis(100);
    let model = Model::new(1);
    model.disk("quick", DiskSpec::new(64 << 20));
    model.disk("slow", DiskSpec::new(64 << 20).with_latency(latency));
    model.run(async |world| {
        let cache: Cache<Held, OnDrive> = Cache::new(world.clone(), small());
        let alive = Rc::new(());
        let attach = |name: &str, id: u64, alive: &Rc<()>| -> Unit<Held, OnDrive> {
            let store = Held { store: OnDrive::open(&world, name), _open: alive.clone() };
            cache.attach(store, spec(id, WritePolicy::Back), None)
        };
        let (quick, slow) = (attach("quick", 1, &alive), attach("slow", 2, &Rc::new(())));
        for i in 0..250_u64 {
            slow.write((2 * i + 1) << 16, &Pieces::copy_of(&[1; 4096])).await.expect("write");
        }
        quick.write(1 << 16, &Pieces::copy_of(&[1; 4096])).await.expect("write");
        // The sweep has begun.
        while slow.counts().destages == 0 {
            world.sleep(latency).await;
        }
        cache.detach(&quick).await.expect("detach");
        drop(quick);
        let begun = world.now();
        while Rc::strong_count(&alive) > 1 {
            world.sleep(Duration::from_millis(1)).await;
        }
        assert!(world.now() - begun <= 2 * latency, "held for {:?}", world.now() - begun);
        assert!(cache.counts().frames.dirty > 50, "the sweep was nearly over");
        slow.destage().await.expect("destage");
        assert_eq!(cache.counts().frames.dirty, 0);
    });
}
