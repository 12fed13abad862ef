//! How the model runs a point.

use std::rc::Rc;

use anyhow::{Context, Result};
use array::Array;
use array::status::ControllerStatus;
use lab_core::interrupt::{Abandoned, Stop};
use world::DriveSpec;
use world_model::Disk;
use world_model::Model;

use super::bed::{Bed, INTERNAL, Shape, initiator};
use super::bench::{Bench, Probe};
use super::conditioning::write_pending;
use super::host::{Ramp, Target};
use super::measured::{ArraySample, Sample};
use super::results::{Layout, Point};
use super::scenario::Sanboot;
use super::which::{Which, seed_of};

/// One point.
///
/// # Errors
///
/// [`Abandoned`] after a stop request; and when it cannot be run.
pub(super) fn run(sanboot: &Sanboot, bed: &Bed, which: Which, seed: u64, stop: &Stop) -> Result<Point> {
    let seed = seed_of(seed, &which);
    let sanboot = &which.with_share(sanboot);
    let model = bed.model(seed);
    let name = format!("{}, {}, {} servers", which.pattern.name(), which.layout.name(), which.servers);
    model
        .run_while(
            || !stop.is_asked(),
            async |world| {
                let began = world.now();
                let started = bed.start(&world, sanboot.array.cache.0).await?;
                let mut targets = Vec::new();
                for server in 0..which.servers {
                    targets.push(match &started {
                        Some(started) => Target::Lu(
                            started
                                .port()
                                .open(&initiator(which.lu_of(server)), [0; 6])
                                .map_err(|e| anyhow::anyhow!("server {server} is refused: {e}"))?,
                        ),
                        None => {
                            Target::Disk(world.open_now(&DriveSpec::Modelled { name: INTERNAL.to_owned() })?)
                        }
                    });
                }
                let ramp = Rc::new(Ramp::new(sanboot, &world, which.pattern, targets)?);
                ramp.log_in().await?;
                if which.lost {
                    // Who reads from it first finds that out.
                    drives_of(&model, which.layout)[0].kill();
                }
                let array = started.map(|started| started.array);
                let probe = Modelled { array, drives: drives_of(&model, which.layout) };
                Bench { sanboot, which: &which, world, ramp, probe, began }.run(seed).await
            },
        )
        .unwrap_or_else(|| Err(Abandoned.into()))
        .context(name)
}

fn drives_of(model: &Model, layout: Layout) -> Vec<Disk> {
    let names = match Shape::of(layout) {
        Some(shape) => shape.drives().collect(),
        None => vec![INTERNAL.to_owned()],
    };
    names.iter().map(|name| model.disks().get(name).expect("the bed has it")).collect()
}

/// What the model shows: of the array, its ports and controllers, and of the drives.
struct Modelled {
    array: Option<Array>,
    drives: Vec<Disk>,
}

impl Probe for Modelled {
    fn has_array(&self) -> bool {
        self.array.is_some()
    }

    async fn status(&self) -> Result<Vec<ControllerStatus>> {
        match &self.array {
            Some(array) => Ok(array.status().await?),
            None => Ok(vec![]),
        }
    }

    async fn sample(&self, ramp: &Ramp) -> Result<Sample> {
        let pending = write_pending(&self.status().await?);
        let at_ns = ramp.now_ns();
        let array = self.has_array().then(|| ArraySample {
            controller_ns: ramp.front.controller.borrow().busy_ns(at_ns),
            port_ns: Some([&ramp.front.inbound, &ramp.front.outbound].map(|way| way.borrow().busy_ns(at_ns))),
            pending,
        });
        Ok(Sample {
            at_ns,
            counts: ramp.counts.get(),
            server_ios: ramp.server_ios(),
            hosts_ns: ramp.host_busy_ns(at_ns),
            array,
            drives: self.drives.iter().map(|d| d.usage().unwrap_or_default()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use lab_core::scenario::ScenarioFile;

    use super::*;
    use crate::results::{Pattern, ResourceKind};

    /// The built-in scenario with little of everything.
    fn small() -> Sanboot {
        let (mut small, _) = Sanboot::load(None).expect("built in");
        (small.published.file.0, small.array.lu.0, small.array.cache.0) = (16 << 20, 64 << 20, 16 << 20);
        (small.run.windows, small.run.window_ios, small.run.round_ios) = (3, 300, 100);
        small.run.balance_time.0 = small.run.round_time.0;
        small
    }

    /// The first Ctrl-C waited for the end of the points that were under way.
    #[test]
    fn a_point_ends_where_it_is_when_somebody_asks_to_stop() {
        let small = small();
        let bed = Bed::make(&small, Layout::Raid1x8, 1).expect("a bed");
        let stop = Stop::default();
        stop.ask();
        let which = Which::in_turn(Pattern::RandomMix, Layout::Raid1x8, 3);
        let abandoned = run(&small, &bed, which, 1, &stop).expect_err("nobody wants its end");
        assert!(abandoned.is::<Abandoned>(), "{abandoned:#}");
    }

    #[test]
    fn the_same_seed_gives_the_same_point_and_another_seed_another() {
        let small = small();
        let bed = Bed::make(&small, Layout::Raid1x8, 1).expect("a bed");
        let which = Which::in_turn(Pattern::RandomMix, Layout::Raid1x8, 3);
        let [first, again, other] =
            [1, 1, 2].map(|seed| run(&small, &bed, which.clone(), seed, &Stop::default()).expect("a point"));
        assert_eq!(first, again);
        assert_ne!(first.per_server, other.per_server);
        assert_eq!((first.per_server.len(), first.windows.len()), (3, 3));
        let share = |kind| first.resources.iter().filter(move |r| r.kind == kind);
        // 2 controllers, 8 groups of 2 drives; what nobody uses stands still.
        assert_eq!(share(ResourceKind::Drive).count(), 16);
        assert_eq!(share(ResourceKind::Controller).map(|r| r.used_by.len()).collect::<Vec<_>>(), [3, 0]);
        for group in share(ResourceKind::Group) {
            assert_eq!(group.utilisation > 0.0, !group.used_by.is_empty(), "{group:?}");
        }
        assert!(
            first.resources.iter().all(|r| (0.0..=1.001).contains(&r.utilisation)),
            "{:?}",
            first.resources
        );
    }

    /// With everything in the cache the rate is that of the station that is the bottleneck: the server's own
    /// path.
    #[test]
    fn what_the_cache_holds_goes_as_fast_as_the_server() {
        let mut small = small();
        // It holds the file, which a round of the warm-up reads whole: before, hits were those of read-ahead.
        small.array.cache.0 = 2 * small.published.file.0;
        small.run.round_ios = 4096;
        let bed = Bed::make(&small, Layout::Raid1x8, 1).expect("a bed");
        let which = Which::in_turn(Pattern::SequentialRead, Layout::Raid1x8, 1);
        let point = run(&small, &bed, which, 1, &Stop::default()).expect("a point");
        let most = 1.0 / small.host.io.0.as_secs_f64();
        let iops = point.per_server[0].iops;
        assert!((0.85 * most..=1.05 * most).contains(&iops), "{iops} of {most}");
        assert!(point.hit_share > 0.9, "{}", point.hit_share);
    }
}
