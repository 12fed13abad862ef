//! PERSISTENT RESERVE IN (SPC-5 6.16): four views of the state.

use super::state::State;
use crate::error::CommandError;

/// Byte 2 of REPORT CAPABILITIES: CRH, SIP_C and ATP_C are supported, and PTPL_C if the medium stores
/// records.
const CAPABILITIES: u8 = 0x10 | 0x08 | 0x04;
const APTPL_CAPABLE: u8 = 0x01;
/// Byte 3: the type mask is valid, ALLOW COMMANDS is 001b: TEST UNIT READY passes the exclusive types.
const TYPE_MASK_VALID: u8 = 0x80 | 0x10;
/// Bytes 4 and 5: types 1, 3, 5, 6, 7 and 8.
const TYPE_MASK: [u8; 2] = [0xEA, 0x01];

impl State {
    /// Executes PERSISTENT RESERVE IN: the whole response, which the caller truncates to the allocation
    /// length. `durable`: whether reservations can survive a power failure here.
    pub(crate) fn persistent_in(&self, cdb: &[u8; 16], durable: bool) -> Result<Vec<u8>, CommandError> {
        // SPC-2 7.12: an error while RESERVE is in force.
        if self.legacy.is_some() {
            return Err(CommandError::ReservationConflict);
        }
        match cdb[1] & 0x1F {
            0x00 => Ok(self.read_keys()),
            0x01 => Ok(self.read_reservation()),
            0x02 => Ok(self.report_capabilities(durable)),
            0x03 => Ok(self.read_full_status()),
            _ => Err(CommandError::field(1)),
        }
    }

    fn read_keys(&self) -> Vec<u8> {
        let keys = self.registrants.values().flat_map(|key| key.to_be_bytes()).collect();
        self.with_generation(keys)
    }

    fn read_reservation(&self) -> Vec<u8> {
        let mut body = Vec::new();
        if let Some(held) = &self.held {
            // An all registrants reservation has no key.
            let key = if held.kind.all_registrants() {
                0
            } else {
                self.registrants.get(&held.by).copied().unwrap_or(0)
            };
            body.extend(key.to_be_bytes());
            body.extend([0; 5]);
            body.push(held.kind.code());
            body.extend([0; 2]);
        }
        self.with_generation(body)
    }

    fn report_capabilities(&self, durable: bool) -> Vec<u8> {
        let capabilities = CAPABILITIES | if durable { APTPL_CAPABLE } else { 0 };
        let mut out = vec![0, 8, capabilities, TYPE_MASK_VALID | u8::from(self.survives_power_loss)];
        out.extend(TYPE_MASK);
        out.extend([0; 2]);
        out
    }

    fn read_full_status(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (nexus, key) in &self.registrants {
            let kind = self.held.as_ref().filter(|_| self.holds(nexus)).map(|held| held.kind.code());
            body.extend(key.to_be_bytes());
            body.extend([0; 4]);
            body.push(u8::from(kind.is_some()));
            body.push(kind.unwrap_or(0));
            body.extend([0; 4]);
            body.extend(nexus.port.to_be_bytes());
            let id = nexus.initiator.transport_id();
            body.extend((id.len() as u32).to_be_bytes());
            body.extend(id);
        }
        self.with_generation(body)
    }

    /// PRGENERATION and ADDITIONAL LENGTH begin three of the four.
    fn with_generation(&self, body: Vec<u8>) -> Vec<u8> {
        let mut out = self.generation.to_be_bytes().to_vec();
        out.extend((body.len() as u32).to_be_bytes());
        out.extend(body);
        out
    }
}
