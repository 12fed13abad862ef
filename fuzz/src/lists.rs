//! Commands with parameter lists: lengths, identifiers and tokens are right in most places, so that what
//! stands behind the first checks is reached.

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use scsi::{Identity, Response, Status, TaskAttribute};
use world_model::Model;

use crate::bench::Bench;

/// More commands than find anything new in one input.
const COMMANDS_MAX: usize = 10;
/// Length of a ROD token (SPC-5 6.6.5.4).
const TOKEN_LEN: usize = 512;

/// Commands in a row, until the bytes are used up.
pub fn run_lists(data: &[u8]) {
    Model::new(1).run(async |world| {
        let bench = Bench::new(world);
        bench.greet().await;
        let mut u = Unstructured::new(data);
        let mut token = vec![0; TOKEN_LEN];
        for _ in 0..COMMANDS_MAX {
            if u.is_empty() {
                break;
            }
            let Ok(Command { host, lun, cdb, list }) = command(&mut u, &token) else { break };
            let response = bench.execute(host, Some(lun), cdb, &list, TaskAttribute::Simple).await;
            if let Some(new) = token_of(&cdb, &response) {
                token = new;
            }
        }
        bench.end().await;
    });
}

/// The token in the answer to RECEIVE ROD TOKEN INFORMATION: behind its descriptors' length (SPC-5 6.28).
fn token_of(cdb: &[u8; 16], response: &Response) -> Option<Vec<u8>> {
    let is_it =
        cdb[..2] == [0x84, 0x07] && response.status == Status::Good && response.data_in.len() > TOKEN_LEN;
    let bytes = if is_it { response.data_in.joined() } else { return None };
    Some(bytes[bytes.len() - TOKEN_LEN..].to_vec())
}

struct Command {
    host: usize,
    lun: u16,
    cdb: [u8; 16],
    list: Vec<u8>,
}

fn command(u: &mut Unstructured, token: &[u8]) -> Result<Command> {
    let (host, lun) = (usize::from(u.arbitrary::<bool>()?), u.int_in_range(0..=3)?);
    let mut cdb = [0; 16];
    let mut list = match u.int_in_range(0..=10)? {
        0 => unmap(u, &mut cdb)?,
        1 => mode_select(u, &mut cdb)?,
        2 | 3 => reserve(u, &mut cdb)?,
        4 => extended_copy(u, &mut cdb)?,
        5 => populate(u, &mut cdb)?,
        6 => write_using_token(u, &mut cdb, token)?,
        7 => sanitize(u, &mut cdb)?,
        _ => ask(u, &mut cdb)?,
    };
    damage(u, &mut list)?;
    Ok(Command { host, lun, cdb, list })
}

/// In every fourth list one byte is another, or the end is missing.
fn damage(u: &mut Unstructured, list: &mut Vec<u8>) -> Result<()> {
    match u.int_in_range(0..=7)? {
        0 if !list.is_empty() => {
            let at = u.choose_index(list.len())?;
            list[at] = u.arbitrary()?;
        }
        1 if !list.is_empty() => list.truncate(u.choose_index(list.len())?),
        _ => {}
    }
    Ok(())
}

/// An address or a length: small, near the end of the unit, or any.
fn number(u: &mut Unstructured) -> Result<u64> {
    Ok(match u.int_in_range(0..=7)? {
        0 => u.arbitrary()?,
        1 => u64::from(u.arbitrary::<u32>()?),
        2 => 504 + u64::from(u.arbitrary::<u8>()? & 15),
        _ => u64::from(u.arbitrary::<u8>()?),
    })
}

/// Writes the list's length where the CDB has it.
fn set_len(cdb: &mut [u8; 16], at: usize, width: usize, len: usize) {
    let bytes = (len as u64).to_be_bytes();
    cdb[at..at + width].copy_from_slice(&bytes[8 - width..]);
}

fn unmap(u: &mut Unstructured, cdb: &mut [u8; 16]) -> Result<Vec<u8>> {
    let mut list = vec![0; 8];
    for _ in 0..u.int_in_range(0..=6)? {
        range(u, &mut list)?;
    }
    put_len(&mut list, 0, 2, -2);
    put_len(&mut list, 2, 2, -8);
    cdb[0] = 0x42;
    set_len(cdb, 7, 2, list.len());
    Ok(list)
}

/// Writes the list's length plus `more` into the list.
fn put_len(list: &mut [u8], at: usize, width: usize, more: isize) {
    let len = list.len().saturating_add_signed(more) as u64;
    list[at..at + width].copy_from_slice(&len.to_be_bytes()[8 - width..]);
}

/// LBA, blocks, four reserved bytes: the range descriptor of UNMAP and of tokens.
fn range(u: &mut Unstructured, list: &mut Vec<u8>) -> Result<()> {
    list.extend(number(u)?.to_be_bytes());
    list.extend((number(u)? as u32).to_be_bytes());
    list.extend([0; 4]);
    Ok(())
}

