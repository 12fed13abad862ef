//! What a cache asks of a volume: whether a write of a range would need a page.

use block::{BackingStore, Device, Pieces};

use super::rig::{PAGE, Rig, Setup, create};
use super::shadow::encode;
use crate::Provisioning;

fn page_of(value: u32) -> Pieces {
    encode(std::iter::repeat_n(value, (PAGE / 512) as usize))
}

#[test]
fn only_a_page_that_is_mapped_and_has_one_owner_takes_a_write_in_place() {
    let rig = Rig::new(1, Setup::parity());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let v = pool.create_volume("v", 16 * PAGE, Provisioning::Thin).await.expect("create");
        for i in [0, 1, 3] {
            v.write(i * PAGE, &page_of(1)).await.expect("write");
        }
        assert!(v.takes_in_place(512, 2 * PAGE - 512), "pages 0 and 1");
        assert!(!v.takes_in_place(512, 2 * PAGE), "page 2 is not there");
        assert!(!v.takes_in_place(15 * PAGE, 2 * PAGE), "beyond the end nothing is");
        let used = pool.space().used_bytes;
        v.write(512, &page_of(2)).await.expect("write");
        assert_eq!(pool.space().used_bytes, used, "as it was said");
        let rod = v.hold(3 * PAGE, PAGE).await.expect("hold");
        assert!(!v.takes_in_place(3 * PAGE, 512), "a ROD has it, too");
        drop(rod);
        assert!(v.takes_in_place(3 * PAGE, 512));
        let c = pool.clone_volume("v", "c").await.expect("clone");
        assert!(!v.takes_in_place(0, 512) && !c.takes_in_place(0, 512), "shared");
        c.write(0, &page_of(3)).await.expect("write");
        assert!(v.takes_in_place(0, 512) && c.takes_in_place(0, 512), "each has its own");
        assert_eq!(v.row_bytes(), 3 * (8 << 10), "three data drives with units of 8 KiB");
    });
}
