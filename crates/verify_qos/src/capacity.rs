//! What the array can do, measured without a scheduler: everything else is judged by it.

use anyhow::Result;

use super::bed::Bed;
use super::hosts::Hosts;
use super::phases::Form;
use super::play::{self, Load, Script};
use super::scenario::Qos;
use super::windows::{STEP_NS, windows, worst};
use lab_core::interrupt::{Abandoned, Stop};
use lab_core::parallel;
use lab_core::stats::{Estimate, mean_of_windows};

/// Up to so many I/Os in flight each number is measured; beyond, each a quarter more than the one before.
const EACH_UP_TO: usize = 10;

/// With so many I/Os in flight, bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) in_flight: usize,
    /// All together.
    pub(super) rate: f64,
    /// Half of the 95 % interval of that.
    pub(super) error: f64,
    /// For how long it was measured.
    pub(super) seconds: f64,
    /// What an I/O in flight brings in the worst of a hundred windows, of the VM that has least.
    pub(super) worst_each: f64,
}

/// What the array does with one and more I/Os in flight.
#[derive(Clone, Debug)]
pub(super) struct Capacity(pub(super) Vec<Point>);

impl Capacity {
    /// Between two points in proportion; above the last as there.
    fn of(&self, in_flight: f64, value: impl Fn(&Point) -> f64, at_zero: f64) -> f64 {
        let above = self.0.partition_point(|point| (point.in_flight as f64) < in_flight);
        let (low, at_low) = match above.checked_sub(1).map(|place| &self.0[place]) {
            Some(point) => (point.in_flight as f64, value(point)),
            None => (0.0, at_zero),
        };
        let Some(point) = self.0.get(above) else { return at_low };
        let part = (in_flight - low) / (point.in_flight as f64 - low);
        at_low + (value(point) - at_low) * part
    }

    /// With so many in flight.
    pub(super) fn at(&self, in_flight: f64) -> f64 {
        self.of(in_flight, |point| point.rate, 0.0)
    }

    /// The interval in which that lies in another period of so many seconds: drives seek now farther, now
    /// less far.
    pub(super) fn between(&self, in_flight: f64, seconds: f64) -> Estimate {
        let (mean, error) = (self.at(in_flight), self.of(in_flight, |point| point.error, 0.0));
        let measured = self.of(in_flight, |point| point.seconds, 0.0);
        Estimate { mean, low: mean - error, high: mean + error }.of_another_period(measured / seconds)
    }

    /// What each of so many brings in a bad window.
    pub(super) fn worst_each(&self, in_flight: f64) -> f64 {
        let first = self.0.first().map_or(0.0, |point| point.worst_each);
        self.of(in_flight.max(1.0), |point| point.worst_each, first)
    }

    /// With all that the VMs keep in flight.
    pub(super) fn all(&self) -> f64 {
        self.0.last().map_or(0.0, |point| point.rate)
    }

    /// The most that were in flight.
    pub(super) fn most(&self) -> usize {
        self.0.last().map_or(1, |point| point.in_flight)
    }
}

/// How many in flight are measured, if the VMs keep so many.
fn numbers(all: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (1..=all.min(EACH_UP_TO)).collect();
    let mut last = EACH_UP_TO;
    while last < all {
        last = (last + last.div_ceil(4)).min(all);
        numbers.push(last);
    }
    numbers
}

/// Measures it. Stopped half-way, it is none: nothing could be judged.
///
/// # Errors
///
/// [`Abandoned`] after a stop request; and when it cannot be measured.
pub(super) fn measure(qos: &Qos, bed: &Bed, seed: u64, stop: &Stop) -> Result<Capacity> {
    let vms = qos.published.vms;
    let script = Script {
        id: "capacity".into(),
        title: "Capacity".into(),
        hosts: 1,
        loads: vec![Load::published(qos); vms],
        steps: vec![],
    };
    let numbers = numbers(qos.outstanding());
    let of = |index: usize, _: &dyn Fn(())| {
        let point = bed.model(seed).run_while(
            || !stop.is_asked(),
            async |world| {
                let started = bed.start(&world).await?;
                let hosts = Hosts::new(qos, &world, (vms, 1), Form::Array);
                let vms = play::vms(&world, &started, &script, &hosts).await?;
                let in_flight = numbers[index];
                let each = |vm: usize| in_flight / vms.len() + usize::from(vm < in_flight % vms.len());
                vms.iter().enumerate().for_each(|(vm, one)| one.start(each(vm) as u16));
                world.sleep(qos.run.warm_up.0).await;
                vms.iter().for_each(|vm| drop(vm.log.take()));
                let from_ns = world.now().0;
                let time = qos.run.capacity_of(in_flight).0;
                world.sleep(time).await;
                vms.iter().try_for_each(|vm| vm.check())?;
                let (to_ns, window) = (world.now().0, qos.run.window.0);
                let window_ns = window.as_nanos() as u64;
                let (mut bytes, mut worst_each) = (0, f64::INFINITY);
                let mut all = vec![0.0; ((to_ns - from_ns) / window_ns) as usize];
                for (number, vm) in vms.iter().enumerate().filter(|(vm, _)| each(*vm) > 0) {
                    let done = vm.log.take();
                    bytes += done.iter().map(|done| done.bytes).sum::<u64>();
                    let sliding = windows(&done, from_ns, to_ns, window_ns);
                    let own = sliding.iter().step_by((window_ns / STEP_NS) as usize);
                    all.iter_mut().zip(own).for_each(|(all, own)| *all += *own as f64 / window.as_secs_f64());
                    worst_each = worst_each.min(worst(sliding) / window.as_secs_f64() / each(number) as f64);
                }
                let seconds = time.as_secs_f64();
                let rate = bytes as f64 / seconds;
                let mean = mean_of_windows(&all);
                anyhow::Ok(Point { in_flight, rate, error: mean.high - mean.mean, seconds, worst_each })
            },
        );
        point.unwrap_or_else(|| Err(Abandoned.into()))
    };
    let points = parallel::run((numbers.len(), parallel::cores()), &stop.of_part(), of, |()| ())?;
    if points.len() < numbers.len() {
        return Err(Abandoned.into());
    }
    Ok(Capacity(points.into_iter().map(|(_, point)| point).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_small_numbers_are_measured_and_the_last() {
        assert_eq!(numbers(1), [1]);
        assert_eq!(numbers(7), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(numbers(24)[9..], [10, 13, 17, 22, 24]);
        assert!(numbers(3200).len() < 50 && numbers(3200).last() == Some(&3200));
    }

    #[test]
    fn between_two_points_it_is_in_proportion() {
        let point = |in_flight, rate| Point {
            in_flight,
            rate,
            error: rate / 100.0,
            seconds: 30.0,
            worst_each: rate / in_flight as f64,
        };
        let capacity = Capacity(vec![point(1, 50.0), point(2, 80.0), point(4, 100.0)]);
        let at = [0.0, 0.5, 1.0, 3.0, 4.0, 9.0].map(|n| capacity.at(n));
        assert_eq!(at, [0.0, 25.0, 50.0, 90.0, 100.0, 100.0]);
        assert_eq!((capacity.worst_each(0.5), capacity.worst_each(3.0)), (50.0, 32.5));
        // Measured three times as long as it is used: 1 % either way, twice.
        let between = capacity.between(4.0, 10.0);
        assert_eq!((between.low, between.mean, between.high), (98.0, 100.0, 102.0));
    }
}
