//! What is counted at one moment, and what two of these say of the time between.

use world_model::drives::Usage;

use super::bed::{INTERNAL, Shape, group};
use super::host::Counts;
use super::results::{Layout, Resource, ResourceKind, Window};
use super::scenario::Sanboot;
use super::which::Which;

/// Everything that is counted, at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at_ns: u64,
    pub(super) counts: Counts,
    pub(super) server_ios: Vec<u64>,
    /// Of each server's own path; empty where nobody keeps that.
    pub(super) hosts_ns: Vec<u64>,
    /// `None`: there is no array, or nobody asks it.
    pub(super) array: Option<ArraySample>,
    /// In the order of the layout.
    pub(super) drives: Vec<Usage>,
}

/// What the array says, and what stands before it.
#[derive(Clone, Debug)]
pub(super) struct ArraySample {
    /// Of all cores of the controller that owns the LUs.
    pub(super) controller_ns: u64,
    /// Of its port, in and out; `None` where the link is not modelled.
    pub(super) port_ns: Option<[u64; 2]>,
    /// Share of the cache that is not on the drives yet.
    pub(super) pending: f64,
}

/// What samples are of.
pub(super) struct Scene<'a> {
    which: &'a Which,
    controllers: usize,
    /// Of a controller.
    cores: u32,
}

/// The controller that owns the system disks; the others stand still.
const OWNER: usize = 0;

impl<'a> Scene<'a> {
    pub(super) fn of(sanboot: &Sanboot, which: &'a Which) -> Scene<'a> {
        Scene { which, controllers: sanboot.array.controllers, cores: sanboot.controller.cores }
    }

    pub(super) fn window(&self, from: &Sample, to: &Sample) -> Window {
        let ns = (to.at_ns - from.at_ns) as f64;
        let ios = (to.counts.ios - from.counts.ios) as f64;
        let held: u64 = to.drives.iter().zip(&from.drives).map(|(t, f)| t.held_ns - f.held_ns).sum();
        let per_s = |ios: f64| ios * 1e9 / ns;
        let served = to.server_ios.iter().zip(&from.server_ios);
        let of_owner = |share: Option<f64>| -> Vec<f64> {
            let share_of = |n, share| if n == OWNER { share } else { 0.0 };
            share.map_or(vec![], |share| (0..self.controllers).map(|n| share_of(n, share)).collect())
        };
        let bytes = (to.counts.bytes - from.counts.bytes) as f64;
        let through_port = if to.array.is_some() { per_s(bytes) / 1e6 } else { 0.0 };
        Window {
            seconds: ns / 1e9,
            iops: per_s(ios),
            server_iops: served.map(|(t, f)| per_s((t - f) as f64)).collect(),
            controller_busy: of_owner(self.controller_share(from, to)),
            port_busy: of_owner(port_share(from, to)),
            port_mb_per_s: through_port,
            drive_busy: drive_shares(from, to),
            drive_queue_mean: held as f64 / ns / to.drives.len().max(1) as f64,
            hit_share: hit_share(from.counts, to.counts),
            write_pending: to.array.as_ref().map_or(0.0, |array| array.pending),
        }
    }

    fn controller_share(&self, from: &Sample, to: &Sample) -> Option<f64> {
        let (f, t) = (from.array.as_ref()?, to.array.as_ref()?);
        let ns = (to.at_ns - from.at_ns) as f64;
        Some((t.controller_ns - f.controller_ns) as f64 / ns / f64::from(self.cores))
    }

    /// Everything that can be the end of it.
    pub(super) fn resources(&self, from: &Sample, to: &Sample) -> Vec<Resource> {
        let ns = (to.at_ns - from.at_ns) as f64;
        let everybody: Vec<u32> = (0..self.which.servers).collect();
        let resource = |name: String, kind, units, utilisation, used_by: &[u32]| Resource {
            name,
            kind,
            units,
            utilisation,
            used_by: used_by.to_vec(),
        };
        let hosts = to.hosts_ns.iter().zip(&from.hosts_ns).zip(0..);
        let host = |((t, f), n): ((&u64, &u64), u32)| {
            resource(format!("server{n}"), ResourceKind::Host, 1, (t - f) as f64 / ns, &[n])
        };
        let mut all: Vec<Resource> = hosts.map(host).collect();
        for n in 0..self.controllers {
            let used_by = if n == OWNER { &everybody[..] } else { &[] };
            let of = |share: f64| if n == OWNER { share } else { 0.0 };
            all.extend(self.controller_share(from, to).map(|share| {
                resource(format!("controller{n}"), ResourceKind::Controller, self.cores, of(share), used_by)
            }));
            all.extend(
                port_share(from, to)
                    .map(|share| resource(format!("port{n}"), ResourceKind::Port, 1, of(share), used_by)),
            );
        }
        let shares = drive_shares(from, to);
        let Some(shape) = Shape::of(self.which.layout) else {
            let own = shares.first().filter(|_| self.which.layout == Layout::Internal);
            all.extend(
                own.map(|share| resource(INTERNAL.to_owned(), ResourceKind::Drive, 1, *share, &everybody)),
            );
            return all;
        };
        let per_group = shape.drives_per_group as usize;
        for (g, shares) in (0..).zip(shares.chunks_exact(per_group)) {
            let is_on_it = |server: &u32| shape.group_of(self.which.lu_of(*server)) == g;
            let used_by: Vec<u32> = everybody.iter().copied().filter(is_on_it).collect();
            let mean = shares.iter().sum::<f64>() / per_group as f64;
            all.push(resource(group(g), ResourceKind::Group, shape.drives_per_group, mean, &used_by));
            let drive = |(d, share): (u32, &f64)| {
                resource(shape.drive(g, d), ResourceKind::Drive, 1, *share, &used_by)
            };
            all.extend((0..).zip(shares).map(drive));
        }
        all
    }
}

/// A drive counts a request when it begins: the last one of a window may end in the next.
fn drive_shares(from: &Sample, to: &Sample) -> Vec<f64> {
    let ns = (to.at_ns - from.at_ns) as f64;
    let share = |(t, f): (&Usage, &Usage)| ((t.busy_ns - f.busy_ns) as f64 / ns).min(1.0);
    to.drives.iter().zip(&from.drives).map(share).collect()
}

/// Of the busier direction.
fn port_share(from: &Sample, to: &Sample) -> Option<f64> {
    let (f, t) = (from.array.as_ref()?.port_ns?, to.array.as_ref()?.port_ns?);
    let ns = (to.at_ns - from.at_ns) as f64;
    Some((t[0] - f[0]).max(t[1] - f[1]) as f64 / ns)
}

pub(super) fn hit_share(from: Counts, to: Counts) -> f64 {
    match to.reads - from.reads {
        0 => 0.0,
        reads => (to.hits - from.hits) as f64 / reads as f64,
    }
}
