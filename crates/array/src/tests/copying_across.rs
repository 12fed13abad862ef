//! EXTENDED COPY between logical units of two controllers: the bytes move inside the array, and a host
//! reaches only what is mapped to it.

use std::collections::BTreeMap;

use block::Pieces;
use scsi::{Request, Response, Status, TaskAttribute};
use world::World;

use super::rig::{TARGET, VOLUME_BYTES, declaration, drive, group, model};
use crate::config::{HostConfig, Level, PoolConfig, VolumeConfig};
use crate::{Array, Config, ControllerHandle, LocalPort, LocalSession, Lun, run_with_local_port};

const BLOCK: u64 = 512;
/// Not a whole number of the steps in which a copy crosses.
const LEN: u64 = (2 << 20) + 5 * BLOCK;
const FROM: u64 = 3 * BLOCK;
const TO: u64 = 11 * BLOCK;

/// Two controllers, a pool and two volumes at each. Host `a` sees `v0` and `v1`, host `b` all four.
struct Rig {
    array: Array,
    ports: Vec<LocalPort>,
}

fn config() -> Config {
    let mut config =
        declaration(9, 2, vec![group("g0", Level::Raid0, 0..1), group("g1", Level::Raid0, 1..2)]);
    let pool = |n: usize| PoolConfig {
        page_bytes: 64 << 10,
        controller: n,
        ..PoolConfig::new(format!("p{n}"), vec![format!("g{n}")])
    };
    let volume = |name: &str, n: usize| VolumeConfig::new(name.into(), format!("p{n}"), VOLUME_BYTES);
    let host = |name: &str, volumes: &[&str]| {
        let luns: BTreeMap<u16, String> = (0..).zip(volumes.iter().map(|v| (*v).to_owned())).collect();
        HostConfig::new(name.into(), format!("iqn.2026-11.test:{name}"), luns)
    };
    config.controllers = 2;
    config.portals.clear();
    config.drives = (0..2).map(drive).collect();
    config.pools = vec![pool(0), pool(1)];
    config.volumes = vec![volume("v0", 0), volume("v1", 1), volume("w0", 0), volume("w1", 1)];
    config.hosts = vec![host("a", &["v0", "v1"]), host("b", &["v0", "v1", "w0", "w1"])];
    config
}

impl Rig {
    fn run<F: Future<Output = ()>>(test: impl FnOnce(Rig) -> F) {
        model(9, 2).run(async |world| test(Rig::start(&world).await).await);
    }

    async fn start(world: &World) -> Rig {
        let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..2).map(ControllerHandle::new).unzip();
        let mut ports = Vec::new();
        for (index, mailbox) in mailboxes.into_iter().enumerate() {
            let (port, run) = run_with_local_port(world.clone(), index, mailbox, handles.clone());
            ports.push(port);
            world.spawn(run);
        }
        let mut array = Array::new(handles, TARGET);
        array.apply(config()).await.expect("applied");
        Rig { array, ports }
    }

    async fn host(&self, name: &str, port: usize, luns: u16) -> Host {
        let session = self.ports[port].open(&format!("iqn.2026-11.test:{name}"), [0; 6]).expect("a host");
        let host = Host(session);
        for lun in 0..luns {
            while host.send(lun, &[0; 6], Pieces::new(), 0).await.status != Status::Good {}
        }
        host
    }

    /// Bytes that copies wrote to a volume.
    async fn moved(&self, volume: &str) -> u64 {
        let parts = self.array.status().await.expect("a status");
        let all = parts.into_iter().flat_map(|part| part.volumes);
        all.filter(|v| v.name == volume).map(|v| v.counters.moved_bytes).sum()
    }
}

struct Host(LocalSession);

impl Host {
    async fn send(&self, lun: u16, cdb: &[u8], data_out: Pieces, data_in_max: u32) -> Response {
        let mut full = [0; 16];
        full[..cdb.len()].copy_from_slice(cdb);
        let attribute = TaskAttribute::Simple;
        self.0.execute(Lun(lun), Request { cdb: full, attribute, data_out, data_in_max, tag: 1 }).await
    }

    async fn transfer(&self, opcode: u8, lun: u16, at: u64, data: Pieces, len: u64) -> Pieces {
        let mut cdb = [0; 16];
        cdb[0] = opcode;
        cdb[2..10].copy_from_slice(&(at / BLOCK).to_be_bytes());
        cdb[10..14].copy_from_slice(&((len / BLOCK) as u32).to_be_bytes());
        let response = self.send(lun, &cdb, data, len as u32).await;
        assert_eq!(response.status, Status::Good, "{:02x?}", response.sense);
        response.data_in
    }

    /// The NAA designator, from VPD page 83h.
    async fn naa(&self, lun: u16) -> [u8; 16] {
        let page = self.send(lun, &[0x12, 1, 0x83, 4, 0, 0], Pieces::new(), 1024).await.data_in.joined();
        let mut rest = &page[4..];
        while (rest[0] & 0x0f, rest[1] & 0x3f, rest[3]) != (1, 3, 16) {
            rest = &rest[4 + usize::from(rest[3])..];
        }
        *rest[4..].first_chunk().expect("16 bytes")
    }

