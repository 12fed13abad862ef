//! With many volumes, whoever looks at them or changes one lets hosts in between.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::config::Level;

use super::rig::{declaration, group, model, start};
use crate::config::{Config, VolumeConfig};

const VOLUMES: usize = 600;
/// What a host does takes its thread again and again; in the model's time code takes none, so that a look in
/// one piece lets nobody in.
const BEAT: Duration = Duration::from_micros(20);

fn with_volumes() -> Config {
    let mut config = declaration(1, 2, vec![group("g", Level::Raid1, 0..2)]);
    for n in 0..VOLUMES {
        config.volumes.push(VolumeConfig::new(format!("w{n}"), "p".to_owned(), 4096));
    }
    config.hosts[0].luns =
        config.volumes.iter().take(200).enumerate().map(|(n, v)| (n as u16, v.name.clone())).collect();
    config
}

#[test]
fn a_look_at_many_volumes_and_a_change_of_one_let_hosts_in_between() {
    model(1, 2).run(async |world| {
        let mut array = start(&world);
        array.apply(with_volumes()).await.expect("apply");
        let beats = Rc::new(Cell::new(0));
        let (counted, beating) = (beats.clone(), world.clone());
        world.spawn(async move {
            loop {
                beating.sleep(BEAT).await;
                counted.set(counted.get() + 1);
            }
        });
        let slices = VOLUMES / 64;
        let status = array.status().await.expect("status");
        assert!(beats.take() >= slices, "status: hosts came in {} times", beats.get());
        assert_eq!(status[0].volumes.len(), VOLUMES + 1);
        let seen = |name: &str| {
            let volume = status[0].volumes.iter().find(|v| v.name == name).expect("a volume");
            volume.mapped_to.iter().map(|m| (m.host.clone(), m.lun)).collect::<Vec<_>>()
        };
        assert_eq!(seen("v"), [("host".to_owned(), 0)]);
        assert_eq!(seen("w198"), [("host".to_owned(), 199)]);
        assert_eq!(seen("w199"), []);
        beats.set(0);
        let mut next = with_volumes();
        next.volumes[7].len_bytes = 8192;
        next.volumes.retain(|v| v.name != "w400");
        let done = array.apply(next).await.expect("apply");
        assert!(beats.get() >= slices, "a change: hosts came in {} times", beats.get());
        assert!(done.iter().any(|line| line.contains("volume w6: grown")), "{done:?}");
        let overview = array.overview().await.expect("overview");
        assert_eq!((overview[0].volumes.len(), overview[0].pools.len()), (0, 1));
        assert_eq!(array.status().await.expect("status")[0].volumes.len(), VOLUMES);
    });
}
