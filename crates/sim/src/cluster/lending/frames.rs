//! What an owner and a node that runs controllers for it say to each other: frames of a length, a kind and a
//! body. What the processes of `masu` send as text, a declaration and portals, is here a number: where it
//! lies in the bed of the history.

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The number of the node.
    Hello(u64),
    Message(Vec<u8>),
    AskTerm(u64),
    Term {
        number: u64,
        granted_ms: u64,
    },
    Assign {
        controllers: Vec<usize>,
        config: u64,
        epoch: u64,
        owner: u64,
    },
    Paths(u64),
    Leaves,
    Ended,
    /// The node has the drives of its controllers to itself, and runs them from now on.
    Begins,
    /// It cannot claim a drive: it runs none of them.
    CannotBegin,
}

/// Of a length and a kind.
pub(super) const HEAD_LEN: usize = 5;

fn numbers(body: &[u8]) -> Vec<u64> {
    body.chunks_exact(8).map(|n| u64::from_le_bytes(n.try_into().expect("8 bytes"))).collect()
}

impl Frame {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, numbers): (u8, Vec<u64>) = match self {
            Frame::Message(bytes) => return framed(0, bytes),
            Frame::Hello(number) => (1, vec![*number]),
            Frame::AskTerm(number) => (2, vec![*number]),
            Frame::Term { number, granted_ms } => (3, vec![*number, *granted_ms]),
            Frame::Assign { controllers, config, epoch, owner } => {
                let controllers = controllers.iter().map(|index| *index as u64);
                (4, [*config, *epoch, *owner].into_iter().chain(controllers).collect())
            }
            Frame::Paths(at) => (5, vec![*at]),
            Frame::Leaves => (6, vec![]),
            Frame::Ended => (7, vec![]),
            Frame::Begins => (8, vec![]),
            Frame::CannotBegin => (9, vec![]),
        };
        let body: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        framed(kind, &body)
    }

    pub(super) fn decode(kind: u8, body: &[u8]) -> Frame {
        let numbers = if kind == 0 { vec![] } else { numbers(body) };
        match (kind, numbers.as_slice()) {
            (0, _) => Frame::Message(body.to_vec()),
            (1, [number]) => Frame::Hello(*number),
            (2, [number]) => Frame::AskTerm(*number),
            (3, [number, granted_ms]) => Frame::Term { number: *number, granted_ms: *granted_ms },
            (4, [config, epoch, owner, controllers @ ..]) => Frame::Assign {
                controllers: controllers.iter().map(|index| *index as usize).collect(),
                config: *config,
                epoch: *epoch,
                owner: *owner,
            },
            (5, [at]) => Frame::Paths(*at),
            (6, []) => Frame::Leaves,
            (7, []) => Frame::Ended,
            (8, []) => Frame::Begins,
            (9, []) => Frame::CannotBegin,
            _ => panic!("a frame of kind {kind} with {} bytes", body.len()),
        }
    }
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..], &[kind], body].concat()
}
