//! Pools that move between controllers: because hosts ask for it, and because it balances the load.

mod balance;

use std::pin::pin;
use std::sync::Arc;

use array::{Array, Event, MoveReceiver};
use status::Status;

pub(crate) use balance::{Balance, Sample};

use crate::served::Served;

/// Who is told to have moved a pool that a host has asked for.
const HOST: &str = "a host, by SET TARGET PORT GROUPS";
/// Who is told to have moved one to balance the load.
const BALANCE: &str = "load balancing";

/// Makes the moves that hosts ask for, until the controllers have ended.
pub(crate) async fn move_as_asked(
    served: Arc<Served>,
    asked: MoveReceiver,
    stopped: impl Future<Output = ()>,
) {
    let mut stopped = pin!(stopped);
    loop {
        let next = tokio::select! {
            next = asked.next() => next,
            () = &mut stopped => return,
        };
        let Some(request) = next else { return };
        let mut array = served.array.hold(format!("a move of pool {}, by {HOST}", request.pool)).await;
        move_pool(&served, &mut array, (&request.pool, request.controller), HOST).await;
    }
}

/// Moves the pool that levels the load of the controllers, where that pays.
pub(crate) async fn balance(served: &Served, array: &mut Array, status: &Status) {
    // A controller that runs nowhere for a moment is idle, and takes no pool.
    if status.loads.iter().any(|load| load.up_ms == 0) {
        return;
    }
    let found = served.balance().look(sample(served, status));
    if let Some(found) = found.filter(|_| array.config().balance) {
        served.events.tell(Event::info(format!("pool {}", found.pool), found.why).by(BALANCE));
        move_pool(served, array, (&found.pool, found.to), BALANCE).await;
    }
}

async fn move_pool(served: &Served, array: &mut Array, (pool, to): (&str, usize), who: &str) {
    match array.move_pool(pool, to).await {
        Ok(done) => done.iter().for_each(|line| served.events.tell(Event::of_line(line).by(who))),
        Err(error) => {
            let text = format!("was not moved to controller {to}: {error}");
            served.events.tell(Event::warning(format!("pool {pool}"), text).by(who));
        }
    }
}

fn sample(served: &Served, status: &Status) -> Sample {
    let seconds = |ms: u64| ms as f64 / 1000.0;
    Sample {
        at_s: served.started.elapsed().as_secs_f64(),
        busy_s: status.loads.iter().map(|load| seconds(load.busy_ms)).collect(),
        pools: status.pools.iter().map(|p| (p.name.clone(), (p.controller, p.operations))).collect(),
    }
}
