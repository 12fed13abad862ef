//! Users with passwords, and TLS.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use registry::{Registry, RegistryError};

use super::server::{Certificates, GrantPermission, Permission, Server, Texts, has};
use super::{hears, in_world, is_unreachable, key, open, until_it_answers};
use crate::messages::range_end;
use crate::{Access, AccessFiles, Login};

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
            ("one", login("masu", "falsch"), "check the user and the password"),
            ("one", login("nobody", "geheim"), "check the user and the password"),
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
    certify_for(dir, authority, "IP:127.0.0.1", name, use_of)
}

/// The same for another address or name.
fn certify_for(dir: &Path, authority: &str, address: &str, name: &str, use_of: &str) -> Certificates {
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
    let extensions = format!("subjectAltName={address}\nextendedKeyUsage={use_of}\n");
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
            ..Access::default()
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
        assert!(error.contains("UnknownIssuer") && error.contains("--registry-ca"), "{error}");
        // Of another authority, and one for servers.
        let for_servers = certify(dir.path(), "authority", "for_servers", "serverAuth");
        for client in [Some(&foreign), Some(&for_servers)] {
            let error = why(access(&fine, client)).await;
            assert!(error.contains(&server.address()) && error.contains("must be for clients"), "{error}");
        }
        let error = why(access(&fine, None)).await;
        assert!(error.contains("it may ask for a certificate of this client"), "{error}");
        // In the clear it is no answer.
        let clear = open(&world, &address.replace("etcds", "etcd"), &Access::default());
        let error = clear.get(&key("a")).await.expect_err("no answer");
        assert!(matches!(error, RegistryError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains("use etcds://"), "{error}");
    });
}

/// The address of a server is in the certificate of another one: a member that was moved, or a name that is
/// not the certificate's.
#[test]
fn a_certificate_for_another_name_is_named_with_what_to_do() {
    let name = "a_certificate_for_another_name_is_named_with_what_to_do";
    if !has("openssl", "version", "openssl", name) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path().to_owned();
    let certificates =
        |_: &Path| Some(certify_for(&at, "authority", "DNS:etcd.example", "server", "serverAuth"));
    let Some(server) = Server::start_with(name, certificates) else { return };
    in_world(async move |world| {
        let client = certify(dir.path(), "authority", "client", "clientAuth");
        let access = read_access(&client);
        let etcd = open(&world, &format!("etcds://{}", server.address()), &access);
        let error = etcd.get(&key("a")).await.expect_err("refused").to_string();
        assert!(error.contains("etcd.example") && error.contains("subjectAltName"), "{error}");
    });
}

/// As masu reads it.
fn read_access(client: &Certificates) -> Access {
    let restrict = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&client.key, restrict).expect("permissions");
    let files = AccessFiles {
        authority: Some(client.authority.clone()),
        certificate: Some(client.certificate.clone()),
        key: Some(client.key.clone()),
        ..AccessFiles::default()
    };
    Access::read(&"etcds://a".parse().expect("a location"), &files, None, None).expect("access")
}

/// Before, a certificate that was renewed in its file was used after a restart alone, which costs an owner
/// the array; and with the old one no connection could be made any more.
#[test]
fn a_certificate_that_is_exchanged_is_used_by_the_next_connection() {
    let name = "a_certificate_that_is_exchanged_is_used_by_the_next_connection";
    if !has("openssl", "version", "openssl", name) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path().to_owned();
    let started = Server::start_with(name, |_| Some(certify(&at, "authority", "server", "serverAuth")));
    let Some(mut server) = started else { return };
    in_world(async move |world| {
        let good = certify(dir.path(), "authority", "good", "clientAuth");
        let foreign = certify(dir.path(), "other", "foreign", "clientAuth");
        // A copy: the server's own stays where it is.
        let authority = dir.path().join("trusted.pem");
        std::fs::copy(&good.authority, &authority).expect("copied");
        let used = Certificates { authority, ..foreign };
        let etcd = open(&world, &format!("etcds://{}/masu/x", server.address()), &read_access(&used));
        assert!(is_unreachable(&etcd.get(&key("a")).await), "its authority is another one");
        // In place of it, one file after the other: for a moment they do not fit each other.
        std::fs::copy(&good.certificate, &used.certificate).expect("copied");
        let halves = etcd.get(&key("a")).await.expect_err("a key of another certificate").to_string();
        assert!(halves.contains("KeyMismatch") || halves.contains("must be for clients"), "{halves}");
        std::fs::copy(&good.key, &used.key).expect("copied");
        etcd.compare_and_put(&key("a"), None, b"1", None).await.expect("put");
        // Files that are away, for example while they are exchanged, are no reason to lose the array.
        for file in [&used.certificate, &used.key, &used.authority] {
            std::fs::remove_file(file).expect("removed");
        }
        server.kill();
        server.restart();
        until_it_answers(&world, &etcd).await;
    });
}