fn mode_select(u: &mut Unstructured, cdb: &mut [u8; 16]) -> Result<Vec<u8>> {
    let is_ten = u.arbitrary()?;
    let mut list = vec![0; if is_ten { 8 } else { 4 }];
    let (descriptor_len, is_long) = *u.choose(&[(0u8, false), (8, false), (16, true), (8, true)])?;
    if is_ten {
        (list[4], list[7]) = (is_long.into(), descriptor_len);
    } else {
        list[3] = descriptor_len;
    }
    list.extend(vec![0; descriptor_len.into()]);
    for _ in 0..u.int_in_range(0..=3)? {
        page(u, &mut list)?;
    }
    (cdb[0], cdb[1]) = (if is_ten { 0x55 } else { 0x15 }, 0x10);
    if is_ten {
        set_len(cdb, 7, 2, list.len())
    } else {
        set_len(cdb, 4, 1, list.len().min(255))
    }
    Ok(list)
}

/// Caching, control (both as they are, with the bits that can be changed), informational exceptions, or any.
fn page(u: &mut Unstructured, list: &mut Vec<u8>) -> Result<()> {
    let bits: u8 = u.arbitrary()?;
    let at = list.len();
    match u.int_in_range(0..=3)? {
        0 => list.extend([0x08, 18, bits & 0x04].iter().chain(&[0; 17])),
        1 => list.extend([0x0a, 10, bits & 0x04, 0x10, bits & 0x08, bits & 0x40, 0, 0, 0, 0, 0, 0]),
        2 => list.extend([0x1c, 10, bits & 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        _ => list.extend(u.arbitrary::<[u8; 14]>()?),
    }
    if u.ratio(1, 4)? {
        let any = at + u.choose_index(list.len() - at)?;
        list[any] = bits;
    }
    Ok(())
}

fn reserve(u: &mut Unstructured, cdb: &mut [u8; 16]) -> Result<Vec<u8>> {
    let action = u.int_in_range(0..=8)?;
    let key = |u: &mut Unstructured| Ok(u64::from(u.int_in_range(0..=3u8)?).to_be_bytes());
    let mut list = [key(u)?, key(u)?, [0; 8]].concat();
    let bits: u8 = u.arbitrary()?;
    if action == 7 {
        (list[17], list[19]) = (bits & 0x03, 1);
        list.extend(transport_id(u)?);
        put_len(&mut list, 20, 4, -24);
    } else {
        list[20] = bits & if action == 0 { 0x0d } else { 0x05 };
        if list[20] & 0x08 != 0 {
            list.extend([0; 4]);
            for _ in 0..u.int_in_range(0..=2)? {
                list.extend(transport_id(u)?);
            }
            put_len(&mut list, 24, 4, -28);
        }
    }
    (cdb[0], cdb[1], cdb[2]) = (0x5f, action, u.int_in_range(0..=9)?);
    set_len(cdb, 5, 4, list.len());
    Ok(list)
}

/// The TransportID of one of the two hosts, as a port or as a device, or of a stranger.
fn transport_id(u: &mut Unstructured) -> Result<Vec<u8>> {
    let (who, is_port) = (u.int_in_range(0..=2)?, u.arbitrary()?);
    let suffix = if is_port { ",i,0x000000000001" } else { "" };
    let mut id = vec![if is_port { 0x45 } else { 0x05 }, 0, 0, 0];
    id.extend(format!("iqn.2026-11.example:host{who}{suffix}\0").bytes());
    id.resize(id.len().next_multiple_of(4).max(24), 0);
    put_len(&mut id, 2, 2, -4);
    Ok(id)
}

fn extended_copy(u: &mut Unstructured, cdb: &mut [u8; 16]) -> Result<Vec<u8>> {
    let (targets, segments) = (u.int_in_range(0..=4u8)?, u.int_in_range(0..=5u8)?);
    let (id, usage) = (u.int_in_range(0..=2)?, *u.choose(&[0x00, 0x10, 0x18])?);
    let is_lid4 = u.arbitrary()?;
    let mut list = vec![0; if is_lid4 { 48 } else { 16 }];
    list[1] = usage;
    if is_lid4 {
        (list[0], list[3], list[15], list[16]) = (1, 0x20, u.arbitrary::<u8>()? & 0x03, 0xff);
        (list[23], list[43]) = (id, targets * 32);
    } else {
        (list[0], list[3]) = (id, targets * 32);
    }
    for _ in 0..targets {
        let lun = u.int_in_range(0..=4)?;
        let mut target = [0; 32];
        (target[0], target[4], target[5], target[7]) = (0xe4, 1, 3, 16);
        target[8..24].copy_from_slice(&Identity::of(7, lun).naa);
        let block: u16 = if lun == 1 { 4096 } else { 512 };
        target[30..].copy_from_slice(&block.to_be_bytes());
        list.extend(target);
    }
    let segments_at = list.len();
    for _ in 0..segments {
        list.extend([2, u.arbitrary::<u8>()? & 2, 0, 24]);
        for _ in 0..2 {
            list.extend(u.choose(&[[0, 0], [0, 1], [0, 2], [0xff, 0xff]])?);
        }
        list.extend([0, 0]);
        list.extend((number(u)? as u16).to_be_bytes());
        list.extend(number(u)?.to_be_bytes());
        list.extend(number(u)?.to_be_bytes());
    }
    let (len_at, len_width) = if is_lid4 { (44, 2) } else { (8, 4) };
    put_len(&mut list, len_at, len_width, -(segments_at as isize));
    (cdb[0], cdb[1]) = (0x83, u8::from(is_lid4));
    set_len(cdb, 10, 4, list.len());
    Ok(list)
}

/// The two lengths in front of the range descriptors that follow a part of `fixed_len` bytes.
fn ranges(u: &mut Unstructured, mut list: Vec<u8>) -> Result<Vec<u8>> {
    let fixed_len = list.len();
    for _ in 0..u.int_in_range(0..=4)? {
        range(u, &mut list)?;
    }
    put_len(&mut list, 0, 2, -2);
    put_len(&mut list, fixed_len - 2, 2, -(fixed_len as isize));
    Ok(list)
}

fn populate(u: &mut Unstructured, cdb: &mut [u8; 16]) -> Result<Vec<u8>> {
    let mut fixed = vec![0; 16];
    (fixed[2], fixed[7]) = (u.arbitrary::<u8>()? & 0x03, u.arbitrary()?);
    fixed[8..12].copy_from_slice(u.choose(&[
        [0; 4],
        [0, 1, 0, 0],
        [0, 0x80, 0, 0],
        [0, 0x80, 0, 1],
        [0xff, 0xff, 0, 1],
    ])?);
    let list = ranges(u, fixed)?;
    (cdb[0], cdb[1], cdb[9]) = (0x83, 0x10, u.int_in_range(1..=2)?);
    set_len(cdb, 10, 4, list.len());
    Ok(list)
}

fn write_using_token(u: &mut Unstructured, cdb: &mut [u8; 16], token: &[u8]) -> Result<Vec<u8>> {
    let mut fixed = vec![0; 536];
    fixed[2] = u.arbitrary::<u8>()? & 0x07;
    fixed[8..16].copy_from_slice(&number(u)?.to_be_bytes());
    fixed[16..16 + TOKEN_LEN].copy_from_slice(token);
    if u.ratio(1, 6)? {
        // The well-known token of zeros (SBC-4 4.17.4.3).
        fixed[16..16 + TOKEN_LEN].fill(0);
        fixed[16..24].copy_from_slice(&[0xff, 0xff, 0, 1, 0, 0, 1, 0xf8]);
    }
    let list = ranges(u, fixed)?;
    (cdb[0], cdb[1], cdb[9]) = (0x83, 0x11, u.int_in_range(1..=2)?);
    set_len(cdb, 10, 4, list.len());
    Ok(list)
}

fn sanitize(u: &mut Unstructured, cdb: &mut [u8; 16]) -> Result<Vec<u8>> {
    let action = *u.choose(&[1u8, 2, 0x1f, 3])?;
    let mut list = Vec::new();
    if action == 1 {
        let len = *u.choose(&[1u16, 4, 512, 0, 513])?;
        list.extend([u.arbitrary::<u8>()? & 0x9f, 0]);
        list.extend(len.to_be_bytes());
        list.extend(vec![u.arbitrary::<u8>()?; len.into()]);
    }
    (cdb[0], cdb[1]) = (0x48, action | u.arbitrary::<u8>()? & 0xa0);
    set_len(cdb, 7, 2, list.len());
    Ok(list)
}

/// The commands that show what the others did.
fn ask(u: &mut Unstructured, cdb: &mut [u8; 16]) -> Result<Vec<u8>> {
    let id: u8 = u.int_in_range(0..=2)?;
    *cdb = match u.int_in_range(0..=6)? {
        0 => [0x84, *u.choose(&[5, 7])?, 0, 0, 0, id, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0],
        1 => [0x84, *u.choose(&[0, 3, 4])?, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0],
        2 => [0x5e, u.int_in_range(0..=4)?, 0, 0, 0, 0, 0, 4, u.arbitrary()?, 0, 0, 0, 0, 0, 0, 0],
        3 => [0x1a, 0, 0x3f, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        4 => [0x03, id & 1, 0, 0, 252, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        5 => [0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, u.arbitrary()?, 0, 0, 4, 0, 0, 0],
        _ => [0; 16],
    };
    Ok(Vec::new())
}
