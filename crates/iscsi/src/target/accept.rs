//! The life of a connection: accept, login, service, end.

use std::rc::Rc;
use std::time::Duration;

use world::{Batch, Listener, World};

use super::limits::Limits;
use super::link::Link;
use super::login::{Authority, Login, LoginError, Reply};
use super::portal::{Event, Portal};
use super::reader;
use super::seam::{Chap, InitiatorPort, LoginRefusal, Target};
use super::session::{Opened, Session};
use crate::frame::{Framing, set_data_len};
use crate::pdu::{Header, LoginRequest, LoginResponse, opcode};
use crate::receive::Receiver;
use crate::relayed::{self, Front};

/// Pause after a failed accept (no file descriptor free, no memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a target on a listening socket, until [`Portal::stop`] is called and the last session has ended.
///
/// A peer that violates the protocol, exceeds a limit or loses its connection affects its own connection
/// only. CHAP challenges come from the world's random streams: a real world needs an unpredictable seed.
pub async fn serve<T: Target>(
    world: World,
    listener: Listener,
    target: Rc<T>,
    limits: Limits,
    portal: Portal,
) {
    let limits = Rc::new(limits);
    world.spawn(close_when_stopped(listener.clone(), portal.clone()));
    world.spawn(accept_task(world.clone(), listener, target, limits.clone(), portal.clone()));
    portal.watch(&world, &limits).await;
}

async fn close_when_stopped(listener: Listener, portal: Portal) {
    portal.stopped().await;
    listener.close();
}

