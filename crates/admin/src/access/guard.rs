//! What stands before the routes: who asks, how often, and whether the role is enough.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use array::{Event, EventSender};
use axum::extract::connect_info::ConnectInfo;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::limits::{Buckets, Rate};
use super::roles::{Role, of_path};
use super::tokens::{CreatedToken, Found, ShownToken, Token, TokenError, Tokens};
use super::told::Told;
use crate::api::problem::Problem;
use crate::carried;
use crate::events::now_ms;
use crate::served::{Key, Peer, Served, Who};
use crate::store::Store;

/// What load balancers ask, without a token: it says nothing of the array.
pub(crate) const PUBLIC: [&str; 2] = ["/healthz", "/readyz"];
/// Wrong tokens of one source.
const WRONG: Rate = Rate { burst: 20, every: Duration::from_secs(3) };
/// Sources of wrong tokens that are told apart.
const SOURCES_MAX: usize = 4096;
/// Requests of one token.
const REQUESTS: Rate = Rate { burst: 400, every: Duration::from_millis(5) };
/// The name of the token that the daemon was given, in limits. No named token is called so.
const GIVEN: &str = "--api-token";

/// Who may do what.
pub(crate) struct Access {
    tokens: RwLock<Tokens>,
    /// One change of the tokens after the other: each is kept before it holds.
    store: tokio::sync::Mutex<Store>,
    counts: Mutex<Counts>,
    events: EventSender,
}

/// How often who asked.
struct Counts {
    wrong: Buckets<String>,
    requests: Buckets<String>,
    used_ms: BTreeMap<String, u64>,
    told: Told,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    NoToken,
    WrongToken,
    Expired(String),
    /// Too many wrong tokens: the next one is looked at after this time.
    TooManyWrong(Duration),
    /// Too many requests.
    TooMany(Duration),
}

