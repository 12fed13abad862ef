//! Commands as hosts send them: CDB in; status, sense and data out.

mod data;
mod documented;
mod hostile;
mod overtaken;
mod pages;
mod sanitize;
mod tasks;
mod turns;
mod unavailable;

use std::rc::Rc;

use block::Pieces;
use lu::NexusId;
use lu::testing::ThinMemory;
use world::World;
use world_model::Model;

use crate::Mover;
use crate::host_view::HostView;
use crate::nexus::{AccessState, InitiatorPort, ListedPort, Ports, TargetPort};
use crate::odx::Tokens;
use crate::request::{Lun, Request, Status, TaskAttribute};
use crate::unit::{Identity, LogicalUnit};
use crate::view::{View, ViewSpec};

pub(crate) const BLOCK: usize = 512;
/// 32 MiB in pages of 64 KiB.
pub(crate) const BLOCKS: u64 = 65_536;
pub(crate) const PAGE: u64 = 64 << 10;

/// One LU, and the hosts that see it as LUN 0.
pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) disk: ThinMemory,
    pub(crate) lu: Rc<LogicalUnit<ThinMemory>>,
    pub(crate) tokens: Rc<Tokens<ThinMemory>>,
}

impl Bench {
    pub(crate) fn on(world: World, disk: ThinMemory) -> Bench {
        let tokens = Rc::new(Tokens::new(world.clone(), 0));
        let lu = LogicalUnit::new(world.clone(), Identity::of(0x1234_5678_9abc, 7), disk.clone());
        Bench { world, disk, lu, tokens }
    }

    /// A host's view with the LU as LUN 0, its first unit attention taken.
    pub(crate) async fn host(&self, number: u64) -> View<ThinMemory> {
        let view = self.fresh_host(number);
        check(&view, "00 00 00 00 00 00", &[], "6/2900").await;
        view
    }

    /// A host's view, as it is right after login.
    pub(crate) fn fresh_host(&self, number: u64) -> View<ThinMemory> {
        let port =
            TargetPort { target: "iqn.2026-01.test:masu".into(), portal_group: 1, relative_id: 1, group: 1 };
        let view = View::new(ViewSpec {
            nexus: NexusId(number),
            initiator: InitiatorPort {
                name: format!("iqn.2026-01.test:host{number}"),
                isid: [0x80, 0, 0, 0, 0, number as u8],
            },
            port: Rc::new(port.clone()),
            ports: Rc::new(Ports::new([
                ListedPort { port: port.clone(), access: AccessState::Optimized },
                ListedPort {
                    port: TargetPort { relative_id: 2, portal_group: 2, group: 2, ..port },
                    access: AccessState::NonOptimized,
                },
            ])),
            others: Rc::from([]),
            tokens: self.tokens.clone(),
            port_traffic: Rc::default(),
            host_traffic: Rc::default(),
            tracer: None,
            at_port: true,
        });
        view.map(Lun(0), self.lu.clone());
        view
    }
}

/// Takes every wish.
pub(crate) struct Moves;

impl Mover for Moves {
    fn is_on(&self) -> bool {
        true
    }

    fn begin(&self, _: u16) -> bool {
        true
    }
}

/// Runs a test in the model world, on a thin LU of [`BLOCKS`] blocks.
pub(crate) fn bench<F: Future<Output = ()>>(test: impl FnOnce(Bench) -> F) {
    Model::new(1)
        .run(|world| test(Bench::on(world, ThinMemory::new(BLOCKS * BLOCK as u64, BLOCK as u32, PAGE))));
}

/// Bytes from hexadecimal digits; spaces are for the eye.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|d| (d[0] * 16 + d[1]) as u8).collect()
}

pub(crate) fn request(cdb: &str, data_out: &[u8]) -> Request {
    let mut bytes = [0; 16];
    let given = hex(cdb);
    bytes[..given.len()].copy_from_slice(&given);
    // Two pieces, as from a network, so that nothing relies on one.
    let mut pieces = Pieces::copy_of(&data_out[..data_out.len() / 2]);
    pieces.append(Pieces::copy_of(&data_out[data_out.len() / 2..]));
    Request::new(bytes, pieces, u32::MAX)
}

/// Sense data as text: key/ASC ASCQ, the field pointer, INFORMATION.
pub(crate) fn sense_text(sense: &[u8]) -> String {
    let mut text = if sense[0] & 0x7f == 0x72 {
        return format!("{:x}/{:02x}{:02x} descriptor", sense[1], sense[2], sense[3]);
    } else {
        format!("{:x}/{:02x}{:02x}", sense[2] & 0x0f, sense[12], sense[13])
    };
    let at = u16::from_be_bytes([sense[16], sense[17]]);
    if sense[15] & 0x80 != 0 && sense[2] & 0x0f == 5 {
        text += if sense[15] & 0x40 != 0 { " cdb " } else { " list " };
        text += &at.to_string();
        if sense[15] & 0x08 != 0 {
            text += &format!(".{}", sense[15] & 7);
        }
    }
    if sense[0] & 0x80 != 0 {
        text += &format!(" info {}", u32::from_be_bytes(sense[3..7].try_into().expect("four bytes")));
    }
    text
}

/// Sends a command to a LUN and gives how it ended as text ("good" or the sense), and the data-in.
pub(crate) async fn send(view: &View<ThinMemory>, lun: u16, request: Request) -> (String, Vec<u8>) {
    let response = view.execute(Some(Lun(lun)), request).await;
    let text = match response.status {
        Status::Good => "good".into(),
        Status::CheckCondition => sense_text(&response.sense),
        Status::ReservationConflict => "conflict".into(),
        status => format!("{status:?}"),
    };
    let text = if response.aborted { "aborted".into() } else { text };
    (text, response.data_in.joined().to_vec())
}

/// The one helper: a command to LUN 0 ends as `want` says. Gives the data-in.
#[track_caller]
pub(crate) fn check<'a>(
    view: &'a View<ThinMemory>,
    cdb: &'a str,
    data_out: &'a [u8],
    want: &'a str,
) -> impl Future<Output = Vec<u8>> + use<'a> {
    let caller = std::panic::Location::caller();
    async move {
        let (text, data_in) = send(view, 0, request(cdb, data_out)).await;
        assert_eq!(text, want, "{cdb} at {caller}");
        data_in
    }
}

/// `blocks` blocks, each filled with its own byte from `first` on.
pub(crate) fn pattern(first: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK).map(|i| first.wrapping_add((i / BLOCK) as u8) | 1).collect()
}