/// Before, an owner of which the password was changed lost the array 5 s later, as one whose rights were
/// taken, and a new password was taken from the file after a restart alone.
#[test]
fn a_password_is_exchanged_without_a_call_that_fails() {
    let Some(mut server) = Server::start("a_password_is_exchanged_without_a_call_that_fails") else { return };
    in_world(async move |world| {
        enable_authentication(&server);
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("login");
        let has_password = |password: &str| {
            std::fs::write(&path, format!("masu\n{password}\n")).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("permissions");
        };
        has_password("geheim");
        let location = format!("etcd://{}/masu/one", server.address());
        let files = AccessFiles { login: Some(path.clone()), ..AccessFiles::default() };
        let access =
            Access::read(&location.parse().expect("a location"), &files, None, None).expect("access");
        let etcd = open(&world, &location, &access);
        let lease = etcd.grant(Duration::from_secs(60)).await.expect("a lease");
        // First in the files of all nodes: until etcd has it, connections have the one before.
        has_password("neu");
        server.kill();
        server.restart();
        until_it_answers(&world, &etcd).await;
        let root = login("root", "of all");
        let change = Texts { one: "masu".into(), two: "neu".into() };
        server.administer("/etcdserverpb.Auth/UserChangePassword", change, root.clone()).expect("changed");
        for _ in 0..3 {
            etcd.keep_alive(lease).await.expect("at once");
            etcd.get(&key("a")).await.expect("at once");
        }
        // In the file alone it is none; what to do is said.
        let change = Texts { one: "masu".into(), two: "anders".into() };
        server.administer("/etcdserverpb.Auth/UserChangePassword", change, root.clone()).expect("changed");
        let error = etcd.get(&key("a")).await.expect_err("refused");
        assert!(matches!(error, RegistryError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("--registry-login"), "{error}");
        // An owner lives on by its lease, for which etcd asks nobody who he is.
        etcd.keep_alive(lease).await.expect("it lives");
        server.kill();
        server.restart();
        loop {
            if etcd.keep_alive(lease).await.is_ok() {
                break;
            }
        }
        // Not a login for a moment: it is written again.
        std::fs::write(&path, "masu\n").expect("written");
        let error = etcd.get(&key("a")).await.expect_err("refused").to_string();
        assert!(error.contains("is not a login"), "{error}");
        has_password("anders");
        etcd.get(&key("a")).await.expect("at once");
        etcd.keep_alive(lease).await.expect("it lives");
        // Its rights are taken, and given again.
        let revoke = Texts { one: "masu".into(), two: "one".into() };
        server.administer("/etcdserverpb.Auth/UserRevokeRole", revoke, root.clone()).expect("taken");
        let error = etcd.get(&key("a")).await.expect_err("refused");
        assert!(matches!(&error, RegistryError::Refused { cause } if cause.contains("grant")), "{error:?}");
        etcd.keep_alive(lease).await.expect("it lives");
        let grant = Texts { one: "masu".into(), two: "one".into() };
        server.administer("/etcdserverpb.Auth/UserGrantRole", grant, root).expect("given");
        etcd.get(&key("a")).await.expect("at once");
    });
}
