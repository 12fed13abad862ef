//! The table of RFC 7143 clause 13, rule by rule.

use super::*;
use crate::text::pairs;

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

/// What a target with [`OFFER`] answers to one pair.
fn check(key: &str, value: &str, want: Option<&str>) {
    let mut text = Text::default();
    let mut negotiation = Negotiation::new(OFFER);
    negotiation.answer(key, value, &mut text).unwrap();
    let got = pairs(&text.0).unwrap();
    assert_eq!(got, want.map(|v| (key, v)).into_iter().collect::<Vec<_>>(), "{key}={value}");
}

#[test]
fn a_target_answers_by_the_table() {
    for (key, value, want) in [
        ("HeaderDigest", "CRC32C,None", "CRC32C"),
        ("HeaderDigest", "None,CRC32C", "None"),
        ("DataDigest", "X-md5,None", "None"),
        ("DataDigest", "X-md5", "Reject"),
        ("MaxConnections", "8", "1"),
        ("MaxConnections", "0", "Reject"),
        ("InitialR2T", "No", "No"),
        ("InitialR2T", "Yes", "Yes"),
        ("InitialR2T", "maybe", "Reject"),
        ("ImmediateData", "Yes", "Yes"),
        ("ImmediateData", "No", "No"),
        ("MaxBurstLength", "262144", "262144"),
        ("MaxBurstLength", "16776192", "1048576"),
        ("MaxBurstLength", "511", "Reject"),
        ("MaxBurstLength", "16777216", "Reject"),
        ("MaxBurstLength", "0x1000", "4096"),
        ("FirstBurstLength", "262144", "65536"),
        ("DefaultTime2Wait", "0", "2"),
        ("DefaultTime2Wait", "3601", "Reject"),
        ("DefaultTime2Retain", "20", "0"),
        ("MaxOutstandingR2T", "1", "1"),
        ("MaxOutstandingR2T", "65535", "8"),
        ("DataPDUInOrder", "No", "Yes"),
        ("DataSequenceInOrder", "Yes", "Yes"),
        ("ErrorRecoveryLevel", "2", "0"),
        ("ErrorRecoveryLevel", "3", "Reject"),
        ("TaskReporting", "FastAbort,RFC3720", "RFC3720"),
        ("TaskReporting", "FastAbort", "Reject"),
        ("iSCSIProtocolLevel", "2", "1"),
        ("IFMarker", "Yes", "No"),
        ("OFMarkInt", "2048~8192", "Reject"),
        ("X-com.example.key", "1", "NotUnderstood"),
        ("Nonsense", "1", "NotUnderstood"),
        ("MaxRecvDataSegmentLength", "100", "Reject"),
    ] {
        check(key, value, Some(want));
    }
    check("MaxRecvDataSegmentLength", "65536", None);
    check("InitiatorAlias", "somebody", None);
    check("Nonsense", "NotUnderstood", None);
}

#[test]
fn a_key_comes_once_and_from_its_side() {
    let mut n = Negotiation::new(OFFER);
    let mut out = Text::default();
    n.answer("InitialR2T", "No", &mut out).unwrap();
    assert_eq!(n.answer("InitialR2T", "No", &mut out), Err(NegotiationError::Twice("InitialR2T".into())));
    let misplaced = n.answer("TargetPortalGroupTag", "1", &mut out);
    assert_eq!(misplaced, Err(NegotiationError::Misplaced("TargetPortalGroupTag".into())));
    let mut n = Negotiation::resume(OFFER, n.params());
    n.begin_exchange();
    n.answer("MaxRecvDataSegmentLength", "4096", &mut out).unwrap();
    assert_eq!(n.params().send_segment_len_max, 4096);
    assert!(n.answer("MaxBurstLength", "4096", &mut out).is_err());
}

/// What a target answers to a whole text.
fn answers(text: &[(&str, &str)]) -> Result<Vec<(String, String)>, NegotiationError> {
    let (mut n, mut out) = (Negotiation::new(OFFER), Text::default());
    n.answer_all(text.iter().copied(), &mut out)?;
    let owned = |(k, v): (&str, &str)| (k.to_owned(), v.to_owned());
    Ok(pairs(&out.0).unwrap().into_iter().map(owned).collect())
}

