//! A whole portal with one peer that does what it likes, and a second host that must not notice.
//!
//! ```text
//!   bytes ──> Peer (commands, data, task management, nonsense) ──modelled link──> iscsi::target::serve ──> logical units in memory
//!                └─ reader: every PDU that comes back is checked
//! ```

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use iscsi::target::{Chap, Limits, LoginRefusal, Portal, Target, serve};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use scsi::{
    AccessState, Identity, InitiatorPort, ListedPort, LogicalUnit, Lun, NexusId, Ports, TargetPort, Tokens,
    View, ViewSpec,
};
use world::{World, yield_now};
use world_model::Model;

use crate::medium::Memory;
use crate::peer::{Peer, Seen};

/// Size of every logical unit.
const LU_LEN: u64 = 256 << 10;
/// More actions than find anything new in one input.
const ACTIONS_MAX: usize = 40;
/// The guests' names: what the array shows depends on them.
pub(crate) const STRANGE: &str = "iqn.2026-11.example:strange";
pub(crate) const QUIET: &str = "iqn.2026-11.example:quiet";
/// The target's name.
pub(crate) const TARGET: &str = "iqn.2026-11.example:disk";

/// The logical units behind the portal: 0 to 2 for everybody, 3 for the quiet host alone, which has nothing
/// else.
struct Units {
    tokens: Rc<Tokens<Memory>>,
    list: Vec<Rc<LogicalUnit<Memory>>>,
    sessions: Cell<u64>,
}

impl Units {
    fn new(world: &World) -> Units {
        let unit = |i: u64| {
            let medium = Memory::new(LU_LEN, if i == 1 { 4096 } else { 512 }, i != 1);
            LogicalUnit::new(world.clone(), Identity { read_only: i == 2, ..Identity::of(7, i) }, medium)
        };
        let tokens = Rc::new(Tokens::new(world.clone(), 0));
        Units { tokens, list: (0..4).map(unit).collect(), sessions: Cell::new(0) }
    }
}

/// A host's session.
struct HostSession(View<Memory>);

impl AsRef<View<Memory>> for HostSession {
    fn as_ref(&self) -> &View<Memory> {
        &self.0
    }
}

impl Target for Units {
    type View = View<Memory>;
    type Nexus = HostSession;

    fn discover(&self, _initiator: &str, at: SocketAddr) -> Vec<(String, Vec<(SocketAddr, u16)>)> {
        vec![(TARGET.into(), vec![(at, 1)])]
    }

    fn authentication(&self, _: &str, target: Option<&str>) -> Result<Option<Chap>, LoginRefusal> {
        if target.is_none_or(|name| name == TARGET) { Ok(None) } else { Err(LoginRefusal::NotFound) }
    }

    fn portal_group(&self) -> u16 {
        1
    }

    /// So that what stands behind the header is reached, too.
    fn admits(&self, _: &iscsi::Relayed) -> bool {
        true
    }

    fn open(
        &self,
        initiator: &iscsi::target::InitiatorPort,
        _: &str,
        _: u16,
    ) -> Result<HostSession, LoginRefusal> {
        let number = self.sessions.get();
        self.sessions.set(number + 1);
        let port = TargetPort { target: TARGET.into(), portal_group: 1, relative_id: 1, group: 1 };
        let view = View::new(ViewSpec {
            nexus: NexusId(number),
            initiator: InitiatorPort { name: initiator.name.clone(), isid: initiator.isid },
            ports: Rc::new(Ports::new([ListedPort { port: port.clone(), access: AccessState::Optimized }])),
            port: Rc::new(port),
            tokens: self.tokens.clone(),
            others: Rc::from([]),
            port_traffic: Rc::default(),
            host_traffic: Rc::default(),
            tracer: None,
            at_port: true,
        });
        let mine = if initiator.name == QUIET { 3..4 } else { 0..3 };
        mine.clone().for_each(|i| view.map(Lun((i - mine.start) as u16), self.list[i].clone()));
        Ok(HostSession(view))
    }
}

