//! Connecting to an address.

use std::net::SocketAddr;
use std::rc::Rc;

use world::io::Completions;
use world::{Io, NetError, StreamOptions};

use crate::operations::Op;
use crate::operations::connection::{ConnectOp, Outcome};
use crate::reactor::Reactor;
use crate::{socket, tcp};

/// Starts to connect.
pub(crate) fn connect(
    reactor: &Rc<Reactor>,
    cells: &Completions<Outcome>,
    target: SocketAddr,
    options: StreamOptions,
) -> Io<Outcome> {
    let made = tcp::stream_socket(&target).and_then(|fd| tcp::apply(&fd, options).map(|()| fd));
    let fd = match made {
        Ok(fd) => fd,
        Err(e) => return Io::ready(Err(NetError::Connect { addr: target, cause: e.to_string() })),
    };
    let (io, end) = cells.start();
    let reactor_of_stream = reactor.clone();
    let connected = Box::new(move |fd| socket::stream(reactor_of_stream.clone(), fd));
    reactor.submit(Op::Connect(ConnectOp::new(fd, target, connected, end)));
    io
}
