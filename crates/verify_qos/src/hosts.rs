//! The hosts before the array: each with a scheduler of its own that knows nothing of the others, or with
//! shares of the array that all agree on through a store.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use ::qos::{Health, Policy, RequestId, Settings};
use anyhow::Result;
use futures::future::{AbortHandle, abortable};
use registry::{Faulty, Key, Link, Memory, Registry as _};
use share::{SHARES, Shares, set_policies};
use world::World;

use super::node::Node;
use super::phases::{Form, NodeFaults, StoreState, host_of};
use super::scenario::Qos;

/// From a host to the store, and again back: two machines of one network, and a disk.
const STORE_DELAY: Duration = Duration::from_millis(2);

/// The hosts of a run; none where the array schedules.
pub(super) enum Hosts {
    None,
    Alone(Vec<Rc<Node>>),
    Sharing(Sharing),
}

/// Where the requests of a VM wait.
#[derive(Clone)]
pub(super) enum Gate {
    Alone(Rc<Node>, usize),
    Sharing(Rc<Host>, usize),
}

/// A request that may go.
pub(super) enum Admitted {
    Alone(Rc<Node>, RequestId),
    Sharing(share::Admitted),
}

impl Gate {
    /// Waits until a request may go.
    pub(super) async fn admit(&self, bytes: u64) -> Admitted {
        match self {
            Gate::Alone(node, own) => Admitted::Alone(node.clone(), node.admit(*own, bytes).await),
            Gate::Sharing(host, own) => {
                let node = host.node.borrow().clone();
                Admitted::Sharing(node.admit(*own, bytes).await)
            }
        }
    }
}

impl Admitted {
    /// It has ended below.
    pub(super) fn done(self) {
        match self {
            Admitted::Alone(node, request) => node.done(request),
            Admitted::Sharing(admitted) => admitted.served(),
        }
    }
}

impl Hosts {
    /// So many VMs on so many hosts, in a form.
    pub(super) fn new(qos: &Qos, world: &World, (vms, hosts): (usize, usize), form: Form) -> Hosts {
        let of = |host: usize| (0..vms).filter(move |vm| host_of(*vm, vms, hosts) == host);
        match form {
            Form::Array => Hosts::None,
            Form::Uncoordinated => {
                let settings = Settings {
                    unit_bytes: qos.published.unit.0,
                    depth_max: qos.array.depth,
                    // A host sees its own VMs only: sending less at once would slow them and nobody else.
                    depth_adapts: false,
                    anticipates: false,
                    ..Settings::default()
                };
                Hosts::Alone((0..hosts).map(|n| Node::new(world, settings, of(n).count())).collect())
            }
            Form::Coordinated => {
                let store = registry::Store::default();
                let host = |number: usize| {
                    let disks = of(number).map(disk_name).collect();
                    Host::new(world, &store, number, qos.published.unit.0, disks)
                };
                Hosts::Sharing(Sharing {
                    client: Memory::new(world, &store),
                    hosts: (0..hosts).map(host).collect(),
                })
            }
        }
    }

    /// Where the requests of a VM wait, if not at the array.
    pub(super) fn gate(&self, vm: usize, vms: usize) -> Option<Gate> {
        let place = |hosts: usize| {
            let host = host_of(vm, vms, hosts);
            let first = (0..vm).take_while(|other| host_of(*other, vms, hosts) < host).count();
            (host, vm - first)
        };
        match self {
            Hosts::None => None,
            Hosts::Alone(nodes) => {
                let (host, own) = place(nodes.len());
                Some(Gate::Alone(nodes[host].clone(), own))
            }
            Hosts::Sharing(sharing) => {
                let (host, own) = place(sharing.hosts.len());
                Some(Gate::Sharing(sharing.hosts[host].clone(), own))
            }
        }
    }

    /// Policies of all VMs, from now on.
    pub(super) async fn set(&self, policies: &[Policy]) -> Result<()> {
        let vms = policies.len();
        match self {
            Hosts::None => {}
            Hosts::Alone(_) => {
                for (vm, policy) in policies.iter().enumerate() {
                    if let Some(Gate::Alone(node, own)) = self.gate(vm, vms) {
                        node.set_policy(own, *policy);
                    }
                }
            }
            Hosts::Sharing(sharing) => {
                let all = policies.iter().enumerate().map(|(vm, policy)| (disk_name(vm), *policy));
                set_policies(&sharing.client, &all.collect()).await?;
            }
        }
        Ok(())
    }