impl Access {
    pub(crate) fn new(tokens: Tokens, store: Store, events: EventSender) -> Access {
        let counts = Counts {
            wrong: Buckets::new(WRONG, SOURCES_MAX),
            requests: Buckets::new(REQUESTS, SOURCES_MAX),
            used_ms: BTreeMap::new(),
            told: Told::default(),
        };
        Access {
            tokens: RwLock::new(tokens),
            store: tokio::sync::Mutex::new(store),
            counts: Mutex::new(counts),
            events,
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tokens(&self) -> Tokens {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who it is that sends this `Authorization`.
    fn who(
        &self,
        authorization: Option<&str>,
        peer: &Peer,
        (now, now_ms): (Instant, u64),
    ) -> Result<Who, Refusal> {
        if let Peer::Owner { uid } = peer {
            return Ok(Who {
                name: format!("user {uid} of this machine"),
                role: Role::Admin,
                key: Key::Owner,
            });
        }
        let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let found = token.map(|token| tokens.find(token, now_ms));
        let mut counts = self.counts();
        let source = peer.source();
        let (key, name, role, by) = match found {
            None if authorization.is_none() => return Err(Refusal::NoToken),
            Some(Found::Expired(token)) => return Err(Refusal::Expired(token.name.clone())),
            // A person's choice can be guessed: after too many guesses it is not looked at.
            Some(Found::Given) => match counts.wrong.wait(&source, now) {
                Some(left) => return Err(Refusal::TooManyWrong(left)),
                None => (GIVEN.to_owned(), Key::Given.source(), Role::Admin, Key::Given),
            },
            Some(Found::Named(token)) => {
                let by = Key::Named { name: token.name.clone(), created_ms: token.created_ms };
                (token.name.clone(), by.source(), token.role, by)
            }
            None | Some(Found::Unknown) => {
                return Err(match counts.wrong.take(&source, now) {
                    Ok(()) => Refusal::WrongToken,
                    Err(left) => Refusal::TooManyWrong(left),
                });
            }
        };
        counts.requests.take(&key, now).map_err(Refusal::TooMany)?;
        counts.used_ms.insert(key, now_ms);
        Ok(Who { name: format!("{name}, from {peer}"), role, key: by })
    }

    /// Whether what let somebody in still does: what runs for long asks again.
    pub(crate) fn holds(&self, key: &Key, now_ms: u64) -> bool {
        let Key::Named { name, created_ms } = key else { return true };
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let is_it = |token: &&Token| token.name == *name && token.created_ms == *created_ms;
        tokens.all().iter().find(is_it).is_some_and(|token| !token.is_expired(now_ms))
    }

    /// Tells of a refusal, unless one of the same source was told shortly before.
    fn tell(&self, source: &str, text: String) {
        let Some(untold) = self.counts().told.add(source, Instant::now()) else { return };
        let more = match untold {
            0 => String::new(),
            _ => format!("; {untold} more refusals since the last event"),
        };
        self.events.tell(Event::warning("array", text + &more));
    }

    /// Whether the role is enough.
    ///
    /// # Errors
    /// It is not; that is told.
    pub(crate) fn require(&self, who: &Who, needed: Role, what: &str) -> Result<(), Problem> {
        if who.role >= needed {
            return Ok(());
        }
        let (has, needs) = (who.role.name(), needed.name());
        self.tell(&who.name, format!("the API refused {what} to {}: the role is {has}", who.name));
        let detail = format!("{what} needs the role {needs}, and this token has the role {has}");
        Err(Problem::new(StatusCode::FORBIDDEN, "role", detail))
    }

    /// The tokens, by name.
    pub(crate) fn shown(&self, now_ms: u64) -> Vec<ShownToken> {
        let counts = self.counts();
        let tokens = self.tokens();
        let shown = tokens.all().iter().map(|token| ShownToken {
            name: token.name.clone(),
            role: token.role,
            created_ms: token.created_ms,
            expires_ms: token.expires_ms,
            last_used_ms: counts.used_ms.get(&token.name).copied(),
            state: if token.is_expired(now_ms) { "expired" } else { "valid" }.into(),
        });
        let mut all: Vec<ShownToken> = shown.collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// A new token. It holds when it is kept.
    ///
    /// # Errors
    /// Its name or lifetime is refused, or it cannot be kept.
    pub(crate) async fn create(
        &self,
        (name, role): (&str, Role),
        life_s: Option<u64>,
    ) -> Result<CreatedToken, TokenError> {
        let store = self.store.lock().await;
        let mut next = self.tokens();
        let secret = crate::random().map_err(TokenError::Random)?;
        let made = next.create((name, role), (life_s, now_ms()), secret)?;
        self.replace(next, &store)?;
        Ok(made)
    }

    /// A token is refused from now on.
    ///
    /// # Errors
    /// There is none of this name, or the others cannot be kept without it.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), TokenError> {
        let store = self.store.lock().await;
        let mut next = self.tokens();
        next.delete(name)?;
        self.replace(next, &store)?;
        self.counts().used_ms.remove(name);
        Ok(())
    }

    fn replace(&self, next: Tokens, store: &Store) -> Result<(), TokenError> {
        next.keep(store)?;
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// Tells what somebody did with tokens.
    pub(crate) fn tell_change(&self, text: String, who: &Who) {
        self.events.tell(Event::warning("array", text).by(&who.name));
    }
}

impl Refusal {
    /// For an event.
    fn text(&self) -> String {
        match self {
            Refusal::NoToken => "no token".into(),
            Refusal::WrongToken => "a wrong token".into(),
            Refusal::Expired(name) => format!("token {name:?} has expired"),
            Refusal::TooManyWrong(_) => "too many wrong tokens".into(),
            Refusal::TooMany(_) => "too many requests".into(),
        }
    }

    fn response(&self) -> Response {
        let detail = match self {
            Refusal::NoToken | Refusal::WrongToken => {
                "the token is missing or wrong (Authorization: Bearer TOKEN)".into()
            }
            Refusal::Expired(name) => format!("token {name:?} has expired: ask an admin for another one"),
            Refusal::TooManyWrong(left) => {
                format!("too many wrong tokens from this address: try again in {} s", seconds(*left))
            }
            Refusal::TooMany(left) => {
                format!("too many requests with this token: try again in {} s", seconds(*left))
            }
        };
        let (status, code) = match self {
            Refusal::TooManyWrong(_) | Refusal::TooMany(_) => (StatusCode::TOO_MANY_REQUESTS, "too_many"),
            _ => (StatusCode::UNAUTHORIZED, "token"),
        };
        let mut response = Problem::new(status, code, detail).into_response();
        let headers = response.headers_mut();
        match self {
            Refusal::TooManyWrong(left) | Refusal::TooMany(left) => {
                headers.insert(header::RETRY_AFTER, seconds(*left).into());
            }
            _ => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
        }
        response
    }
}

/// Whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)
}

/// Lets a request through to its route with who asks, or refuses it.
pub(crate) async fn admit(
    State(served): State<Arc<Served>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    if PUBLIC.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let access = &served.access;
    let given = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let who = match access.who(given, &peer, (Instant::now(), now_ms())) {
        // Who may do everything here may say for whom.
        Ok(who) => match (&peer, carried::user(request.headers())) {
            (Peer::Owner { .. }, Some(user)) => Who { name: user.into(), ..who },
            _ => who,
        },
        Err(refusal) => {
            let text = format!("the API refused a request from {peer}: {}", refusal.text());
            access.tell(&peer.source(), text);
            return refusal.response();
        }
    };
    // Without a route there is nothing to protect: that a path is unknown is said to whoever has a token.
    if let Some(path) = request.extensions().get::<MatchedPath>() {
        let (method, path) = (request.method(), path.as_str());
        if let Err(refused) = access.require(&who, of_path(method, path), &format!("{method} {path}")) {
            return refused.into_response();
        }
    }
    request.extensions_mut().insert(who);
    if request.method().is_safe() {
        return next.run(request).await;
    }
    to_its_end(next.run(request)).await
}

/// The answer to a change, which is made whole also when nobody waits for the answer any more: a connection
/// that ends drops what answers it, and half a change would leave volumes held, and what is stored different
/// from what is in force.
async fn to_its_end(change: impl Future<Output = Response> + Send + 'static) -> Response {
    match tokio::spawn(change).await {
        Ok(response) => response,
        Err(error) => Problem::internal(error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_is_made_whole_when_the_connection_ends() {
        let (begin, begun) = tokio::sync::oneshot::channel();
        let (tell, told) = tokio::sync::oneshot::channel();
        let change = async move {
            begin.send(()).expect("it is awaited");
            tokio::time::sleep(Duration::from_millis(20)).await;
            tell.send("made").expect("it is awaited");
            StatusCode::OK.into_response()
        };
        let connection = tokio::spawn(to_its_end(change));
        begun.await.expect("it has begun");
        connection.abort();
        assert_eq!(told.await, Ok("made"));
    }

    #[tokio::test]
    async fn what_a_token_began_ends_with_it() {
        let bench = bench(Role::Viewer, Some(60));
        let key = bench.ask(Some(&bench.token), 1).expect("it holds").key;
        assert!(bench.access.holds(&key, 1) && !bench.access.holds(&key, 60_001), "until it expires");
        bench.access.delete("t").await.expect("deleted");
        assert!(!bench.access.holds(&key, 1));
        bench.access.create(("t", Role::Viewer), None).await.expect("another one of this name");
        assert!(!bench.access.holds(&key, 1));
        assert!(bench.access.holds(&Key::Given, 1));
    }

    struct Bench {
        access: Access,
        token: String,
        now: Instant,
        _dir: tempfile::TempDir,
    }

    fn bench(role: Role, life_s: Option<u64>) -> Bench {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        let mut tokens = Tokens::open(&store, Some("sixteen-characters")).expect("tokens");
        let made = tokens.create(("t", role), (life_s, 0), [3; 32]).expect("made");
        let (events, _) = array::event_channel();
        Bench {
            access: Access::new(tokens, store, events),
            token: format!("Bearer {}", made.token),
            now: Instant::now(),
            _dir: dir,
        }
    }

    fn peer(last: u8) -> Peer {
        Peer::Address([10, 0, 0, last].into())
    }

    impl Bench {
        fn ask(&self, authorization: Option<&str>, from: u8) -> Result<Who, Refusal> {
            self.access.who(authorization, &peer(from), (self.now, 1_000))
        }
    }

    #[test]
    fn a_token_has_its_role_and_its_name_in_events() {
        let bench = bench(Role::Viewer, Some(2));
        let who = bench.ask(Some(&bench.token), 1).expect("admitted");
        assert_eq!((who.name.as_str(), who.role), ("token \"t\", from 10.0.0.1", Role::Viewer));
        assert!(bench.access.require(&who, Role::Viewer, "GET /").is_ok());
        let refused = bench.access.require(&who, Role::Operator, "POST /v1/volumes").expect_err("refused");
        assert_eq!((refused.status, &*refused.code), (403, "role"));
        assert!(refused.detail.contains("needs the role operator"), "{}", refused.detail);
        let late = bench.access.who(Some(&bench.token), &peer(1), (bench.now, 2_000));
        assert_eq!(late.err(), Some(Refusal::Expired("t".into())));
        assert_eq!(bench.access.shown(2_000)[0].last_used_ms, Some(1_000));
        assert_eq!(bench.access.shown(2_000)[0].state, "expired");
    }

    #[test]
    fn only_the_owner_of_the_socket_needs_no_token() {
        let bench = bench(Role::Viewer, None);
        let ask = |peer| bench.access.who(None, &peer, (bench.now, 0));
        assert_eq!(ask(Peer::Owner { uid: 0 }).map(|who| who.role), Ok(Role::Admin));
        assert_eq!(ask(Peer::User { uid: Some(1000) }).err(), Some(Refusal::NoToken));
        assert_eq!(ask(peer(1)).err(), Some(Refusal::NoToken));
    }

    #[test]
    fn guesses_of_an_address_end_and_named_tokens_of_it_go_on() {
        let bench = bench(Role::Operator, None);
        for number in 0..WRONG.burst {
            let wrong = format!("Bearer guess-{number}");
            assert_eq!(bench.ask(Some(&wrong), 1).err(), Some(Refusal::WrongToken));
        }
        assert!(matches!(bench.ask(Some("Bearer x"), 1), Err(Refusal::TooManyWrong(_))));
        // The right one is not told from a wrong one any more, but for who has not guessed.
        let given = Some("Bearer sixteen-characters");
        assert!(matches!(bench.ask(given, 1), Err(Refusal::TooManyWrong(_))));
        assert!(bench.ask(given, 2).is_ok() && bench.ask(Some(&bench.token), 1).is_ok());
        assert!(matches!(bench.ask(Some("sixteen-characters"), 3), Err(Refusal::WrongToken)));
    }

    #[test]
    fn a_token_asks_so_often_and_is_told_when_again() {
        let bench = bench(Role::Viewer, None);
        let admitted = (0..1000).filter(|_| bench.ask(Some(&bench.token), 1).is_ok()).count();
        assert_eq!(admitted, REQUESTS.burst as usize);
        let refused = bench.ask(Some(&bench.token), 2).expect_err("from wherever").response();
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        assert!(bench.ask(Some("Bearer sixteen-characters"), 1).is_ok(), "each token has a limit of its own");
    }
}
