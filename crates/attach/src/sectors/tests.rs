//! Any bytes, against a shadow, and side by side.

use std::cell::RefCell;
use std::rc::Rc;

use block::{BlockError, Device, Geometry, Pieces};
use world::yield_now;
use world_model::Model;

use super::Sectors;

const SECTOR: usize = 512;

/// A disk in memory, whose operations take a while and are asserted to be whole sectors.
#[derive(Clone, Default)]
struct Memory(Rc<RefCell<Vec<u8>>>);

impl Memory {
    fn new(sectors: usize) -> Memory {
        Memory(Rc::new(RefCell::new(vec![0xee; sectors * SECTOR])))
    }

    fn check(at: u64, len: usize) {
        assert!(at.is_multiple_of(SECTOR as u64) && len.is_multiple_of(SECTOR), "{len} bytes at {at}");
    }
}

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.0.borrow().len() as u64, block_bytes: SECTOR as u32 }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        Memory::check(at, len);
        yield_now().await;
        out.append(Pieces::copy_of(&self.0.borrow()[at as usize..][..len]));
        Ok(())
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        Memory::check(at, data.len());
        yield_now().await;
        data.copy_to(&mut self.0.borrow_mut()[at as usize..]);
        Ok(())
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        Memory::check(at, len as usize);
        yield_now().await;
        self.0.borrow_mut()[at as usize..][..len as usize].fill(0);
        Ok(())
    }

    async fn flush(&self) -> Result<(), BlockError> {
        Ok(())
    }
}

#[test]
fn any_bytes_are_read_written_and_zeroed() {
    Model::new(1).run(async |world| {
        let memory = Memory::new(8);
        let sectors = Sectors::new(memory.clone());
        let mut shadow = memory.0.borrow().clone();
        let mut rng = world.random("bytes");
        for step in 0..1_000 {
            let at = rng.usize(..shadow.len());
            let len = 1 + rng.usize(..(shadow.len() - at).min(3 * SECTOR));
            // Half of them begin and end with sectors.
            let (at, len) = match rng.bool() {
                true => {
                    (at - at % SECTOR, len.next_multiple_of(SECTOR).min(shadow.len() - (at - at % SECTOR)))
                }
                false => (at, len),
            };
            let byte = rng.u8(..);
            match rng.u8(..3) {
                0 => {
                    sectors.write(at as u64, Pieces::copy_of(&vec![byte; len])).await.expect("written");
                    shadow[at..at + len].fill(byte);
                }
                1 => {
                    sectors.zero(at as u64, len as u64).await.expect("zeroed");
                    shadow[at..at + len].fill(0);
                }
                _ => {
                    let mut out = Pieces::new();
                    sectors.read(at as u64, len, &mut out).await.expect("read");
                    assert_eq!(out.joined()[..], shadow[at..at + len], "step {step}: {len} bytes at {at}");
                }
            }
        }
        assert_eq!(*memory.0.borrow(), shadow);
    });
}

/// Each writes its bytes of one sector, while others write theirs and one writes the sector beside it: none
/// takes another's back.
#[test]
fn parts_of_one_sector_written_at_once_are_all_there() {
    const PART: usize = 8;
    for seed in 0..20 {
        Model::new(seed).run(async |world| {
            let memory = Memory::new(2);
            let sectors = Rc::new(Sectors::new(memory.clone()));
            let left = Rc::new(std::cell::Cell::new(SECTOR / PART + 1));
            for at in (0..SECTOR).step_by(PART) {
                let (sectors, left) = (sectors.clone(), left.clone());
                world.spawn(async move {
                    sectors
                        .write(at as u64, Pieces::copy_of(&[(at / PART) as u8; PART]))
                        .await
                        .expect("written");
                    left.set(left.get() - 1);
                });
            }
            let (whole, rest) = (sectors.clone(), left.clone());
            world.spawn(async move {
                whole.write(SECTOR as u64, Pieces::copy_of(&[7; SECTOR])).await.expect("written");
                rest.set(rest.get() - 1);
            });
            while left.get() > 0 {
                yield_now().await;
            }
            let bytes = memory.0.borrow();
            assert!(
                bytes[..SECTOR].iter().enumerate().all(|(at, byte)| *byte == (at / PART) as u8),
                "seed {seed}"
            );
            assert_eq!(bytes[SECTOR..], [7; SECTOR]);
        });
    }
}
