//! What is stored of the array. One rule keeps a change that is refused from being made by the next start:
//! from the first save of a change until it is in force, what was in force before is *due*. It is put back
//! when the change is refused; where that fails, too, the status says so, and it is tried again. Until then
//! nothing recorded is erased.

use crate::config::{Config, Made};
use crate::control::ControlError;
use crate::keeper::Keeper;

/// The keeper, and what a start is to find with it.
#[derive(Default)]
pub(super) struct Stored {
    keeper: Option<Box<dyn Keeper>>,
    /// What no start could follow is not stored.
    pub(super) refuses: Option<super::Refuses>,
    /// What is in force. If the first declaration of this process cannot be applied, it remains stored.
    kept: Option<(Config, Made)>,
    /// Something else may be stored: this is to be.
    due: Option<(Config, Made)>,
    /// Why the last save failed.
    fault: Option<String>,
    /// What is stored stays as it is, whatever is in force meanwhile.
    pinned: bool,
    /// What is stored is a step of a change.
    is_step: bool,
}

impl Stored {
    pub(super) fn new(keeper: Box<dyn Keeper>, kept: Option<(Config, Made)>) -> Stored {
        Stored { keeper: Some(keeper), kept, ..Stored::default() }
    }

    pub(super) fn has_keeper(&self) -> bool {
        self.keeper.is_some()
    }

    pub(super) fn config(&self) -> Option<&Config> {
        self.kept.as_ref().map(|(config, _)| config)
    }

    /// Until [`Stored::unpin`] a start finds what is stored now: steps that only count together are not
    /// stored one by one.
    pub(super) fn pin(&mut self) {
        self.pinned = true;
    }

    /// What is in force is stored again.
    pub(super) fn unpin(&mut self) {
        self.pinned = false;
    }

    /// Stores a change that is not in force yet.
    pub(super) fn store(&mut self, config: &Config, made: &Made) -> Result<(), ControlError> {
        if self.pinned {
            return Ok(());
        }
        if let Some(refuses) = &self.refuses {
            refuses(config)?;
        }
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        if self.due.is_none() && self.kept.as_ref().is_some_and(|(c, m)| c == config && m == made) {
            return Ok(());
        }
        // No declaration was ever in force: if drives may have its labels, the array's identity is kept for
        // the next attempt, which knows them by it.
        let nothing = || (Config { id: config.id, ..Config::empty(&config.target) }, Made::default());
        self.due = Some(self.kept.clone().unwrap_or_else(nothing));
        let saved = match self.is_step {
            true => keeper.replace(config, made),
            false => keeper.keep(config, made),
        };
        self.is_step |= saved.is_ok();
        self.fault = saved.as_ref().err().cloned();
        saved.map_err(|cause| {
            ControlError::at("state")(&format!("cannot save the change, so it was not made: {cause}"))
        })
    }

    /// What was stored last is in force.
    pub(super) fn in_force(&mut self, config: &Config, made: &Made) {
        if self.pinned {
            return;
        }
        (self.kept, self.due) = (Some((config.clone(), made.clone())), None);
        self.is_step = false;
    }

    /// As [`Stored::in_force`], of the record of a change that is being made: it ends with the change.
    pub(super) fn recorded(&mut self, config: &Config, made: &Made) {
        self.in_force(config, made);
        self.is_step = true;
    }

    /// This is in force, whether or not it can be stored: what was done cannot be undone. A line if it is
    /// stored later.
    pub(super) fn in_force_already(&mut self, config: &Config, made: &Made) -> Option<String> {
        if self.keeper.is_none() || self.store(config, made).is_ok() {
            self.in_force(config, made);
            return None;
        }
        let now = (config.clone(), made.clone());
        (self.kept, self.due) = (Some(now.clone()), Some(now));
        // It may have been stored before.
        if self.put_back().is_ok() {
            return None;
        }
        let cause = self.fault.clone().unwrap_or_default();
        Some(format!("array: the state cannot be saved yet, which is tried again: {cause}"))
    }

    /// Nothing is left of the change that is refused: if nothing was in force before, nothing stays stored.
    pub(super) fn undone(&mut self) {
        if let (None, Some(keeper)) = (&self.kept, &mut self.keeper)
            && self.due.is_some()
            && keeper.forget()
        {
            (self.due, self.is_step) = (None, false);
        }
    }

    /// Puts back what was in force before a change that is refused; the error of the change, which says where
    /// that is not possible.
    pub(super) fn refused(&mut self, error: ControlError) -> ControlError {
        let Err(cause) = self.put_back() else { return error };
        also(
            error,
            &format!(
                "what was stored of it cannot be taken back yet ({cause}), which is tried again: a restart before \
                 that makes the change"
            ),
        )
    }

    /// Stores what is due.
    pub(super) fn put_back(&mut self) -> Result<(), String> {
        let (Some(keeper), Some((config, made))) = (&mut self.keeper, &self.due) else { return Ok(()) };
        match keeper.put_back(config, made) {
            Ok(()) => {
                self.due = None;
                self.is_step = false;
                Ok(())
            }
            Err(cause) => {
                self.fault = Some(cause.clone());
                Err(cause)
            }
        }
    }

    /// Stores what is due; after a save that failed, also looks whether the next one would succeed.
    pub(super) fn settle(&mut self) {
        if self.put_back().is_err() || self.fault.is_none() {
            return;
        }
        if let (Some(keeper), Some((config, made))) = (&mut self.keeper, &self.kept) {
            self.fault = keeper.may_keep(config, made).err();
        }
    }

    /// Why the state cannot be saved, and whether something else may be stored than what is in force.
    pub(super) fn fault(&self) -> Option<(String, bool)> {
        self.fault.clone().map(|cause| (cause, self.due.is_some()))
    }
}

/// An error, and what else is to be said.
pub(super) fn also(error: ControlError, more: &str) -> ControlError {
    match error {
        ControlError::Failed { place, cause, why } => {
            ControlError::Failed { place, cause: format!("{cause}; {more}"), why }
        }
        other => other,
    }
}