async fn accept_task<T: Target>(
    world: World,
    listener: Listener,
    target: Rc<T>,
    limits: Rc<Limits>,
    portal: Portal,
) {
    while !portal.is_stopping() {
        match listener.accept().await {
            Ok(stream) => {
                let (target, limits, portal) = (target.clone(), limits.clone(), portal.clone());
                let link = Rc::new(Link::new(stream, target.portal_group(), world.now()));
                let number = portal.admit(link.clone(), &limits);
                world.spawn(connection_task(world.clone(), link, number, target, limits, portal));
            }
            Err(_) if portal.is_stopping() => return,
            Err(_) => world.sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn connection_task<T: Target>(
    world: World,
    link: Rc<Link>,
    number: u64,
    target: Rc<T>,
    limits: Rc<Limits>,
    portal: Portal,
) {
    let mut guest =
        Guest { world, link: link.clone(), target, limits, portal: portal.clone(), batch: Batch::default() };
    match guest.log_in(number).await {
        Ok(Some((session, mut receiver, tsih))) => {
            let error = reader::read(&session, &mut receiver).await;
            link.close(&error.to_string());
            session.end().await;
            portal.give_handle_back(tsih);
            if let Some((initiator, target)) = link.port.get().cloned() {
                let why = link.reason.borrow().clone().unwrap_or_default();
                portal.tell(&Event::Closed { peer: link.peer(), initiator, target, why });
            }
        }
        Ok(None) => login_failed(&link, &portal, Failure::default()),
        Err(failure) => login_failed(&link, &portal, failure),
    }
    link.stream.close();
    portal.remove(number);
}

/// Counts and reports a failed login. A connection that the portal closes for its limits also counts as
/// refused.
fn login_failed(link: &Link, portal: &Portal, failure: Failure) {
    link.counts.borrow_mut().login_failures += 1;
    let limit = link.reason.borrow().clone();
    if failure.initiator.is_empty() && failure.why.is_empty() && limit.is_none() {
        // The peer left without sending anything.
        return;
    }
    portal.tell(&Event::LoginFailed {
        peer: link.peer(),
        initiator: failure.initiator,
        is_discovery: failure.is_discovery,
        is_refused: !portal.is_stopping() && (failure.is_refused || limit.is_some()),
        status: if limit.is_some() { None } else { failure.status },
        why: limit.unwrap_or(failure.why),
    });
}

/// A failed login, for the log.
#[derive(Default)]
struct Failure {
    initiator: String,
    is_discovery: bool,
    /// Whether the portal sent a refusal.
    is_refused: bool,
    /// Class and detail of the response that it sent.
    status: Option<(u8, u8)>,
    why: String,
}

impl Failure {
    fn of(login: Login, is_refused: bool, why: String) -> Failure {
        let Login { initiator, is_discovery, .. } = login;
        Failure { initiator, is_discovery, is_refused, status: None, why }
    }

    /// By a response with this error.
    fn answered(login: Login, error: &LoginError) -> Failure {
        Failure { status: Some(error.status()), ..Failure::of(login, true, error.to_string()) }
    }
}

/// A connection before its session.
struct Guest<T: Target> {
    world: World,
    link: Rc<Link>,
    target: Rc<T>,
    limits: Rc<Limits>,
    portal: Portal,
    batch: Batch,
}

/// The interface of the login machine to the array.
struct Gate<'a, T> {
    target: &'a T,
    portal_group: u16,
}

impl<T: Target> Authority for Gate<'_, T> {
    fn authentication(&self, initiator: &str, target: Option<&str>) -> Result<Option<Chap>, LoginRefusal> {
        self.target.authentication(initiator, target)
    }
    fn portal_group(&self) -> u16 {
        self.portal_group
    }
}

/// A session, the receiver with the bytes behind the login, and the session's handle.
type Entered<T> = (Rc<Session<T>>, Receiver, u16);

impl<T: Target> Guest<T> {
    /// Performs the login. `None`: the connection ended before its first request.
    async fn log_in(&mut self, number: u64) -> Result<Option<Entered<T>>, Failure> {
        let mut receiver = Receiver::new(self.link.stream.clone(), Framing::LOGIN);
        let rng = self.world.random(&format!("iscsi login {number} {:?}", self.world.now()));
        let mut login = Login::new(self.limits.offer, self.limits.text_bytes, rng);
        let mut stat_sn = 1;
        if let Err(why) = self.read_front(&mut receiver).await {
            return Err(Failure::of(login, true, why));
        }
        loop {
            let (header, text) = match next_request(&mut receiver).await {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(None),
                Err(why) => return Err(Failure::of(login, false, why)),
            };
            self.link.has_spoken.set(true);
            let step = match self.check_handle(&header) {
                Ok(()) => login.step(&header, &text, &self.gate()),
                Err(e) => Err(e),
            };
            let entered = match step {
                Ok(reply) if !reply.is_complete => {
                    self.respond(&header, stat_sn, reply, 0).await;
                    stat_sn += 1;
                    continue;
                }
                Ok(reply) => self.enter(&login, &header, stat_sn, reply, receiver).await,
                Err(e) => Err((e, receiver)),
            };
            return match entered {
                Ok(entered) => Ok(Some(entered)),
                Err((e, _receiver)) => {
                    self.refuse(&header, stat_sn, &e).await;
                    Err(Failure::answered(login, &e))
                }
            };
        }
    }

    fn gate(&self) -> Gate<'_, T> {
        Gate { target: &self.target, portal_group: self.link.portal_group.get() }
    }

    /// Learns from which portal another node carries the connection, if one does. A peer that leaves is left
    /// to who reads on.
    async fn read_front(&self, receiver: &mut Receiver) -> Result<(), String> {
        loop {
            match relayed::front(receiver.bytes())? {
                Front::Direct => return Ok(()),
                Front::Partial if receiver.fill(0, usize::MAX).await.is_err() => return Ok(()),
                Front::Partial => {}
                Front::Relayed(relayed, len) if self.target.admits(&relayed) => {
                    receiver.consume(len);
                    self.link.portal_group.set(relayed.portal_group);
                    let _ = self.link.relayed.set(relayed);
                    return Ok(());
                }
                Front::Relayed(..) => {
                    return Err("relayed by a node that does not know this array's key".into());
                }
            }
        }
    }

    /// 6.3.1 and 6.3.4: a handle that is not zero names a session to join, which already has its one
    /// connection.
    fn check_handle(&self, header: &LoginRequest) -> Result<(), LoginError> {
        match header.tsih.get() {
            0 => Ok(()),
            tsih if self.portal.has_handle(tsih) => Err(LoginError::TooManyConnections),
            _ => Err(LoginError::NoSuchSession),
        }
    }

    /// The login is complete: older sessions of the same port end, then this one begins.
    async fn enter(
        &mut self,
        login: &Login,
        header: &LoginRequest,
        stat_sn: u32,
        reply: Reply,
        mut receiver: Receiver,
    ) -> Result<Entered<T>, (LoginError, Receiver)> {
        let port = InitiatorPort { name: login.initiator.clone(), isid: header.isid };
        if !login.is_discovery {
            self.reinstate(&port, login.target.as_deref()).await;
        }
        let refused = |r| LoginError::Refused(r);
        if self.portal.is_stopping() {
            return Err((refused(LoginRefusal::ServiceUnavailable), receiver));
        }
        // Other sessions reached the limit during the login.
        if self.link.is_closing() {
            return Err((refused(LoginRefusal::ServiceUnavailable), receiver));
        }
        if login.is_discovery {
            self.portal.make_room_for_discovery(&self.link, &self.limits);
        } else if !self.portal.has_room(&port.name, login.is_proven, &self.limits) {
            return Err((refused(LoginRefusal::OutOfResources), receiver));
        }
        let nexus = match &login.target {
            None => None,
            Some(name) => match self.target.open(&port, name, self.link.portal_group.get()) {
                Ok(nexus) => Some(nexus),
                Err(refusal) => return Err((refused(refusal), receiver)),
            },
        };
        // From here on the portal counts it as a session; nothing was awaited since the checks.
        self.link.is_proven.set(login.is_proven);
        let _ = self.link.port.set((port.clone(), login.target.clone()));
        if !login.is_discovery {
            self.portal.remember(self.link.peer().ip());
        }
        let tsih = self.portal.take_handle();
        self.link.counts.borrow_mut().logins += 1;
        self.portal.tell(&Event::Opened {
            peer: self.link.peer(),
            initiator: port.clone(),
            target: login.target.clone(),
        });
        self.respond(header, stat_sn, reply, tsih).await;
        let params = login.params();
        receiver.framing = Framing {
            header_digest: params.header_digest,
            data_digest: params.data_digest,
            data_len_max: self.limits.offer.recv_segment_len_max as usize,
        };
        self.link.heard_at.set(self.world.now());
        let session = Session::new(Opened {
            world: self.world.clone(),
            target: self.target.clone(),
            limits: self.limits.clone(),
            portal: self.portal.clone(),
            link: self.link.clone(),
            nexus,
            initiator: port.name,
            target_name: login.target.clone(),
            params,
            stat_sn: stat_sn.wrapping_add(1),
            cmd_sn: header.cmd_sn.get(),
            cid: header.cid.get(),
        });
        Ok((session, receiver, tsih))
    }

    /// 6.3.5: a session of the same initiator port with the same target ends, and its nexus with it, before
    /// the new one opens.
    async fn reinstate(&self, port: &InitiatorPort, target: Option<&str>) {
        while let Some(old) = self.portal.find(port, target, self.link.portal_group.get()) {
            old.close("the initiator logged in again");
            old.ended.wait_for(|| old.has_ended.get().then_some(())).await;
        }
    }

    async fn respond(&mut self, request: &LoginRequest, stat_sn: u32, reply: Reply, tsih: u16) {
        let header =
            LoginResponse { flags: reply.flags, tsih: tsih.into(), ..self.response(request, stat_sn) };
        self.send(header, &reply.text).await;
    }

    async fn refuse(&mut self, request: &LoginRequest, stat_sn: u32, error: &LoginError) {
        let (status_class, status_detail) = error.status();
        let header = LoginResponse { status_class, status_detail, ..self.response(request, stat_sn) };
        self.send(header, &[]).await;
    }

    fn response(&self, request: &LoginRequest, stat_sn: u32) -> LoginResponse {
        let cmd_sn = request.cmd_sn.get();
        LoginResponse {
            opcode: LoginResponse::OPCODE,
            isid: request.isid,
            tsih: request.tsih,
            itt: request.itt,
            stat_sn: stat_sn.into(),
            exp_cmd_sn: cmd_sn.into(),
            max_cmd_sn: cmd_sn.wrapping_add(u32::from(self.limits.window) - 1).into(),
            ..LoginResponse::default()
        }
    }

    async fn send(&mut self, header: LoginResponse, text: &[u8]) {
        let mut bhs = *header.bytes();
        set_data_len(&mut bhs, text.len());
        self.batch.push_head(&bhs);
        self.batch.push_head(text);
        self.batch.push_head(&[0; 3][..Framing::padding(text.len())]);
        // The next receive detects a broken connection.
        self.batch = self.link.stream.send(std::mem::take(&mut self.batch)).await.batch;
    }
}

/// The next login request; `None` if the peer left before the first one.
async fn next_request(receiver: &mut Receiver) -> Result<Option<(LoginRequest, Vec<u8>)>, String> {
    loop {
        let layout = receiver.layout().map_err(|e| format!("malformed PDU: {e}"))?;
        if let Some(layout) = layout.filter(|l| receiver.bytes().len() >= l.total_len) {
            let (pdu, _) = receiver.framing.pdu(receiver.bytes(), layout);
            if pdu.opcode() != opcode::LOGIN_REQUEST {
                return Err(format!("unexpected PDU with opcode {:02x}h during login", pdu.opcode()));
            }
            let request = (*pdu.header::<LoginRequest>(), pdu.data.to_vec());
            receiver.consume(layout.total_len);
            return Ok(Some(request));
        }
        let is_silent = receiver.bytes().is_empty();
        match receiver.fill(layout.map_or(0, |l| l.total_len), usize::MAX).await {
            Ok(()) => {}
            Err(crate::receive::ReceiveError::Closed) if is_silent => return Ok(None),
            Err(e) => return Err(e.to_string()),
        }
    }
}