    /// VMs whose health has changed, and whether each is below its minimum.
    pub(super) fn news(&self) -> Vec<(usize, bool)> {
        let Hosts::Alone(nodes) = self else { return vec![] };
        let (mut out, mut first) = (Vec::new(), 0);
        for node in nodes {
            out.extend(node.news().into_iter().map(|(own, health)| (first + own, health != Health::Ok)));
            first += node.vms();
        }
        out
    }
}

fn disk_name(vm: usize) -> String {
    format!("vm{:02}.vhdx", vm + 1)
}

/// A look at hosts with a policy store.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharingLook {
    /// Whether all hosts that are there say that the store is away.
    pub(super) all_say_away: bool,
    /// Whether the shares in force name a disk of a host that is not there.
    pub(super) gone_have_shares: bool,
    /// Of 1000: what of the minimums could be given.
    pub(super) scale_permille: u32,
}

/// Hosts with a store.
pub(super) struct Sharing {
    /// Of whoever administers: it reaches the store always.
    client: Memory,
    pub(super) hosts: Vec<Rc<Host>>,
}

impl Sharing {
    /// What is wrong from now on, until it is said anew.
    pub(super) fn set_faults(&self, nodes: &NodeFaults, store: StoreState) {
        for (number, host) in self.hosts.iter().enumerate() {
            let number = number + 1;
            host.link.cut.set(store == StoreState::Away);
            host.link.paused.set(nodes.hung.contains(&number));
            match (nodes.killed.contains(&number), host.is_alive.get()) {
                (true, true) => host.die(),
                (false, false) => host.start(),
                _ => {}
            }
        }
    }

    /// A look at the hosts that are there, and at the shares in force.
    pub(super) async fn look(&self) -> Result<SharingLook> {
        let (there, gone): (Vec<_>, Vec<_>) =
            self.hosts.iter().partition(|host| host.is_alive.get() && !host.link.paused.get());
        let states: Vec<share::State> = there.iter().map(|host| host.node.borrow().state()).collect();
        let is_away = |state: &share::State| matches!(state.store, share::Store::Away { .. });
        let shares = self.client.get(&Key::new(SHARES)?).await?;
        let shares = shares.map(|entry| Shares::decode(&entry.value)).transpose()?.unwrap_or_default();
        let gone: BTreeSet<&String> = gone.iter().flat_map(|host| &host.disks).collect();
        Ok(SharingLook {
            all_say_away: states.iter().all(is_away),
            gone_have_shares: shares.disks.keys().any(|disk| gone.contains(disk)),
            scale_permille: states.iter().map(|state| state.scale_permille as u32).min().unwrap_or(1000),
        })
    }
}

/// A host and its way to the store.
pub(super) struct Host {
    world: World,
    name: String,
    unit_bytes: u64,
    disks: Vec<String>,
    registry: Rc<Faulty>,
    link: Rc<Link>,
    /// A host that starts again knows nothing of before.
    node: RefCell<Rc<share::Node>>,
    task: RefCell<Option<AbortHandle>>,
    is_alive: Cell<bool>,
}

impl Host {
    fn new(
        world: &World,
        store: &registry::Store,
        number: usize,
        unit_bytes: u64,
        disks: Vec<String>,
    ) -> Rc<Host> {
        let registry = Rc::new(Faulty::new(world, Rc::new(Memory::new(world, store))));
        let link = registry.link();
        link.delay.set(STORE_DELAY);
        let name = format!("host{:02}", number + 1);
        let host = Rc::new(Host {
            world: world.clone(),
            node: RefCell::new(share::Node::new(world, &name, unit_bytes, disks.clone())),
            name,
            unit_bytes,
            disks,
            registry,
            link,
            task: RefCell::default(),
            is_alive: Cell::new(false),
        });
        host.start();
        host
    }

    fn start(&self) {
        let node = share::Node::new(&self.world, &self.name, self.unit_bytes, self.disks.clone());
        let (task, handle) = abortable(share::run(node.clone(), self.registry.clone()));
        self.node.replace(node);
        self.task.replace(Some(handle));
        self.is_alive.set(true);
        self.world.spawn(async move {
            // Aborted: the host died.
            let _ = task.await;
        });
    }

    fn die(&self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        self.is_alive.set(false);
    }
}
