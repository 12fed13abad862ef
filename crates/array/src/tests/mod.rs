//! An array as its operator and its hosts meet it, on modelled disks: drives die, pools grow, shrink and
//! travel, while a host writes over iSCSI; what the host wrote is held against what it reads.

mod caching;
mod caching_online;
mod copying_across;
mod deleting;
mod earlier_forms;
mod earlier_life;
mod events;
mod handing_over;
mod hanging;
mod hosts;
mod images;
mod keeping_whole;
mod later;
mod lost_journal;
mod many_volumes;
mod moving;
mod overtaken;
mod paths;
mod places;
mod placing;
mod qos;
mod refusing;
mod reservations;
mod resyncing;
mod rig;
mod same_names;
mod spares;
mod spread_policies;
mod starting;
mod tenant;
mod thresholds;
mod tokens_across;
mod traces;
mod travelling;
mod two_controllers;
