//! `[traces]`: where the traces of a share of the commands go.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// All commands, in millionths.
const WHOLE_MILLIONTHS: u32 = 1_000_000;
/// One command in a thousand: an array with 100,000 IOPS sends its limit.
const SHARE_MILLIONTHS_DEFAULT: u32 = 1000;
const PER_SECOND_DEFAULT: u32 = 100;
/// More is no sample, but a load for the collector: a trace has some kilobytes.
const PER_SECOND_MAX: u32 = 2000;

/// OpenTelemetry traces of a share of the commands: how long each of them spent in every stage. Without this
/// table no command is traced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceSettings {
    /// Address of the collector, which speaks OTLP over HTTP: `http://HOST:PORT`, or `https://` with `ca`.
    /// Traces are posted to `/v1/traces` below it.
    pub endpoint: String,
    /// Share of the commands that are traced, chosen at random at their port.
    #[serde(
        default = "share",
        rename = "share",
        deserialize_with = "read_share",
        serialize_with = "write_share"
    )]
    #[schemars(with = "f64", range(min = 0.000_001, max = 1), extend("x-limits" = "0.000001 to 1"))]
    pub share_millionths: u32,
    /// Traces per second of each controller at most. Commands above it are counted, and not traced.
    #[serde(default = "per_second")]
    #[schemars(range(min = 1, max = PER_SECOND_MAX))]
    pub per_second: u32,
    /// File with headers for the collector, one per line: `Authorization: Bearer TOKEN`. Read at each
    /// connection; relative to the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_file: Option<PathBuf>,
    /// Certificate of the authority that signed the collector's certificate (PEM), for `https://`. Relative
    /// to the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

fn share() -> u32 {
    SHARE_MILLIONTHS_DEFAULT
}
fn per_second() -> u32 {
    PER_SECOND_DEFAULT
}

fn read_share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let share = f64::deserialize(deserializer)?;
    let millionths = (share * f64::from(WHOLE_MILLIONTHS)).round();
    if !(1.0..=f64::from(WHOLE_MILLIONTHS)).contains(&millionths) {
        return Err(D::Error::custom(format!("invalid share {share}: must be in [0.000001, 1]")));
    }
    Ok(millionths as u32)
}

fn write_share<S: Serializer>(millionths: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(f64::from(*millionths) / f64::from(WHOLE_MILLIONTHS))
}

impl TraceSettings {
    /// Host and port of the collector, and whether it speaks TLS; then the path of its traces.
    ///
    /// # Errors
    /// What is wrong with the endpoint.
    pub fn address(&self) -> Result<(bool, String, String), String> {
        let wrong = |cause: &str| Err(format!("invalid endpoint {:?}: {cause}", self.endpoint));
        let (is_tls, rest) = match self.endpoint.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return wrong("must begin with http:// or https://"),
        };
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if place.is_empty() || !place.chars().all(is_plain) {
            return wrong("must name a host, as in http://127.0.0.1:4318");
        }
        let is_of_path = |c: char| c.is_ascii_alphanumeric() || "-._~/%".contains(c);
        if !path.chars().all(is_of_path) {
            return wrong("its path must have no query");
        }
        let has_port = place.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let place = match (has_port, is_tls) {
            (true, _) => place.to_owned(),
            (false, false) => format!("{place}:80"),
            (false, true) => format!("{place}:443"),
        };
        if place.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err()) {
            return wrong("invalid port");
        }
        let path = path.trim_matches('/');
        let path = if path.is_empty() { "/v1/traces".to_owned() } else { format!("/{path}/v1/traces") };
        Ok((is_tls, place, path))
    }

    /// Checks the endpoint and what belongs to it.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (is_tls, ..) = self.address()?;
        if is_tls != self.ca.is_some() {
            return Err(match is_tls {
                true => "https:// needs ca: the certificate of the collector's authority as a file".into(),
                false => "ca is of no use without https://".into(),
            });
        }
        if !(1..=PER_SECOND_MAX).contains(&self.per_second) {
            return Err(format!("per_second is between 1 and {PER_SECOND_MAX}"));
        }
        Ok(())
    }

    /// Paths are relative to the data directory.
    pub(crate) fn complete(&mut self, data_dir: &std::path::Path) {
        for path in self.headers_file.iter_mut().chain(&mut self.ca) {
            *path = data_dir.join(&path);
        }
    }
}
