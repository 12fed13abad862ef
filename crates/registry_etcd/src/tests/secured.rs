//! Users with passwords, and TLS.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use registry::{Registry, RegistryError};

use super::server::{Certificates, GrantPermission, Permission, Server, Texts, has};
use super::{hears, in_world, is_unreachable, key, open, until_it_answers};
use crate::messages::range_end;
use crate::{Access, Login};

fn login(user: &str, password: &str) -> Option<Login> {
    Some(Login { user: user.into(), password: password.into() })
}

/// The user `masu` may use one prefix.
fn enable_authentication(server: &Server) {
    let texts = |one: &str, two: &str| Texts { one: one.into(), two: two.into() };
    let permission = Permission { kind: 2, key: b"/masu/one/".into(), range_end: range_end(b"/masu/one/") };
    let grant = GrantPermission { role: "one".into(), permission: Some(permission) };
    let calls = [
        ("/etcdserverpb.Auth/RoleAdd", texts("root", "")),
        ("/etcdserverpb.Auth/RoleAdd", texts("one", "")),
        ("/etcdserverpb.Auth/UserAdd", texts("root", "of all")),
        ("/etcdserverpb.Auth/UserAdd", texts("masu", "geheim")),
        ("/etcdserverpb.Auth/UserGrantRole", texts("root", "root")),
        ("/etcdserverpb.Auth/UserGrantRole", texts("masu", "one")),
    ];
    for (name, texts) in calls {
        server.administer(name, texts, None).expect(name);
    }
    server.administer("/etcdserverpb.Auth/RoleGrantPermission", grant, None).expect("granted");
    server.administer("/etcdserverpb.Auth/AuthEnable", Texts::default(), None).expect("enabled");
}

#[test]
fn who_may_not_is_told_why_and_who_may_stays_logged_in_through_a_restart() {
    let name = "who_may_not_is_told_why_and_who_may_stays_logged_in_through_a_restart";
    let Some(mut server) = Server::start(name) else { return };
    in_world(async move |world| {
        let client = |prefix: &str, login| {
            let access = Access { login, ..Access::default() };
            open(&world, &format!("etcd://{}/masu/{prefix}", server.address()), &access)
        };
        // A user where none is asked for.
        let early = client("one", login("masu", "geheim"));
        early.compare_and_put(&key("a"), None, b"1", None).await.expect("put");
        enable_authentication(&server);
        for (prefix, login, why) in [
            ("one", None, "asks for a user"),
            ("one", login("masu", "falsch"), "check user and password"),
            ("one", login("nobody", "geheim"), "check user and password"),
            ("two", login("masu", "geheim"), "grant its user a role"),
        ] {
            let error = client(prefix, login).get(&key("a")).await.expect_err(why);
            assert!(error.to_string().contains(why), "{error}");
        }
        let one = client("one", login("masu", "geheim"));
        let mut watch = one.watch("a");
        let version = one.get(&key("a")).await.expect("read").expect("a value").version;
        let version = one.compare_and_put(&key("a"), Some(version), b"2", None).await.expect("put");
        hears(&world, &mut watch).await;
        // It was connected before there were users.
        let entry = early.get(&key("a")).await.expect("read").expect("a value");
        assert_eq!(entry.version, version);
        let lease = one.grant(Duration::from_secs(30)).await.expect("a lease");
        one.compare_and_put(&key("b"), None, b"1", Some(lease)).await.expect("put");
        server.kill();
        assert!(is_unreachable(&one.get(&key("a")).await));
        server.restart();
        until_it_answers(&world, &one).await;
        one.keep_alive(lease).await.expect("it lives");
        one.compare_and_delete(&key("a"), version).await.expect("deleted");
        hears(&world, &mut watch).await;
        one.revoke(lease).await.expect("revoked");
    });
}

fn openssl(dir: &Path, arguments: &str) {
    let done =
        Command::new("openssl").current_dir(dir).args(arguments.split(' ')).output().expect("openssl runs");
    assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// An authority, and a certificate by it; `use_of`: of a server or a client, as OpenSSL names it.
fn certify(dir: &Path, authority: &str, name: &str, use_of: &str) -> Certificates {
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    let path = |name: String| dir.join(name);
    if !path(format!("{authority}.pem")).exists() {
        openssl(
            dir,
            &format!(
                "req -x509 -days 2 {new_key} -subj /CN={authority} -keyout {authority}.key -out {authority}.pem"
            ),
        );
    }
    let extensions = format!("subjectAltName=IP:127.0.0.1\nextendedKeyUsage={use_of}\n");
    std::fs::write(path(format!("{name}.ext")), extensions).expect("written");
    openssl(dir, &format!("req {new_key} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
    openssl(
        dir,
        &format!(
            "x509 -req -days 2 -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial \
             -extfile {name}.ext -out {name}.pem"
        ),
    );
    Certificates {
        authority: path(format!("{authority}.pem")),
        certificate: path(format!("{name}.pem")),
        key: path(format!("{name}.key")),
    }
}

/// The server's certificate is none for clients: etcd's JSON gateway could not be used with it.
#[test]
fn tls_proves_both_sides() {
    let name = "tls_proves_both_sides";
    if !has("openssl", "version", "openssl", name) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path().to_owned();
    let started = Server::start_with(name, |_| Some(certify(&at, "authority", "server", "serverAuth")));
    let Some(server) = started else { return };
    in_world(async move |world| {
        let read = |path: &Path| std::fs::read(path).expect("read");
        let access = |authority: &Certificates, client: Option<&Certificates>| Access {
            login: None,
            authority: Some(read(&authority.authority)),
            identity: client.map(|files| (read(&files.certificate), read(&files.key))),
        };
        let fine = certify(dir.path(), "authority", "client", "clientAuth");
        let foreign = certify(dir.path(), "other", "foreign", "clientAuth");
        let address = format!("etcds://{}/masu/test", server.address());
        let etcd = open(&world, &address, &access(&fine, Some(&fine)));
        let mut watch = etcd.watch("a");
        etcd.compare_and_put(&key("a"), None, b"1", None).await.expect("put");
        hears(&world, &mut watch).await;
        let why = |access: Access| {
            let etcd = open(&world, &address, &access);
            async move { etcd.get(&key("a")).await.expect_err("refused").to_string() }
        };
        let error = why(access(&foreign, Some(&fine))).await;
        assert!(error.contains("UnknownIssuer"), "{error}");
        for client in [None, Some(&foreign)] {
            let error = why(access(&fine, client)).await;
            assert!(error.contains(&server.address()), "{error}");
        }
        // In the clear it is no answer.
        let clear = open(&world, &address.replace("etcds", "etcd"), &Access::default());
        assert!(matches!(clear.get(&key("a")).await, Err(RegistryError::Unreachable { .. })));
    });
}
