//! Logins, request by request.

use super::*;
use crate::negotiation::Digests;
use crate::target::seam::Secret;

const OFFER: Offer = Offer {
    header_digest: Digests::Allowed,
    data_digest: Digests::Allowed,
    initial_r2t: false,
    immediate_data: true,
    recv_segment_len_max: 262_144,
    max_burst_len: 1 << 20,
    first_burst_len: 65_536,
    max_outstanding_r2t: 8,
    time2wait_s: 2,
    time2retain_s: 0,
};

struct Gate(Option<Chap>);

impl Authority for Gate {
    fn authentication(&self, initiator: &str, target: Option<&str>) -> Result<Option<Chap>, LoginRefusal> {
        match (initiator, target) {
            (name, _) if !name.ends_with("host") => Err(LoginRefusal::NotAllowed),
            (_, Some(t)) if !t.ends_with("disk") => Err(LoginRefusal::NotFound),
            _ => Ok(self.0.clone()),
        }
    }
    fn portal_group(&self) -> u16 {
        3
    }
}

fn secret(name: &str, secret: &str) -> Secret {
    Secret { name: name.into(), secret: secret.into() }
}

fn gate(mutual: bool) -> Gate {
    let target = mutual.then(|| secret("array", "target's secret"));
    Gate(Some(Chap { host: secret("alice", "host's secret"), target }))
}

fn login() -> Login {
    Login::new(OFFER, 16_384, Rng::with_seed(5))
}

/// Flags of a request: CSG, and NSG when it asks to go on.
fn flags(csg: u8, nsg: Option<u8>) -> u8 {
    csg << 2 | nsg.map_or(0, |n| TRANSIT | n)
}

fn request(flags: u8) -> LoginRequest {
    LoginRequest { flags, isid: [1; 6], itt: 9.into(), cmd_sn: 4.into(), ..LoginRequest::default() }
}

fn text(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Text::default();
    for (k, v) in pairs {
        out.put(k, v);
    }
    out.0
}

const WHO: [(&str, &str); 2] =
    [("InitiatorName", "iqn.2026-01.x:host"), ("TargetName", "iqn.2026-01.x:disk")];

/// One step; the answer's flags and pairs.
fn step(
    l: &mut Login,
    gate: &Gate,
    f: u8,
    p: &[(&str, &str)],
) -> Result<(u8, Vec<(String, String)>), LoginError> {
    let reply = l.step(&request(f), &text(p), gate)?;
    let pairs = pairs(&reply.text).unwrap();
    Ok((reply.flags, pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect()))
}

fn find<'a>(pairs: &'a [(String, String)], key: &str) -> &'a str {
    pairs.iter().find(|(k, _)| k == key).map_or("", |(_, v)| v)
}

#[test]
fn without_authentication_one_request_is_enough() {
    let mut l = login();
    let mut p = WHO.to_vec();
    p.push(("InitialR2T", "No"));
    let (f, answer) = step(&mut l, &Gate(None), flags(1, Some(3)), &p).unwrap();
    assert_eq!(f, flags(1, Some(3)));
    assert_eq!(find(&answer, "TargetPortalGroupTag"), "3");
    assert_eq!(find(&answer, "InitialR2T"), "No");
    assert_eq!(find(&answer, "MaxRecvDataSegmentLength"), "262144");
    assert!(!l.params().initial_r2t);
}