    /// EXTENDED COPY sent to `lun`: the status, and sense key with code.
    async fn copy(&self, lun: u16, naa: [[u8; 16]; 2]) -> (Status, Option<(u8, u16)>) {
        let mut list = vec![0; 16];
        list[1] = 0b11 << 3;
        list[2..4].copy_from_slice(&64u16.to_be_bytes());
        list[8..12].copy_from_slice(&28u32.to_be_bytes());
        for naa in naa {
            let mut target = [0; 32];
            (target[0], target[4], target[5], target[7]) = (0xe4, 1, 3, 16);
            target[8..24].copy_from_slice(&naa);
            target[29..].copy_from_slice(&(BLOCK as u32).to_be_bytes()[1..]);
            list.extend(target);
        }
        list.extend([0x02, 0, 0, 24, 0, 0, 0, 1, 0, 0]);
        list.extend(((LEN / BLOCK) as u16).to_be_bytes());
        list.extend((FROM / BLOCK).to_be_bytes());
        list.extend((TO / BLOCK).to_be_bytes());
        let mut cdb = [0; 16];
        cdb[0] = 0x83;
        cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
        let Response { status, sense, .. } = self.send(lun, &cdb, Pieces::copy_of(&list), 0).await;
        (status, (sense.len() > 13).then(|| (sense[2] & 15, u16::from_be_bytes([sense[12], sense[13]]))))
    }
}

fn pattern() -> Pieces {
    let bytes: Vec<u8> = (0..LEN).map(|i| (i * 31 + (i >> 12)) as u8).collect();
    Pieces::copy_of(&bytes)
}

/// Before, such a copy was refused as unreachable, and the host read and wrote the bytes itself.
#[test]
fn a_copy_between_two_controllers_moves_the_bytes_inside_the_array() {
    Rig::run(|rig| async move {
        // From controller 0 to 1 and back, sent to the source and to the destination, at either port:
        // commands cross, and parts of copies cross once more.
        for (port, lun, source, destination) in [(0, 0, 0, 1), (0, 1, 0, 1), (1, 0, 1, 0), (1, 1, 1, 0)] {
            let host = rig.host("a", port, 2).await;
            let naa = [host.naa(source).await, host.naa(destination).await];
            host.transfer(0x8a, source, FROM, pattern(), LEN).await;
            host.transfer(0x8a, destination, 0, Pieces::copy_of(&[0xee; 3 << 20]), 3 << 20).await;
            let volume = ["v0", "v1"][usize::from(destination)];
            let before = rig.moved(volume).await;
            assert_eq!(host.copy(lun, naa).await, (Status::Good, None), "port {port}, sent to LUN {lun}");
            assert_eq!(rig.moved(volume).await - before, LEN);
            let found = host.transfer(0x88, destination, TO, Pieces::new(), LEN).await;
            assert_eq!(found.first_difference(&pattern()), None, "port {port}, sent to LUN {lun}");
            for edge in [TO - BLOCK, TO + LEN] {
                let kept = host.transfer(0x88, destination, edge, Pieces::new(), BLOCK).await;
                assert!(kept.joined().iter().all(|byte| *byte == 0xee), "the block at {edge}");
            }
        }
    });
}

#[test]
fn what_is_not_mapped_to_the_host_is_unreachable_at_the_other_controller_too() {
    Rig::run(|rig| async move {
        let (a, b) = (rig.host("a", 0, 2).await, rig.host("b", 1, 4).await);
        let (own, hidden) = (a.naa(0).await, b.naa(3).await);
        b.transfer(0x8a, 3, 0, Pieces::copy_of(&[0x77; 3 << 20]), 3 << 20).await;
        for naa in [[own, hidden], [hidden, own]] {
            assert_eq!(a.copy(0, naa).await, (Status::CheckCondition, Some((0xa, 0x0d02))));
        }
        assert_eq!((rig.moved("w1").await, rig.moved("v0").await), (0, 0));
        assert_eq!(b.copy(0, [own, hidden]).await, (Status::Good, None), "who sees both may");
    });
}

#[test]
fn a_reservation_at_the_other_controller_stops_a_copy() {
    Rig::run(|rig| async move {
        let (a, b) = (rig.host("a", 0, 2).await, rig.host("b", 1, 4).await);
        let naa = [a.naa(0).await, a.naa(1).await];
        assert_eq!(b.send(1, &[0x16, 0, 0, 0, 0, 0], Pieces::new(), 0).await.status, Status::Good);
        assert_eq!(a.copy(0, naa).await, (Status::CheckCondition, Some((0xa, 0x0d01))));
        assert_eq!(rig.moved("v1").await, 0);
        assert_eq!(b.send(1, &[0x17, 0, 0, 0, 0, 0], Pieces::new(), 0).await.status, Status::Good);
        assert_eq!(a.copy(0, naa).await, (Status::Good, None));
    });
}
