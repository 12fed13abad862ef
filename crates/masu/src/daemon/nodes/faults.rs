//! Why an owner may be about to lose the array.

use cluster::OWN_TIME;

/// Faults of an owner in the log, where its end would have no reason otherwise: a standby says them by
/// itself.
#[derive(Default)]
pub(super) struct OwnerFaults {
    said: Option<String>,
}

impl OwnerFaults {
    pub(super) fn say(&mut self, fault: Option<&str>) {
        match fault {
            Some(fault) if self.said.as_deref() != Some(fault) => {
                let time = OWN_TIME.as_secs();
                tracing::warn!(
                    "{fault}; this node serves the array for at most {time} s after its last renewal, and then ends"
                );
            }
            None if self.said.is_some() => tracing::info!("the registry answers again: this node serves on"),
            _ => {}
        }
        self.said = fault.map(str::to_owned);
    }
}
