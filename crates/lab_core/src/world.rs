//! In which world something is verified.

use serde::{Deserialize, Serialize};

/// Where something was verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum World {
    /// Modelled hardware in virtual time.
    #[default]
    Model,
    /// Real time.
    Real,
}

impl World {
    /// As files have it.
    pub fn name(self) -> &'static str {
        match self {
            World::Model => "model",
            World::Real => "real",
        }
    }
}
