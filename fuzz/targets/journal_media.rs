//! Journals of a cache that say anything: what they hold is read to its end, and they are opened again, or
//! there is an error.
#![no_main]

use block::{BlockError, Device, Geometry, Pieces};
use cache::Journal;
use masu_fuzz::media::{Covers, Kind, Media};
use world::{Buf, Drive, DriveSpec, World};
use world_model::{DiskSpec, Model};

const LEN: u64 = 9 << 20;
const KINDS: [Kind; 2] = [
    Kind { magic: b"MASUJRNL", sum_at: 4092, covers: Covers::Bytes(4092), reach: 100, told: None },
    Kind { magic: b"MASUJBAT", sum_at: 4092, covers: Covers::Bytes(4092), reach: 250, told: None },
];

#[derive(Clone)]
struct OnDrive(Drive);

impl Device for OnDrive {
    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.0.info().len_bytes, block_bytes: self.0.info().block_bytes }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.geometry().check(at, len as u64)?;
        let filled = self.0.read(at, Buf::new(len)).await;
        filled.result?;
        out.push(filled.buf.freeze());
        Ok(())
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.geometry().check(at, data.len() as u64)?;
        Ok(self.0.write(at, data.joined()).await?)
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.geometry().check(at, len)?;
        Ok(self.0.zero(at, len).await?)
    }

    async fn flush(&self) -> Result<(), BlockError> {
        Ok(self.0.flush().await?)
    }
}

thread_local! {
    static MEDIA: Media = media();
}

async fn device(world: &World) -> OnDrive {
    OnDrive(world.open_drive(&DriveSpec::Modelled { name: "j".into() }).await.expect("it is there"))
}

fn media() -> Media {
    let model = Model::new(1);
    let disk = model.disk("j", DiskSpec::new(LEN));
    model.run(async |world| {
        let journal = Journal::create(world.clone(), device(&world).await, [1; 16]).await.expect("create");
        for i in 1..=20_u64 {
            let sequence = match i % 7 {
                6 => journal.append_forget(1, i << 12, 8 << 10),
                _ => journal.append_write(1, i * 4096, &Pieces::copy_of(&[i as u8; 1024])),
            };
            journal.durable(sequence).await.expect("durable");
        }
    });
    // More than this was never written.
    Media::of(&model, &[disk], 1 << 20, &KINDS)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    MEDIA.with(|media| {
        media.changed(data).run(async |world| {
            let Ok((journal, mut replay)) = Journal::open(world.clone(), device(&world).await).await else {
                return;
            };
            while let Ok(Some(record)) = replay.next().await {
                assert_eq!(record.len, record.data.len() as u64);
            }
            let sequence = journal.append_write(1, 0, &Pieces::copy_of(&[9; 4096]));
            let durable = journal.durable(sequence).await.is_ok();
            journal.retire(sequence);
            if journal.close().await.is_ok() && durable {
                let again = Journal::open(world.clone(), device(&world).await).await;
                assert!(again.is_ok(), "what was used and closed opens again: {:?}", again.err());
            }
        });
    });
});
