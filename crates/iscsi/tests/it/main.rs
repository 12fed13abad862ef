//! Target and initiator against each other, and against peers that misbehave; in virtual time where nothing
//! else is said.

mod allocation;
mod crowd;
mod data;
mod limits;
mod login;
mod manage;
mod overtaken;
mod ram;
mod raw;
mod rig;
mod sins;
mod tenants;
mod violations;
