//! Asymmetric logical unit access (ALUA, SPC-5 5.16.2): which target ports reach a logical unit best, and how
//! a host asks for others.

use std::collections::BTreeMap;

use block::Pieces;
use lu::LogicalDisk;

use crate::context::{Context, cut};
use crate::error::CommandError;
use crate::nexus::{AccessState, ListedPort};

/// PREF: the ports at the owner.
const PREFERRED: u8 = 0x80;
/// U_SUP, AN_SUP, AO_SUP: the states that a group can be in.
const STATES_SUPPORTED: u8 = 0x08 | 0x02 | 0x01;

impl AccessState {
    /// PREF, and the asymmetric access state (SPC-5 6.39).
    fn byte(self) -> u8 {
        match self {
            AccessState::Optimized => PREFERRED,
            AccessState::NonOptimized => 0x1,
            AccessState::Unavailable => 0x3,
        }
    }
}

/// REPORT TARGET PORT GROUPS, SPC-5 6.39. The ports of the controller that owns the logical unit are
/// active/optimized and preferred. Commands at all others cross to it: they are active/non-optimized, or
/// unavailable.
pub(crate) fn report_target_port_groups<D: LogicalDisk>(
    ctx: &Context<'_, D>,
) -> Result<Pieces, CommandError> {
    let extended = match ctx.cdb.u8(1) >> 5 {
        0 => false,
        1 => true,
        _ => return Err(CommandError::field_bit(1, 7)),
    };
    let mut groups: BTreeMap<u16, (AccessState, Vec<u16>)> = BTreeMap::new();
    for ListedPort { port, access } in &*ctx.view.ports.get() {
        groups.entry(port.group).or_insert((*access, vec![])).1.push(port.relative_id);
    }
    let mut out = vec![0; 4];
    if extended {
        // Format 001b, no implicit transition time.
        out.extend([0x10, 0, 0, 0]);
    }
    for (group, (access, ports)) in groups {
        let ports = &ports[..ports.len().min(255)];
        out.extend([access.byte(), STATES_SUPPORTED]);
        out.extend(group.to_be_bytes());
        out.extend([0, 0, 0, ports.len() as u8]);
        for port in ports {
            out.extend([0, 0]);
            out.extend(port.to_be_bytes());
        }
    }
    let len = out.len() as u32 - 4;
    out[..4].copy_from_slice(&len.to_be_bytes());
    Ok(cut(&out, ctx.cdb.uint(6, 4)))
}

/// A target port group in the parameter list of SET TARGET PORT GROUPS.
struct Wish {
    group: u16,
    /// Active/optimized, not active/non-optimized.
    optimized: bool,
}

/// The descriptors of a parameter list (SPC-5 6.45): four reserved bytes, then four bytes for each group.
fn wishes(list: &[u8]) -> Result<Vec<Wish>, CommandError> {
    if !list.len().is_multiple_of(4) {
        return Err(CommandError::ParameterListLength);
    }
    let mut all: Vec<Wish> = Vec::new();
    for (at, descriptor) in (0..).step_by(4).zip(list.chunks_exact(4)).skip(1) {
        let optimized = match descriptor[0] & 0x0f {
            0 => true,
            1 => false,
            // Nobody takes a port out of service through the ports.
            _ => return Err(CommandError::parameter_bit(at, 3)),
        };
        let group = u16::from_be_bytes([descriptor[2], descriptor[3]]);
        if all.iter().any(|wish| wish.group == group) {
            return Err(CommandError::parameter(at + 2));
        }
        all.push(Wish { group, optimized });
    }
    Ok(all)
}

/// SET TARGET PORT GROUPS, SPC-5 6.45. The logical unit moves to the controller of the group that is to be
/// optimized, after the command has ended; all that share its pool move with it. A group of a node that
/// stands by, or of one that is down, is not made optimized.
pub(crate) fn set_target_port_groups<D: LogicalDisk>(ctx: &Context<'_, D>) -> Result<Pieces, CommandError> {
    let (list, ports) = (ctx.list()?, ctx.view.ports.get());
    let mut moves = None;
    for (index, wish) in wishes(&list)?.into_iter().enumerate() {
        let at = 4 * (index + 1);
        let known = ports.iter().find(|listed| listed.port.group == wish.group);
        match (wish.optimized, known.ok_or(CommandError::parameter(at + 2))?.access) {
            (true, AccessState::Optimized) | (false, AccessState::NonOptimized) => {}
            // It is made so where another group is optimized.
            (false, AccessState::Optimized) => {}
            (true, AccessState::NonOptimized) if moves.is_none() => moves = Some(wish.group),
            (true, AccessState::NonOptimized) => return Err(CommandError::parameter_bit(at, 3)),
            (_, AccessState::Unavailable) => return Err(CommandError::PortGroupsNotSet),
        }
    }
    let Some(group) = moves else { return Ok(Pieces::new()) };
    match ctx.lu().mover.get().is_some_and(|mover| mover.begin(group)) {
        true => Ok(Pieces::new()),
        false => Err(CommandError::PortGroupsNotSet),
    }
}
