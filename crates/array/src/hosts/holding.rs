//! Commands that wait while a pool moves between controllers.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use scsi::Lun;

use crate::controller::{Controller, Index, Seen, Slices};
use crate::mailbox::Message;

/// Holds the commands on these volumes, and on no others, in all views of this controller.
pub(crate) async fn hold(controller: &Rc<Controller>, volumes: Arc<BTreeSet<String>>) {
    let mut slices = Slices::new(&controller.world);
    let config = controller.config();
    let index = Index::of(&config, &mut slices).await;
    controller.state.borrow_mut().held = volumes.clone();
    let all: Vec<Rc<Seen>> = controller.state().nexuses.iter().cloned().collect();
    for seen in &all {
        let mut luns = BTreeSet::new();
        let mapped = seen.host_in(&index).map(|host| &host.luns);
        for (lun, volume) in mapped.into_iter().flatten() {
            slices.step(1).await;
            if volumes.contains(volume) {
                luns.insert(Lun(*lun));
            }
        }
        seen.view.hold(luns);
    }
    index.let_go(&mut slices).await;
}

/// The move is over: `owner` learns of the nexuses at the ports of this controller, so that it ends what they
/// leave behind when they end.
pub(crate) async fn announce(controller: &Rc<Controller>, owner: usize) {
    let Some(owner) = controller.others().find(|other| other.index == owner) else { return };
    let all: Vec<Rc<Seen>> = controller.state().nexuses.iter().filter(|seen| seen.local).cloned().collect();
    for seen in all.iter().filter(|seen| seen.view.is_holding()) {
        // One that has ended meanwhile is told to have ended already.
        if !seen.view.has_ended() {
            let _ = owner.send(Message::Open { nexus: seen.nexus.clone() }).await;
        }
    }
}
