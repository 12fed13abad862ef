//! First inputs that are made by code: `SEEDS_TO=FOLDER target` writes them there and ends.

use std::path::Path;

/// Writes the seeds when somebody asks for them.
pub fn write(seeds: fn() -> Vec<Vec<u8>>) {
    let Ok(folder) = std::env::var("SEEDS_TO") else { return };
    for (i, seed) in seeds().iter().enumerate() {
        let path = Path::new(&folder).join(format!("made-{i:03}"));
        std::fs::write(&path, seed).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    std::process::exit(0);
}

/// Connections of one PDU of each kind, with and without digests.
pub fn streams() -> Vec<Vec<u8>> {
    let opcodes = (0..=6).chain([0x10]).chain(0x20..=0x26).chain([0x31, 0x32, 0x3f]);
    let plain = opcodes.map(|opcode: u8| pdu(&[0], opcode, &[], b"hello\0\0\0"));
    // An extended CDB (RFC 7143 11.2.2.3), and a PDU whose header digest is there.
    let ahs = pdu(&[0], 1, &[0, 5, 1, 0, 1, 2, 3, 4], &[]);
    let digest = pdu(&[1], 0, &[], &[]).into_iter().chain(NOP_OUT_DIGEST).collect();
    plain.chain([ahs, digest]).collect()
}

/// CRC32C of the NOP-Out of [`pdu`] without data.
const NOP_OUT_DIGEST: [u8; 4] = [0; 4];

fn pdu(front: &[u8], opcode: u8, ahs: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bhs = [0u8; 48];
    (bhs[0], bhs[1], bhs[4], bhs[7]) = (opcode | 0x40, 0x80, (ahs.len() / 4) as u8, data.len() as u8);
    bhs[19] = 1;
    [front, &bhs, ahs, data].concat()
}

/// Every command of the table once over a few blocks, and once with every bit that it looks at.
pub fn commands() -> Vec<Vec<u8>> {
    scsi::opcode::TABLE
        .iter()
        .flat_map(|command| [command_over_blocks(command), command_with_all_bits(command)])
        .collect()
}

/// Host 0, LUN 0, data repeated to what the command asks for.
fn input(cdb: [u8; 16]) -> Vec<u8> {
    [&[0x40][..], &cdb, &[4, 1, 2, 3, 4]].concat()
}

fn command_over_blocks(command: &scsi::opcode::Command) -> Vec<u8> {
    let mut cdb = [0; 16];
    cdb[0] = command.opcode;
    cdb[1] = command.service_action.unwrap_or(0);
    // The last byte of the length, where a command of this size has it.
    let at = match (command.cdb_len, command.data_out) {
        (_, scsi::opcode::DataOut::List { at, width }) => usize::from(at + width - 1),
        (6, _) => 4,
        (10, _) => 8,
        (12, _) => 9,
        _ => 13,
    };
    cdb[at] = 8 & command.usage[at];
    input(cdb)
}

fn command_with_all_bits(command: &scsi::opcode::Command) -> Vec<u8> {
    input(command.usage)
}
