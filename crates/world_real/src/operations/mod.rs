//! Operations in flight: what each owns until the kernel is done with it, and what its result means. Nothing
//! here submits.

pub(crate) mod connection;
pub(crate) mod drive;
pub(crate) mod transfer;

use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{CancelBuilder, Fd};

use self::connection::{AcceptOp, ConnectOp};
use self::drive::DriveOp;
use self::transfer::{RecvOp, SendOp};
use crate::wake::Mailbox;

/// What the kernel works on. Each owns the memory and the descriptor that its entry points to.
pub(crate) enum Op {
    Drive(DriveOp),
    Recv(RecvOp),
    Send(SendOp),
    Accept(AcceptOp),
    Connect(ConnectOp),
    Bell(BellOp),
    /// Asks for the end of everything else, when the world ends.
    CancelAll,
}

impl Op {
    /// The entry for the ring. What it points to lives in the operation's heap memory, not in the operation,
    /// which moves.
    pub(crate) fn entry(&mut self) -> Entry {
        match self {
            Op::Drive(op) => op.entry(),
            Op::Recv(op) => op.entry(),
            Op::Send(op) => op.entry(),
            Op::Accept(op) => op.entry(),
            Op::Connect(op) => op.entry(),
            Op::Bell(op) => op.entry(),
            Op::CancelAll => opcode::AsyncCancel2::new(CancelBuilder::any()).build(),
        }
    }

    /// Takes the kernel's result; gives an operation back when there is more to do.
    pub(crate) fn complete(self, result: i32) -> Option<Op> {
        match self {
            Op::Drive(op) => op.complete(result).map(Op::Drive),
            Op::Recv(op) => op.complete(result).map(Op::Recv),
            Op::Send(op) => op.complete(result).map(Op::Send),
            Op::Accept(op) => op.complete(result).map(Op::Accept),
            Op::Connect(op) => op.complete(result).map(Op::Connect),
            Op::Bell(op) => Some(Op::Bell(op)),
            Op::CancelAll => None,
        }
    }
}

/// The wait for wakes of other threads: a read of the mailbox's event counter, always in flight.
pub(crate) struct BellOp {
    mailbox: Arc<Mailbox>,
    count: Box<[u8; 8]>,
}

impl BellOp {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> BellOp {
        BellOp { mailbox, count: Box::new([0; 8]) }
    }

    fn entry(&mut self) -> Entry {
        opcode::Read::new(Fd(self.mailbox.bell().as_raw_fd()), self.count.as_mut_ptr(), 8).build()
    }
}