/// A CHAP login with this secret (and mutual proof when asked); gives the last answer.
fn chap(
    gate: &Gate,
    algorithm: Algorithm,
    own: &str,
    mutual: bool,
    reflect: bool,
) -> Result<(u8, Vec<(String, String)>), LoginError> {
    let mut l = login();
    let mut p = WHO.to_vec();
    p.push(("AuthMethod", "CHAP,None"));
    let (f, answer) = step(&mut l, gate, flags(0, Some(1)), &p)?;
    assert_eq!((f, find(&answer, "AuthMethod")), (flags(0, None), "CHAP"), "no transit before the proof");
    let (_, answer) = step(&mut l, gate, flags(0, None), &[("CHAP_A", algorithm.number())])?;
    assert_eq!(find(&answer, "CHAP_A"), algorithm.number());
    let challenge = Challenge::read(find(&answer, "CHAP_I"), find(&answer, "CHAP_C")).unwrap();
    let response = challenge.response(algorithm, own);
    let mine = if reflect { challenge } else { Challenge { id: 77, bytes: vec![3; 32] } };
    let (id, bytes) = (mine.id_text(), mine.text());
    let mut p = vec![("CHAP_N", "alice"), ("CHAP_R", response.as_str())];
    if mutual {
        p.extend([("CHAP_I", id.as_str()), ("CHAP_C", bytes.as_str())]);
    }
    let last = step(&mut l, gate, flags(0, Some(1)), &p)?;
    if mutual {
        let said = (find(&last.1, "CHAP_N"), find(&last.1, "CHAP_R"));
        mine.verify(algorithm, ("array", "target's secret"), said).expect("the target proves itself");
    }
    Ok(last)
}

#[test]
fn chap_lets_in_who_knows_the_secret() {
    for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
        for mutual in [false, true] {
            let (f, _) = chap(&gate(true), algorithm, "host's secret", mutual, false).unwrap();
            assert_eq!(f, flags(0, Some(1)));
            let wrong = chap(&gate(true), algorithm, "another", mutual, false).unwrap_err();
            assert_eq!(wrong.status(), (2, 1));
        }
        let reflected = chap(&gate(true), algorithm, "host's secret", true, true).unwrap_err();
        assert_eq!(reflected, LoginError::Authentication(ChapError::Reflected));
        let one_way = chap(&gate(false), algorithm, "host's secret", true, false).unwrap_err();
        assert_eq!(one_way, LoginError::Authentication(ChapError::NotMutual));
    }
}

/// What the first request is told.
fn check_first(gate: &Gate, f: u8, p: &[(&str, &str)], want: (u8, u8)) {
    let got = step(&mut login(), gate, f, p).expect_err("refused");
    assert_eq!(got.status(), want, "{p:?}: {got}");
}

#[test]
fn first_requests_that_are_refused() {
    let open = Gate(None);
    let [who, disk] = WHO;
    check_first(&open, flags(1, Some(3)), &[disk], (2, 7));
    check_first(&open, flags(1, Some(3)), &[who], (2, 7));
    check_first(&open, flags(1, Some(3)), &[who, disk, ("SessionType", "Odd")], (2, 9));
    check_first(&open, flags(1, Some(3)), &[who, ("TargetName", "iqn.2026-01.x:other")], (2, 3));
    check_first(&open, flags(1, Some(3)), &[("InitiatorName", "iqn.2026-01.x:thief"), disk], (2, 2));
    check_first(&open, flags(1, Some(3)), &[("InitiatorName", "nobody"), disk], (2, 0));
    check_first(&open, flags(1, Some(3)), &[who, disk, ("InitialR2T", "No"), ("InitialR2T", "No")], (2, 0));
    check_first(&open, flags(1, Some(3)), &[who, disk, ("AuthMethod", "None")], (2, 0));
    check_first(&open, flags(1, Some(1)), &WHO, (2, 0));
    check_first(&open, flags(1, Some(2)), &WHO, (2, 0));
    check_first(&open, flags(2, Some(3)), &WHO, (2, 0));
    check_first(&open, flags(3, None), &WHO, (2, 0));
    check_first(&open, flags(1, Some(3)) | CONTINUE, &WHO, (2, 0));
    check_first(&gate(false), flags(1, Some(3)), &WHO, (2, 1));
    check_first(&gate(false), flags(0, Some(1)), &[who, disk, ("AuthMethod", "None")], (2, 1));
    check_first(&gate(false), flags(0, Some(1)), &WHO, (2, 1));
    check_first(&open, flags(0, Some(1)), &[who, disk, ("AuthMethod", "KRB5")], (2, 1));
    let version = LoginRequest { version_min: 1, ..request(flags(1, Some(3))) };
    assert_eq!(login().step(&version, &text(&WHO), &open).unwrap_err().status(), (2, 5));
}

