//! A target over memory in a world, and the way to it.

use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use iscsi::initiator::{Error, Options, Session};
use iscsi::target::{Limits, Portal, serve};
use world::World;
use world_model::{Model, Net};

use crate::ram::{Ram, TARGET};

/// Everything that a test needs.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) world: World,
    pub(crate) ram: Rc<Ram>,
    pub(crate) portal: Portal,
    pub(crate) address: SocketAddr,
    /// The model's network; none in the real world.
    pub(crate) net: Option<Net>,
}

pub(crate) const HOST: &str = "iqn.2026-01.example.host:one";
const MEMORY_LEN: usize = 8 << 20;

impl Rig {
    /// A rig in a world; the target serves from now on.
    pub(crate) fn new(world: &World, limits: Limits) -> Rig {
        let listener = world.listen("127.0.0.1:0".parse().unwrap()).expect("a free port");
        let (ram, portal) = (Ram::new(MEMORY_LEN), Portal::new());
        let address = listener.local();
        world.spawn(serve(world.clone(), listener, ram.clone(), limits, portal.clone()));
        Rig { world: world.clone(), ram, portal, address, net: None }
    }

    /// How the `port`th initiator port logs in.
    pub(crate) fn options(&self, port: u32) -> Options {
        Options::new(self.address, HOST, TARGET, port)
    }

    pub(crate) async fn session(&self, port: u32) -> Session {
        self.login(&self.options(port)).await.expect("a login")
    }

    pub(crate) async fn login(&self, options: &Options) -> Result<Session, Error> {
        Session::login(&self.world, options).await
    }

    /// The connections that are made from now on come from the `n`th address of a network.
    pub(crate) fn come_from(&self, n: u8) {
        let net = self.net.as_ref().expect("a model");
        net.set_source(Some(std::net::IpAddr::from([10, 0, 0, n])));
    }

    pub(crate) async fn sleep_ms(&self, ms: u64) {
        self.world.sleep(Duration::from_millis(ms)).await;
    }

    /// Waits until `holds`; panics when it does not within ten minutes of virtual time.
    pub(crate) async fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        for _ in 0..12_000 {
            if holds() {
                return;
            }
            self.sleep_ms(50).await;
        }
        panic!("{what} does not come true");
    }
}

/// Runs a test in the model world under two seeds.
pub(crate) fn check<F: Future<Output = ()>>(test: impl Fn(Rig) -> F) {
    check_with(Limits::default(), test);
}

/// Runs a test with other limits.
pub(crate) fn check_with<F: Future<Output = ()>>(limits: Limits, test: impl Fn(Rig) -> F) {
    for seed in [1, 2] {
        let model = Model::new(seed);
        model.run(|world| {
            let rig = Rig { net: Some(model.net().clone()), ..Rig::new(&world, limits) };
            test(rig)
        });
    }
}

/// READ(10) or WRITE(10).
pub(crate) fn cdb10(opcode: u8, lba: u32, blocks: u16) -> [u8; 16] {
    let mut cdb = [0u8; 16];
    cdb[0] = opcode;
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

pub(crate) const READ: u8 = 0x28;
pub(crate) const WRITE: u8 = 0x2a;
