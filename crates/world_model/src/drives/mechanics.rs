//! The arm and the platters: how long it takes until a block is under its head, and from there on.

use super::curve::SeekCurve;
use super::geometry::{Geometry, Place};
use super::limits::ParameterError;
use super::parameters::HardDiskParameters;

/// A drive's parameters, prepared; drives of one model share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mechanics {
    parameters: HardDiskParameters,
    geometry: Geometry,
    seek_read: SeekCurve,
    seek_write: SeekCurve,
}

/// Where the arm is, how far it has come in a run of blocks, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) cylinder: u32,
    pub(super) head: u32,
    /// The next block.
    pub(super) block: u64,
    /// When the last one had passed, or the arm was free.
    pub(super) at_ns: u64,
}

impl Cursor {
    pub(super) fn place(&self) -> (u32, u32) {
        (self.cylinder, self.head)
    }
}

/// Which way the heads work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Read,
    Write,
}

impl Mechanics {
    /// Prepares the parameters, if a drive can be like this.
    pub fn new(parameters: HardDiskParameters) -> Result<Mechanics, ParameterError> {
        parameters.check()?;
        let cylinders = parameters.cylinders();
        let seek_read = SeekCurve::new(&parameters.seek_read, cylinders);
        let seek_write = match &parameters.seek_write {
            Some(seek) => SeekCurve::new(seek, cylinders),
            None => seek_read.clone(),
        };
        Ok(Mechanics { geometry: Geometry::new(&parameters), parameters, seek_read, seek_write })
    }

    /// What it was made of.
    pub fn parameters(&self) -> &HardDiskParameters {
        &self.parameters
    }

    /// Where its blocks lie.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The seek times before reads.
    pub fn seek_read(&self) -> &SeekCurve {
        &self.seek_read
    }

    /// The seek times before writes.
    pub fn seek_write(&self) -> &SeekCurve {
        &self.seek_write
    }

    /// The angle that passes under the heads at this time.
    pub(super) fn angle_ns(&self, at_ns: u64) -> u32 {
        (at_ns % u64::from(self.parameters.revolution_ns)) as u32
    }

    /// From one track to another, and settled there.
    pub(super) fn move_ns(&self, (cylinder, head): (u32, u32), to: &Place, pass: Pass) -> u32 {
        let curve = match pass {
            Pass::Read => &self.seek_read,
            Pass::Write => &self.seek_write,
        };
        let seek = curve.ns(cylinder.abs_diff(to.cylinder));
        let moved = if head == to.head { seek } else { seek.max(self.parameters.head_switch_ns) };
        if moved > 0 && pass == Pass::Write { moved + self.parameters.write_settle_ns } else { moved }
    }

    /// How long the platters turn from this angle to that one.
    pub(super) fn turn_ns(&self, from_ns: u32, to_ns: u32) -> u32 {
        if to_ns >= from_ns { to_ns - from_ns } else { to_ns + self.parameters.revolution_ns - from_ns }
    }

    /// From a track, with this angle under the heads now, to the beginning of a block. What the queue is
    /// ordered by: a few nanoseconds.
    pub(super) fn position_ns(&self, from: (u32, u32), angle_ns: u32, to: &Place, pass: Pass) -> u32 {
        let moved = self.move_ns(from, to, pass);
        let landed = (angle_ns + moved) % self.parameters.revolution_ns;
        moved + self.turn_ns(landed, to.angle_ns)
    }

    /// When the cursor's next block begins to pass.
    pub(super) fn begin(&self, cursor: &Cursor, place: &Place, pass: Pass) -> u64 {
        let angle = self.angle_ns(cursor.at_ns);
        cursor.at_ns + u64::from(self.position_ns(cursor.place(), angle, place, pass))
    }

    /// Lets all blocks before `end` pass.
    pub(super) fn pass_to(&self, cursor: &mut Cursor, end: u64, pass: Pass) {
        while cursor.block < end {
            let place = self.geometry.place(cursor.block);
            let begun = self.begin(cursor, &place, pass);
            let count = u64::from(place.left).min(end - cursor.block) as u32;
            *cursor = Cursor {
                cylinder: place.cylinder,
                head: place.head,
                block: cursor.block + u64::from(count),
                at_ns: begun + u64::from(self.geometry.span_ns(&place, count)),
            };
        }
    }

    /// Lets those blocks before `end` pass that have passed entirely by `until_ns`.
    pub(super) fn pass_until(&self, cursor: &mut Cursor, end: u64, until_ns: u64, pass: Pass) {
        while cursor.block < end && cursor.at_ns < until_ns {
            let place = self.geometry.place(cursor.block);
            let begun = self.begin(cursor, &place, pass);
            if begun > until_ns {
                return;
            }
            let most = u64::from(place.left).min(end - cursor.block) as u32;
            let count = self.geometry.passed(&place, until_ns - begun).min(most);
            *cursor = Cursor {
                cylinder: place.cylinder,
                head: place.head,
                block: cursor.block + u64::from(count),
                at_ns: begun + u64::from(self.geometry.span_ns(&place, count)),
            };
            if count < most {
                return;
            }
        }
    }
}
