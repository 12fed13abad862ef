//! A host that writes over all portals, and knows what was acknowledged.

use super::*;

/// After this time a host tries its other path.
pub(super) const GIVES_UP: Duration = Duration::from_millis(500);
/// Blocks of 4 KiB that the host writes in turn.
pub(super) const SLOTS: u64 = 512;
pub(super) const SLOT_BYTES: usize = 4096;
pub(super) const WRITE_10: u8 = 0x2a;
pub(super) const READ_10: u8 = 0x28;

/// What a host had acknowledged.
#[derive(Default)]
pub(super) struct Acknowledged {
    /// The last number in each slot.
    pub(super) slots: BTreeMap<u64, u64>,
    /// All numbers.
    pub(super) count: u64,
    /// The longest time without an acknowledgement.
    pub(super) gap: Duration,
}

/// Hosts of this process. Each writes numbers of its own, above those of the hosts before it: what one of
/// them wrote is never taken for what a later one did.
pub(super) static HOSTS: AtomicU64 = AtomicU64::new(0);
pub(super) const NUMBERS_PER_HOST: u64 = SLOTS << 20;

/// A host that writes numbers, one write at a time, to whichever portal answers.
pub(super) struct Host {
    pub(super) stops: Arc<AtomicBool>,
    pub(super) holds: Arc<AtomicBool>,
    /// Writes that were acknowledged.
    pub(super) count: Arc<AtomicU64>,
    pub(super) thread: JoinHandle<Acknowledged>,
    /// Where it reads at the end.
    pub(super) ports: Vec<u16>,
}

pub(super) fn cdb(opcode: u8, slot: u64) -> [u8; 16] {
    let blocks = (SLOT_BYTES / 512) as u16;
    let mut cdb = [0; 16];
    // A write is durable when it is acknowledged (FUA): the pool has no journal, so WCE is 1.
    cdb[..2].copy_from_slice(&[opcode, if opcode == WRITE_10 { 0x08 } else { 0 }]);
    cdb[2..6].copy_from_slice(&(slot as u32 * u32::from(blocks)).to_be_bytes());
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

pub(super) async fn within<T>(world: &World, time: Duration, work: impl Future<Output = T>) -> Option<T> {
    match select(std::pin::pin!(work), std::pin::pin!(world.sleep(time))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

/// At the first port where it succeeds in this time.
pub(super) async fn login(world: &World, time: Duration, ports: &[u16]) -> Option<Session> {
    for port in ports {
        let address = SocketAddr::from(([127, 0, 0, 1], *port));
        let options = Options::new(address, "iqn.2026-11.net.example:host", TARGET, u32::from(*port));
        let login = Session::login(world, &options);
        if let Some(Ok(session)) = within(world, time, login).await {
            return Some(session);
        }
    }
    None
}

/// A command; unit attentions of a new session are passed over. None: no answer in time, or an error.
pub(super) async fn command(
    world: &World,
    time: Duration,
    session: &Session,
    (cdb, out, len): ([u8; 16], Pieces, u32),
) -> Option<Pieces> {
    for _ in 0..5 {
        match within(world, time, session.command(Lun(0), cdb, out.clone(), len)).await? {
            Ok(done) if done.is_good() => return Some(done.data_in),
            Ok(done) if done.sense_codes().is_some_and(|(key, ..)| key == 6) => {}
            _ => return None,
        }
    }
    None
}

pub(super) async fn write_all_the_time(
    world: World,
    ports: Vec<u16>,
    (stops, holds, count): (Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicU64>),
) -> Acknowledged {
    let (mut done, mut last) = (Acknowledged::default(), None);
    let mut number = HOSTS.fetch_add(1, Relaxed) * NUMBERS_PER_HOST;
    while !stops.load(Relaxed) {
        let Some(session) = login(&world, GIVES_UP, &ports).await else {
            world.sleep(Duration::from_millis(5)).await;
            continue;
        };
        while !stops.load(Relaxed) {
            number += 1;
            let slot = number % SLOTS;
            let data = Pieces::copy_of(&number.to_be_bytes().repeat(SLOT_BYTES / 8));
            let write = (cdb(WRITE_10, slot), data, 0);
            if command(&world, GIVES_UP, &session, write).await.is_none() {
                break;
            }
            let now = world.now();
            done.gap = done.gap.max(last.map_or(Duration::ZERO, |last| now - last));
            last = Some(now);
            done.slots.insert(slot, number);
            done.count += 1;
            count.store(done.count, Relaxed);
            world.sleep(Duration::from_millis(1)).await;
            while holds.load(Relaxed) {
                world.sleep(Duration::from_millis(1)).await;
            }
        }
        session.close();
    }
    done
}

/// Every slot has the number that was acknowledged last, or a later one that was not.
pub(super) async fn verify(world: World, ports: Vec<u16>, done: &Acknowledged) {
    let session = login(&world, WAIT, &ports).await.expect("an owner");
    for (slot, number) in &done.slots {
        let cdb = cdb(READ_10, *slot);
        let read = command(&world, WAIT, &session, (cdb, Pieces::new(), SLOT_BYTES as u32)).await;
        let read = read.expect("readable").joined();
        let found = u64::from_be_bytes(read[..8].try_into().expect("eight bytes"));
        assert!(found >= *number && found % SLOTS == *slot, "slot {slot}: {found} instead of {number}");
        assert!(read.chunks(8).all(|part| part == &read[..8]), "slot {slot} is torn");
    }
}

impl Host {
    pub(super) fn start(cluster: &Cluster) -> Host {
        Host::over(cluster, cluster.ports())
    }

    /// With these portals alone.
    pub(super) fn over(cluster: &Cluster, used: Vec<u16>) -> Host {
        let stops = Arc::new(AtomicBool::new(false));
        let (holds, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (flags, ports) = ((stops.clone(), holds.clone(), count.clone()), cluster.ports());
        let thread = spawn(move || {
            world_real::run(world_real::Options::default(), |world| write_all_the_time(world, used, flags))
                .expect("a world")
        });
        let host = Host { stops, holds, count, thread, ports };
        sleep(Duration::from_millis(500));
        host
    }

    /// Sends nothing for a moment, in which the array ends what it has begun.
    pub(super) fn hold(&self) {
        self.holds.store(true, Relaxed);
        sleep(Duration::from_millis(300));
    }

    pub(super) fn go_on(&self) {
        self.holds.store(false, Relaxed);
    }

    /// Returns when it has written again.
    pub(super) fn goes_on(&self) {
        let before = self.count.load(Relaxed);
        until("another write", || self.count.load(Relaxed) > before);
    }

    /// Stops, and verifies what was acknowledged. How long the host had to wait is printed: what it may be is
    /// tested in virtual time, and measured by `make cluster`.
    pub(super) fn verified(self) -> Acknowledged {
        sleep(Duration::from_millis(500));
        self.stops.store(true, Relaxed);
        let done = self.thread.join().expect("no panic");
        assert!(done.count > 100, "only {} writes", done.count);
        let run = world_real::run(world_real::Options::default(), |world| verify(world, self.ports, &done));
        run.expect("a world");
        done
    }
}
