//! When the certificate of the API ends, and what is told of it before.

use array::{Event, Severity};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use status::Trouble;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use crate::trouble::trouble;

const DAY_S: u64 = 86_400;
/// So long before the end it is trouble: time enough to have another one signed by people.
const SOON_S: u64 = 30 * DAY_S;
/// So long before the end it is told once more.
const LATE_S: u64 = 7 * DAY_S;
const TO_DO: &str = "replace the files of --api-cert and --api-key, or api.cert.pem and api.key.pem in the data directory: masu reads \
    them within 10 s";

/// The end of the certificate that ends first, in seconds since 1970. One that cannot be read is passed over:
/// rustls has accepted it.
pub(super) fn end_of(chain: &[CertificateDer<'_>]) -> Option<u64> {
    let end = |one: &CertificateDer<'_>| {
        let read = Certificate::from_der(one).ok()?;
        Some(read.tbs_certificate().validity().not_after.to_unix_duration().as_secs())
    };
    chain.iter().filter_map(end).min()
}

/// What is wrong with a certificate that ends at `end_s`; both are seconds since 1970.
pub fn trouble_of_end(end_s: u64, now_s: u64) -> Option<Trouble> {
    let on = i64::try_from(end_s).ok().and_then(|end| Timestamp::from_second(end).ok());
    let on = on.map_or_else(String::new, |on| format!(", on {on}"));
    let (severity, text) = match end_s.checked_sub(now_s) {
        None | Some(0) => (Severity::Error, format!("its certificate has expired{on}: clients refuse it")),
        Some(left) if left <= SOON_S => {
            let days = left / DAY_S;
            let plural = if days == 1 { "" } else { "s" };
            (
                Severity::Warning,
                format!("its certificate expires in {days} day{plural}{on}; then clients refuse it"),
            )
        }
        Some(_) => return None,
    };
    Some(trouble(severity, "api", "certificate", text, TO_DO))
}

/// The event of the last week, once: at the first look in it. That it is trouble is told 30 days before the
/// end, at the end, and at a start between them.
pub(crate) fn reminder(end_s: u64, looked_s: u64, now_s: u64) -> Option<Event> {
    let last_week = end_s.saturating_sub(LATE_S);
    let is_first = looked_s < last_week && last_week <= now_s && now_s < end_s;
    let told = is_first.then(|| trouble_of_end(end_s, now_s)).flatten()?;
    Some(Event::warning(told.object, told.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_S: u64 = 1_800_000_000;

    fn check(days_left: i64, expected: Option<(&str, &str)>) {
        let now_s = END_S.saturating_add_signed(-days_left * 86_400);
        match (trouble_of_end(END_S, now_s), expected) {
            (Some(found), Some((severity, text))) => {
                assert_eq!(found.severity, severity, "{found:?}");
                assert!(found.text.contains(text), "{found:?} does not say {text:?}");
            }
            (found, expected) => assert!(found.is_none() && expected.is_none(), "{days_left}: {found:?}"),
        }
    }

    #[test]
    fn a_certificate_is_trouble_thirty_days_before_its_end_and_after_it() {
        check(31, None);
        check(30, Some(("warning", "expires in 30 days, on 2027-01-15T08:00:00Z")));
        check(1, Some(("warning", "expires in 1 day, on")));
        check(0, Some(("error", "has expired")));
        check(-400, Some(("error", "has expired")));
        assert!(trouble_of_end(u64::MAX, 0).is_none() && trouble_of_end(0, u64::MAX).is_some());
    }

    #[test]
    fn a_week_before_the_end_it_is_told_once_more() {
        let week = END_S - LATE_S;
        assert_eq!(reminder(END_S, week - 3, week - 1), None);
        let told = reminder(END_S, week - 1, week + 1).expect("an event").to_string();
        assert!(told.contains("api: its certificate expires in 6 days"), "{told}");
        assert_eq!(reminder(END_S, week + 1, week + 3), None);
        assert_eq!(reminder(END_S, week - 1, END_S), None, "its end is told as trouble");
        assert_eq!(reminder(0, 0, 5), None);
    }

    #[test]
    fn the_end_of_a_chain_is_that_of_its_first_to_end() {
        let made = |year| {
            let mut params = rcgen::CertificateParams::new(vec!["x".into()]).expect("a name");
            params.not_after = rcgen::date_time_ymd(year, 2, 3);
            let key = rcgen::KeyPair::generate().expect("a key");
            params.self_signed(&key).expect("signed").der().clone()
        };
        let in_2049 = end_of(&[made(2049)]).expect("an end");
        assert_eq!(
            Timestamp::from_second(in_2049 as i64).expect("a time").to_string(),
            "2049-02-03T00:00:00Z"
        );
        // From 2050 on the time has another form (RFC 5280, 4.1.2.5).
        assert!(end_of(&[made(2051)]) > Some(in_2049));
        assert_eq!(end_of(&[made(2051), made(2049)]), Some(in_2049));
        assert_eq!(end_of(&[CertificateDer::from(vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff])]), None);
        assert_eq!(end_of(&[]), None);
    }
}
