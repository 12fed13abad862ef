//! Controllers that begin anew while the array goes on: at another node, or here when that node is gone.

use super::Array;
use crate::control::{Control, ControlError, Reply};

impl Array {
    /// Has a controller that has just begun open what the declaration in force assigns to it, and shows it to
    /// hosts. Returns a line for each object that it opened or could not open; what is missing is in the
    /// status, and tried again.
    ///
    /// # Errors
    /// The controller has stopped again.
    pub async fn bring_up(&mut self, index: usize) -> Result<Vec<String>, ControlError> {
        for other in self.controllers.iter().filter(|other| other.index != index) {
            other.ask(Control::Forget(index)).await?;
        }
        let mut made = self.made.clone();
        let (config, before) = (self.sent.config(&self.config), self.sent.made(&made));
        let controller = &self.controllers[index];
        let prepare = Control::Prepare { config: config.clone(), made: before, arrival: None };
        let mut done = Vec::new();
        if let Reply::Prepared(lines, ids, not_open) = controller.ask(prepare).await? {
            done.extend(lines);
            made.finish(&self.config, &ids, &not_open);
        }
        if made != self.made {
            self.keep_made(made)?;
        }
        if let Reply::Done(lines) = self.controllers[index].ask(Control::Commit(config)).await? {
            done.extend(lines);
        }
        Ok(done)
    }
}
