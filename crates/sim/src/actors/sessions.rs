//! The sessions of one host: commands take turns on them, and a broken session is opened again.
//!
//! A command on a broken connection is sent again, as by a host's multipath layer. It may have been executed
//! already; the workload's commands may all be executed twice.

use std::cell::{Cell, RefCell};

use block::Pieces;
use iscsi::initiator::{Done, Error, Options, Session};
use scsi::Lun;
use world::World;
use world::sync::Permits;

/// More than the number of times that connections break during one command.
const TRIES: usize = 20;

struct Place {
    options: Options,
    session: RefCell<Session>,
    /// Held by who logs in again.
    renewal: Permits,
}

/// All sessions of a host.
pub(crate) struct Sessions {
    world: World,
    places: Vec<Place>,
    turn: Cell<usize>,
    renewed: Cell<u64>,
}

impl Sessions {
    /// Logs in with each of these options.
    pub(crate) async fn log_in(world: &World, all: Vec<Options>) -> Result<Sessions, Error> {
        let mut places = Vec::new();
        for options in all {
            let session = RefCell::new(Session::login(world, &options).await?);
            places.push(Place { options, session, renewal: Permits::new(1) });
        }
        Ok(Sessions { world: world.clone(), places, turn: Cell::new(0), renewed: Cell::new(0) })
    }

    /// How often a session was reopened.
    pub(crate) fn renewed(&self) -> u64 {
        self.renewed.get()
    }

    /// Executes a command on the next session.
    pub(crate) async fn command(
        &self,
        lun: Lun,
        cdb: [u8; 16],
        data_out: Pieces,
        data_in_max: u32,
    ) -> Result<Done, Error> {
        let place = &self.places[self.turn.get() % self.places.len()];
        self.turn.set(self.turn.get() + 1);
        let mut outcome = self.once(place, lun, cdb, &data_out, data_in_max).await;
        for _ in 1..TRIES {
            match outcome {
                Err(Error::Net(_)) => self.renew(place).await?,
                outcome => return outcome,
            }
            outcome = self.once(place, lun, cdb, &data_out, data_in_max).await;
        }
        outcome
    }

    async fn once(
        &self,
        place: &Place,
        lun: Lun,
        cdb: [u8; 16],
        out: &Pieces,
        max: u32,
    ) -> Result<Done, Error> {
        let session = place.session.borrow().clone();
        session.command(lun, cdb, out.clone(), max).await
    }

    /// Logs in again, unless another command has done so.
    async fn renew(&self, place: &Place) -> Result<(), Error> {
        let _one = place.renewal.take(1).await;
        for _ in 1..TRIES {
            if place.session.borrow().error().is_none() {
                return Ok(());
            }
            match Session::login(&self.world, &place.options).await {
                Ok(session) => {
                    *place.session.borrow_mut() = session;
                    self.renewed.set(self.renewed.get() + 1);
                }
                // The new connection broke, too.
                Err(Error::Net(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Logs out everywhere.
    pub(crate) async fn log_out(&self) -> Result<(), Error> {
        for place in &self.places {
            let session = place.session.borrow().clone();
            session.logout().await?;
        }
        Ok(())
    }
}
