//! Space that runs short is told twice, to the operator and to the hosts, and both count the same bytes.

use crate::config::Level;
use block::{Buf, Pieces};
use iscsi::initiator::{Options, Session};

use super::rig::{declaration, group, model, portal, start};
use crate::Lun;

const MIB: u64 = 1 << 20;
/// THIN PROVISIONING SOFT THRESHOLD REACHED, as key, code and qualifier (SPC-5 4.4.2.7).
const REACHED: (u8, u8, u8) = (0x06, 0x38, 0x07);

/// Writes a MiB; the unit attentions that came before it was executed.
async fn write(session: &Session, at: u64) -> Vec<(u8, u8, u8)> {
    let mut cdb = [0; 16];
    cdb[0] = 0x8a;
    cdb[2..10].copy_from_slice(&(at / 512).to_be_bytes());
    cdb[10..14].copy_from_slice(&((MIB / 512) as u32).to_be_bytes());
    let mut buf = Buf::new(MIB as usize);
    buf.fill(0xa5);
    let data = Pieces::from(buf.freeze());
    let mut heard = Vec::new();
    loop {
        let done = session.command(Lun(0), cdb, data.clone(), 0).await.expect("the session lives");
        if done.is_good() {
            return heard;
        }
        heard.push(done.sense_codes().expect("sense comes with it"));
    }
}

/// Parameter `code` of log page 0Ch, in bytes.
async fn resources(session: &Session, code: u16, set_bytes: u64) -> u64 {
    let cdb = [0x4d, 0, 0x4c, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0];
    let done = session.command(Lun(0), cdb, Pieces::new(), 255).await.expect("the session lives");
    assert!(done.is_good(), "{:02x?}", done.sense);
    let page = done.data_in.joined();
    let found = page[4..].chunks(12).find(|p| u16::from_be_bytes([p[0], p[1]]) == code);
    let value = found.expect("the parameter is there")[4..8].try_into().expect("4 bytes");
    u64::from(u32::from_be_bytes(value)) * set_bytes
}

#[test]
fn both_thresholds_are_told_and_everybody_counts_the_same() {
    let model = model(21, 2);
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = declaration(21, 2, vec![group("g", Level::Raid0, 0..2)]);
        config.volumes[0].len_bytes = 64 * MIB;
        (config.pools[0].soft_threshold_percent, config.pools[0].critical_threshold_percent) = (40, 60);
        array.apply(config).await.expect("apply");
        let options = Options::new(portal(21), "iqn.2026-11.test:host", "iqn.2026-11.test:array", 1);
        let session = Session::login(&world, &options).await.expect("log in");
        write(&session, 0).await;
        let total = array.status().await.expect("status")[0].pools[0].size_bytes;
        let mut told = Vec::new();
        let mut at = MIB;
        while at * 100 < total * 70 {
            let used_percent = at * 100 / total;
            told.extend(write(&session, at).await.into_iter().map(|sense| (sense, used_percent)));
            at += MIB;
        }
        let senses: Vec<_> = told.iter().map(|(sense, _)| *sense).collect();
        assert_eq!(senses, [REACHED, REACHED], "{told:?}");
        assert!((40..50).contains(&told[0].1) && (60..70).contains(&told[1].1), "{told:?}");
        let status = &array.status().await.expect("status")[0];
        let noted = |what: &str| status.events.iter().filter(|e| e.to_string().starts_with(what)).count();
        assert_eq!((noted("pool p: warning: 40 %"), noted("pool p: critical: 60 %")), (1, 1));

        let (pool, page_bytes) = (&status.pools[0], status.pools[0].page_bytes);
        assert_eq!(resources(&session, 1, page_bytes).await, pool.size_bytes - pool.used_bytes);
        assert_eq!(resources(&session, 2, page_bytes).await, status.volumes[0].used_bytes);
        let volume = &status.volumes[0];
        assert_eq!((volume.exclusive_bytes, volume.shared_bytes), (volume.used_bytes, 0));
        assert_eq!(pool.used_bytes, volume.used_bytes);
        assert_eq!(pool.group_spaces.iter().map(|g| g.used_bytes).sum::<u64>(), pool.used_bytes);
    });
}
