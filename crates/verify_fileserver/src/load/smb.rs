//! A share by SMB 2 or 3 directly, without the kernel's client: a connection and a session of its own for
//! each worker.

use smb2::{SmbClient, Tree};
use tokio::runtime::Runtime;

use super::share::{Share, ShareError, Sink, TRANSFER_BYTES, Text, path_error};

/// Where the password is looked for when the address has none.
const PASSWORD_VARIABLE: &str = "MASU_SMB_PASSWORD";
/// TCP (IANA).
const PORT: &str = "445";

/// `user:password@host:port/share/folder`.
#[derive(Clone)]
pub(crate) struct SmbAddress {
    user: String,
    password: String,
    host: String,
    share: String,
    /// Below the share; empty, or with a `/` at its end.
    folder: String,
}

/// Without the password.
impl std::fmt::Debug for SmbAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "smb://{}@{}/{}/{}", self.user, self.host, self.share, self.folder)
    }
}

impl SmbAddress {
    /// From what follows `smb://`.
    pub(super) fn parse(rest: &str) -> Result<SmbAddress, ShareError> {
        let wrong =
            || ShareError::Address("is written as smb://user:password@host[:port]/share[/folder]".to_owned());
        let (who, place) = rest.rsplit_once('@').unwrap_or(("guest", rest));
        let (host, path) = place.split_once('/').ok_or_else(wrong)?;
        let (share, folder) = path.split_once('/').unwrap_or((path, ""));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, password.to_owned()),
            None => (who, std::env::var(PASSWORD_VARIABLE).unwrap_or_default()),
        };
        if host.is_empty() || share.is_empty() {
            return Err(wrong());
        }
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:{PORT}") };
        let folder = folder.trim_matches('/');
        let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        Ok(SmbAddress { user: user.into(), password, host, share: share.into(), folder })
    }
}

/// A session.
pub(super) struct Smb {
    runtime: Runtime,
    client: SmbClient,
    tree: Tree,
    folder: String,
    buffer: Vec<u8>,
}

impl Smb {
    pub(super) fn connect(address: &SmbAddress) -> Result<Smb, ShareError> {
        let failed = |cause: String| ShareError::Address(format!("{address:?}: {cause}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| failed(e.to_string()))?;
        let (client, tree) = runtime
            .block_on(async {
                let mut client = smb2::connect(&address.host, &address.user, &address.password).await?;
                let tree = client.connect_share(&address.share).await?;
                Ok((client, tree))
            })
            .map_err(|e: smb2::Error| failed(e.to_string()))?;
        let folder = address.folder.clone();
        Ok(Smb { runtime, client, tree, folder, buffer: vec![0; TRANSFER_BYTES] })
    }
}

impl Share for Smb {
    fn list(&mut self, path: &str) -> Result<Vec<String>, ShareError> {
        let full = format!("{}{path}", self.folder);
        let listed = self.runtime.block_on(self.client.list_directory(&mut self.tree, &full));
        let entries = listed.map_err(|e| path_error(&full, e))?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    fn read(&mut self, path: &str, sink: Sink<'_>) -> Result<u64, ShareError> {
        let full = format!("{}{path}", self.folder);
        let (client, tree) = (&mut self.client, &self.tree);
        self.runtime.block_on(async {
            let reader = client.open_file_reader(tree, &full).await.map_err(|e| path_error(&full, e))?;
            let len = reader.size();
            let mut at = 0;
            while at < len {
                let wanted = (len - at).min(TRANSFER_BYTES as u64);
                let bytes = reader.read_at(at, wanted).await.map_err(|e| path_error(&full, e))?;
                if bytes.is_empty() {
                    return Err(path_error(&full, "ends before its length"));
                }
                sink(&bytes).map_err(|e| path_error(&full, e))?;
                at += bytes.len() as u64;
            }
            reader.close().await.map_err(|e| path_error(&full, e))?;
            Ok(at)
        })
    }

    fn write(&mut self, path: &str, text: Text<'_>) -> Result<u64, ShareError> {
        let full = format!("{}{path}", self.folder);
        let (client, tree, buffer) = (&mut self.client, &self.tree, &mut self.buffer);
        self.runtime.block_on(async {
            let mut writer =
                client.create_file_writer(tree, &full).await.map_err(|e| path_error(&full, e))?;
            loop {
                let len = text(buffer).map_err(|e| path_error(&full, e))?;
                if len == 0 {
                    return writer.finish().await.map_err(|e| path_error(&full, e));
                }
                writer.write_chunk(&buffer[..len]).await.map_err(|e| path_error(&full, e))?;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_passwords_not_shown() {
        let address = SmbAddress::parse("fs:secret@10.0.0.7:4450/data/set").expect("one");
        assert_eq!((address.host.as_str(), address.folder.as_str()), ("10.0.0.7:4450", "set/"));
        assert_eq!(format!("{address:?}"), "smb://fs@10.0.0.7:4450/data/set/");
        assert_eq!(SmbAddress::parse("host/share").expect("one").host, "host:445");
        for text in ["host", "/share", "u@/share", "u:p@host/"] {
            assert!(SmbAddress::parse(text).is_err(), "{text}");
        }
    }
}