/// A session of the peer, as `data` has it; then the quiet host's, and the end of the portal.
pub fn run_session(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(seed) = u.arbitrary::<u8>() else { return };
    Model::new(seed.into()).run(async |world| {
        let addr = SocketAddr::from(([127, 0, 0, 1], 3260));
        let listener = world.listen(addr).expect("the model listens");
        let (portal, has_ended) = (Portal::new(), Rc::new(Cell::new(false)));
        let serving =
            serve(world.clone(), listener, Rc::new(Units::new(&world)), Limits::default(), portal.clone());
        let ended = has_ended.clone();
        world.spawn(async move {
            serving.await;
            ended.set(true);
        });
        let mut peer = Peer::connect(&world, addr).await;
        // An input that ends in the middle of an action ends the session there.
        let _ = misbehave(&mut u, &world, &mut peer).await;
        quiet_host(&world, addr, peer.has_reset_all).await;
        drop(peer);
        portal.stop();
        world.sleep(Duration::from_secs(60)).await;
        assert!(has_ended.get(), "the portal did not end");
    });
}

async fn misbehave(u: &mut Unstructured<'_>, world: &World, peer: &mut Peer) -> Result<()> {
    let bits: u8 = u.arbitrary()?;
    let yes = |bit: u8| if bits & bit != 0 { "Yes" } else { "No" };
    let lens = ["512", "8192", "65536", "1048576"];
    let text = format!(
        "InitiatorName={STRANGE}\0TargetName={TARGET}\0InitialR2T={}\0ImmediateData={}\0MaxRecvDataSegmentLength={}\0\
         MaxBurstLength={}\0FirstBurstLength={}\0MaxOutstandingR2T=4\0",
        yes(1),
        yes(2),
        lens[usize::from(bits >> 2 & 3)],
        lens[usize::from(bits >> 4 & 3)],
        lens[usize::from(bits >> 6 & 3)],
    );
    peer.seen.borrow_mut().segment_len_max = lens[usize::from(bits >> 2 & 3)].parse().expect("a number");
    peer.log_in(text.as_bytes()).await;
    for _ in 0..ACTIONS_MAX {
        if u.is_empty() || peer.seen.borrow().has_ended {
            break;
        }
        act(u, world, peer).await?;
    }
    settle().await;
    Ok(())
}

/// Lets everything happen that needs no time.
async fn settle() {
    for _ in 0..32 {
        yield_now().await;
    }
}

async fn act(u: &mut Unstructured<'_>, world: &World, peer: &mut Peer) -> Result<()> {
    match u.int_in_range(0..=15)? {
        0..=4 => peer.command(u).await?,
        5..=7 => peer.answer_r2t(u).await?,
        8 => peer.data_out(u).await?,
        9 => peer.nop(u).await?,
        10 => peer.task_management(u).await?,
        11 => peer.text(u).await?,
        12 => peer.logout(u).await?,
        13 => peer.other(u).await?,
        14 => world.sleep(Duration::from_micros(u.int_in_range(1..=2000)?)).await,
        _ => match u.int_in_range(0..=7)? {
            0 => world.sleep(Duration::from_secs(u.int_in_range(1..=120)?)).await,
            1 => peer.stream.close(),
            2 => peer.reads.set(false),
            _ => settle().await,
        },
    }
    Ok(())
}

/// The quiet host logs in, reads, and is answered; when somebody has reset all sessions, on its second
/// attempt.
async fn quiet_host(world: &World, addr: SocketAddr, may_lose_session: bool) {
    let mut host = Peer::connect(world, addr).await;
    host.log_in(format!("InitiatorName={QUIET}\0TargetName={TARGET}\0").as_bytes()).await;
    // The first command hears of the power-on.
    host.read_blocks().await;
    host.read_blocks().await;
    world.sleep(Duration::from_secs(1)).await;
    let Seen { good, data_len, has_ended, .. } = *host.seen.borrow();
    if has_ended && may_lose_session {
        return Box::pin(quiet_host(world, addr, false)).await;
    }
    assert!(!has_ended, "the quiet host lost its connection");
    assert!(good >= 1 && data_len >= 4096, "the quiet host was not served: {good} good, {data_len} bytes");
}
