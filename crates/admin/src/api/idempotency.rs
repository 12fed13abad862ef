//! Idempotency keys: a POST that is sent again with its key is answered as the first time, and not done
//! again.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::StatusCode;

use super::problem::Problem;

/// Keys that are remembered; the oldest goes first.
const KEYS_MAX: usize = 1000;
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Short keys are used twice by accident.
const KEY_LEN: RangeInclusive<usize> = 8..=128;

/// An answer, as it is given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) location: String,
    pub(super) body: Bytes,
}

/// The keys of the last day, with what was answered.
#[derive(Default)]
pub(crate) struct Keys(VecDeque<(String, Bytes, Instant, Answer)>);

impl Keys {
    /// What was answered to this request; none when it is new.
    ///
    /// # Errors
    /// The key is too long, or was used for another request.
    pub(super) fn find(
        &mut self,
        key: &str,
        request: &Bytes,
        now: Instant,
    ) -> Result<Option<Answer>, Problem> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if !KEY_LEN.contains(&key.len()) || !key.bytes().all(plain) {
            let detail = "Idempotency-Key must have 8 to 128 letters, digits, dots, underscores or hyphens";
            return Err(Problem::bad_request("idempotency_key", detail));
        }
        self.0.retain(|(_, _, at, _)| now.duration_since(*at) < AGE_MAX);
        match self.0.iter().find(|(known, ..)| known == key) {
            Some((_, same, _, answer)) if same == request => Ok(Some(answer.clone())),
            Some(_) => {
                let detail = "this Idempotency-Key was used for another request";
                Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key", detail))
            }
            None => Ok(None),
        }
    }

    /// Remembers what was answered.
    pub(super) fn keep(&mut self, key: &str, request: Bytes, now: Instant, answer: Answer) {
        if self.0.len() >= KEYS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((key.into(), request, now, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_answers_for_its_request_for_a_day_and_they_are_bounded() {
        let (mut keys, now) = (Keys::default(), Instant::now());
        let answer = Answer { status: StatusCode::CREATED, location: "/v1/x".into(), body: Bytes::new() };
        let request = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert_eq!(keys.find("request1", &request("a"), now), Ok(None));
        keys.keep("request1", request("a"), now, answer.clone());
        assert_eq!(keys.find("request1", &request("a"), now), Ok(Some(answer.clone())));
        assert_eq!(keys.find("request1", &request("b"), now).expect_err("another request").status, 422);
        assert_eq!(keys.find("request1", &request("b"), now + AGE_MAX), Ok(None));
        assert_eq!(keys.find("", &request("b"), now).expect_err("no key").status, 400);
        (0..KEYS_MAX + 5).for_each(|n| keys.keep(&format!("number-{n}"), request("a"), now, answer.clone()));
        assert_eq!((keys.0.len(), keys.find("number-4", &request("a"), now)), (KEYS_MAX, Ok(None)));
    }
}
