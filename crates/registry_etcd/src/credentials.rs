//! What each connection proves itself with. The files are read again for each: a password, a certificate or a
//! key that an operator has replaced is used without a restart, which would cost an owner the array.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Error, Identity};

use crate::{Access, Login};

/// The access as it is now, and what of it has worked.
pub(crate) struct Credentials {
    has_tls: bool,
    held: Mutex<Held>,
}

struct Held {
    /// As it was read last.
    access: Access,
    /// The login that etcd took last: while a password is being changed, the file may be ahead of etcd.
    taken: Option<Login>,
}

impl Credentials {
    pub(crate) fn new(access: Access, has_tls: bool) -> Credentials {
        Credentials { has_tls, held: Mutex::new(Held { access, taken: None }) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the files have now, on a thread that may wait for them. Files that cannot be used at this moment
    /// are about to be replaced, or were damaged: then, what was read before, and what is wrong with them.
    pub(crate) async fn read(&self) -> (Access, Option<String>) {
        let last = self.held().access.clone();
        if last.files == crate::AccessFiles::default() {
            return (last, None);
        }
        let again = last.clone();
        match tokio::task::spawn_blocking(move || again.again()).await {
            Ok(Ok(access)) => {
                self.held().access = access.clone();
                (access, None)
            }
            Ok(Err(error)) => (last, Some(error.to_string())),
            // The runtime ends.
            Err(error) => (last, Some(error.to_string())),
        }
    }

    /// The logins to try, in this order.
    pub(crate) fn logins(&self, access: &Access) -> Vec<Login> {
        let taken = self.held().taken.clone().filter(|taken| access.login.as_ref() != Some(taken));
        // Without a user in the access there was none before.
        access.login.iter().cloned().chain(taken).collect()
    }

    pub(crate) fn took(&self, login: Login) {
        self.held().taken = Some(login);
    }

    /// Why a member may close a new connection without a word.
    pub(crate) fn why_closed(&self, access: &Access) -> &'static str {
        match (self.has_tls, &access.identity) {
            (false, _) => "it may ask for TLS: use etcds://",
            (true, None) => "it may ask for a certificate of this client (--registry-cert, --registry-key)",
            (true, Some(_)) => {
                "it may refuse the certificate of this client, which must be for clients (clientAuth), not expired, and of \
                 an authority that the member trusts; the log of etcd says it"
            }
        }
    }

    /// The way to a member, with TLS if the address asks for it.
    ///
    /// # Errors
    /// A certificate or key that is none.
    pub(crate) fn endpoint(
        &self,
        access: &Access,
        member: &str,
        endpoint: &Endpoint,
    ) -> Result<Endpoint, Error> {
        match self.has_tls {
            true => endpoint.clone().tls_config(tls(access, member)),
            false => Ok(endpoint.clone()),
        }
    }
}

fn tls(access: &Access, member: &str) -> ClientTlsConfig {
    // The name in its certificate; an IPv6 address stands there without brackets.
    let host = member.rsplit_once(':').map_or(member, |(host, _)| host);
    let mut config = ClientTlsConfig::new().domain_name(host.trim_matches(['[', ']']));
    if let Some(authority) = &access.authority {
        config = config.ca_certificate(Certificate::from_pem(authority));
    }
    if let Some((certificate, key)) = &access.identity {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    config
}
