//! Messages between two sides, without sockets: frames are passed on one by one.

mod answers;
mod asks;
mod frames;
mod link;
mod orders;
mod samples;
mod standing;