#[test]
fn who_is_there_is_said_first_and_only_once() {
    for late in [("SessionType", "Discovery"), ("TargetName", "iqn.2026-01.x:disk"), WHO[0]] {
        let mut l = login();
        step(&mut l, &Gate(None), flags(0, Some(1)), &WHO).unwrap();
        let got = step(&mut l, &Gate(None), flags(1, Some(3)), &[late]).expect_err("too late");
        assert_eq!(got.status(), (2, 0), "{late:?}");
    }
    // A security key in the operational stage, and a key that was answered in the stage before.
    for (first, late) in [(("InitialR2T", "No"), ("InitialR2T", "No")), (WHO[0], ("CHAP_A", "5"))] {
        let mut l = login();
        let [who, disk] = WHO;
        let text: &[_] = if first == who { &[who, disk] } else { &[who, disk, first] };
        step(&mut l, &Gate(None), flags(0, Some(1)), text).unwrap();
        let got = step(&mut l, &Gate(None), flags(1, Some(3)), &[late]).expect_err("not here");
        assert_eq!(got.status(), (2, 0), "{late:?}");
    }
}

#[test]
fn a_text_may_come_in_parts_but_not_without_end() {
    let all = text(&WHO);
    let (a, b) = all.split_at(11);
    let mut l = login();
    let first = l.step(&request(flags(1, None) | CONTINUE), a, &Gate(None)).unwrap();
    assert!(first.text.is_empty() && !first.is_complete);
    assert!(l.step(&request(flags(1, Some(3))), b, &Gate(None)).unwrap().is_complete);

    let mut l = login();
    let endless =
        (0..100).find_map(|_| l.step(&request(flags(1, None) | CONTINUE), &[b'x'; 8192], &Gate(None)).err());
    assert_eq!(endless, Some(LoginError::Text(TextError::TooMuch)));
    let mut l = login();
    let endless = (0..100).find_map(|_| l.step(&request(flags(1, None)), &text(&WHO), &Gate(None)).err());
    assert!(endless.is_some());
}

#[test]
fn an_answer_has_no_more_pairs_than_a_request_may_have() {
    let strange = |count: usize| (0..count).map(|i| format!("X{i}=1\0")).collect::<String>().into_bytes();
    // Each of them is answered, with NotUnderstood, and the target has keys of its own to declare.
    let answer = login().step(&request(flags(1, None)), &[text(&WHO), strange(125)].concat(), &Gate(None));
    assert!(crate::text::pairs(&answer.unwrap().text).is_ok());
    let mut l = login();
    l.step(&request(flags(0, Some(1))), &text(&WHO), &Gate(None)).unwrap();
    let refused = l.step(&request(flags(1, None)), &strange(128), &Gate(None)).err();
    assert_eq!(refused, Some(LoginError::Text(TextError::TooMuch)));
}

#[test]
fn the_identity_of_a_login_stays() {
    let mut l = login();
    step(&mut l, &Gate(None), flags(0, Some(1)), &WHO).unwrap();
    let other = LoginRequest { isid: [2; 6], ..request(flags(1, Some(3))) };
    assert_eq!(l.step(&other, &[], &Gate(None)).unwrap_err().status(), (2, 0));
}

#[test]
fn random_logins_never_panic() {
    let mut rng = fastrand::Rng::with_seed(6);
    let words = [
        "InitiatorName",
        "iqn.2026-01.x:host",
        "TargetName",
        "iqn.x:disk",
        "=",
        "\0",
        "AuthMethod",
        "CHAP",
        "CHAP_A",
        "7",
        "CHAP_C",
        "0x00",
        "CHAP_R",
        "SessionType",
        "Discovery",
        "HeaderDigest",
        "None",
        ",",
        "MaxBurstLength",
        "1000",
        "\u{e9}",
    ];
    for _ in 0..20_000 {
        let (mut l, gate) = (login(), if rng.bool() { gate(rng.bool()) } else { Gate(None) });
        for _ in 0..4 {
            let text: String = (0..rng.usize(..24)).map(|_| words[rng.usize(..words.len())]).collect();
            let _ = l.step(&request(rng.u8(..)), text.as_bytes(), &gate);
        }
    }
}