#[test]
fn a_first_burst_is_never_agreed_on_above_a_burst() {
    // 13.14, in whichever order the keys stand.
    let (first, max) = (("FirstBurstLength", "65536"), ("MaxBurstLength", "4096"));
    for text in [[first, max], [max, first]] {
        let got = answers(&text).unwrap();
        assert!(got.contains(&("FirstBurstLength".into(), "4096".into())), "{got:?}");
        assert!(got.contains(&("MaxBurstLength".into(), "4096".into())), "{got:?}");
    }
    // In two texts the second one cannot be answered any more.
    let (mut n, mut out) = (Negotiation::new(OFFER), Text::default());
    n.answer_all([first].into_iter(), &mut out).unwrap();
    let got = n.answer_all([max].into_iter(), &mut out);
    assert_eq!(got, Err(NegotiationError::FirstBurst { first: 65_536, max: 4096 }));
    // Not said, the default is bounded, too.
    let (mut n, mut out) = (Negotiation::new(OFFER), Text::default());
    n.answer_all([max].into_iter(), &mut out).unwrap();
    assert_eq!(n.params().first_burst_len, 4096);
}

#[test]
fn a_key_comes_once_in_a_text() {
    for key in crate::keys::KEYS.iter().filter(|k| k.rule != Rule::OneWay) {
        let twice = answers(&[(key.name, "1"), ("X-other", "1"), (key.name, "1")]);
        assert_eq!(twice, Err(NegotiationError::Twice(key.name.into())));
    }
}

#[test]
fn numbers_outside_their_range_are_rejected_and_the_default_stays() {
    for key in crate::keys::KEYS {
        let (Rule::Min { low, high } | Rule::Max { low, high } | Rule::Declared { low, high }) = key.rule
        else {
            continue;
        };
        let below = low.checked_sub(1).map(|n| n.to_string());
        let bad =
            [Some((high + 1).to_string()), below, Some("-1".into()), Some("1 ".into()), Some(String::new())];
        for value in bad.into_iter().flatten() {
            let (mut n, mut out) = (Negotiation::new(OFFER), Text::default());
            let before = n.params();
            n.answer(key.name, &value, &mut out).unwrap();
            assert_eq!(pairs(&out.0).unwrap(), [(key.name, "Reject")], "{}={value}", key.name);
            assert_eq!(n.params(), before, "{}={value}", key.name);
        }
    }
}

#[test]
fn discovery_needs_only_some_keys() {
    let mut n = Negotiation::new(OFFER);
    n.set_discovery();
    let mut out = Text::default();
    n.answer("MaxBurstLength", "4096", &mut out).unwrap();
    n.answer("DefaultTime2Wait", "3", &mut out).unwrap();
    assert_eq!(pairs(&out.0).unwrap(), [("MaxBurstLength", "Irrelevant"), ("DefaultTime2Wait", "3")]);
}

/// Both sides run against each other and hold the same parameters at the end.
#[test]
fn both_sides_agree() {
    for digests in [Digests::Never, Digests::Allowed, Digests::Preferred, Digests::Required] {
        for (initial_r2t, first) in [(true, 512), (false, 1 << 23)] {
            let mine = Offer {
                header_digest: digests,
                data_digest: digests,
                initial_r2t,
                first_burst_len: first,
                max_burst_len: 32_768,
                ..OFFER
            };
            let (mut initiator, mut target) = (Negotiation::new(mine), Negotiation::new(OFFER));
            let (mut there, mut back) = (Text::default(), Text::default());
            initiator.propose(&mut there);
            for (k, v) in pairs(&there.0).unwrap() {
                target.answer(k, v, &mut back).unwrap();
            }
            target.declare(&mut back);
            for (k, v) in pairs(&back.0).unwrap() {
                initiator.accept(k, v).unwrap();
            }
            assert_eq!(initiator.params(), target.params());
            assert_eq!(
                initiator.params().header_digest,
                matches!(digests, Digests::Preferred | Digests::Required)
            );
            assert!(target.params().first_burst_len <= target.params().max_burst_len);
        }
    }
}

#[test]
fn an_initiator_refuses_answers_that_cannot_be() {
    for (key, value) in [
        ("HeaderDigest", "X-md5"),
        ("HeaderDigest", "Reject"),
        ("MaxBurstLength", "2097152"),
        ("MaxBurstLength", "1"),
        ("DefaultTime2Wait", "1"),
        ("DataPDUInOrder", "No"),
        ("ImmediateData", "perhaps"),
        ("MaxRecvDataSegmentLength", "5"),
    ] {
        let got = Negotiation::new(OFFER).accept(key, value);
        assert!(matches!(got, Err(NegotiationError::BadAnswer { .. })), "{key}={value}: {got:?}");
    }
}
