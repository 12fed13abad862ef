//! Persistent reservations of hosts that did not ask for persistence (APTPL = 0), when nodes end.

use std::net::SocketAddr;

use super::*;

const RESERVATION_CONFLICT: u8 = 0x18;
const UNIT_ATTENTION: u8 = 0x6;
const KEY: u64 = 0x6d61_7375;

/// A host with a session at the first port that has one, again when that ends.
pub(crate) struct Initiator {
    name: &'static str,
    ports: Vec<u16>,
}

impl Initiator {
    /// LUN 0, until a command is answered with another status than a unit attention or BUSY.
    async fn send(&self, world: &World, start: &[u8], data: &[u8]) -> (u8, Vec<u8>) {
        let mut cdb = [0; 16];
        cdb[..start.len()].copy_from_slice(start);
        let data_in_max = if data.is_empty() { 4096 } else { 0 };
        let began = Instant::now();
        loop {
            for port in &self.ports {
                let at = SocketAddr::from(([127, 0, 0, 1], *port));
                let initiator = format!("iqn.2026-11.net.example:{}", self.name);
                let options = Options::new(at, &initiator, TARGET, 7);
                let Some(Ok(session)) = within(world, GIVES_UP, Session::login(world, &options)).await else {
                    continue;
                };
                let mut attentions = 0;
                while attentions < 5 {
                    let sent = session.command(Lun(0), cdb, Pieces::copy_of(data), data_in_max);
                    // A command that is sent again is counted again.
                    match within(world, WAIT, sent).await {
                        Some(Ok(done))
                            if done.sense_codes().is_some_and(|(key, ..)| key == UNIT_ATTENTION) =>
                        {
                            attentions += 1;
                        }
                        Some(Ok(done)) if done.is_good() || done.status == RESERVATION_CONFLICT => {
                            return (done.status, done.data_in.joined().to_vec());
                        }
                        _ => break,
                    }
                }
                session.close();
            }
            assert!(began.elapsed() < 3 * WAIT, "{}: no answer to {start:02x?}", self.name);
            world.sleep(Duration::from_millis(20)).await;
        }
    }

    async fn reserve(&self, world: &World, action: u8, kind: u8, key: u64, action_key: u64) {
        const ALL_TG_PT: u8 = 0x04;
        let flags = if action == 6 { ALL_TG_PT } else { 0 };
        let list = [key.to_be_bytes(), action_key.to_be_bytes(), [0, 0, 0, 0, flags, 0, 0, 0]].concat();
        let (status, _) = self.send(world, &[0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0], &list).await;
        assert_eq!(status, 0, "{}: service action {action}", self.name);
    }
}

/// Keys and initiator ports that are registered, each with whether and how it holds the reservation.
type Registrants = BTreeMap<Vec<u8>, (u8, u8)>;

/// Of READ FULL STATUS. At which ports, nodes that join change: all hosts are registered at all of them.
fn registrants(view: &[u8]) -> Registrants {
    let (mut all, mut rest) = (Registrants::new(), &view[8..]);
    while let Some((fixed, more)) = rest.split_first_chunk::<24>() {
        let (id, more) =
            more.split_at(u32::from_be_bytes(fixed[20..].try_into().expect("four bytes")) as usize);
        let holds = all.entry([&fixed[..8], id].concat()).or_default();
        *holds = (*holds).max((fixed[12], fixed[13]));
        rest = more;
    }
    all
}

/// What the other host hears to a write, PRgeneration, and all registrations.
pub(crate) fn found(cluster: &Cluster) -> (u8, Vec<u8>, Registrants) {
    let ports = cluster.ports();
    let look = async move |world: World| {
        let other = Initiator { name: "other", ports };
        let (write, _) = other.send(&world, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0], &[0xee; 512]).await;
        let (_, view) = other.send(&world, &[0x5e, 3, 0, 0, 0, 0, 0, 0x10, 0, 0], &[]).await;
        (write, view[..4].to_vec(), registrants(&view))
    };
    world_real::run(world_real::Options::default(), look).expect("a world")
}

/// Another host registers, and this one fences it: write exclusive, registrants only. Neither sets APTPL.
pub(crate) fn fence(cluster: &Cluster) -> (u8, Vec<u8>, Registrants) {
    let ports = cluster.ports();
    let fence = async move |world: World| {
        let holder = Initiator { name: "holder", ports: ports.clone() };
        let other = Initiator { name: "other", ports };
        holder.reserve(&world, 6, 0, 0, KEY).await;
        other.reserve(&world, 6, 0, 0, KEY + 1).await;
        holder.reserve(&world, 1, 5, KEY, 0).await;
        holder.reserve(&world, 4, 5, KEY, KEY + 1).await;
    };
    world_real::run(world_real::Options::default(), fence).expect("a world");
    let found = found(cluster);
    assert_eq!(found.0, RESERVATION_CONFLICT, "the other host is fenced");
    assert_eq!(found.1, [0, 0, 0, 3], "PRgeneration");
    assert!(found.2.values().eq([&(1, 5)]), "the holder alone is registered: {:?}", found.2);
    found
}

#[test]
fn a_fence_holds_when_the_owner_is_killed_and_when_it_hands_over() {
    let mut cluster = Cluster::start(2);
    let owner = cluster.owner();
    let fenced = fence(&cluster);
    cluster.nodes[owner].process.kill().expect("kill -9");
    cluster.successor(owner);
    assert_eq!(found(&cluster), fenced, "after a take-over");
    cluster.again(owner);
    cluster.nodes[owner].stands_by();
    let node = &cluster.nodes[1 - owner];
    node.ok(&[
        "node",
        "drain",
        &node.name,
        "--to",
        &cluster.nodes[owner].name,
        "--registry",
        &cluster.registry,
    ]);
    until("the other node serves", || cluster.nodes[owner].serves());
    assert_eq!(found(&cluster), fenced, "after a hand-over");
}

/// A host that has registered at all target ports was refused at the portal of a node that joined later,
/// until it registered again.
#[test]
fn a_registration_at_all_ports_holds_at_a_node_that_joins_later() {
    let mut cluster = Cluster::start(1);
    let owner = cluster.owner();
    let write = |name: &'static str, ports: Vec<u16>| {
        let write = async move |world: World| {
            let host = Initiator { name, ports };
            host.send(&world, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0], &[0xee; 512]).await.0
        };
        world_real::run(world_real::Options::default(), write).expect("a world")
    };
    let ports = cluster.ports();
    let reserve = async move |world: World| {
        let holder = Initiator { name: "holder", ports };
        holder.reserve(&world, 6, 0, 0, KEY).await;
        holder.reserve(&world, 1, 5, KEY, 0).await;
    };
    world_real::run(world_real::Options::default(), reserve).expect("a world");
    cluster.join();
    cluster.nodes[1].stands_by();
    let later = vec![cluster.nodes[1].port];
    assert_eq!(write("holder", later.clone()), 0);
    assert_eq!(write("other", later.clone()), RESERVATION_CONFLICT);
    // And when that node owns the array: it knows of the registration by the record alone.
    cluster.nodes[owner].process.kill().expect("kill -9");
    cluster.successor(owner);
    cluster.join();
    cluster.nodes[2].stands_by();
    let latest = vec![cluster.nodes[2].port];
    assert_eq!((write("holder", later), write("holder", latest.clone())), (0, 0));
    assert_eq!(write("other", latest), RESERVATION_CONFLICT);
}
