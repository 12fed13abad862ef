//! A way to a server that can be cut.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "sockets of the real world")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::spawn;

#[derive(Default)]
struct State {
    is_cut: bool,
    is_silent: bool,
    streams: Vec<TcpStream>,
}

/// Its thread ends with the process.
pub(super) struct Proxy {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    pub(super) fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        spawn(move || {
            for near in listener.incoming().flatten() {
                let mut state = shared.lock().expect("a state");
                if state.is_cut {
                    continue;
                }
                if state.is_silent {
                    // Who connects hears nothing.
                    state.streams.push(near);
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().expect("a stream"), to.try_clone().expect("a stream"));
                    let shared = shared.clone();
                    spawn(move || copy(from, to, &shared));
                }
                state.streams.extend([near, far]);
            }
        });
        Proxy { port, state }
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Carries nothing any more, and ends no connection, as a network that is cut; mended, it ends those that
    /// were silent.
    pub(super) fn silence(&self, is_silent: bool) {
        let mut state = self.state.lock().expect("a state");
        state.is_silent = is_silent;
        if !is_silent {
            for stream in state.streams.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Ends all connections, and refuses new ones until it is mended.
    pub(super) fn cut(&self, is_cut: bool) {
        let mut state = self.state.lock().expect("a state");
        state.is_cut = is_cut;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, state: &Mutex<State>) {
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if state.lock().expect("a state").is_silent {
            // Lost on its way.
            continue;
        }
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
