//! What is stated elsewhere holds: the table of commands in the documentation, the size of a command's
//! future.

use super::*;
use crate::cdb::Cdb;
use crate::host_view::HostView;
use crate::opcode::{self, TABLE, find};

const DOCUMENT: &str = include_str!("../../../../docs/scsi.md");

#[test]
fn every_command_of_the_table_is_in_the_documentation() {
    for command in TABLE {
        let code = match command.service_action {
            Some(action) => format!("| {:02X}h/{action:02X}h |", command.opcode),
            None => format!("| {:02X}h |", command.opcode),
        };
        let row = DOCUMENT.lines().find(|l| l.starts_with(&code));
        let row = row.unwrap_or_else(|| panic!("{} ({code}) is not in docs/scsi.md", command.name));
        assert!(row.contains(command.name), "{row} should name {}", command.name);
    }
    let rows = DOCUMENT.lines().filter(|l| l.starts_with("| ") && l[2..].chars().nth(2) == Some('h')).count();
    assert_eq!(rows, TABLE.len(), "the documentation has a row for each command and no other");
}

#[test]
fn the_table_is_well_formed() {
    let mut seen = std::collections::BTreeSet::new();
    let mut last = None;
    for command in TABLE {
        assert!(seen.insert((command.opcode, command.service_action)), "{} twice", command.name);
        assert!(last <= Some(command.opcode), "{} out of order", command.name);
        last = Some(command.opcode);
        let len = match command.opcode >> 5 {
            0 => 6,
            1 | 2 => 10,
            5 => 12,
            _ => 16,
        };
        assert_eq!(command.cdb_len, len, "{}", command.name);
        let mut cdb = [0; 16];
        cdb[..2].copy_from_slice(&command.usage[..2]);
        let found = find(&Cdb(cdb)).map(|c| c.name);
        assert_eq!(found, Some(command.name));
        assert!(
            opcode::entries(command.opcode)
                .iter()
                .all(|c| c.service_action.is_some() == command.service_action.is_some())
        );
    }
}

/// The future of a command lives in a task's slot for as long as the session lives; this keeps a thousand
/// sessions small. The medium's own future comes on top (this one's is about a hundred bytes).
#[test]
fn the_future_of_a_command_is_small() {
    bench(async |b| {
        let host = b.host(1).await;
        let future = host.execute(Some(Lun(0)), request("28 00 00000000 00 0001 00", &[]));
        let size = std::mem::size_of_val(&future);
        assert!(size < 1536, "{size} bytes");
        println!("the future of a command has {size} bytes");
        future.await;
    });
}
