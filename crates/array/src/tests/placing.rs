//! Hot pages come to the fast group by themselves, as the operator declares it.

use crate::config::Level;
use world::World;

use super::rig::{Host, declaration, group, model, start};
use crate::Array;
use crate::config::{Class, Config};
use crate::pools::PLACEMENT_INTERVAL;
use crate::status::Pool;

async fn pool_of(array: &Array) -> Pool {
    array.status().await.expect("status").remove(0).pools.remove(0)
}

fn two_groups() -> Config {
    declaration(1, 4, vec![group("g0", Level::Raid1, 0..2), group("g1", Level::Raid1, 2..4)])
}

async fn an_interval(world: &World, array: &Array, host: &mut Host) -> Pool {
    for _ in 0..8 {
        host.verify().await;
    }
    world.sleep(PLACEMENT_INTERVAL).await;
    pool_of(array).await
}

#[test]
fn hot_pages_come_to_the_fast_group_once_it_is_declared_to_be_one() {
    let model = model(1, 4);
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = two_groups();
        array.apply(config.clone()).await.expect("apply");
        let mut host = Host::log_in(&world, 1).await;
        host.fill().await;
        let first = an_interval(&world, &array, &mut host).await;
        assert_eq!((first.heat.classes.len(), first.heat.moved_bytes), (1, 0), "one class: nothing moves");
        config.groups[1].class = Class::Fast;
        config.pools[0].placement = false;
        let done = array.apply(config.clone()).await.expect("apply");
        assert_eq!(done, ["pool p: placement disabled", "group g1: class fast"]);
        let off = an_interval(&world, &array, &mut host).await;
        assert_eq!((off.heat.classes.len(), off.heat.moved_bytes), (2, 0), "it is off");
        assert!(off.heat.classes[0].share_percent < 70.0, "{:?}", off.heat);
        config.pools[0].placement = true;
        array.apply(config).await.expect("apply");
        an_interval(&world, &array, &mut host).await;
        let on = an_interval(&world, &array, &mut host).await;
        assert!(on.heat.promoted > 0, "{:?}", on.heat);
        assert_eq!(on.heat.classes[0].share_percent, 100.0, "all of it is used, and all of it fits");
        let later = an_interval(&world, &array, &mut host).await;
        let moved = |pool: &Pool| (pool.heat.promoted, pool.heat.demoted, pool.heat.moved_bytes);
        assert_eq!(moved(&later), moved(&on));
        assert_eq!(later.heat.decisions[0].reason, "settled");
        host.verify().await;
        array.stop().await.expect("stop");
    });
}
