//! How the laboratory's hosts log in.

use anyhow::{Result, bail};
use iscsi::initiator::{Options, Url};

/// The hosts' iSCSI name.
pub const INITIATOR: &str = "iqn.2026-11.net.masu.lab:host";

/// How to log in where a URL points.
pub fn login_of(url: &Url) -> Result<Options> {
    use std::net::ToSocketAddrs;
    let found = url.address().or_else(|| (url.host.as_str(), url.port).to_socket_addrs().ok()?.next());
    let Some(address) = found else { bail!("{url}: unknown host") };
    let mut login = Options::new(address, INITIATOR, &url.target, 0);
    login.chap = url.chap.clone();
    login.target_chap = url.target_chap.clone();
    login.offer.header_digest = digests(url.header_digest);
    login.offer.data_digest = digests(url.data_digest);
    Ok(login)
}

fn digests(wanted: bool) -> iscsi::Digests {
    if wanted { iscsi::Digests::Required } else { iscsi::Digests::Never }
}
