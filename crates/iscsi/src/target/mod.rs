//! The target side.

mod seam;

pub use seam::{Chap, InitiatorPort, LoginRefusal, Secret, Target};
